//! What the broker costs: durable decisions one after the other and from many clients,
//! beside what the disk itself needs for one; memory at rest; a long queue and a long log.
//!
//! `cargo bench -p sjail-tests --bench broker -- PATH/TO/sjail-broker [RECORDS] [FOLDER]`:
//! RECORDS fill the log (20,000 unless said), FOLDER holds it (a temporary one unless
//! said). Prints, asserts nothing.

use std::error::Error;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

type Done<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Done {
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with("--"))
        .collect();
    let Some(program) = words.first() else {
        println!("name the sjail-broker to measure");
        return Ok(());
    };
    let records = words.get(1).map_or(Ok(20_000), |word| word.parse())?;
    let folder = match words.get(2) {
        Some(folder) => tempfile::tempdir_in(folder)?,
        None => tempfile::tempdir()?,
    };
    let bench = Bench {
        program: PathBuf::from(program),
        folder: folder.path().to_owned(),
    };
    let disk = bench.disk()?;
    row("disk: one fdatasync, p50", disk.as_secs_f64() * 1e3, "ms");
    let mut broker = bench.start()?;
    let outcome = bench.measure(disk, broker.id(), records);
    let _ = bench.broker(&["stop"]).status();
    broker.wait()?;
    outcome
}

struct Bench {
    program: PathBuf,
    folder: PathBuf,
}

impl Bench {
    fn measure(&self, disk: Duration, pid: u32, records: usize) -> Done {
        let memory = || -> Done {
            let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
            let pss = text.lines().find_map(|line| line.strip_prefix("Pss:"));
            let kilobytes: f64 = pss
                .and_then(|rest| rest.split_whitespace().next())
                .unwrap_or("0")
                .parse()?;
            row("memory, PSS", kilobytes / 1024.0, "MB");
            Ok(())
        };
        memory()?;
        let (times, _) = self.submit(1, 500, |_| "true".to_owned())?;
        row("submit, 1 client, p50", at(&times, 0.5) * 1e3, "ms");
        row("submit, 1 client, p99", at(&times, 0.99) * 1e3, "ms");
        let ratio = at(&times, 0.5) / disk.as_secs_f64();
        row("submit, 1 client, p50 / fdatasync", ratio, "");
        for clients in [1, 16, 64] {
            let (_, rate) = self.submit(clients, 2000, |_| "true".to_owned())?;
            row(&format!("durable submits, {clients} clients"), rate, "/s");
        }
        let (times, rate) = self.submit(16, 10_000, |number| format!("rm -rf d{number}"))?;
        row("questions, 16 clients", rate, "/s");
        let last = times.len().saturating_sub(1);
        row(
            "questions, the slowest of 10,000",
            at(&times[last..], 0.0) * 1e3,
            "ms",
        );
        self.time("queue list, 10,000 pending", &["queue", "list"])?;
        let filled = records.saturating_sub(26_500);
        self.submit(64, filled, |_| "true".to_owned())?;
        self.time("audit log, the last 50", &["audit", "log", "--last", "50"])?;
        let rare = ["audit", "log", "--risk-level", "dangerous", "--last", "50"];
        self.time("audit log, by risk", &rare)?;
        let held = ["audit", "log", "--status", "rejected", "--last", "50"];
        self.time("audit log, by status", &held)?;
        let word = ["audit", "log", "--command-pattern", "*none*"];
        self.time("audit log, by a pattern that nothing meets", &word)?;
        self.time("audit stats", &["audit", "stats"])?;
        self.time("audit verify, all", &["audit", "verify"])?;
        memory()
    }

    /// What the disk itself needs to keep one page.
    fn disk(&self) -> Done<Duration> {
        let file = File::create(self.folder.join("page"))?;
        file.write_all_at(&[1; 1 << 20], 0)?;
        file.sync_all()?;
        let mut times = Vec::new();
        for number in 0..200 {
            file.write_all_at(&[2; 4096], 4096 * (number % 256))?;
            let started = Instant::now();
            file.sync_data()?;
            times.push(started.elapsed());
        }
        times.sort_unstable();
        Ok(times[100])
    }

