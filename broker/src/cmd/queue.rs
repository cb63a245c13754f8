//! `sjail queue`: seeing and answering requests.

use clap::Subcommand;
use serde_json::json;
use sjail_policy::duration::{Duration, Moment};
use sjail_policy::risk::Risk;
use sjail_policy::show;
use sjail_policy::wire::control as wire;

use crate::client::Client;
use crate::cmd::{print, print_json, table};
use crate::error::Result;
use crate::known_as;
use crate::service::now;

/// What can be done with the queue.
#[derive(Debug, Subcommand)]
pub enum Queue {
    /// List requests, the newest first
    List {
        /// pending, approved, rejected, expired, used or all
        #[arg(long, default_value = "pending", value_parser = status)]
        status: StatusChoice,
        /// At most so many
        #[arg(long, default_value_t = 100)]
        limit: u32,
        /// One JSON object
        #[arg(long)]
        json: bool,
    },
    /// Show everything about one request
    Show {
        /// The request
        id: String,
        /// One JSON object
        #[arg(long)]
        json: bool,
    },
    /// Say yes: once, or within bounds
    Approve {
        /// The request
        id: String,
        /// Keep what its preview showed; the command does not run again
        #[arg(long, conflicts_with_all = ["time", "count", "workspace", "session", "always", "without"])]
        apply: bool,
        /// Leave out what it asks for: a path, a host, or `network`
        #[arg(long, value_name = "WHAT")]
        without: Vec<std::ffi::OsString>,
        /// The same command again without asking, for so long
        #[arg(long = "for", value_name = "TIME")]
        time: Option<Duration>,
        /// The same command again without asking, so many times in all
        #[arg(long, value_name = "N")]
        count: Option<u32>,
        /// The same command anywhere in the same workspace
        #[arg(long, conflicts_with_all = ["session", "always"])]
        workspace: bool,
        /// The same command from the same session
        #[arg(long, conflicts_with = "always")]
        session: bool,
        /// The same command everywhere from now on: onto the allow list
        #[arg(long, conflicts_with_all = ["time", "count"])]
        always: bool,
        /// To a critical command: the word that `queue show` asks for
        #[arg(long)]
        word: Option<String>,
        /// A word for the record
        #[arg(long, alias = "notes")]
        note: Option<String>,
        /// The name you go by, recorded beside the account
        #[arg(long, alias = "approved-by", value_name = "NAME")]
        by: Option<String>,
        /// One JSON object
        #[arg(long)]
        json: bool,
    },
    /// Say no
    Reject {
        /// The request
        id: String,
        /// Why; the requester reads it
        #[arg(long)]
        reason: Option<String>,
        /// The name you go by, recorded beside the account
        #[arg(long, alias = "rejected-by", value_name = "NAME")]
        by: Option<String>,
        /// One JSON object
        #[arg(long)]
        json: bool,
    },
    /// Forget requests of a certain age
    Clear {
        /// An age such as 7d, or a date
        #[arg(long, value_name = "TIME", value_parser = moment)]
        older_than: Moment,
        /// One JSON object
        #[arg(long)]
        json: bool,
    },
    /// Tell of every request as it is asked and answered
    Watch {
        /// One JSON object a line
        #[arg(long)]
        json: bool,
    },
    /// List standing permissions
    Grants {
        /// One JSON object
        #[arg(long)]
        json: bool,
    },
    /// Take a standing permission back
    Revoke {
        /// The permission
        id: String,
    },
}

/// Which requests are listed.
#[derive(Debug, Clone, Copy)]
pub struct StatusChoice(Option<wire::RequestStatus>);

fn status(name: &str) -> std::result::Result<StatusChoice, String> {
    if name == "all" {
        return Ok(StatusChoice(None));
    }
    wire::RequestStatus::parse(name)
        .map(|status| StatusChoice(Some(status)))
        .ok_or_else(|| "one of pending, approved, rejected, expired, used, all".to_owned())
}

fn moment(text: &str) -> std::result::Result<Moment, String> {
    text.parse()
        .map_err(|error: sjail_policy::duration::TimeError| error.to_string())
}

