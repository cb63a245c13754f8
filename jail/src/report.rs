//! What sjail says about a run: notes on standard error, the result object where asked.

mod layers;
mod sink;
mod verdict;

use std::io::Write;
use std::path::PathBuf;

use sjail_policy::decide::Decision;
use sjail_policy::plan::{Degraded, Plan};
use sjail_policy::show;
use sjail_policy::wire::request::Run;

use crate::cli::RunArgs;
use crate::denials::Denial;
use crate::error::Error;
use crate::exit::Exit;
use crate::layout::Layout;
use crate::limits::{Limits, Unheld};
use crate::net::record::Entry;
use crate::outcome::Outcome;
use crate::preview::record::{Record, Verdict as Judged};
use crate::preview::show::{Ink, grouped};
use crate::preview::{self, Made, Ran};
use crate::protect;
use crate::protect::finding::{self, Finding};
use crate::result::{Isolation, Output, RunId, RunResult, Status, Usage};
use crate::touched::{Looked, Touched};
use sink::Sink;
use verdict::Verdict;

/// One run's words.
#[derive(Debug)]
pub struct Report {
    id: RunId,
    command: String,
    notes: Notes,
    sink: Sink,
    isolation: Isolation,
    kept_away: Vec<Finding>,
    denials: Vec<Denial>,
    network: Vec<Entry>,
    touched: Vec<Touched>,
    /// Whether there were too many files to look at for `touched`.
    is_partial: bool,
    changes: Vec<serde_json::Value>,
    preview: Option<serde_json::Value>,
    verdict: Verdict,
}

/// Whether notes are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Notes {
    Told,
    Quiet,
}

impl Report {
    /// For a run that was asked for like this.
    pub fn new(args: &RunArgs) -> Result<Report, Error> {
        Ok(Report {
            id: RunId::fresh(),
            command: command(args),
            notes: if args.quiet {
                Notes::Quiet
            } else {
                Notes::Told
            },
            sink: Sink::of(args)?,
            isolation: Isolation::default(),
            kept_away: Vec::new(),
            denials: Vec::new(),
            network: Vec::new(),
            touched: Vec::new(),
            is_partial: false,
            changes: Vec::new(),
            preview: None,
            verdict: Verdict::default(),
        })
    }

    /// The name of the run.
    pub fn id(&self) -> &RunId {
        &self.id
    }

    /// The broker lets it run.
    pub fn decided(&mut self, run: &Run) {
        self.id = RunId::given(&run.id);
        self.command = show::inert(run.command.as_bytes());
        self.verdict = Verdict::of_run(run);
    }

    /// What the policy says, in process.
    pub fn judged(&mut self, decision: &Decision) {
        self.verdict = Verdict::of_decision(decision);
    }

    /// What else records carry: what was reached or refused on the network, and what a
    /// preview came to.
    pub fn detail(&self) -> serde_json::Value {
        let mut detail = serde_json::Map::new();
        if !self.network.is_empty() {
            detail.insert("network".to_owned(), serde_json::json!(self.network));
        }
        if let Some(preview) = &self.preview {
            // Not the command: that is recorded already, without its secrets.
            let totals = serde_json::json!({
                "totals": preview["totals"],
                "places": preview["places"],
            });
            detail.insert("preview".to_owned(), totals);
        }
        // The first of them: a record has an end, the result object names all.
        const MOST: usize = 200;
        let mut auto_exec = self.auto_exec();
        auto_exec.truncate(MOST);
        if !auto_exec.is_empty() {
            detail.insert("auto_exec".to_owned(), auto_exec.into());
        }
        if self.is_partial {
            detail.insert("auto_exec_partial".to_owned(), true.into());
        }
        match detail.is_empty() {
            true => serde_json::Value::Null,
            false => detail.into(),
        }
    }

    /// What held the command, as records carry it.
    pub fn isolation(&self) -> serde_json::Value {
        serde_json::to_value(&self.isolation).unwrap_or_default()
    }

    /// Says something in passing.
    pub fn note(&self, text: &str) {
        if self.notes == Notes::Told {
            say(text);
        }
    }

    /// Limits that nobody can hold: refused, or said.
    pub fn unheld(&mut self, plan: &Plan, unheld: &[Unheld]) -> Result<(), Error> {
        for limit in unheld {
            let text = format!("{} is not enforced: {}", limit.flag, limit.why);
            if plan.degraded == Degraded::Refused {
                return Err(Error::Unheld { text });
            }
            self.note(&text);
            self.isolation.degraded.push(text);
        }
        Ok(())
    }

