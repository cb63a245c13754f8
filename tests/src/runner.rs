//! Runs the tests: each in a process of its own, as each identity, two at a time.

use std::collections::VecDeque;
use std::env;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use nix::unistd::{Gid, Pid, Uid};

use crate::tree::command_line;
use crate::{Binaries, Identity, Outcome, Scene, Test, Tree};

/// Two at a time: the smallest machine the suites are meant for has two cores.
const WORKERS: usize = 2;

/// More failures than this are no accident of the moment.
const SECOND_TRIES: usize = 8;

/// How many of the slowest tests are named.
const SLOWEST: usize = 15;

/// The hidden word with which the runner starts itself for one test.
const ONE: &str = "--one";

/// Multiplies every test's time limit, for machines that are emulated.
const PATIENCE: &str = "SJAIL_TEST_PATIENCE";

/// Where tests look for the protocol's own clients, and for agents.
const KEPT: [&str; 3] = [
    "SJAIL_TEST_MCP_PYTHON",
    "SJAIL_TEST_MCP_NODE",
    "SJAIL_TEST_AGENTS",
];

/// Where ordinary programs are.
const PLAIN_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The whole program: `e2e [FILTER…] [--list] [--as user|root]`. A test runs when
/// its name holds one of the filters, or there is none.
pub fn main(suites: Vec<(&str, Vec<Test>)>, attacker: &str) -> ExitCode {
    let tests: Vec<Test> = suites
        .into_iter()
        .flat_map(|(suite, tests)| {
            tests.into_iter().map(move |test| Test {
                name: format!("{suite}::{}", test.name),
                ..test
            })
        })
        .collect();
    let words: Vec<String> = env::args().skip(1).collect();
    if words.first().is_some_and(|word| word == ONE) {
        return run_one(&tests, &words[1..]);
    }
    let asked = Asked::from_words(&words);
    let chosen: Vec<&Test> = tests.iter().filter(|test| asked.wants(test)).collect();
    if asked.list {
        for test in chosen {
            println!("{}", test.name);
        }
        return ExitCode::SUCCESS;
    }
    match run_all(&chosen, &asked, attacker) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("e2e: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What the command line asks for.
struct Asked {
    filters: Vec<String>,
    list: bool,
    identity: Option<Identity>,
}

impl Asked {
    fn from_words(words: &[String]) -> Asked {
        let mut asked = Asked {
            filters: Vec::new(),
            list: false,
            identity: None,
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--list" => asked.list = true,
                "--as" => asked.identity = words.next().and_then(|word| Identity::from_word(word)),
                // Words for the standard harness, which shares `cargo test -- …`.
                word if word.starts_with("--") => {}
                word => asked.filters.push(word.to_string()),
            }
        }
        asked
    }

    fn wants(&self, test: &Test) -> bool {
        self.filters.is_empty()
            || self
                .filters
                .iter()
                .any(|filter| test.name.contains(filter.as_str()))
    }
}

/// One test as one identity.
#[derive(Clone, Copy)]
struct Job<'a> {
    test: &'a Test,
    identity: Identity,
}

impl Job<'_> {
    fn name(&self) -> String {
        format!("{} ({})", self.test.name, self.identity.word())
    }
}

/// A job that was played: how it ended, and after how long.
struct Played<'a> {
    job: Job<'a>,
    outcome: Outcome,
    took: Duration,
}

fn run_all(tests: &[&Test], asked: &Asked, attacker: &str) -> io::Result<ExitCode> {
    let ground = tempfile::Builder::new().prefix("sjail-tests.").tempdir()?;
    fs::set_permissions(ground.path(), fs::Permissions::from_mode(0o755))?;
    let binaries = Binaries::gather(&ground.path().join("bin"), attacker)?;
    let needs_rust =
        |test: &&Test| test.name.starts_with("work::") || test.name == "network::cargo";
    if tests.iter().any(needs_rust) {
        crate::toolchain::share(&ground.path().join("rust"))?;
        crate::binaries::copy_source(&ground.path().join("source"))?;
    }
    let identities: Vec<Identity> = Identity::available()
        .into_iter()
        .filter(|identity| asked.identity.is_none_or(|wanted| wanted == *identity))
        .collect();

    let mut results = Vec::new();
    for identity in [Identity::User, Identity::Root] {
        let mine = tests
            .iter()
            .filter(|test| test.only.is_none_or(|only| only == identity));
        if identities.contains(&identity) {
            let (alone, shared): (Vec<_>, Vec<_>) = mine
                .map(|&test| Job { test, identity })
                .partition(|job| job.test.alone);
            results.extend(run_jobs(shared, WORKERS, ground.path(), &binaries));
            results.extend(run_jobs(alone, 1, ground.path(), &binaries));
        } else if asked.identity.is_none() {
            results.extend(mine.map(|&test| {
                let reason = "the runner was not started as root".to_string();
                Played {
                    job: Job { test, identity },
                    outcome: Outcome::Skipped(reason),
                    took: Duration::ZERO,
                }
            }));
        }
    }
    let unsteady = try_again(&mut results, ground.path(), &binaries);
    Ok(report(&results, &unsteady))
}

