//! Programs that start others for somebody on another machine, here or there.

use super::act::Act;
use super::describe;
use crate::classify::flow::Flow;
use crate::classify::given::Given;
use crate::classify::judge::Mark;
use crate::classify::state::Cwd;
use crate::effect::Action;
use crate::risk::Risk;

/// More words of one command are not looked at.
const MAX_WORDS: usize = 64;

/// Programs that hand another one to whoever connects: `websocat ws-l:… sh-c:…`,
/// `tcpserver 0 99 sh`, `telnetd -l /bin/sh`.
pub(crate) fn hands_out(act: &mut Act<'_, '_>) -> Flow {
    let flow = describe(act);
    act.judge.mark(Mark::Connection);
    const STARTS: &[&str] = &["sh-c:", "exec:", "cmd:", "system:"];
    const SHELLS: &[&str] = &[
        "sh",
        "bash",
        "zsh",
        "dash",
        "ash",
        "ksh",
        "fish",
        "csh",
        "tcsh",
        "busybox",
        "cmd",
        "cmd.exe",
        "powershell",
        "powershell.exe",
        "pwsh",
        "login",
        "su",
        "python",
        "python3",
        "perl",
        "ruby",
    ];
    let words: Vec<Given> = act
        .args
        .iter()
        .filter(|word| word.exact)
        .take(MAX_WORDS)
        .cloned()
        .collect();
    for (at, word) in words.iter().enumerate() {
        let text = word.text.to_ascii_lowercase();
        let started = STARTS.iter().find(|start| text.starts_with(*start));
        let value = word.text.rsplit('=').next().unwrap_or_default();
        let first = value.split_ascii_whitespace().next().unwrap_or_default();
        let shell = SHELLS.contains(&first.rsplit('/').next().unwrap_or_default());
        if started.is_none() && !shell {
            continue;
        }
        let action = Action::Network { host: None };
        let says = "Connects a program to the network";
        act.draft.effect(action, Risk::Critical, says, word.span);
        if let Some(start) = started {
            act.shell_text(&word.part(&word.text[start.len()..]));
        } else if at > 0 {
            let rest: Vec<Given> = words[at..].to_vec();
            let mut inner = act.call.with_args(rest, &act.draft.program.name);
            inner.stdin = Default::default();
            act.inner_call(inner);
        }
        break;
    }
    flow
}

/// `ssm send-command`, `vm run-command invoke`: a line for a shell of another machine, somewhere
/// among the words, often inside of JSON.
pub(crate) fn elsewhere(act: &mut Act<'_, '_>) -> Flow {
    let flow = describe(act);
    act.cwd = Cwd::Unknown;
    const NAMES: &[&str] = &[
        "commands",
        "command",
        "script",
        "scripts",
        "commandtoexecute",
        "cmd",
    ];
    let words: Vec<Given> = act.args.iter().filter(|word| word.exact).cloned().collect();
    let mut texts: Vec<Given> = Vec::new();
    for (at, word) in words.iter().enumerate().take(MAX_WORDS) {
        let (name, value) = word.text.split_once(['=', ':']).unwrap_or((&word.text, ""));
        let name = name
            .trim_start_matches(['-', '{', '"', ' '])
            .trim_end_matches(['"', ' ']);
        let name = name.to_ascii_lowercase();
        if !NAMES.contains(&name.as_str()) && name != "parameters" {
            continue;
        }
        match words.get(at + 1) {
            Some(next) if value.is_empty() && !is_text_list(&next.text) => texts.push(next.clone()),
            _ if value.is_empty() => {}
            _ if is_text_list(value) => {
                texts.extend(quoted_texts(value).map(|text| word.part(&text)))
            }
            _ => texts.push(word.part(value)),
        }
    }
    for text in texts.iter().take(MAX_WORDS) {
        act.shell_text(text);
    }
    flow
}

/// `["a", "b"]`, `{"commands": ["a"]}`: texts between quotes.
fn is_text_list(text: &str) -> bool {
    text.starts_with(['[', '{', '"']) || text.contains("=[") || text.contains(":[")
}

/// The texts between double quotes, escapes undone.
pub(crate) fn quoted_texts(text: &str) -> impl Iterator<Item = String> {
    let mut parts = text.split('"').skip(1);
    std::iter::from_fn(move || {
        let mut whole = parts.next()?.to_owned();
        while whole.ends_with('\\') {
            whole.pop();
            whole.push('"');
            whole.push_str(parts.next()?);
        }
        parts.next();
        Some(whole.replace("\\\\", "\\").replace("\\n", "\n"))
    })
}

#[cfg(test)]
mod tests {
    use super::quoted_texts;

    #[test]
    fn texts_between_quotes_are_found() {
        let found: Vec<String> = quoted_texts(r#"commands=["a b","c \"d\""]"#).collect();
        assert_eq!(found, ["a b", "c \"d\""]);
    }
}
