//! What the queue and the log cost at size: 10,000 requests that wait, 1,000,000 records.
//!
//! `cargo bench -p sjail-broker --bench size -- PATH/TO/sjail-broker [RECORDS] [PENDING] [FOLDER]`:
//! FOLDER keeps what was filled in, so that a second call only measures; a temporary one is
//! taken unless it is said. The log is written by the broker's own ledger, record by record
//! with its chain, and then served by the real broker; every figure is a whole call of the
//! program as a person makes it. Prints, asserts nothing.

use std::error::Error;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sjail_broker::audit::ledger::Ledger;
use sjail_broker::audit::mirror::Mirror;
use sjail_broker::audit::record::{Entry, Event, Hash};
use sjail_broker::queue::{Asked, New, question};
use sjail_broker::store::Files;

type Done<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// Records in one transaction while the log is filled.
const BATCH: usize = 2000;
/// Each call is made so often; the middle one counts.
const TIMES: usize = 5;

fn main() -> Done {
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with("--"))
        .collect();
    let Some(program) = words.first() else {
        println!("name the sjail-broker to measure");
        return Ok(());
    };
    let number = |index: usize, otherwise| -> Done<usize> {
        Ok(words
            .get(index)
            .map_or(Ok(otherwise), |word| word.parse())?)
    };
    let (records, pending) = (number(1, 1_000_000)?, number(2, 10_000)?);
    let temporary;
    let home = match words.get(3) {
        Some(folder) => Path::new(folder),
        None => {
            temporary = tempfile::tempdir()?;
            temporary.path()
        }
    };
    let bench = Bench {
        program: fs::canonicalize(program)?,
        home: home.to_owned(),
    };
    let first = bench.fill(records, pending)?;
    let started = Instant::now();
    let mut broker = bench.start()?;
    row("broker start", started.elapsed(), "");
    let outcome = bench.measure(broker.id(), &first, records);
    let _ = bench.broker(&["stop"]).status();
    broker.wait()?;
    outcome
}

struct Bench {
    program: PathBuf,
    home: PathBuf,
}

/// Names to look for, from the middle of what was filled in.
struct First {
    run: String,
    requests: Vec<String>,
}

impl Bench {
    fn state(&self) -> PathBuf {
        self.home.join(".local/state/sjail")
    }

    /// Fills log and queue, unless an earlier call has.
    fn fill(&self, records: usize, pending: usize) -> Done<First> {
        let list = self.home.join("requests.json");
        let run = name("run_", records / 4, 12);
        if let Ok(text) = fs::read(&list) {
            return Ok(First {
                run,
                requests: serde_json::from_slice(&text)?,
            });
        }
        fs::create_dir_all(self.state())?;
        fs::set_permissions(self.state(), fs::Permissions::from_mode(0o700))?;
        let started = Instant::now();
        let mut ledger = Ledger::open(&Files::new(self.state()), Mirror::none())?;
        for from in (0..records / 2).step_by(BATCH / 2) {
            ledger.transaction(|ledger| {
                for number in from..(from + BATCH / 2).min(records / 2) {
                    ledger.append(intent(number, &self.home))?;
                    ledger.append(outcome(number))?;
                }
                Ok(())
            })?;
        }
        let mut requests = Vec::new();
        for number in 0..pending {
            let new = question(number, &self.home)?;
            let asked = ledger.transaction(|ledger| question::ask(ledger, new, now()))?;
            match asked {
                Asked::New(stored) => requests.push(stored.id),
                other => return Err(format!("request {number}: {other:?}").into()),
            }
        }
        ledger.publish_head();
        ledger.settle();
        fs::write(list, serde_json::to_vec(&requests)?)?;
        row("filling it in", started.elapsed(), "");
        Ok(First { run, requests })
    }

    fn broker(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(words)
            .env("HOME", &self.home)
            .env("XDG_RUNTIME_DIR", &self.home)
            .env_remove("XDG_STATE_HOME")
            .env_remove("XDG_CONFIG_HOME");
        command
    }