    fn broker(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(words)
            .env("HOME", &self.folder)
            .env("XDG_RUNTIME_DIR", &self.folder)
            .env_remove("XDG_STATE_HOME")
            .env_remove("XDG_CONFIG_HOME");
        command
    }

    fn start(&self) -> Done<Child> {
        let policy = self.folder.join(".config/sjail");
        fs::create_dir_all(&policy)?;
        let file = policy.join("policy.toml");
        fs::write(&file, "[approval]\nqueue_limit = 20000\n")?;
        for path in [self.folder.join(".config"), policy] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
        }
        fs::set_permissions(file, fs::Permissions::from_mode(0o600))?;
        let mut child = self
            .broker(&["serve", "--detach", "--idle", "0s"])
            .stdout(Stdio::piped())
            .spawn()?;
        let mut word = [0; 6];
        child
            .stdout
            .take()
            .ok_or("no output")?
            .read_exact(&mut word)?;
        Ok(child)
    }

    /// So many submissions in all, shared out to clients, each with a connection of its
    /// own: how long each took, and how many there were in a second.
    fn submit(
        &self,
        clients: usize,
        count: usize,
        line: impl Fn(usize) -> String + Sync,
    ) -> Done<(Vec<Duration>, f64)> {
        let socket = self.folder.join("sjail/request.sock");
        let started = Instant::now();
        let mut times = std::thread::scope(|scope| -> Done<Vec<Duration>> {
            let workers: Vec<_> = (0..clients)
                .map(|worker| {
                    let (socket, line, folder) = (&socket, &line, &self.folder);
                    scope.spawn(move || -> Done<Vec<Duration>> {
                        let mut stream = UnixStream::connect(socket)?;
                        (worker..count)
                            .step_by(clients)
                            .map(|number| submit_one(&mut stream, folder, &line(number)))
                            .collect()
                    })
                })
                .collect();
            let mut all = Vec::new();
            for worker in workers {
                all.extend(worker.join().map_err(|_| "a client died")??);
            }
            Ok(all)
        })?;
        times.sort_unstable();
        let rate = count as f64 / started.elapsed().as_secs_f64();
        Ok((times, rate))
    }

    fn time(&self, name: &str, words: &[&str]) -> Done {
        let started = Instant::now();
        let output = self.broker(words).stdout(Stdio::null()).status()?;
        let elapsed = started.elapsed();
        if !output.success() {
            return Err(format!("{words:?}: {output}").into());
        }
        row(name, elapsed.as_secs_f64() * 1e3, "ms");
        Ok(())
    }
}

fn submit_one(stream: &mut UnixStream, folder: &Path, line: &str) -> Done<Duration> {
    let call = json!({ "method": "io.sjail.Broker.Submit", "parameters": {
        "protocol": sjail_policy::wire::PROTOCOL,
        "command": { "line": line },
        "cwd": folder, "workspace": folder,
    }});
    let started = Instant::now();
    stream.write_all(format!("{call}\0").as_bytes())?;
    let mut reply = Vec::new();
    let mut chunk = [0; 1 << 14];
    while reply.last() != Some(&0) {
        let length = stream.read(&mut chunk)?;
        if length == 0 {
            return Err("the broker hung up".into());
        }
        reply.extend_from_slice(&chunk[..length]);
    }
    let elapsed = started.elapsed();
    reply.pop();
    let reply: Value = serde_json::from_slice(&reply)?;
    match reply["error"].as_str() {
        None => Ok(elapsed),
        Some(error) => Err(format!("{error}: {reply}").into()),
    }
}

fn at(times: &[Duration], part: f64) -> f64 {
    let index = (times.len() as f64 * part) as usize;
    times
        .get(index.min(times.len().saturating_sub(1)))
        .map_or(0.0, Duration::as_secs_f64)
}

fn row(name: &str, value: f64, unit: &str) {
    println!("{name:36} {value:10.3} {unit}");
}
