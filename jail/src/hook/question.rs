//! What an agent is about to do, out of the JSON that it sends.

use std::path::{Path, PathBuf};

use serde_json::Value;
use sjail_policy::rule::Operation;

use super::agent::Agent;
use super::json::Json;
use super::named::{named, patched, reached_by, spelled};
use super::pattern::patterns;

/// What an agent is about to do.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// The event it is sent for.
    pub event: String,
    /// Where the agent is; the hook's own folder if it does not say.
    pub cwd: Option<PathBuf>,
    /// Where the tool would be at work, if the model can choose that.
    pub at: Option<PathBuf>,
    /// The file that the agent keeps of the session.
    pub transcript: Option<PathBuf>,
    /// The session, as the agent calls it.
    pub session: Option<String>,
    /// With which tool, as the agent names it.
    pub name: String,
    /// The same as the policy names it, if it does.
    pub tool: Option<&'static str>,
    /// What.
    pub act: Act,
    /// By which patterns it would look for files.
    pub patterns: Vec<String>,
    /// The tool's input as it came.
    pub input: Value,
}

/// What a tool would do.
#[derive(Debug, Clone, PartialEq)]
pub enum Act {
    /// Run a shell line, for at most so many milliseconds.
    Shell {
        /// The line.
        line: String,
        /// As the agent asks for it.
        timeout: Option<u64>,
        /// Whether nobody waits for it.
        background: bool,
        /// Where, if not where the agent is.
        folder: Option<String>,
    },
    /// Read, write or edit files.
    Files(Vec<(Operation, String)>),
    /// Something else, which is not ours to judge.
    Other,
}

/// What has to be a text wherever it is said at all.
const TEXTS: [&str; 8] = [
    "hook_event_name",
    "transcript_path",
    "tool_name",
    "tool",
    "cwd",
    "session_id",
    "conversation_id",
    "sessionID",
];

/// Reads the question; an error is a sentence.
pub fn read(agent: Agent, text: &[u8]) -> Result<Question, String> {
    let value: Json = serde_json::from_slice(text)
        .map_err(|error| format!("the question is no JSON: {error}"))?;
    let value = value
        .unambiguous()
        .map_err(|name| format!("`{name}` is there twice"))?;
    if !value.is_object() {
        return Err("the question is no JSON object".to_owned());
    }
    for name in TEXTS {
        if !matches!(value[name], Value::Null | Value::String(_)) {
            return Err(format!("`{name}` is no text"));
        }
    }
    let word = |names: &[&str]| {
        names
            .iter()
            .find_map(|name| value[*name].as_str())
            .map(str::to_owned)
    };
    let event = word(&["hook_event_name"]).unwrap_or_default();
    let (name, input) = match (agent, event.as_str()) {
        (Agent::Cursor, "beforeShellExecution") => ("Shell".to_owned(), value.clone()),
        (Agent::Cursor, "beforeReadFile" | "beforeTabFileRead") => {
            ("Read".to_owned(), value.clone())
        }
        (Agent::Opencode, _) => (required(word(&["tool"]), "tool")?, value["args"].clone()),
        (Agent::Plain, _) => (
            word(&["tool_name"]).unwrap_or_else(|| "Bash".to_owned()),
            value["tool_input"].clone(),
        ),
        _ => (
            required(word(&["tool_name"]), "tool_name")?,
            value["tool_input"].clone(),
        ),
    };
    let said = folder(word(&["cwd"]), "cwd")?;
    let (cwd, at) = match agent {
        // What it says is where the line would run, as the model wants it; the hook itself is
        // started where the session is.
        Agent::Codex => (None, said),
        // Likewise, beside the folders that are open.
        Agent::Cursor => match opened(&value["workspace_roots"], said.as_deref())? {
            Some(root) => (Some(root), said),
            None => (said, None),
        },
        _ => (said, None),
    };
    let transcript = folder(word(&["transcript_path"]), "transcript_path")?;
    let (tool, act) = act(&name, &input)?;
    let patterns = patterns(&name, &input)?;
    Ok(Question {
        event,
        cwd,
        at,
        transcript,
        session: word(&["session_id", "conversation_id", "sessionID"]),
        name,
        tool,
        act,
        patterns,
        input,
    })
}

/// A folder or a file by its whole path, if one is said.
fn folder(word: Option<String>, name: &str) -> Result<Option<PathBuf>, String> {
    match word {
        None => Ok(None),
        Some(word) if word.is_empty() => Ok(None),
        Some(word) if word.starts_with('/') => Ok(Some(PathBuf::from(word))),
        Some(_) => Err(format!("`{name}` is not an absolute path")),
    }
}