    fn start(&self) -> Done<Child> {
        let policy = self.home.join(".config/sjail");
        fs::create_dir_all(&policy)?;
        let file = policy.join("policy.toml");
        fs::write(&file, "[approval]\nqueue_limit = 20000\nttl = \"7d\"\n")?;
        for path in [self.home.join(".config"), policy] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
        }
        fs::set_permissions(file, fs::Permissions::from_mode(0o600))?;
        let mut child = self
            .broker(&["serve", "--detach", "--idle", "0s"])
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let mut word = [0; 6];
        let out = child.stdout.as_mut().ok_or("no output")?;
        out.read_exact(&mut word)?;
        Ok(child)
    }

    fn measure(&self, broker: u32, first: &First, records: usize) -> Done {
        let of = |number: usize| first.requests.get(number).map_or("", String::as_str);
        let middle = first.requests.len() / 2;
        let all = [
            "queue", "list", "--status", "all", "--limit", "1000", "--json",
        ];
        self.time("queue list", &["queue", "list"])?;
        self.time("queue list, 1,000 in full", &all)?;
        self.time("queue show", &["queue", "show", of(middle)])?;
        // Each answers another request.
        let mut next = (0..first.requests.len()).map(of);
        for verb in ["approve", "reject"] {
            let mut times = Vec::new();
            for _ in 0..TIMES {
                let id = next.next().unwrap_or_default();
                times.push(self.once(&["queue", verb, id])?);
            }
            middle_row(&format!("queue {verb}"), times);
        }
        let seq = (records / 2).to_string();
        let log = |words: &[&'static str]| -> Vec<&'static str> {
            [&["audit", "log"][..], words].concat()
        };
        for (name, words) in [
            ("audit log", log(&[])),
            ("audit log --last 1000", log(&["--last", "1000"])),
            ("audit log --events", log(&["--events"])),
            (
                "audit log --risk-level dangerous",
                log(&["--risk-level", "dangerous"]),
            ),
            (
                "audit log --risk-level safe",
                log(&["--risk-level", "safe"]),
            ),
            ("audit log --agent (some)", log(&["--agent", "agent-3"])),
            ("audit log --agent (nobody)", log(&["--agent", "nobody"])),
            (
                "audit log --session (one)",
                log(&["--session", "session-77"]),
            ),
            ("audit log --user (nobody)", log(&["--user", "nobody"])),
            ("audit log --status pending", log(&["--status", "pending"])),
            (
                "audit log --status rejected",
                log(&["--status", "rejected"]),
            ),
            ("audit log --status failed", log(&["--status", "failed"])),
            ("audit log --status lost (none)", log(&["--status", "lost"])),
            (
                "audit log --command-pattern (many)",
                log(&["--command-pattern", "make*"]),
            ),
            (
                "audit log --command-pattern (none)",
                log(&["--command-pattern", "*none*"]),
            ),
            ("audit log --since 1m", log(&["--since", "1m"])),
            ("audit stats", vec!["audit", "stats"]),
            (
                "audit stats --period 7d",
                vec!["audit", "stats", "--period", "7d"],
            ),
        ] {
            self.time(name, &words)?;
        }
        self.time("audit show ID", &["audit", "show", &first.run])?;
        self.time("audit show NUMBER", &["audit", "show", &seq])?;
        self.time_once("audit verify, all of it", &["audit", "verify"])?;
        for format in ["jsonl", "json", "csv", "decisions"] {
            let words = ["audit", "export", "--format", format];
            self.time_once(&format!("audit export --format {format}"), &words)?;
        }
        let text = fs::read_to_string(format!("/proc/{broker}/status"))?;
        for line in text.lines().filter(|line| line.starts_with("VmHWM")) {
            println!("{:44} {}", "broker, the most memory", line.trim());
        }
        Ok(())
    }

    fn time(&self, name: &str, words: &[&str]) -> Done {
        let mut times = Vec::new();
        for _ in 0..TIMES {
            times.push(self.once(words)?);
        }
        middle_row(name, times);
        Ok(())
    }

    fn time_once(&self, name: &str, words: &[&str]) -> Done {
        let (elapsed, memory) = self.once(words)?;
        row(name, elapsed, &memory);
        Ok(())
    }

    /// How long a call took, and the most memory that it had.
    fn once(&self, words: &[&str]) -> Done<(Duration, String)> {
        let started = Instant::now();
        let mut child = self.broker(words).stdout(Stdio::piped()).spawn()?;
        let mut out = child.stdout.take().ok_or("no output")?;
        let mut chunk = vec![0; 1 << 16];
        let mut memory = String::new();
        while out.read(&mut chunk)? > 0 {
            // Gone with the process: the last look counts.
            let status = fs::read_to_string(format!("/proc/{}/status", child.id()));
            let status = status.unwrap_or_default();
            let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            memory = most.map_or(memory, |most| most.trim().to_owned());
        }
        let status = child.wait()?;
        let elapsed = started.elapsed();
        if !status.success() {
            return Err(format!("{words:?}: {status}").into());
        }
        Ok((elapsed, memory))
    }
}

fn middle_row(name: &str, mut times: Vec<(Duration, String)>) {
    times.sort();
    if let Some((elapsed, memory)) = times.get(times.len() / 2) {
        row(name, *elapsed, memory);
    }
}

fn row(name: &str, elapsed: Duration, more: &str) {
    println!("{name:44} {:10.1} ms  {more}", elapsed.as_secs_f64() * 1e3);
    let _ = std::io::stdout().flush();
}