/// Does what was typed.
pub fn run(verb: Queue) -> Result<u8> {
    let mut client = Client::connect()?;
    match verb {
        Queue::List {
            status,
            limit,
            json,
        } => list(&mut client, status, limit, json),
        Queue::Show { id, json } => {
            let shown: wire::Shown = client.call(wire::SHOW, &wire::ById { id })?;
            tell(&shown.request, json)
        }
        Queue::Approve {
            id,
            apply,
            without,
            time,
            count,
            workspace,
            session,
            always,
            word,
            note,
            by,
            json,
        } => {
            let scope = match (workspace, session, always) {
                (true, _, _) => wire::Scope::Workspace,
                (_, true, _) => wire::Scope::Session,
                (_, _, true) => wire::Scope::Always,
                _ => wire::Scope::Once,
            };
            let approve = wire::Approve {
                id,
                extent: wire::Extent {
                    seconds: time.map(|time| time.millis() / 1000),
                    count,
                    scope,
                    apply,
                },
                without: without.into_iter().map(Into::into).collect(),
                note,
                claimed_by: by,
                word,
            };
            let shown: wire::Shown = client.call(wire::APPROVE, &approve)?;
            answered(&shown.request, json)
        }
        Queue::Reject {
            id,
            reason,
            by,
            json,
        } => {
            let reject = wire::Reject {
                id,
                reason,
                claimed_by: by,
            };
            let shown: wire::Shown = client.call(wire::REJECT, &reject)?;
            answered(&shown.request, json)
        }
        Queue::Clear { older_than, json } => {
            let before = older_than.resolve(now());
            let changed: wire::Changed = client.call(wire::CLEAR, &wire::Clear { before })?;
            if json {
                print_json(&json!({ "cleared": changed.count }))?;
            } else {
                print(&format!("{} requests cleared\n", changed.count))?;
            }
            Ok(0)
        }
        Queue::Watch { json } => watch(&mut client, json),
        Queue::Grants { json } => grants(&mut client, json),
        Queue::Revoke { id } => {
            let _: wire::Changed = client.call(wire::REVOKE, &wire::ById { id })?;
            Ok(0)
        }
    }
}

fn list(client: &mut Client, status: StatusChoice, limit: u32, json: bool) -> Result<u8> {
    let wanted = wire::List {
        status: status.0,
        limit: Some(limit),
        before: None,
    };
    let listed: wire::Listed = client.call(wire::LIST, &wanted)?;
    if json {
        print_json(&known_as::listed(&listed))?;
        return Ok(0);
    }
    if listed.requests.is_empty() {
        print("no requests\n")?;
        return Ok(0);
    }
    let rows: Vec<Vec<String>> = listed
        .requests
        .iter()
        .map(|request| {
            vec![
                request.id.clone(),
                request.status.name().to_owned(),
                request.risk.name().to_owned(),
                table::span(now() - request.created),
                table::text(request.agent.as_deref().unwrap_or(&request.user)),
                table::command(&typed(request)),
            ]
        })
        .collect();
    let header = ["ID", "STATUS", "RISK", "AGE", "WHO", "COMMAND"];
    print(&table::lines(&header, &rows))?;
    for request in &listed.requests {
        for (name, line) in found(request).into_iter().take(1) {
            print(&format!("{} {name}: {}\n", request.id, table::text(&line)))?;
        }
    }
    let left_out = listed
        .total
        .saturating_sub(u64::try_from(rows.len()).unwrap_or(u64::MAX));
    if left_out > 0 {
        print(&format!("… and {left_out} more (--limit)\n"))?;
    }
    Ok(0)
}

/// The command, or what was typed where that is sjail's own.
fn typed(request: &wire::Request) -> String {
    let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let program = request.argv.first().map(|word| lossy(word.as_bytes()));
    let bound = request.binding.as_ref();
    let text = bound.and_then(|bound| bound.text.as_ref());
    text.zip(program)
        .and_then(|(text, program)| table::code(&program, &lossy(text.head.as_bytes())))
        .unwrap_or_else(|| request.command.clone())
}