/// Gives what failed beside other tests a second try with the machine to itself.
/// A test that passes only then counts as passed, but is reported as unsteady with
/// what it said when it failed: that is a defect of the test or a race of sjail's.
/// Where much failed there is nothing to find out.
fn try_again<'a>(
    results: &mut [Played<'a>],
    ground: &Path,
    binaries: &Binaries,
) -> Vec<(String, String)> {
    let failed = |outcome: &Outcome| matches!(outcome, Outcome::Failed(_));
    if results
        .iter()
        .filter(|played| failed(&played.outcome))
        .count()
        > SECOND_TRIES
    {
        return Vec::new();
    }
    let mut unsteady = Vec::new();
    for played in results.iter_mut() {
        let Outcome::Failed(first) = &mut played.outcome else {
            continue;
        };
        let Some(second) = run_jobs(vec![played.job], 1, ground, binaries).pop() else {
            continue;
        };
        match &second.outcome {
            Outcome::Passed => {
                unsteady.push((played.job.name(), std::mem::take(first)));
                *played = second;
            }
            Outcome::Failed(why) if why != first => {
                first.push_str("\nat the second try:\n");
                first.push_str(why);
            }
            _ => {}
        }
    }
    unsteady
}

/// Runs the jobs, `workers` at a time, printing each as it ends.
fn run_jobs<'a>(
    jobs: Vec<Job<'a>>,
    workers: usize,
    ground: &Path,
    binaries: &Binaries,
) -> Vec<Played<'a>> {
    let queue = Mutex::new(VecDeque::from(jobs));
    let results = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().ok().and_then(|mut queue| queue.pop_front());
                    let Some(job) = next else { break };
                    let started = Instant::now();
                    let outcome = run_job(&job, ground, binaries)
                        .unwrap_or_else(|error| Outcome::Failed(format!("the runner: {error}")));
                    let word = match &outcome {
                        Outcome::Passed => "ok",
                        Outcome::Failed(_) => "FAILED",
                        Outcome::Skipped(_) => "skipped",
                    };
                    println!("test {} ... {word}", job.name());
                    if let (Outcome::Failed(why), true) = (&outcome, is_slow()) {
                        // The end, where all is told again, may never come.
                        why.lines().take(12).for_each(|line| println!("    {line}"));
                    }
                    if let Ok(mut results) = results.lock() {
                        let took = started.elapsed();
                        results.push(Played { job, outcome, took });
                    }
                }
            });
        }
    });
    results.into_inner().unwrap_or_default()
}

/// Whether tests were given more time: in a guest with an emulated processor.
fn is_slow() -> bool {
    env::var_os(PATIENCE).is_some()
}

/// Names a folder in memory for what tests write.
const MEMORY: &str = "SJAIL_TEST_MEMORY";

/// Where a test writes, if not beside the binaries: a file system on a disk takes ten
/// times as long for the hundreds of small files that each test makes and removes.
/// Previews and toolchains are tried on what people keep their projects on.
fn scratch_ground(test: &Test) -> Option<PathBuf> {
    let on_disk = ["preview::", "work::", "network::cargo"];
    match on_disk.iter().any(|name| test.name.starts_with(name)) {
        true => None,
        false => env::var_os(MEMORY)
            .filter(|folder| !folder.is_empty())
            .map(PathBuf::from),
    }
}

