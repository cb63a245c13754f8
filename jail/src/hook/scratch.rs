//! What an agent puts aside for itself to read again: long outputs, and those of commands in
//! the background. It lies outside of the project, and the agent tells the model to read it.

use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::agent::Agent;
use super::question::Question;

/// Whether the file is such a one, links followed: of this session where they are kept by
/// session. Whether it may be read is then the agent's affair.
pub fn holds(agent: Agent, question: &Question, home: &Path, path: &str) -> bool {
    let Ok(real) = std::fs::canonicalize(path) else {
        return false;
    };
    let session = question.session.as_deref().unwrap_or_default();
    folders(agent, question, home)
        .into_iter()
        .any(|(folder, by_session)| {
            let Ok(folder) = std::fs::canonicalize(folder) else {
                return false;
            };
            let Ok(rest) = real.strip_prefix(&folder) else {
                return false;
            };
            // A name under /tmp is whoever's comes first.
            let owner = std::fs::metadata(&folder).map(|meta| meta.uid());
            if owner.ok() != Some(nix::unistd::geteuid().as_raw()) {
                return false;
            }
            let is_of_session = |part: &OsStr| {
                let part = part.to_string_lossy();
                !session.is_empty() && part.strip_prefix("session-").unwrap_or(&part) == session
            };
            !by_session || rest.iter().any(is_of_session)
        })
}

/// Where, and whether each session has a folder of its own somewhere below.
fn folders(agent: Agent, question: &Question, home: &Path) -> Vec<(PathBuf, bool)> {
    match agent {
        Agent::ClaudeCode => {
            let own = nix::unistd::geteuid();
            let mut folders = vec![(PathBuf::from(format!("/tmp/claude-{own}")), true)];
            // Beside the session's own file, in a folder of its name.
            let beside = question.transcript.as_deref().and_then(Path::parent);
            folders.extend(beside.map(|folder| (folder.to_owned(), true)));
            folders
        }
        Agent::Gemini => vec![(home.join(".gemini/tmp"), true)],
        Agent::Opencode => {
            let data = std::env::var_os("XDG_DATA_HOME").map(PathBuf::from);
            let data = data.filter(|path| path.is_absolute());
            let data = data.unwrap_or_else(|| home.join(".local/share"));
            vec![(data.join("opencode/tool-output"), false)]
        }
        _ => Vec::new(),
    }
}