fn tell(request: &wire::Request, json: bool) -> Result<u8> {
    if json {
        print_json(&known_as::request(request))?;
    } else {
        print(&described(request))?;
    }
    Ok(0)
}

/// A request with every field whole and inert.
pub fn described(request: &wire::Request) -> String {
    let mut out = String::new();
    let mut field = |name: &str, value: &str| {
        if !value.is_empty() {
            out.push_str(&format!("{name:<12}{}\n", table::text(value)));
        }
    };
    let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    field("id", &request.id);
    field("status", request.status.name());
    field("risk", request.risk.name());
    for reason in &request.reasons {
        field("because", reason);
    }
    field("rule", &request.rule);
    field("command", &request.command);
    for line in show::argv_lines(&request.argv) {
        out.push_str(&format!("{:<12}{line}\n", "argv"));
    }
    let mut field = |name: &str, value: &str| {
        if !value.is_empty() {
            out.push_str(&format!("{name:<12}{}\n", table::text(value)));
        }
    };
    field("folder", &lossy(request.cwd.as_bytes()));
    field("workspace", &lossy(request.workspace.as_bytes()));
    for need in &request.needs {
        field("needs", need);
    }
    for (name, line) in found(request) {
        field(name, &line);
    }
    field("user", &request.user);
    field("agent", &claim(request.agent.as_deref()));
    field("session", &claim(request.session.as_deref()));
    let peer = &request.peer;
    let process = format!(
        "pid {}, {}{}{}",
        peer["pid"],
        peer["exe"].as_str().unwrap_or("program unknown"),
        peer["tty"]
            .as_str()
            .map(|tty| format!(", on {tty}"))
            .unwrap_or_default(),
        if peer["jailed"] == true {
            ", in a jail"
        } else {
            ""
        }
    );
    field("process", &process);
    field("asked", &table::local(request.created));
    field("lapses", &table::local(request.expires));
    field(
        "answered by",
        request.approver.as_deref().unwrap_or_default(),
    );
    field("note", request.note.as_deref().unwrap_or_default());
    if request.risk == Risk::Critical && request.status == wire::RequestStatus::Pending {
        field("word", &format!("{} (--word)", wire::word(&request.id)));
    }
    for file in request.binding.iter().flat_map(|binding| &binding.files) {
        let path = lossy(file.path.as_bytes());
        match &file.sha256 {
            Some(hash) => field("runs", &format!("{path} (sha256 {hash})")),
            None => field("is given", &path),
        }
    }
    for open in request.binding.iter().flat_map(|binding| &binding.open) {
        field("not tied", open);
    }
    if let Some(text) = request
        .binding
        .as_ref()
        .and_then(|bound| bound.text.as_ref())
    {
        let whole = format!("{} bytes (sha256 {})", text.length, text.sha256);
        field("text", &whole);
        for line in lossy(text.head.as_bytes()).lines() {
            field("it says", line);
        }
        if text.cut {
            field("it says", "(this is its beginning; the rest is not shown)");
        }
    }
    if let Some(always) = &request.always {
        field(
            "always",
            &match &always.pattern {
                Some(pattern) => format!("{pattern}   allows {}", always.widest),
                None => format!("not possible: {}", always.widest),
            },
        );
    }
    out
}

/// What a preview showed, as the requester tells it: in a sentence, then line by line.
/// What has no sentence is shown as it came.
fn found(request: &wire::Request) -> Vec<(&'static str, String)> {
    let Some(evidence) = &request.evidence else {
        return Vec::new();
    };
    let Some(summary) = evidence["summary"].as_str() else {
        let text = serde_json::to_string_pretty(evidence).unwrap_or_default();
        return text
            .lines()
            .map(|line| ("it found", line.to_owned()))
            .collect();
    };
    let mut lines = vec![("preview", summary.to_owned())];
    for (key, name) in [("changes", "it would"), ("notes", "it notes")] {
        let all = evidence[key].as_array().into_iter().flatten();
        lines.extend(all.filter_map(|line| Some((name, line.as_str()?.to_owned()))));
    }
    if evidence["preview"].is_string() && request.status == wire::RequestStatus::Pending {
        let how = "sjail queue approve --apply keeps what the preview showed";
        lines.push(("to keep it", how.to_owned()));
    }
    lines
}

