//! `io.sjail.Broker` on the request socket: whoever runs commands submits them here,
//! asks what would happen to one, and tells how it ended. Nothing on this socket
//! can approve anything.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::bytes::ByteString;
use crate::plan::{Plan, User, Variable};
use crate::risk::Risk;
use crate::wire::message::Reply;

/// The interface's name.
pub const INTERFACE: &str = "io.sjail.Broker";
/// The interface's text.
pub const DESCRIPTION: &str = include_str!("io.sjail.Broker.varlink");

/// Decide about a command, wait for an answer where one is needed, record it.
pub const SUBMIT: &str = "io.sjail.Broker.Submit";
/// Say what would happen to a command; nothing is queued, nothing recorded.
pub const CHECK: &str = "io.sjail.Broker.Check";
/// How a request of one's own stands.
pub const STATUS: &str = "io.sjail.Broker.Status";
/// Tell how a command ended.
pub const OUTCOME: &str = "io.sjail.Broker.Outcome";
/// Ask a person whether a command that runs may reach a host.
pub const ASK_HOST: &str = "io.sjail.Broker.AskHost";
/// Give the caller a control group of its own, for the limits of a run.
pub const GROUP: &str = "io.sjail.Broker.Group";
/// Add what a preview found to a request that waits.
pub const ATTACH: &str = "io.sjail.Broker.Attach";
/// Offer to run on the host what is asked for inside the jail of a run.
pub const OFFER: &str = "io.sjail.Broker.Offer";
/// Hand in what came of that.
pub const DELIVER: &str = "io.sjail.Broker.Deliver";

/// Tell that a tool of an agent was refused before anything ran.
pub const REFUSED: &str = "io.sjail.Broker.Refused";

/// No request of the caller has this id.
pub const ERROR_UNKNOWN_ID: &str = "io.sjail.Broker.UnknownId";
/// Too much at once from this peer, or too many requests waiting.
pub const ERROR_BUSY: &str = "io.sjail.Broker.Busy";
/// The other side speaks another version of this interface.
pub const ERROR_VERSION: &str = "io.sjail.Broker.VersionMismatch";
/// The broker cannot do its work (no policy, no store); the text says why.
pub const ERROR_UNABLE: &str = "io.sjail.Broker.Unable";

/// What is to be run, as it was typed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Typed {
    /// A program and its arguments.
    Argv(Vec<ByteString>),
    /// A line for the shell.
    Line(ByteString),
}

impl Typed {
    /// What is executed. A line is bash's where the machine has one: whoever types it means
    /// that, and it is judged as bash reads it.
    pub fn argv(&self) -> Vec<ByteString> {
        match self {
            Typed::Argv(argv) => argv.clone(),
            Typed::Line(line) => {
                // `-p`: no variable has a word in what the line does (BASH_ENV, functions).
                let shell: &[&str] = match Path::new("/bin/bash").is_file() {
                    true => &["/bin/bash", "-p"],
                    false => &["/bin/sh"],
                };
                // `--`: a line may begin with `-` and is never an option of the shell.
                let words = shell.iter().chain(&["-c", "--"]);
                let words = words.map(|word| ByteString::from(*word));
                words.chain([line.clone()]).collect()
            }
        }
    }
}

/// Whether a person is to be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Asking {
    /// As the policy has it.
    #[default]
    Policy,
    /// In any case (`--require-approval`).
    Always,
}

