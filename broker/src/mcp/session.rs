//! One client, from its greeting until it hangs up.

use std::io;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal};
use serde_json::{Value, json};

use super::catalog::{Policy, Tool};
use super::rpc::{self, Line, Message, Out, Wrong};
use super::runner::{Calls, Sjail};
use super::{INSTRUCTIONS, desk, execute, files};
use crate::error::Result;

/// The versions of the protocol that begin with a greeting, the newest first.
const VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
/// The version without one: each request says which version it is in, and who asks.
const STATELESS: &str = "2026-07-28";
/// Where such a request says so.
const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CLIENT: &str = "io.modelcontextprotocol/clientInfo";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const SERVER: &str = "io.modelcontextprotocol/serverInfo";
/// So many calls at once; more are refused.
const MOST: usize = 32;
/// So long what runs may take to end when the client has gone.
const GRACE: Duration = Duration::from_secs(5);

/// What a session begins with.
#[derive(Debug)]
pub struct Settings {
    /// What executes.
    pub sjail: Sjail,
    /// What holds in this folder.
    pub policy: Policy,
    /// What is offered.
    pub tools: Vec<&'static Tool>,
    /// The agent's name, if it was given.
    pub agent: Option<String>,
    /// The session's name, if it was given.
    pub session: Option<String>,
}

/// What every call knows.
#[derive(Debug)]
pub struct Session {
    /// What it began with.
    pub settings: Settings,
    /// What is under way.
    pub calls: Calls,
    out: Out,
    client: OnceLock<String>,
}

impl Session {
    /// The name that records carry: a claim, whoever makes it.
    pub fn agent(&self) -> String {
        let own = self.settings.agent.clone();
        own.or_else(|| self.client.get().cloned())
            .unwrap_or_else(|| "mcp".to_owned())
    }

    /// Keeps what the client calls itself, the first time.
    fn called(&self, client: &Value) {
        let name = client["name"].as_str().unwrap_or("client");
        let name: String = name.chars().take(64).collect();
        let _ = self.client.set(format!("mcp:{name}"));
    }
}

/// One call of a tool.
#[derive(Debug)]
pub struct Call<'a> {
    /// Whose.
    pub session: &'a Session,
    /// Its id.
    pub id: &'a Value,
    /// What the tool was given.
    pub arguments: Value,
    progress: Value,
}

impl Call<'_> {
    /// Says that it is still under way, if the client wants to know.
    pub fn beat(&self, seconds: u64) {
        if !self.progress.is_null() {
            self.session.out.notify(
                "notifications/progress",
                json!({
                    "progressToken": self.progress,
                    "progress": seconds,
                    "message": format!("under way for {seconds} s"),
                }),
            );
        }
    }
}

/// Answers until the input ends.
pub fn serve(settings: Settings) -> Result<u8> {
    let session = Arc::new(Session {
        settings,
        calls: Calls::default(),
        out: Out::standard(),
        client: OnceLock::new(),
    });
    end_with_us(session.calls.clone());
    let mut input = io::stdin().lock();
    while let Ok(Some(line)) = rpc::read_line(&mut input) {
        match line.map(|line| rpc::messages(&line)) {
            Ok(Line::Empty) => {}
            Ok(Line::One(message)) => heard(&session, &session.out, message),
            Ok(Line::Batch(messages)) => {
                let out = session.out.together();
                for message in messages {
                    heard(&session, &out, message);
                }
            }
            Err(wrong) => session.out.error(&wrong),
        }
    }
    // Nobody reads the answers: nothing goes on for nobody.
    session.calls.cancel_all();
    let deadline = Instant::now() + GRACE;
    while !session.calls.is_empty() && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(10));
    }
    Ok(0)
}

fn heard(session: &Arc<Session>, out: &Out, message: std::result::Result<Message, Wrong>) {
    match message {
        Ok(Message::Request { id, method, params }) => request(session, out, id, &method, params),
        Ok(Message::Notification { method, params }) => {
            if method == "notifications/cancelled" {
                session.calls.cancel(&params["requestId"]);
            }
        }
        Ok(Message::Response) => {}
        Err(wrong) => out.error(&wrong),
    }
}

