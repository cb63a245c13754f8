//! `read`, `write` and `edit`: judged by the path policy, then done inside the jail by
//! plain programs, so that the kernel holds them to it.

use serde::Deserialize;
use serde_json::{Value, json};

use super::execute::{arguments, run, run_words};
use super::session::Call;
use crate::error::{Error, Result};

/// So much text at most is written at once.
const MOST: usize = 1 << 20;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Read {
    path: String,
}

/// `read`
pub fn read(call: &Call<'_>) -> Result<Value> {
    let read: Read = arguments(call)?;
    allowed(call, &read.path, "read")?;
    let (text, truncated) = content(call, &read.path)?;
    Ok(json!({ "path": read.path, "text": text, "truncated": truncated }))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Write {
    path: String,
    content: String,
}

/// `write`
pub fn write(call: &Call<'_>) -> Result<Value> {
    let write: Write = arguments(call)?;
    allowed(call, &write.path, "write")?;
    replace(call, &write.path, &write.content)?;
    Ok(json!({ "path": write.path, "bytes": write.content.len() }))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Edit {
    path: String,
    old_string: String,
    new_string: String,
    #[serde(default)]
    replace_all: bool,
}

/// `edit`
pub fn edit(call: &Call<'_>) -> Result<Value> {
    let edit: Edit = arguments(call)?;
    allowed(call, &edit.path, "edit")?;
    let (text, truncated) = content(call, &edit.path)?;
    if truncated {
        return Err(Error::Parameter(format!(
            "{} is too long to be edited here",
            edit.path
        )));
    }
    let count = match edit.old_string.is_empty() {
        true => 0,
        false => text.matches(&edit.old_string).count(),
    };
    match count {
        0 => Err(Error::Parameter("`old_string` does not occur".to_owned())),
        2.. if !edit.replace_all => Err(Error::Parameter(format!(
            "`old_string` occurs {count} times: give more of it, or set `replace_all`"
        ))),
        _ => {
            replace(
                call,
                &edit.path,
                &text.replace(&edit.old_string, &edit.new_string),
            )?;
            Ok(json!({ "path": edit.path, "replaced": count }))
        }
    }
}

/// What the policy says to the path; anything but yes is an error that says why.
fn allowed(call: &Call<'_>, path: &str, operation: &str) -> Result<()> {
    let settings = &call.session.settings;
    let mut words = vec![
        "check".to_owned(),
        "--json".to_owned(),
        format!("--op={operation}"),
        format!("--path={path}"),
        format!("--recorded-for={}", call.session.agent()),
    ];
    if let Some(session) = &settings.session {
        words.push(format!("--session={session}"));
    }
    let answer = settings.sjail.call(&words, b"")?.json()?;
    if answer["allowed"] == true {
        return Ok(());
    }
    Err(Error::Refused(format!(
        "{path} may not be {}: {}",
        match operation {
            "read" => "read",
            _ => "written",
        },
        answer["rule"].as_str().unwrap_or("the policy says so")
    )))
}

/// The text of a file, and whether it was cut.
fn content(call: &Call<'_>, path: &str) -> Result<(String, bool)> {
    let result = done(call, &["cat", "--", path], b"")?;
    if result.get("stdout_base64").is_some() {
        return Err(Error::Parameter(format!("{path} is not a text")));
    }
    let text = result["stdout"].as_str().unwrap_or_default().to_owned();
    Ok((text, result["truncated"] == true))
}

fn replace(call: &Call<'_>, path: &str, text: &str) -> Result<()> {
    if text.len() > MOST {
        return Err(Error::Parameter(format!(
            "more than {MOST} bytes cannot be written at once"
        )));
    }
    if let Some((folder, _)) = path.rsplit_once('/')
        && !folder.is_empty()
    {
        done(call, &["mkdir", "-p", "--", folder], b"")?;
    }
    done(call, &["cp", "--", "/dev/stdin", path], text.as_bytes())?;
    Ok(())
}

/// Runs a program in the jail; anything but success is an error that says why.
fn done(call: &Call<'_>, argv: &[&str], input: &[u8]) -> Result<Value> {
    let mut words = run_words(call, None);
    words.extend(["--no-wait".to_owned(), "--".to_owned()]);
    words.extend(argv.iter().map(|word| (*word).to_owned()));
    let result = run(call, &words, input)?;
    if result["status"] == "completed" && result["exit_code"] == 0 {
        return Ok(result);
    }
    let said = [&result["next"], &result["reason"], &result["stderr"]]
        .into_iter()
        .filter_map(Value::as_str)
        .map(str::trim)
        .find(|text| !text.is_empty())
        .unwrap_or("it failed without a word");
    Err(Error::Refused(said.to_owned()))
}