/// Parameters of [`SUBMIT`] and [`CHECK`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Submission {
    /// The [`PROTOCOL`](super::PROTOCOL) of the caller.
    pub protocol: u32,
    /// The version of the caller's program; an older broker makes room for it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// The caller's own name for the run. The same submission under the same name, by
    /// the same process, is one run: it can be repeated when the broker went away
    /// before it had answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The command; absent only where an approval stands for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Typed>,
    /// Where it starts, absolute.
    pub cwd: ByteString,
    /// The project folder that the caller found or named, absolute.
    pub workspace: ByteString,
    /// Whose identity the command gets.
    #[serde(default = "caller")]
    pub user: User,
    /// The caller's whole environment; values never leave the broker's memory.
    #[serde(default)]
    pub env: Vec<Variable>,
    /// The options of the command line that change policy, as typed
    /// (`--rw=/data`, `--net=host`), in order.
    #[serde(default)]
    pub options: Vec<ByteString>,
    /// The agent's name: a claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The session's name: a claim until an operator registers it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Whether a person is asked.
    #[serde(default)]
    pub asking: Asking,
    /// How long to wait for an answer, in milliseconds; 0 does not wait, nothing
    /// waits as long as the policy says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
    /// Run what was approved under this id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<String>,
    /// The command has run in the preview of this id, and what that showed is to be kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The program text that the command gets over standard input (`sjail code`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<ProgramText>,
}

/// A program text that goes to its interpreter over standard input: what runs is in it, not
/// in the words of the command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramText {
    /// The hash of the whole of it.
    pub sha256: String,
    /// Its length in bytes.
    pub length: u64,
    /// How it begins, its secrets taken out.
    pub head: ByteString,
    /// Whether it goes on after that.
    pub cut: bool,
}

fn caller() -> User {
    User::Caller
}

/// What the broker says about a submission; over a call with `more` there can be
/// several, the last one without `continues`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum Answer {
    /// A person must answer; the same call goes on.
    Waiting(Waiting),
    /// It may run as planned, but not before [`Answer::Recorded`].
    Run(Box<Run>),
    /// The intent is on the disk: the command may start.
    Recorded {
        /// The number of the intent record; absent where the log could not be
        /// written and the policy says to go on.
        seq: Option<u64>,
        /// What its owner should know, the log's failure above all.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        alerts: Vec<String>,
    },
    /// It does not run: a rule blocks it.
    Blocked(Refusal),
    /// It does not run: a person said no.
    Rejected(Refusal),
    /// It does not run now: nobody has answered yet.
    Pending(Waiting),
    /// It does not run: nobody answered in time, or an approval is out of date.
    Expired(Refusal),
    /// It was asked for inside a jail and has run on the host, by whoever holds that jail.
    Elsewhere(Elsewhere),
}

impl Answer {
    /// Reads one, or the error in its place. By its tag alone a permission would be read into
    /// a buffer first and out of it then: it is long, and what everybody waits for.
    pub fn read(message: &[u8]) -> Result<Result<Answer, Reply>, serde_json::Error> {
        #[derive(Deserialize)]
        struct Stated {
            state: String,
        }
        let permits = Reply::read::<Stated>(message)
            .is_ok_and(|read| read.is_ok_and(|stated| stated.state == "run"));
        match permits {
            true => Reply::read(message).map(|read| read.map(Answer::Run)),
            false => Reply::read(message),
        }
    }
}

/// What came of a command that was asked for inside a jail and has run outside.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Elsewhere {
    /// The approval that it ran under.
    pub id: String,
    /// What `sjail run` has exited with.
    pub code: u8,
    /// How long that took.
    pub duration_ms: u64,
    /// Its output, as far as it is kept.
    pub stdout: ByteString,
    /// Its errors, as far as they are kept.
    pub stderr: ByteString,
    /// Whether there was more.
    pub truncated: bool,
}

/// Parameters of [`OFFER`]: from the `sjail` that holds a jail. Each reply is an [`Errand`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Offer {
    /// The run, from [`Run::id`].
    pub run: String,
    /// Its proof, from [`Run::token`].
    pub token: String,
    /// The workspace of that run: nothing is run anywhere else.
    pub workspace: ByteString,
    /// The variables that commands get there: never those from inside.
    pub env: Vec<Variable>,
}