/// Whoever ends us ends what runs for us.
fn end_with_us(calls: Calls) {
    let mut signals = SigSet::empty();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        signals.add(signal);
    }
    // Programs that are started inherit that; `sjail` hears them all the same, and its command too.
    if signals.thread_block().is_err() {
        return;
    }
    thread::spawn(move || {
        if signals.wait().is_ok() {
            calls.cancel_all();
            let deadline = Instant::now() + GRACE;
            while !calls.is_empty() && Instant::now() < deadline {
                thread::sleep(Duration::from_millis(10));
            }
            std::process::exit(0);
        }
    });
}

/// How a request is to be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// As in the versions with a greeting.
    Greeted,
    /// As in the version without.
    Stateless,
}

impl Form {
    /// The form that a request asks for.
    fn of(id: &Value, params: &Value) -> std::result::Result<Form, Wrong> {
        let meta = &params["_meta"];
        let wrong = |code, message: &str, data| Wrong {
            id: id.clone(),
            code,
            message: message.to_owned(),
            data,
        };
        match &meta[VERSION] {
            Value::Null => Ok(Form::Greeted),
            Value::String(version) if version == STATELESS => match meta[CAPABILITIES] {
                Value::Object(_) => Ok(Form::Stateless),
                _ => Err(wrong(
                    rpc::INVALID_PARAMS,
                    &format!("`_meta` lacks `{CAPABILITIES}`"),
                    Value::Null,
                )),
            },
            Value::String(version) => Err(wrong(
                rpc::UNKNOWN_VERSION,
                "this version of the protocol is not spoken here",
                json!({ "supported": [STATELESS], "requested": version }),
            )),
            _ => Err(wrong(
                rpc::INVALID_PARAMS,
                &format!("`{VERSION}` is no text"),
                Value::Null,
            )),
        }
    }

    /// A whole result in this form.
    fn whole(self, mut result: Value) -> Value {
        if self == Form::Stateless {
            result["resultType"] = json!("complete");
            result["_meta"] = json!({ SERVER: server() });
        }
        result
    }

    /// One that a client may keep: not for long, for what is offered is the policy's.
    fn kept(self, mut result: Value) -> Value {
        if self == Form::Stateless {
            result["cacheScope"] = json!("private");
            result["ttlMs"] = json!(0);
        }
        self.whole(result)
    }
}

fn server() -> Value {
    json!({ "name": "sjail", "title": "sjail", "version": env!("CARGO_PKG_VERSION") })
}

fn request(session: &Arc<Session>, out: &Out, id: Value, method: &str, params: Value) {
    let form = match Form::of(&id, &params) {
        Ok(form) => form,
        Err(wrong) => return out.error(&wrong),
    };
    if form == Form::Stateless {
        session.called(&params["_meta"][CLIENT]);
    }
    match method {
        "initialize" => {
            session.called(&params["clientInfo"]);
            out.result(&id, greeting(&params));
        }
        "server/discover" => out.result(
            &id,
            form.kept(json!({
                "supportedVersions": [STATELESS],
                "capabilities": capabilities(),
                "instructions": INSTRUCTIONS,
            })),
        ),
        "ping" => out.result(&id, form.whole(json!({}))),
        // All of them are in one answer: no page follows, so nobody can have been told of one.
        "tools/list" if !params["cursor"].is_null() => out.error(&Wrong {
            id,
            code: rpc::INVALID_PARAMS,
            message: "there is no such page of tools".to_owned(),
            data: Value::Null,
        }),
        "tools/list" => {
            let tools: Vec<Value> = session
                .settings
                .tools
                .iter()
                .map(|tool| tool.described())
                .collect();
            out.result(&id, form.kept(json!({ "tools": tools })));
        }
        "tools/call" => call(session, out, id, params, form),
        _ => out.error(&Wrong {
            id,
            code: rpc::UNKNOWN_METHOD,
            message: format!("there is no method `{method}` here"),
            data: Value::Null,
        }),
    }
}

fn capabilities() -> Value {
    json!({ "tools": { "listChanged": false } })
}