    /// What was kept away from the host.
    pub fn kept_away(&mut self, report: protect::Report) {
        if let Some(why) = report.ended {
            say(&show::inert(why.as_bytes()));
        }
        for sentence in finding::sentences(&report.findings) {
            self.note(&sentence);
        }
        self.kept_away.extend(report.findings);
    }

    /// What the jail refused a command that has failed.
    pub fn refused(&mut self, denials: Vec<Denial>) {
        for denial in &denials {
            self.note(&denial.sentence());
        }
        self.denials = denials;
    }

    /// What was refused and reached in a preview, whose summary says it.
    pub fn seen_in_preview(&mut self, denials: Vec<Denial>, network: Vec<Entry>) {
        self.denials = denials;
        self.network = network;
    }

    /// What happened on the filtered network.
    pub fn reached(&mut self, network: Vec<Entry>) {
        for sentence in network.iter().filter_map(Entry::sentence).take(20) {
            self.note(&sentence);
        }
        self.network = network;
    }

    /// What will hold the command; all of it is verified before it starts.
    pub fn prepared(&mut self, layout: &Layout, limits: &Limits) {
        for missing in &layout.missing {
            self.note(missing);
            self.isolation.degraded.push(missing.clone());
        }
        self.isolation.layers = layers::of(layout);
        self.isolation.limits = limits.report();
    }

    /// The jail that we are in holds it: the kernel was asked (see [`crate::inside`]).
    pub fn held_outside(&mut self) {
        self.isolation.layers = layers::outside();
    }

    /// It has run outside the jail that we are in, under this approval.
    pub fn ran_elsewhere(&mut self, id: &str) {
        self.id = RunId::given(id);
        self.verdict.decision = Some("approved".to_owned());
        self.verdict.approval = Some(serde_json::json!({ "id": id }));
        self.note("this has run on the host, outside any jail, as it was approved");
    }

    /// Files that were touched and run code later.
    pub fn touched(&mut self, looked: Looked) {
        const TOLD: usize = 20;
        for file in looked.touched.iter().take(TOLD) {
            self.note(&file.sentence());
        }
        if looked.touched.len() > TOLD {
            let more = grouped((looked.touched.len() - TOLD) as u64);
            self.note(&format!(
                "{more} more files were written that are run later"
            ));
        }
        self.touched = looked.touched;
        self.is_partial = looked.is_partial;
    }

    /// What is known of a run that was a preview.
    pub fn ran(&self, outcome: &Outcome) -> Ran {
        let mut notes: Vec<String> = self.denials.iter().map(Denial::sentence).collect();
        notes.extend(self.network.iter().filter_map(Entry::sentence).take(20));
        notes.extend(outcome.usage.started.map(|count| match count {
            1 => "1 process was started".to_owned(),
            _ => format!("{} processes and threads were started", grouped(count)),
        }));
        Ran {
            command: self.command.clone(),
            exit_code: outcome.exit_code(),
            verdict: Judged {
                action: self.verdict.decision.clone().unwrap_or_default(),
                risk: self.verdict.risk.map(|r| r.to_string()).unwrap_or_default(),
                reasons: self.verdict.reasons.clone(),
                rule: self.verdict.rule.clone().unwrap_or_default(),
            },
            notes,
        }
    }

    /// What a preview showed.
    pub fn previewed(&mut self, made: Made, diff: bool) {
        self.kept_away(protect::Report::of(made.findings));
        let entries = || preview::record::entries(&made.path).into_iter().flatten();
        if self.notes == Notes::Told {
            let ink = Ink::on(&std::io::stderr());
            let text = preview::show::summary(&made.record, entries(), ink);
            let _ = write!(std::io::stderr(), "sjail: {text}");
            if diff {
                let shown = |text: &str| std::io::stderr().write_all(text.as_bytes());
                let _ = preview::diff::all(&made.path, &made.record, &[], ink, shown);
            }
        }
        const LISTED: usize = 1000;
        for entry in entries().flatten() {
            if let Some(by) = &entry.auto_exec
                && let Some(layer) = made.record.layers.get(entry.layer)
            {
                let path = layer.host.as_path().join(entry.path.as_path());
                self.touched.push(Touched::new(&path, by));
            }
            if self.changes.len() < LISTED && entry.is_shown() {
                self.changes.extend(serde_json::to_value(&entry));
            }
        }
        self.preview = Some(preview::show::object(&made.record));
    }