/// A name that the caller typed is said to be one.
fn claim(name: Option<&str>) -> String {
    name.map(|name| format!("{name} (as it says)"))
        .unwrap_or_default()
}

fn answered(request: &wire::Request, json: bool) -> Result<u8> {
    if json {
        print_json(&known_as::request(request))?;
    } else {
        print(&format!("{} is {}\n", request.id, request.status.name()))?;
    }
    Ok(0)
}

/// What waits already, then what happens. It is listened first, so that nothing falls
/// between the two.
fn watch(client: &mut Client, json: bool) -> Result<u8> {
    client.call_more(wire::WATCH, &json!({}))?;
    let wanted = wire::List {
        status: Some(wire::RequestStatus::Pending),
        limit: None,
        before: None,
    };
    let waiting: wire::Listed = Client::connect()?.call(wire::LIST, &wanted)?;
    for request in waiting.requests.iter().rev() {
        watched(request, request.created, json)?;
    }
    loop {
        let shown: wire::Shown = client.receive()?;
        watched(&shown.request, now(), json)?;
    }
}

fn watched(request: &wire::Request, time: i64, json: bool) -> Result<()> {
    if json {
        let line = known_as::request(request).to_string();
        return print(&format!("{}\n", show::inert_json(&line)));
    }
    let waits = request.status == wire::RequestStatus::Pending;
    // The bell, for whoever looks elsewhere.
    let bell = if waits { "\u{7}" } else { "" };
    print(&format!(
        "{bell}{}  {}  {:<8}  {:<10}  {}\n",
        table::local(time),
        request.id,
        request.status.name(),
        request.risk.name(),
        table::command(&typed(request))
    ))?;
    for (name, line) in found(request).into_iter().take(1) {
        print(&format!("    {name}: {}\n", table::text(&line)))?;
    }
    if waits {
        print(&format!(
            "    sjail queue show {0} · approve {0} · reject {0}\n",
            request.id
        ))?;
    }
    Ok(())
}

fn grants(client: &mut Client, json: bool) -> Result<u8> {
    let grants: wire::Grants = client.call(wire::GRANTS, &json!({}))?;
    if json {
        print_json(&grants)?;
        return Ok(0);
    }
    let mut folders = Folders(client);
    let rows: Vec<Vec<String>> = grants
        .grants
        .iter()
        .map(|grant| {
            vec![
                grant.id.clone(),
                match grant.scope {
                    wire::Scope::Always => "never".to_owned(),
                    _ => grant
                        .expires
                        .map(|at| table::span(at - now()))
                        .unwrap_or_default(),
                },
                grant.left.map(|left| left.to_string()).unwrap_or_default(),
                table::text(&folders.within(grant)),
                table::command(&grant.command),
            ]
        })
        .collect();
    if rows.is_empty() {
        print("no standing permissions\n")?;
    } else {
        print(&table::lines(
            &["ID", "ENDS IN", "LEFT", "WITHIN", "COMMAND"],
            &rows,
        ))?;
    }
    Ok(0)
}

/// Where a permission holds, for people: a folder is kept by its number, so its path is
/// that of the request.
struct Folders<'a>(&'a mut Client);

impl Folders<'_> {
    fn within(&mut self, grant: &wire::Grant) -> String {
        let within = grant.within.clone().unwrap_or_default();
        if grant.scope != wire::Scope::Once {
            return within;
        }
        let id = grant.request.clone();
        let shown: Result<wire::Shown> = self.0.call(wire::SHOW, &wire::ById { id });
        match shown {
            Ok(shown) => shown.request.cwd.as_path().display().to_string(),
            // Its request is forgotten.
            Err(_) => within,
        }
    }
}