fn greeting(params: &Value) -> Value {
    let asked = params["protocolVersion"].as_str().unwrap_or_default();
    let version = VERSIONS
        .into_iter()
        .find(|version| *version == asked)
        .unwrap_or(VERSIONS[0]);
    json!({
        "protocolVersion": version,
        "capabilities": capabilities(),
        "serverInfo": server(),
        "instructions": INSTRUCTIONS,
    })
}

fn call(session: &Arc<Session>, out: &Out, id: Value, mut params: Value, form: Form) {
    let name = params["name"].as_str().unwrap_or_default().to_owned();
    let offered = session.settings.tools.iter().find(|tool| tool.name == name);
    let Some(tool) = offered.copied() else {
        return out.error(&Wrong {
            id,
            code: rpc::INVALID_PARAMS,
            message: format!("there is no tool `{name}`"),
            data: Value::Null,
        });
    };
    match session.calls.accept(&id) {
        None => {
            return out.error(&Wrong {
                id,
                code: rpc::INVALID_REQUEST,
                message: "a call with this id is under way".to_owned(),
                data: Value::Null,
            });
        }
        Some(count) if count > MOST => {
            session.calls.finish(&id);
            let much = failed("too many calls at once; wait for one of them to end");
            return out.result(&id, form.whole(much));
        }
        Some(_) => {}
    }
    let progress = rpc::take(&mut rpc::take(&mut params, "_meta"), "progressToken");
    let arguments = rpc::take(&mut params, "arguments");
    let session = Arc::clone(session);
    let out = out.clone();
    thread::spawn(move || {
        let call = Call {
            session: &session,
            id: &id,
            arguments,
            progress,
        };
        let result = match tool.call(&call) {
            Ok(value) => answered(value),
            Err(error) => failed(&error.to_string()),
        };
        if session.calls.finish(&id) {
            out.result(&id, form.whole(result));
        }
    });
}

/// The answer twice: whole for programs, and as text for models.
fn answered(value: Value) -> Value {
    let mut texts = match value["text"].as_str() {
        Some(text) => vec![text.to_owned()],
        None => vec![for_models(&value).to_string()],
    };
    if value["text"].is_string() && value["truncated"] == true {
        texts.push("(cut here: the file goes on)".to_owned());
    }
    let content: Vec<Value> = texts
        .into_iter()
        .map(|text| json!({ "type": "text", "text": text }))
        .collect();
    json!({
        "content": content,
        "structuredContent": value,
        "isError": false,
    })
}

/// What a model has to read of a run: not the layers of its jail and what it used, and nothing
/// that is empty. Any other answer is as it is.
fn for_models(value: &Value) -> Value {
    let Some(fields) = value
        .as_object()
        .filter(|all| all.contains_key("isolation"))
    else {
        return value.clone();
    };
    let says_something = |name: &str, value: &Value| match value {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        // What the jail could not have is worth a word.
        value if name == "isolation" => value["degraded"] != json!([]),
        _ => name != "usage",
    };
    let kept = fields
        .iter()
        .filter(|(name, value)| says_something(name, value));
    Value::Object(
        kept.map(|(name, value)| (name.clone(), value.clone()))
            .collect(),
    )
}

fn failed(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }], "isError": true })
}

impl Tool {
    fn call(&self, call: &Call<'_>) -> Result<Value> {
        match self.name {
            "sandbox_exec" => execute::exec(call),
            "sandbox_check" => execute::check(call),
            "run_code" => execute::code(call),
            "read" => files::read(call),
            "write" => files::write(call),
            "edit" => files::edit(call),
            _ => desk::call(self.name, call),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_read_what_says_something() {
        let run = json!({
            "status": "completed", "stdout": "hi\n", "exit_code": 0, "signal": null, "denials": [],
            "isolation": { "layers": ["user namespace"], "degraded": [] }, "usage": { "cpu_ms": 1 },
        });
        let answer = answered(run.clone());
        assert_eq!(
            answer["content"][0]["text"],
            r#"{"exit_code":0,"status":"completed","stdout":"hi\n"}"#
        );
        assert_eq!(answer["structuredContent"], run);
        let cut = answered(json!({ "text": "x", "truncated": true }));
        assert_eq!(cut["content"].as_array().map(Vec::len), Some(2));
        let other = json!({ "records": [], "none": null });
        assert_eq!(for_models(&other), other);
    }
}
