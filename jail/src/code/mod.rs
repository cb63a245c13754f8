//! `sjail code`: a program text, run in a jail of its own, its result as one object.
//!
//! The text goes to the interpreter over standard input; the jail has no network, nothing
//! of the host writable but its private `/tmp`, where it starts. It runs through `sjail
//! run` as it is typed, so it is judged, held and recorded like everything else.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder};
use std::io::{Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Parser;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use serde::Serialize;
use serde_json::Value;
use sjail_policy::duration::Duration;
use sjail_policy::language::Language;

use crate::caller::{Account, State};
use crate::cmd::{Failure, print_json, read};
use crate::error::Error;
use crate::exit::Exit;

/// More text than this is no program.
const LONGEST: u64 = 8 << 20;

/// Runs a program text in a jail of its own and prints its result as one object.
#[derive(Debug, Parser)]
#[command(name = "sjail code", bin_name = "sjail code")]
pub struct CodeArgs {
    /// python, javascript, bash: whatever has an entry
    #[arg(long, short, value_parser = Language::parse)]
    language: &'static Language,
    /// Wall-clock time, then everything is killed
    #[arg(long, value_name = "TIME", default_value = "30s")]
    timeout: Duration,
    /// Bytes of output; what is beyond is cut
    #[arg(long, value_name = "SIZE", default_value = "1M")]
    max_output: String,
    /// Memory of the whole jail
    #[arg(long, value_name = "SIZE", default_value = "512M")]
    memory: String,
    /// Processor time, where it can be held; one processor otherwise
    #[arg(long, value_name = "100%")]
    cpu: Option<String>,
    /// Let the output stream instead; exit with the program's own status
    #[arg(long)]
    raw: bool,
    /// The agent that this is for, as it calls itself
    #[arg(long, value_name = "ID")]
    agent: Option<String>,
    /// The session that this belongs to, as it calls itself
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// The program text; `-` for standard input
    #[arg(default_value = "-")]
    file: PathBuf,
}

/// What became of a program text.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Executed {
    /// Whether it ended well.
    success: bool,
    /// What it printed, without the last line end.
    output: String,
    /// What it complained.
    stderr: String,
    /// Its exit status.
    exit_code: u8,
    /// Milliseconds from its start to its end.
    execution_time: u64,
    /// What went wrong, in one line.
    error: Option<String>,
    /// Whether output was cut.
    truncated: bool,
}

/// Does it, and gives the exit status.
pub fn run(words: &[OsString]) -> Result<u8, Failure> {
    let args: CodeArgs = read(words)?;
    let code = text(&args.file)?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let Some(program) = interpreter(args.language, &path) else {
        let missing = Executed::never(format!(
            "{} not found: install {} and add it to PATH",
            args.language.title, args.language.programs[0]
        ));
        if args.raw {
            crate::report::say(missing.error.as_deref().unwrap_or_default());
        } else {
            print_json(&missing);
        }
        return Ok(Exit::NotFound.code());
    };
    one_processor();
    let mut command = command(&args, program)?;
    if args.raw {
        return Ok(streamed(command, code)?);
    }
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = fed(command, code)?;
    let executed = match serde_json::from_slice::<Value>(&output.stdout) {
        Ok(result) => Executed::of(&result, &args),
        Err(_) => {
            let said = String::from_utf8_lossy(&output.stderr);
            let said = said.trim();
            Executed::never(said.strip_prefix("sjail: ").unwrap_or(said).to_owned())
        }
    };
    print_json(&executed);
    Ok(executed.exit_code)
}

/// The interpreter of a language on this machine.
fn interpreter(language: &Language, path: &OsStr) -> Option<&'static str> {
    let there =
        |program: &str| std::env::split_paths(path).any(|folder| folder.join(program).is_file());
    let mut programs = language.programs.iter();
    programs.find(|program| there(program)).copied()
}

fn text(file: &Path) -> Result<Vec<u8>, Error> {
    let failed = |error| Error::CodeFile {
        path: file.to_owned(),
        error,
    };
    let mut source: Box<dyn Read> = match file == Path::new("-") {
        true => Box::new(std::io::stdin().lock()),
        false => Box::new(fs::File::open(file).map_err(failed)?),
    };
    let mut text = Vec::new();
    source
        .by_ref()
        .take(LONGEST + 1)
        .read_to_end(&mut text)
        .map_err(failed)?;
    if text.len() as u64 > LONGEST {
        return Err(failed(std::io::Error::other(format!(
            "it is longer than {LONGEST} bytes"
        ))));
    }
    Ok(text)
}

