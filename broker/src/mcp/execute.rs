//! The tools that run something, or say what would happen to it.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sjail_policy::language::Language;

use super::session::Call;
use crate::error::{Error, Result};

/// The time limit when neither the caller nor the policy sets one.
const TIMEOUT_MS: u64 = 60_000;
/// The bound of the output when the policy sets none.
const OUTPUT: &str = "1M";

/// What a tool was given, as it takes it; an error names what does not fit.
pub fn arguments<T: DeserializeOwned>(call: &Call<'_>) -> Result<T> {
    let given = match &call.arguments {
        Value::Null => json!({}),
        given => given.clone(),
    };
    serde_json::from_value(given)
        .map_err(|error| Error::Parameter(format!("the arguments do not fit: {error}")))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Check {
    command: String,
    #[serde(default)]
    context: Value,
}

/// `sandbox_check`
pub fn check(call: &Call<'_>) -> Result<Value> {
    let check: Check = arguments(call)?;
    let mut question = json!({ "command": check.command });
    if !check.context.is_null() {
        question["context"] = check.context;
    }
    let words = ["check", "--jsonl"].map(str::to_owned);
    let input = format!("{question}\n");
    call.session
        .settings
        .sjail
        .call(&words, input.as_bytes())?
        .json()
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Exec {
    command: Option<String>,
    #[serde(default)]
    require_approval: bool,
    #[serde(default)]
    dry_run: bool,
    timeout: Option<u64>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    wait: u64,
    approval: Option<String>,
}

/// `sandbox_exec`
pub fn exec(call: &Call<'_>) -> Result<Value> {
    let exec: Exec = arguments(call)?;
    let mut words = run_words(call, exec.timeout);
    for (flag, given) in [
        ("--require-approval", exec.require_approval),
        ("--dry-run", exec.dry_run),
    ] {
        if given {
            words.push(flag.to_owned());
        }
    }
    for (name, value) in exec.env {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            return Err(Error::Parameter(format!(
                "`{}` cannot be a variable's name",
                sjail_policy::show::inert(name.as_bytes())
            )));
        }
        // With its value always: by the name alone the server's own would go in.
        words.push(format!("--env={name}={value}"));
    }
    words.push(match exec.wait {
        0 => "--no-wait".to_owned(),
        wait => format!("--wait={wait}ms"),
    });
    match (exec.command, exec.approval) {
        (None, None) => {
            return Err(Error::Parameter(
                "give a `command`, or an `approval` to run what was approved".to_owned(),
            ));
        }
        // In one word: a line that begins with a dash is a line all the same.
        (Some(command), None) => words.push(format!("-c={command}")),
        (None, Some(id)) => words.push(format!("--approval={id}")),
        (Some(command), Some(id)) => {
            words.extend([format!("--approval={id}"), format!("-c={command}")]);
        }
    }
    run(call, &words, b"")
}

/// The words that every run here begins with.
pub fn run_words(call: &Call<'_>, timeout: Option<u64>) -> Vec<String> {
    let settings = &call.session.settings;
    let mut words = vec![
        "run".to_owned(),
        "--json".to_owned(),
        format!("--agent={}", call.session.agent()),
    ];
    if let Some(session) = &settings.session {
        words.push(format!("--session={session}"));
    }
    // A limit of the policy can be made shorter here, never longer.
    let limit = match (timeout, settings.policy.timeout) {
        (Some(asked), Some(set)) => Some(asked.min(set)),
        (None, Some(_)) => None,
        (asked, None) => Some(asked.unwrap_or(TIMEOUT_MS)),
    };
    if let Some(limit) = limit {
        words.push(format!("--timeout={limit}ms"));
    }
    if !settings.policy.bounds_output {
        words.push(format!("--max-output={OUTPUT}"));
    }
    words
}

/// Runs it, and says how it goes on where it waits for somebody.
pub fn run(call: &Call<'_>, words: &[String], input: &[u8]) -> Result<Value> {
    let session = call.session;
    let mut result = session
        .settings
        .sjail
        .follow(words, input, &session.calls, call.id, &mut |seconds| {
            call.beat(seconds)
        })?
        .json()?;
    if result["status"] == "pending" {
        let id = result["approval"]["id"].as_str().unwrap_or_default();
        result["next"] = json!(format!(
            "a person must answer: `sjail queue approve {id}`. Then call sandbox_exec with \
             {{\"approval\": \"{id}\"}}, or as now once more: it runs once, exactly as it was \
             approved. sandbox_queue_list shows how it stands"
        ));
    }
    if result["truncated"] == true {
        result["next"] = json!("the output was cut at its bound: ask for less of it");
    }
    Ok(result)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Code {
    language: String,
    code: String,
    timeout: Option<u64>,
    max_output_size: Option<u64>,
}

/// `run_code`
pub fn code(call: &Call<'_>) -> Result<Value> {
    let code: Code = arguments(call)?;
    Language::parse(&code.language)
        .map_err(|known| Error::Parameter(format!("`language`: {known}")))?;
    let mut words = vec![
        "code".to_owned(),
        format!("--language={}", code.language),
        format!("--agent={}", call.session.agent()),
    ];
    if let Some(timeout) = code.timeout {
        words.push(format!("--timeout={timeout}ms"));
    }
    if let Some(bytes) = code.max_output_size {
        words.push(format!("--max-output={bytes}"));
    }
    words.push("-".to_owned());
    let session = call.session;
    session
        .settings
        .sjail
        .follow(
            &words,
            code.code.as_bytes(),
            &session.calls,
            call.id,
            &mut |seconds| call.beat(seconds),
        )?
        .json()
}