/// Starts this program again for one test, as its identity, and waits.
fn run_job(job: &Job<'_>, ground: &Path, binaries: &Binaries) -> io::Result<Outcome> {
    let (uid, gid) = job.identity.ids()?;
    let scratch = tempfile::Builder::new()
        .prefix("t.")
        .tempdir_in(scratch_ground(job.test).unwrap_or(ground.to_owned()))?;
    chown(scratch.path(), Some(uid.as_raw()), Some(gid.as_raw()))?;
    let outcome_path = scratch.path().join("outcome");
    let _disk = match job.test.disk {
        Some(megabytes) if Uid::effective().is_root() => {
            Some(Disk::mount(scratch.path(), megabytes, uid, gid)?)
        }
        _ => None,
    };
    let log_path = ground.join(format!(
        "{}.log",
        scratch.path().file_name().unwrap_or_default().display()
    ));
    let log = File::create(&log_path)?;

    let mut command = Command::new(binaries.path("e2e"));
    command
        .args([ONE, &job.test.name, job.identity.word()])
        .arg(scratch.path())
        .arg(binaries.folder())
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .current_dir("/");
    // The same plain surroundings for all, whatever the caller's own are.
    let account = job.identity.account()?;
    command
        .env_clear()
        .env("PATH", PLAIN_PATH)
        .env("USER", &account)
        .env("LOGNAME", &account)
        .env("LANG", "C.UTF-8")
        .env("TERM", "xterm");
    let is_root = Uid::effective().is_root();
    let session = ["XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"];
    let session = session.iter().filter(|_| !is_root);
    for name in KEPT.iter().chain(session) {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    if is_root {
        command.uid(uid.as_raw()).gid(gid.as_raw());
    }
    let detach = || {
        // SAFETY: system calls without memory arguments, between fork and exec.
        unsafe {
            libc::setsid();
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            // A shell's background job ignores some of these.
            for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM] {
                libc::signal(signal, libc::SIG_DFL);
            }
        }
        Ok(())
    };
    // SAFETY: the closure is signal-safe, see above.
    unsafe { command.pre_exec(detach) };
    let child = command.spawn()?;
    let timeout = job.test.timeout * patience();
    let ended = wait_or_kill(child, timeout)?;

    let said = fs::read(&log_path).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    fs::remove_file(&log_path)?;
    make_removable(scratch.path());
    let outcome = fs::read(&outcome_path)
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok());
    Ok(match (ended, outcome) {
        (Ended::ByItself, Some(Outcome::Failed(message))) if !said.is_empty() => {
            Outcome::Failed(format!("{message}\n--- the test said\n{said}"))
        }
        (Ended::ByItself, Some(outcome)) => outcome,
        (Ended::ByItself, None) => Outcome::Failed(format!("it died without a word\n{said}")),
        (Ended::Killed, _) => {
            Outcome::Failed(format!("killed: not done after {timeout:?}\n{said}"))
        }
    })
}

/// A small disk of a test's own, gone with it.
struct Disk(PathBuf);

impl Disk {
    fn mount(scratch: &Path, megabytes: u64, uid: Uid, gid: Gid) -> io::Result<Disk> {
        let path = scratch.join(crate::scene::DISK);
        fs::create_dir(&path)?;
        let options = format!("size={megabytes}m,mode=0700,uid={uid},gid={gid}");
        let none: Option<&str> = None;
        // Where nothing can be mounted the test sees no disk, and is skipped.
        let _ = nix::mount::mount(
            none,
            &path,
            Some("tmpfs"),
            nix::mount::MsFlags::empty(),
            Some(options.as_str()),
        );
        Ok(Disk(path))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = nix::mount::umount2(&self.0, nix::mount::MntFlags::MNT_DETACH);
    }
}

fn patience() -> u32 {
    env::var(PATIENCE)
        .ok()
        .and_then(|factor| factor.parse().ok())
        .unwrap_or(1)
}

enum Ended {
    ByItself,
    Killed,
}