/// `sjail run`, with everything that holds a program text.
fn command(args: &CodeArgs, program: &str) -> Result<Command, Error> {
    let own = std::env::current_exe().map_err(|error| Error::Stream { error })?;
    let place = place()?;
    let mut command = Command::new(own);
    command
        .current_dir(&place)
        .args(["run", "--quiet", "--no-wait"]);
    if !args.raw {
        command.arg("--json");
    }
    command.args(["--profile=code", "--net=none"]);
    command.arg(format!("--timeout={}ms", args.timeout.millis()));
    command.arg(format!("--max-output={}", args.max_output));
    command.arg(format!("--memory={}", args.memory));
    for (flag, value) in [
        ("cpu", &args.cpu),
        ("agent", &args.agent),
        ("session", &args.session),
    ] {
        if let Some(value) = value {
            command.arg(format!("--{flag}={value}"));
        }
    }
    let mut workspace = OsString::from("--workspace=");
    workspace.push(&place);
    command.arg(workspace);
    // It starts in its temporary folder, the only one it can write to: the profile says so.
    command.args(["--", program]);
    command.args(args.language.words);
    Ok(command)
}

/// An empty folder of ours that stands in for a project.
fn place() -> Result<PathBuf, Error> {
    let place = State::of(&Account::own()).path().join("code");
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&place)
        .and_then(|()| fs::canonicalize(&place))
        .map_err(|error| Error::Cache {
            path: place.clone(),
            error,
        })
}

/// One processor for all that is started from here. A limits group would hold it harder,
/// but not every user may have one.
fn one_processor() {
    let own = Pid::from_raw(0);
    let Ok(allowed) = sched_getaffinity(own) else {
        return;
    };
    let usable: Vec<usize> = (0..CpuSet::count())
        .filter(|number| allowed.is_set(*number).unwrap_or(false))
        .collect();
    // Several at once do not all take the same one.
    let at = std::process::id() as usize % usable.len().max(1);
    let mut one = CpuSet::new();
    if let Some(number) = usable.get(at)
        && one.set(*number).is_ok()
    {
        let _ = sched_setaffinity(own, &one);
    }
}

fn streamed(mut command: Command, code: Vec<u8>) -> Result<u8, Error> {
    command.stdout(Stdio::inherit()).stderr(Stdio::inherit());
    let status = fed(command, code)?.status;
    Ok(status
        .code()
        .and_then(|code| u8::try_from(code).ok())
        .unwrap_or(Exit::Failed.code()))
}

fn fed(mut command: Command, code: Vec<u8>) -> Result<std::process::Output, Error> {
    let failed = |error| Error::Stream { error };
    let mut child = command.stdin(Stdio::piped()).spawn().map_err(failed)?;
    let input = child.stdin.take();
    let writer = std::thread::spawn(move || {
        if let Some(mut input) = input {
            // An interpreter that stops reading is no error.
            let _ = input.write_all(&code);
        }
    });
    let output = child.wait_with_output().map_err(failed)?;
    let _ = writer.join();
    Ok(output)
}

impl Executed {
    /// It was not started.
    fn never(error: String) -> Executed {
        Executed {
            success: false,
            output: String::new(),
            stderr: String::new(),
            exit_code: Exit::NotFound.code(),
            execution_time: 0,
            error: Some(error),
            truncated: false,
        }
    }

    fn of(result: &Value, args: &CodeArgs) -> Executed {
        let text = |field: &str| result[field].as_str().unwrap_or_default();
        let code = result["exit_code"].as_u64().unwrap_or_default();
        let truncated = result["truncated"] == true;
        let mut output = text("stdout");
        output = output.strip_suffix('\n').unwrap_or(output);
        let mut output = output.to_owned();
        if truncated {
            output.push_str(&format!("\n[Output truncated at {}]", args.max_output));
        }
        let success = result["status"] == "completed" && code == 0;
        let error = match text("status") {
            _ if success => None,
            "completed" => Some(
                args.language
                    .error(text("stderr"))
                    .unwrap_or_else(|| format!("it ended with exit code {code}")),
            ),
            "timed_out" => Some(format!("timed out after {} ms", args.timeout.millis())),
            _ => Some(match text("reason") {
                "" => format!("it was ended: {}", text("status")),
                reason => reason.to_owned(),
            }),
        };
        Executed {
            success,
            output,
            stderr: text("stderr").to_owned(),
            exit_code: u8::try_from(code).unwrap_or(Exit::Failed.code()),
            execution_time: result["duration_ms"].as_u64().unwrap_or_default(),
            error,
            truncated,
        }
    }
}