/// What is to be run on the host for somebody in a jail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Errand {
    /// The approval to run under: it says what.
    pub id: String,
    /// What [`DELIVER`] names it by.
    pub ticket: String,
    /// Where.
    pub cwd: ByteString,
}

/// Parameters of [`DELIVER`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deliver {
    /// From [`Errand::ticket`].
    pub ticket: String,
    /// What came of it.
    pub result: Elsewhere,
}

/// A request that somebody must answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    /// The id to answer with.
    pub id: String,
    /// The risk.
    pub risk: Risk,
    /// Why.
    pub reasons: Vec<String>,
    /// The rule that asks.
    pub rule: String,
    /// What the command needs beyond the jail, if anything.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
    /// What differs from an earlier approval, if that is why it asks again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<String>,
    /// What would spare the question, if that can be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Seconds since 1970 when the request lapses.
    pub expires: i64,
    /// Whether the owner may be asked at this caller's terminal: the kernel shows
    /// a terminal and no agent between, and the policy allows it.
    pub inline: bool,
    /// Whether the caller is to find out in a preview what the command would do, and to
    /// [`ATTACH`] that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub wants_preview: bool,
}

/// Permission to run, with everything the jail must enforce.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// The id of this run, named by its outcome.
    pub id: String,
    /// The command as one line.
    pub command: String,
    /// What proves that an outcome comes from whoever was allowed to run.
    pub token: String,
    /// The risk.
    pub risk: Risk,
    /// Why.
    pub reasons: Vec<String>,
    /// `allow`, `approved`, `granted`, `elevated` or `preview`.
    pub decision: String,
    /// The rule that decided.
    pub rule: String,
    /// Where it runs.
    pub place: Place,
    /// What the jail enforces; what was approved.
    pub plan: Plan,
    /// What the approval bound; checked once more at the exec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binding: Option<Binding>,
    /// The approval that was used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
    /// It runs on layers over the host's files, and this is what it would meet without
    /// them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview: Option<Meets>,
    /// Nothing runs: what this preview showed is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apply: Option<Apply>,
    /// What the policy files have to say to the caller.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<String>,
    /// So many bytes of the output are recorded, where it is kept at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded_output: Option<u64>,
}

/// A preview that was shown to whoever said yes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Apply {
    /// Its id.
    pub preview: String,
    /// The hash of its list of changes.
    pub digest: String,
}

/// What a command that is only previewed would meet if it ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Meets {
    /// It would run at once.
    Execute,
    /// Somebody would be asked.
    Ask,
}

impl Meets {
    /// Its name, as [`crate::decide::Action`] has it.
    pub fn name(self) -> &'static str {
        match self {
            Meets::Execute => crate::decide::Action::Execute.name(),
            Meets::Ask => crate::decide::Action::Ask.name(),
        }
    }
}

/// Where a command runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// In the jail.
    Jail,
    /// On the host: an elevated pattern.
    Host,
}

/// A file as it was when a person looked at it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundFile {
    /// Its path, links resolved.
    pub path: ByteString,
    /// The device it is on.
    pub dev: u64,
    /// Its inode.
    pub ino: u64,
    /// SHA-256 of its content, hexadecimal; absent for a folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

/// What an approval is tied to; any difference makes it void.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Binding {
    /// The program and its arguments.
    pub argv: Vec<ByteString>,
    /// The working directory.
    pub cwd: BoundFile,
    /// One hash per variable that the command gets, by name.
    pub env: Vec<(String, String)>,
    /// The programs and scripts that it starts, as far as they are known.
    pub files: Vec<BoundFile>,
    /// What it starts besides, which nobody can know before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open: Vec<String>,
    /// The hash of the policy in force.
    pub policy: String,
    /// The program text that it gets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<ProgramText>,
}

/// Who said yes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// The request's id, or the grant's.
    pub id: String,
    /// The account and terminal of whoever answered.
    pub approver: String,
    /// What they wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Why a command does not run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The request's id.
    pub id: String,
    /// The risk.
    pub risk: Risk,
    /// Why the risk.
    pub reasons: Vec<String>,
    /// The rule, or who refused.
    pub rule: String,
    /// The sentence for the caller.
    pub message: String,
}

