//! `sjail code`: a program text, run in a jail of its own, its result as one object.
//!
//! The text goes to the interpreter over standard input; the jail has no network, nothing
//! of the host writable but its private `/tmp`, where it starts. It runs through `sjail
//! run` as it is typed, so it is judged, held and recorded like everything else.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use clap::Parser;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::unistd::dup2_stdin;
use serde::Serialize;
use sjail_policy::duration::Duration;
use sjail_policy::language::Language;
use sjail_policy::plan::Variable;
use sjail_policy::redact::Redactor;
use sjail_policy::show;
use sjail_policy::wire::request::ProgramText;

use crate::caller::{Account, State};
use crate::cli::RunArgs;
use crate::cmd::{Failure, print_json, read};
use crate::error::Error;
use crate::exit::Exit;
use crate::processor::Processors;
use crate::result::{RunResult, Status};
use crate::trust::sha256;

/// More text than this is no program.
const LONGEST: u64 = 8 << 20;
/// So much of a text is recorded, in bytes.
const HEAD: usize = 4096;
/// Secrets are looked for in so much of it.
const LOOKED_AT: usize = 64 << 10;

/// Runs a program text in a jail of its own and prints its result as one object.
#[derive(Debug, Parser)]
#[command(name = "sjail code", bin_name = "sjail code")]
pub struct CodeArgs {
    /// python, javascript, bash: whatever has an entry
    #[arg(long, short)]
    language: String,
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
    let language = match Language::parse(&args.language) {
        Ok(language) => language,
        Err(known) => {
            let name = show::inert(args.language.as_bytes());
            let error = format!("`{name}` is no language that is known here: {known}");
            return Ok(never(&args, error, Exit::Failed));
        }
    };
    let code = text(&args.file)?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let Some(program) = interpreter(language, &path) else {
        let error = format!(
            "{} not found: install {} and add it to PATH",
            language.title, language.programs[0]
        );
        return Ok(never(&args, error, Exit::NotFound));
    };
    hand_on(&code).map_err(Error::CodeText)?;
    let run = RunArgs {
        text: Some(told_of(&code)),
        ..words_of(&args, language, program)?
    };
    if args.raw {
        return Ok(crate::run::run(&run));
    }
    let executed = match crate::run::told(&run) {
        Ok(result) => Executed::of(&result, &args, language),
        Err(error) => Executed::never(error.to_string(), Exit::NotFound),
    };
    print_json(&executed);
    Ok(executed.exit_code)
}

/// Says why it was not started, as an object where one is waited for; gives the exit status.
fn never(args: &CodeArgs, error: String, exit: Exit) -> u8 {
    match args.raw {
        true => crate::report::say(&error),
        false => print_json(&Executed::never(error, exit)),
    }
    exit.code()
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

/// What the broker is told of the text: enough to know it again, and how it begins. Secrets are
/// taken out before it is cut, so that no part of one is left at the end.
fn told_of(code: &[u8]) -> ProgramText {
    let env: Vec<Variable> = std::env::vars_os()
        .map(|(name, value)| Variable {
            name: name.into(),
            value: value.into(),
        })
        .collect();
    let begin = code.get(..LOOKED_AT).unwrap_or(code);
    let mut head = Redactor::new(&env).redact(begin);
    let cut = begin.len() < code.len() || head.len() > HEAD;
    head.truncate(HEAD);
    ProgramText {
        sha256: sha256(code),
        length: code.len() as u64,
        head: head.into(),
        cut,
    }
}

/// Makes the text our standard input, and with it the interpreter's: in memory, for good.
fn hand_on(code: &[u8]) -> Result<(), Errno> {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let mut text = File::from(memfd_create(c"sjail-code", flags)?);
    let errno = |error: std::io::Error| Errno::from_raw(error.raw_os_error().unwrap_or_default());
    text.write_all(code).map_err(errno)?;
    text.rewind().map_err(errno)?;
    fcntl(&text, FcntlArg::F_ADD_SEALS(SealFlag::all()))?;
    dup2_stdin(&text)
}

/// `sjail run`, with everything that holds a program text.
fn words_of(args: &CodeArgs, language: &Language, program: &str) -> Result<RunArgs, Error> {
    let place = place()?;
    std::env::set_current_dir(&place).map_err(|error| Error::Cache {
        path: place.clone(),
        error,
    })?;
    Ok(RunArgs {
        quiet: true,
        no_wait: true,
        json: !args.raw,
        // It starts in its temporary folder, the only one it can write to: the profile says so.
        profile: Some("code".into()),
        net: Some("none".into()),
        timeout: Some(format!("{}ms", args.timeout.millis()).into()),
        max_output: Some(args.max_output.clone().into()),
        memory: Some(args.memory.clone().into()),
        cpu: args.cpu.clone().map(OsString::from),
        // A control group would hold it as well, but not every user may have one.
        processors: match args.cpu {
            None => Processors::One,
            Some(_) => Processors::All,
        },
        agent: args.agent.clone(),
        session: args.session.clone(),
        workspace: Some(place),
        command: std::iter::once(program)
            .chain(language.words.iter().copied())
            .map(OsString::from)
            .collect(),
        ..RunArgs::default()
    })
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

impl Executed {
    /// It was not started.
    fn never(error: String, exit: Exit) -> Executed {
        Executed {
            success: false,
            output: String::new(),
            stderr: String::new(),
            exit_code: exit.code(),
            execution_time: 0,
            error: Some(error),
            truncated: false,
        }
    }

    fn of(result: &RunResult, args: &CodeArgs, language: &Language) -> Executed {
        let [stdout, stderr] = result.output.texts();
        let mut output = stdout.strip_suffix('\n').unwrap_or(&stdout).to_owned();
        if result.truncated {
            output.push_str(&format!("\n[Output truncated at {}]", args.max_output));
        }
        let success = result.status == Status::Completed && result.exit_code == 0;
        let error =
            match result.status {
                _ if success => None,
                Status::Completed => Some(
                    language
                        .error(&stderr)
                        .unwrap_or_else(|| format!("it ended with exit code {}", result.exit_code)),
                ),
                Status::TimedOut => Some(format!("timed out after {} ms", args.timeout.millis())),
                _ => Some(result.reason.clone().unwrap_or_else(|| {
                    format!("it was ended with exit code {}", result.exit_code)
                })),
            };
        Executed {
            success,
            output,
            stderr: stderr.into_owned(),
            exit_code: result.exit_code,
            execution_time: result.duration_ms,
            error,
            truncated: result.truncated,
        }
    }
}