/// Which of the folders that are open a tool is at work in; the first of them if it is in none.
fn opened(roots: &Value, at: Option<&Path>) -> Result<Option<PathBuf>, String> {
    const NAME: &str = "workspace_roots";
    let mut all = Vec::new();
    for root in roots.as_array().into_iter().flatten() {
        let root = root.as_str().map(str::to_owned);
        all.extend(folder(Some(required(root, NAME)?), NAME)?);
    }
    let mut around = all
        .iter()
        .filter(|root| at.is_some_and(|at| at.starts_with(root)));
    Ok(around.next().or(all.first()).cloned())
}

fn required(word: Option<String>, name: &str) -> Result<String, String> {
    word.ok_or_else(|| format!("`{name}` is missing"))
}

/// How tools that run a line call it.
pub const COMMAND: [&str; 2] = ["command", "cmd"];

/// What a tool of that name does; the name in the policy beside it.
fn act(name: &str, input: &Value) -> Result<(Option<&'static str>, Act), String> {
    let spelled = |names: &[&str]| spelled(input, names);
    let text = |names: &[&str]| required(spelled(names)?, names[0]);
    const PATH: &[&str] = &[
        "file_path",
        "notebook_path",
        "filePath",
        "absolute_path",
        "path",
        "target_file",
    ];
    let one = |operation| Ok::<_, String>(Act::Files(vec![(operation, text(PATH)?)]));
    // Tools that look below a folder: the working folder if none is named.
    let below = || {
        let names = [
            "path",
            "dir_path",
            "file_path",
            "filePath",
            "target_directory",
        ];
        let folder = spelled(&names)?.filter(|folder| !folder.is_empty());
        let folder = folder.unwrap_or_else(|| ".".to_owned());
        Ok::<_, String>(Act::Files(vec![(Operation::Read, folder)]))
    };
    Ok(match name {
        "Bash" | "Shell" | "bash" | "shell" | "run_shell_command" | "local_shell"
        | "shell_command" | "exec_command" | "Monitor" => {
            let folder = [
                "workdir",
                "dir_path",
                "directory",
                "working_directory",
                "cwd",
            ];
            let shell = Act::Shell {
                line: text(&COMMAND)?,
                timeout: input["timeout"].as_u64(),
                background: name == "Monitor"
                    || input["run_in_background"] == true
                    || input["is_background"] == true,
                folder: spelled(&folder)?.filter(|folder| !folder.is_empty()),
            };
            (Some("exec"), shell)
        }
        "PowerShell" | "powershell" => {
            return Err("lines for another shell than sh cannot be judged".to_owned());
        }
        "apply_patch" | "patch" => {
            let patch = text(&["command", "patchText", "input", "patch"])?;
            (Some("edit"), Act::Files(patched(&patch)?))
        }
        "Read" | "NotebookRead" | "read" | "read_file" | "view_image" => {
            (Some("read"), one(Operation::Read)?)
        }
        "Write" | "write" | "write_file" => (Some("write"), one(Operation::Write)?),
        "Edit" | "MultiEdit" | "NotebookEdit" | "StrReplace" | "TabWrite" | "Delete" | "edit"
        | "multiedit" | "replace" => (Some("edit"), one(Operation::Edit)?),
        "read_many_files" => {
            let lists = ["include", "paths"].map(|list| input[list].as_array());
            let paths = lists.into_iter().flatten().flatten();
            let files: Option<Vec<_>> = paths
                .map(|path| Some((Operation::Read, reached_by(path.as_str()?))))
                .collect();
            let files = files.filter(|files| !files.is_empty());
            (
                Some("read"),
                Act::Files(files.ok_or("`include` is missing")?),
            )
        }
        "Glob" | "glob" => {
            let Act::Files(mut files) = below()? else {
                return Err("a pattern looks below a folder".to_owned());
            };
            if let Some(pattern) = spelled(&["pattern", "glob_pattern"])? {
                let reached = reached_by(&pattern);
                let folder = files.first().map_or(".", |(_, folder)| folder.as_str());
                let reached = Path::new(folder).join(reached);
                files.push((Operation::Read, reached.to_string_lossy().into_owned()));
            }
            (Some("read"), Act::Files(files))
        }
        "Grep"
        | "LS"
        | "List"
        | "grep"
        | "list"
        | "list_directory"
        | "grep_search"
        | "search_file_content" => (Some("read"), below()?),
        "WebFetch" | "Fetch" | "web_fetch" | "webfetch" => (Some("web_fetch"), Act::Other),
        "WebSearch" | "web_search" | "google_web_search" | "websearch" => {
            (Some("web_search"), Act::Other)
        }
        // A tool of a server is that server's; any other that names a file looks into it: it is
        // shown, published, or asked of a language server.
        _ if name.starts_with("mcp__") => (None, Act::Other),
        _ => match named(input)? {
            files if files.is_empty() => (None, Act::Other),
            files => (None, Act::Files(files)),
        },
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn each_agent_is_understood() {
        for (agent, text) in [
            (
                Agent::ClaudeCode,
                r#"{"hook_event_name":"PreToolUse","cwd":"/w","tool_name":"Bash","tool_input":{"command":"ls"}}"#,
            ),
            (
                Agent::Gemini,
                r#"{"hook_event_name":"BeforeTool","cwd":"/w","tool_name":"run_shell_command","tool_input":{"command":"ls"}}"#,
            ),
            (
                Agent::Cursor,
                r#"{"hook_event_name":"beforeShellExecution","cwd":"/w","command":"ls"}"#,
            ),
            (
                Agent::Opencode,
                r#"{"tool":"bash","cwd":"/w","args":{"command":"ls"}}"#,
            ),
            (
                Agent::Plain,
                r#"{"cwd":"/w","tool_input":{"command":"ls"}}"#,
            ),
        ] {
            let question = read(agent, text.as_bytes()).unwrap();
            assert_eq!(question.cwd, Some(PathBuf::from("/w")));
            assert!(matches!(question.act, Act::Shell { line, .. } if line == "ls"));
        }
    }

    #[test]
    fn a_tool_that_nobody_knows_reads_the_file_it_names() {
        let asked = |name: &str, input: &str| {
            let text = format!(r#"{{"cwd":"/w","tool_name":"{name}","tool_input":{input}}}"#);
            read(Agent::ClaudeCode, text.as_bytes()).map(|question| question.act)
        };
        let key = r#"{"file_path":"/home/u/.ssh/id_rsa"}"#;
        let act = asked("Artifact", key).unwrap();
        let path = "/home/u/.ssh/id_rsa".to_owned();
        assert_eq!(act, Act::Files(vec![(Operation::Read, path)]));
        assert_eq!(asked("mcp__mail__send", key).unwrap(), Act::Other);
        assert_eq!(asked("Agent", r#"{"prompt":"x"}"#).unwrap(), Act::Other);
        assert!(asked("LSP", r#"{"filePath":"a","file_path":"b"}"#).is_err());
    }

    #[test]
    fn a_pattern_is_judged_by_where_it_leads() {
        let text = r#"{"hook_event_name":"PreToolUse","cwd":"/w","tool_name":"Glob","tool_input":{"pattern":"/home/u/.ssh/*"}}"#;
        let question = read(Agent::ClaudeCode, text.as_bytes()).unwrap();
        let Act::Files(files) = question.act else {
            unreachable!("it names files")
        };
        assert!(
            files.iter().any(|(_, path)| path == "/home/u/.ssh"),
            "{files:?}"
        );
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        for text in [
            "",
            "7",
            "{}",
            r#"{"tool_name":"Bash"}"#,
            r#"{"tool_name":"Bash","tool_input":{"command":7}}"#,
            r#"{"cwd":"/w","tool_name":"Bash","tool_input":{"command":"ls","cmd":"rm x"}}"#,
            r#"{"cwd":"/w","tool_name":"write","tool_input":{"file_path":"ok","filePath":"~/.bashrc"}}"#,
            r#"{"cwd":"/w","tool_name":"NotebookEdit","tool_input":{"file_path":"a","notebook_path":"b"}}"#,
            r#"{"cwd":"/w","tool_name":"Bash","tool_input":{"command":"ls","workdir":"/a","directory":"/b"}}"#,
            r#"{"tool_name":"Read","tool_input":{}}"#,
            r#"{"cwd":"/w","tool_name":"Write","tool_input":{"file_path":".envrc\u0000"}}"#,
            r#"{"cwd":"x","tool_name":"Bash","tool_input":{"command":"ls"}}"#,
            r#"{"cwd":7,"tool_name":"Bash","tool_input":{"command":"ls"}}"#,
            r#"{"cwd":"/w","session_id":7,"tool_name":"Bash","tool_input":{"command":"ls"}}"#,
            r#"{"cwd":"/w","tool_name":"Bash","tool_input":{"command":"rm x","command":"ls"}}"#,
            r#"{"cwd":"/w","tool_name":"Bash","tool_name":"x","tool_input":{"command":"ls"}}"#,
        ] {
            assert!(read(Agent::ClaudeCode, text.as_bytes()).is_err(), "{text}");
        }
    }
}
