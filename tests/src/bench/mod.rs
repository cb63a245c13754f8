//! What the jail costs, beside what others cost, measured in one run.
//!
//! Times on a shared machine drift; ratios of runs that took turns do not. So every
//! round runs each contender once, and what is compared are medians and minimums
//! of the same rounds.

mod chart;
mod contender;
mod floor;
mod measure;
mod memory;
mod report;
mod workload;

use std::env;
use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use nix::unistd::Uid;

use crate::{Binaries, Identity};

/// The hidden word with which the benchmark starts itself as an ordinary user.
const AS_USER: &str = "--as-user";

/// `bench [ROUNDS]`: measures as an ordinary user and writes a table and a chart.
pub fn main(attacker: &str) -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let done = match words.first().map(String::as_str) {
        Some(AS_USER) => measure_all(Path::new(&words[1]), words[2].parse().unwrap_or(200)),
        rounds => prepare(attacker, rounds.unwrap_or("200")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Builds everything, measures memory while still allowed to look, then goes on as
/// an ordinary user.
fn prepare(attacker: &str, rounds: &str) -> io::Result<()> {
    // In a home, where workspaces are: every jail here has a /tmp of its own.
    let home = match Uid::effective().is_root() {
        true => PathBuf::from("/home").join(Identity::ACCOUNT),
        false => env::home_dir().unwrap_or_default(),
    };
    Identity::User.ids()?;
    let ground = tempfile::Builder::new()
        .prefix("sjail-bench.")
        .tempdir_in(home)?;
    fs::set_permissions(ground.path(), fs::Permissions::from_mode(0o755))?;
    let binaries = Binaries::gather(&ground.path().join("bin"), attacker)?;
    let (uid, gid) = Identity::User.ids()?;
    let home = ground.path().join("home");
    let workspace = home.join("work");
    fs::create_dir_all(&workspace)?;
    fs::create_dir_all(ground.path().join("out"))?;
    for folder in [&home, &workspace, &ground.path().join("out")] {
        chown(folder, Some(uid.as_raw()), Some(gid.as_raw()))?;
    }
    let plain = |program: &Path| {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
            .env("HOME", &home)
            .env("LANG", "C.UTF-8")
            .current_dir(&workspace);
        if Uid::effective().is_root() {
            command.uid(uid.as_raw()).gid(gid.as_raw());
        }
        command
    };

    floor::compile(ground.path(), &binaries.path("sjail"), &workspace, &plain)?;
    let memory = memory::measure(plain(&binaries.path("sjail")))?;
    fs::write(ground.path().join("out/memory"), memory)?;
    // The user's own copy of this program, which lies where cargo put it.
    let done = plain(&binaries.path("e2e"))
        .args([AS_USER])
        .arg(ground.path())
        .arg(rounds)
        .status()?;
    if !done.success() {
        return Err(io::Error::other(format!(
            "the measurement ended with {done}"
        )));
    }
    let out = Path::new(env!("CARGO_MANIFEST_DIR")).join("bench/out");
    fs::create_dir_all(&out)?;
    for name in ["report.md", "startup.svg"] {
        fs::copy(ground.path().join("out").join(name), out.join(name))?;
    }
    print!("{}", fs::read_to_string(out.join("report.md"))?);
    println!("\nwritten: {}/report.md and startup.svg", out.display());
    Ok(())
}

/// The measurement itself, as an ordinary user.
fn measure_all(ground: &Path, rounds: usize) -> io::Result<()> {
    let workspace: PathBuf = ground.join("home/work");
    let (contenders, absent) = contender::all(ground, &workspace);
    let startup = measure::interleaved(&contenders, &["/bin/true"], rounds)?;
    let steady = workload::all(&contenders, &workspace, rounds / 4)?;
    // It was started on first use.
    let _ = Command::new(ground.join("bin/sjail-broker"))
        .arg("stop")
        .status();
    let memory = fs::read_to_string(ground.join("out/memory"))?;
    let text = report::text(&startup, &absent, &steady, &memory, rounds);
    fs::write(ground.join("out/report.md"), text)?;
    fs::write(ground.join("out/startup.svg"), chart::bars(&startup))
}