    /// What a preview showed is on the host.
    pub fn kept(&mut self, record: &Record, kept_out: &[(PathBuf, String)]) {
        for (path, why) in kept_out {
            let path = show::inert(path.as_os_str().as_encoded_bytes());
            self.note(&format!("{path} was not committed: it {why}"));
        }
        let what = if kept_out.is_empty() {
            "what"
        } else {
            "what else"
        };
        self.note(&format!(
            "{what} preview {0} showed is on the host now; to take it back: sjail undo {0}",
            record.id
        ));
        self.preview = Some(preview::show::object(record));
    }

    /// What became of the command; nothing is said.
    pub fn told(mut self, attempted: Result<Outcome, Error>) -> RunResult {
        match attempted {
            Ok(outcome) => self.end(outcome),
            Err(error) => self.failure(&error),
        }
    }

    /// The command ran.
    pub fn ended(mut self, outcome: Outcome) -> u8 {
        if let Some(cause) = &outcome.cause {
            say(&cause.to_string());
        }
        let result = self.end(outcome);
        self.deliver(&result);
        result.exit_code
    }

    /// The command was not started.
    pub fn failed(mut self, error: &Error) -> u8 {
        say(&error.to_string());
        let result = self.failure(error);
        self.deliver(&result);
        result.exit_code
    }

    fn end(&self, outcome: Outcome) -> RunResult {
        RunResult {
            status: outcome.word(),
            exit_code: outcome.exit_code(),
            signal: outcome.signal(),
            reason: outcome.cause.map(|cause| cause.to_string()),
            duration_ms: outcome.duration.as_millis().try_into().unwrap_or(u64::MAX),
            truncated: outcome.output.truncated(),
            output: outcome.output,
            usage: outcome.usage,
            ..self.blank(Status::Completed)
        }
    }

    fn failure(&mut self, error: &Error) -> RunResult {
        let status = match error.exit() {
            Exit::Blocked => Status::Blocked,
            Exit::Pending => Status::Pending,
            _ => Status::Failed,
        };
        if let Some((id, verdict)) = Verdict::of_refusal(error) {
            if !id.is_empty() {
                self.id = RunId::given(id);
            }
            self.verdict = verdict;
        }
        RunResult {
            exit_code: error.exit().code(),
            reason: Some(error.to_string()),
            ..self.blank(status)
        }
    }

    fn blank(&self, status: Status) -> RunResult {
        RunResult {
            id: self.id.clone(),
            status,
            command: self.command.clone(),
            risk_level: self.verdict.risk,
            risk_reasons: self.verdict.reasons.clone(),
            decision: self.verdict.in_a_result(),
            rule: self.verdict.rule.clone(),
            exit_code: 0,
            signal: None,
            reason: None,
            duration_ms: 0,
            output: Output::default(),
            truncated: false,
            usage: Usage::default(),
            isolation: self.isolation.clone(),
            denials: self
                .denials
                .iter()
                .filter_map(|denial| serde_json::to_value(denial).ok())
                .collect(),
            network: self
                .network
                .iter()
                .filter_map(|entry| serde_json::to_value(entry).ok())
                .collect(),
            changes: self.changes.clone(),
            preview: self.preview.clone(),
            auto_exec: self.auto_exec(),
            auto_exec_partial: self.is_partial,
            approval: self.verdict.approval.clone(),
        }
    }

    fn deliver(&mut self, result: &RunResult) {
        if let Err(error) = self.sink.take(result) {
            say(&format!("the result object could not be written: {error}"));
        }
    }

    /// What runs code on the host later: kept away from it, or touched.
    pub fn auto_exec(&self) -> Vec<serde_json::Value> {
        let kept = self.kept_away.iter().map(serde_json::to_value);
        let touched = self.touched.iter().map(serde_json::to_value);
        kept.chain(touched).flatten().collect()
    }
}

/// Says one thing on standard error. Nobody may be able to hear it (a full disk, a closed
/// pipe, `ulimit -f 0`); that is no reason to end differently. File names come from
/// strangers: nothing in them reaches the terminal alive.
pub fn say(text: &str) {
    // A line that only points at the one above keeps its place under it.
    let mut lines =
        text.lines().map(
            |line| match line.bytes().all(|byte| b" |^".contains(&byte)) {
                true => line.to_owned(),
                false => show::settled(line),
            },
        );
    let first = lines.next().unwrap_or_default();
    let _ = writeln!(std::io::stderr(), "sjail: {first}");
    for line in lines {
        let _ = writeln!(std::io::stderr(), "{line}");
    }
}

/// The command as a person would type it.
fn command(args: &RunArgs) -> String {
    match &args.line {
        Some(line) => show::inert(line.as_encoded_bytes()),
        None => {
            let words: Vec<String> = args
                .command
                .iter()
                .map(|word| show::inert(word.as_encoded_bytes()))
                .collect();
            shell_words::join(words)
        }
    }
}