/// A name in the letters that names are made of.
fn name(prefix: &str, number: usize, length: u32) -> String {
    const LETTERS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    let digit = |place: u32| char::from(LETTERS[(number >> (5 * place)) & 31]);
    let letters: String = (0..length)
        .rev()
        .map(|place| if place < 12 { digit(place) } else { '0' })
        .collect();
    format!("{prefix}{letters}")
}

fn command(number: usize) -> String {
    match number % 5 {
        0 => format!("make test-{number}"),
        1 => "git status --short".to_owned(),
        2 => format!("python3 -m pytest tests/test_{}.py -q", number % 997),
        3 => format!("rg -n 'fn main' crates/part-{}", number % 313),
        _ => format!("sed -n '{0},{0}p' src/lib.rs", number % 4001),
    }
}

/// The record of a command that was let run, as large as a real one.
fn intent(number: usize, home: &Path) -> Entry {
    let command = command(number);
    let mut entry = Entry::new(Event::Intent);
    entry.id = Some(name("run_", number, 12));
    entry.argv = Some(json!(["/bin/sh", "-c", "--", command]).to_string());
    entry.command = Some(command);
    entry.cwd = Some(home.join("project").display().to_string());
    entry.user = Some("ann".to_owned());
    entry.agent = Some(format!("agent-{}", number % 7));
    entry.session = Some(format!("session-{}", number / 1000));
    entry.risk = Some(
        if number.is_multiple_of(3) {
            "normal"
        } else {
            "safe"
        }
        .to_owned(),
    );
    entry.reasons = Some("[]".to_owned());
    entry.decision = Some("allow".to_owned());
    entry.rule = Some("risk normal".to_owned());
    entry.policy = Some(Hash::of(b"policy").to_string());
    let limits = json!({ "memory": 6_000_000_000_u64, "pids": 512, "output": null });
    let isolation = json!({
        "profile": "workspace", "network": "none", "degraded": "refused", "limits": limits,
        "workspace": { "path": home.join("project"), "access": "rw" },
    });
    entry.isolation = Some(isolation.to_string());
    let peer = json!({ "uid": 1000, "pid": number, "name": "sjail", "jailed": false,
        "exe": "/usr/bin/sjail", "tty": "pts/3" });
    entry.detail(&json!({ "peer": peer, "options": [], "loosened": [], "needs": [] }))
}

/// How it ended.
fn outcome(number: usize) -> Entry {
    let mut entry = Entry::new(Event::Outcome);
    entry.id = Some(name("run_", number, 12));
    entry.exit = Some(i64::from(number.is_multiple_of(50)));
    entry.duration = Some(1000 + number as i64 % 90_000);
    let usage = json!({ "cpu_ms": 3, "system_ms": 1, "peak_memory": 4_000_000, "processes": 2 });
    entry.usage = Some(usage.to_string());
    let layers = [
        "user namespace",
        "mount namespace",
        "seccomp allow list",
        "Landlock ABI 6",
    ];
    entry.isolation = Some(json!({ "layers": layers, "degraded": [] }).to_string());
    entry.output_head = Some(format!("{number} passed in 0.{:02}s\n", number % 100));
    entry.detail(&json!({ "status": "completed", "more": {} }))
}

/// A request that waits.
fn question(number: usize, home: &Path) -> Done<New> {
    let line = format!("rm -rf build-{number}");
    let folder = json!({ "path": home, "dev": 1, "ino": 2 });
    let argv = json!(["/bin/sh", "-c", "--", line]);
    let body: Value = json!({
        "command": line, "typed": { "line": line }, "argv": argv,
        "redacted": { "command": line, "argv": argv },
        "cwd": home, "workspace": home, "options": [], "risk": "dangerous",
        "reasons": ["Recursive deletion"], "rule": "risk dangerous", "needs": [],
        "changed": [], "user": "ann", "agent": "agent-1", "session": null,
        "peer": { "uid": 1000, "pid": 1, "jailed": false }, "requester": null, "circle": [],
        "inline": false, "place": "jail", "always": null,
        "binding": { "argv": argv, "cwd": folder, "env": [], "files": [], "policy": "p" },
    });
    let mut entry = Entry::new(Event::Decision);
    entry.command = Some(line.clone());
    entry.risk = Some("dangerous".to_owned());
    entry.agent = Some("agent-1".to_owned());
    Ok(New {
        uid: nix::unistd::getuid().as_raw(),
        twin: Hash::of(line.as_bytes()),
        ttl: 7 * 24 * 3600,
        limit: u64::MAX,
        body: serde_json::from_value(body)?,
        plan: None,
        entry,
    })
}

fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs().cast_signed())
}