/// The reply to [`CHECK`]: the shape that other tools know, and more beside it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checked {
    /// The command as one line.
    pub command: String,
    /// The risk.
    pub risk_level: Risk,
    /// Why.
    pub risk_reasons: Vec<String>,
    /// Whether a person would be asked.
    pub requires_approval: bool,
    /// `execute`, `queue_for_approval` or `block`.
    pub suggested_action: String,
    /// The rule that decides.
    pub rule: String,
}

/// Parameters of [`STATUS`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatusOf {
    /// The request.
    pub id: String,
}

/// The reply to [`STATUS`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The request.
    pub id: String,
    /// `pending`, `approved`, `rejected`, `expired` or `used`.
    pub status: String,
    /// The note of whoever answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Parameters of [`OUTCOME`]: how a command ended.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    /// The run.
    pub id: String,
    /// Its proof, from [`Run::token`].
    pub token: String,
    /// `finished`, `timed-out`, `failed` (it could not be started) …
    pub status: String,
    /// The exit code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<i32>,
    /// The signal that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// How long it ran, in microseconds.
    pub duration_us: u64,
    /// What it used.
    #[serde(default)]
    pub usage: serde_json::Value,
    /// The isolation that was achieved and verified.
    #[serde(default)]
    pub isolation: serde_json::Value,
    /// Denials, network use, what is left to run later.
    #[serde(default)]
    pub detail: serde_json::Value,
    /// The start of the output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_head: Option<ByteString>,
    /// The end of the output, where the start does not hold it all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tail: Option<ByteString>,
}

/// The reply to [`OUTCOME`] and [`REFUSED`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recorded {
    /// The number of the record.
    pub seq: u64,
}

/// Parameters of [`ASK_HOST`]: a command that runs wants to reach a host that no rule
/// speaks of.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AskHost {
    /// The run, from [`Run::id`].
    pub run: String,
    /// Its proof, from [`Run::token`].
    pub token: String,
    /// The host's name or address.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Why it is asked, in one sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How long to wait, in milliseconds; nothing waits as long as the policy says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
}

/// The reply to [`ASK_HOST`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostAnswer {
    /// How far the yes goes, or no.
    pub answer: HostVerdict,
    /// The request that was answered, or the grant that covers it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Who answered, as the kernel names them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approver: Option<String>,
    /// Why not, in one sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// What a person says to a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HostVerdict {
    /// For this run.
    Once,
    /// For the session; it is remembered, and not asked again.
    Session,
    /// For the workspace; likewise.
    Workspace,
    /// Everywhere; likewise.
    Always,
    /// It may not, or nobody answered in time.
    No,
}

/// Parameters of [`GROUP`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// The run, which names the group.
    pub run: String,
}

/// The reply to [`GROUP`]: the caller stands in the group now, and may divide it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grouped {
    /// systemd's name for it.
    pub unit: String,
}

/// Parameters of [`REFUSED`]: what a tool of an agent was kept from. It ran nothing, so
/// nobody else would tell the log. The reply is a [`Recorded`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refused {
    /// The agent's name: a claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The session's name: a claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Where the agent is, absolute.
    pub cwd: ByteString,
    /// The tool as the agent names it.
    pub tool: String,
    /// What it was to do: `read /home/ann/.ssh/id_rsa`.
    pub act: String,
    /// The rule that says no.
    pub rule: String,
}

/// Parameters of [`ATTACH`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attach {
    /// The request, from [`Waiting::id`].
    pub id: String,
    /// What was found, a JSON object of at most 64 KiB: `summary` is a sentence, `changes`
    /// are lines; `preview` and `digest` name what can be kept as it was shown.
    pub evidence: serde_json::Value,
}