fn wait_or_kill(mut child: Child, timeout: Duration) -> io::Result<Ended> {
    let deadline = Instant::now() + timeout;
    loop {
        if child.try_wait()?.is_some() {
            return Ok(Ended::ByItself);
        }
        if Instant::now() >= deadline {
            Tree::of(Pid::from_raw(child.id() as i32)).kill();
            child.wait()?;
            return Ok(Ended::Killed);
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Tests make folders that their owner may not enter; the scratch folder must go
/// all the same.
fn make_removable(folder: &Path) {
    let Ok(metadata) = folder.symlink_metadata() else {
        return;
    };
    if !metadata.is_dir() {
        return;
    }
    let mode = metadata.permissions().mode();
    let _ = fs::set_permissions(folder, fs::Permissions::from_mode(mode | 0o700));
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        make_removable(&entry.path());
    }
}

/// The other side of [`run_job`]: plays one test and writes its outcome down.
fn run_one(tests: &[Test], words: &[String]) -> ExitCode {
    let [name, identity, scratch, binaries] = words else {
        return ExitCode::FAILURE;
    };
    let test = tests.iter().find(|test| test.name == *name);
    let (Some(test), Some(identity)) = (test, Identity::from_word(identity)) else {
        return ExitCode::FAILURE;
    };
    let tree = Tree::own();
    let scratch = PathBuf::from(scratch);
    let binaries = Binaries::in_folder(Path::new(binaries));
    let mut outcome = match Scene::set(identity, binaries, &scratch) {
        Ok(scene) => catch_unwind(AssertUnwindSafe(|| Outcome::from((test.run)(&scene))))
            .unwrap_or_else(|_| Outcome::Failed("it panicked".to_string())),
        Err(error) => Outcome::Failed(format!("its scratch folder: {error}")),
    };
    let left = left_running(tree);
    if outcome == Outcome::Passed && !left.is_empty() {
        outcome = Outcome::Failed(format!("it left processes running: {left:#?}"));
    }
    tree.kill_descendants();
    let written = serde_json::to_vec(&outcome)
        .map_err(io::Error::from)
        .and_then(|bytes| fs::write(scratch.join("outcome"), bytes));
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// What still lives below a test that has ended. A moment is given to what is
/// just dying; a broker, which is meant to outlive a call, does not count.
fn left_running(tree: Tree) -> Vec<String> {
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        let left: Vec<String> = tree
            .descendants()
            .into_iter()
            .map(|pid| format!("{pid} {}", command_line(pid)))
            .filter(|line| !line.contains("sjail-broker"))
            .collect();
        if left.is_empty() || Instant::now() >= deadline {
            return left;
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// Prints failures in full, skips by name, counts last.
fn report(results: &[Played<'_>], unsteady: &[(String, String)]) -> ExitCode {
    let mut out = io::stdout().lock();
    let mut counts = (0, 0, 0);
    let mut failures = String::new();
    let mut skips = String::new();
    for played in results {
        let name = played.job.name();
        match &played.outcome {
            Outcome::Passed => counts.0 += 1,
            Outcome::Failed(message) => {
                counts.1 += 1;
                failures += &format!("\n---- {name}\n{message}\n");
            }
            Outcome::Skipped(reason) => {
                counts.2 += 1;
                skips += &format!("  {name}: {reason}\n");
            }
        }
    }
    if !failures.is_empty() {
        let _ = writeln!(out, "\nfailures:{failures}");
    }
    for (name, first) in unsteady {
        let _ = writeln!(
            out,
            "\nunsteady, passed only at the second try: {name}\n{first}"
        );
    }
    if results.len() > SLOWEST {
        let _ = write!(out, "\nslowest, in seconds:\n{}", slowest(results));
    }
    if !skips.is_empty() {
        let _ = write!(out, "\nskipped:\n{skips}");
    }
    let (passed, failed, skipped) = counts;
    let _ = writeln!(out, "\n{passed} passed, {failed} failed, {skipped} skipped");
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// The tests that took longest, one a line, and what all took together: where to look when a
/// whole run gets too long.
fn slowest(results: &[Played<'_>]) -> String {
    let mut by_time: Vec<&Played<'_>> = results.iter().collect();
    by_time.sort_by_key(|played| std::cmp::Reverse(played.took));
    let lines: String = by_time
        .iter()
        .take(SLOWEST)
        .map(|played| {
            format!(
                "  {:6.1} {}\n",
                played.took.as_secs_f64(),
                played.job.name()
            )
        })
        .collect();
    let all: Duration = results.iter().map(|played| played.took).sum();
    format!("{lines}  {:6.1} all together\n", all.as_secs_f64())
}
