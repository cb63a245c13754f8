//! What "always" would mean for a command: the narrowest pattern that lets it run
//! again, or why there is none.

use sjail_policy::classify::Classification;
use sjail_policy::rule::{CommandPattern, Lift};
use sjail_policy::wire::control::Proposal;

use crate::error::{Error, Result};

/// Why an interpreter is one of those below.
const INTERPRETER: &str =
    "an interpreter runs any code, and a script can change after it was allowed";

/// Programs that run whatever they are given: a pattern for one allows everything.
const OPEN_ENDED: [(&str, &[&str]); 3] = [
    (
        "a shell runs any program",
        &[
            "sh", "bash", "dash", "zsh", "ksh", "fish", "csh", "tcsh", "busybox", "eval", "source",
            ".",
        ],
    ),
    (
        INTERPRETER,
        &[
            "python", "python2", "python3", "perl", "ruby", "node", "nodejs", "deno", "bun", "php",
            "lua", "Rscript", "tclsh", "awk", "gawk", "mawk", "expect", "jshell", "ipython", "npx",
            "uvx", "bunx",
        ],
    ),
    (
        "it runs whatever program stands behind it",
        &[
            "sudo", "doas", "su", "pkexec", "env", "xargs", "find", "nohup", "nice", "timeout",
            "watch", "parallel", "setsid", "stdbuf", "time", "strace", "ltrace", "gdb", "ssh",
            "docker", "podman", "kubectl", "chroot", "unshare", "nsenter", "flock", "exec",
            "command", "script", "entr", "tmux", "screen", "sjail",
        ],
    ),
];

/// The narrowest pattern for a line.
pub fn narrowest(line: &Classification) -> Proposal {
    let none = |why: &str| Proposal {
        pattern: None,
        widest: why.to_owned(),
    };
    let [command] = line.commands.as_slice() else {
        return none("it is more than one simple command");
    };
    if let Some(why) = open_ended(&command.program.name) {
        return none(&format!("{}: {why}", command.program.name));
    }
    if command.argv.len() < 2 {
        return none("a program's name alone would allow every use of it");
    }
    if command
        .argv
        .iter()
        .any(|argument| !argument.exact || argument.text.contains(['*', '?', '[']))
    {
        return none("its arguments are only known when it runs");
    }
    let text = shell_words::join(command.argv.iter().map(|argument| argument.text.as_str()));
    match CommandPattern::parse(&text) {
        Ok(pattern) if pattern.strict(line) == Some(Lift::Approved) => Proposal {
            widest: format!("exactly `{text}`, in any folder, whatever it does there"),
            pattern: Some(text),
        },
        _ => none("no pattern is narrow enough for it"),
    }
}

/// Whether a pattern that somebody typed may stand on the allow list.
pub fn check(text: &str) -> Result<()> {
    let refuse = |why: &str| {
        Err(Error::BadPattern(format!(
            "`{text}` cannot be allowed: {why}"
        )))
    };
    let pattern =
        CommandPattern::parse(text).map_err(|error| Error::BadPattern(error.to_string()))?;
    if pattern.is_everything() {
        return refuse(
            "it would allow everything; set commands.level = \"full\" in your policy if you want that",
        );
    }
    if let Some(why) = pattern.never_strict() {
        return refuse(why);
    }
    let words = shell_words::split(text).unwrap_or_default();
    let program = words.first().map_or("", |word| word.as_str());
    let name = program.rsplit('/').next().unwrap_or(program);
    if name.contains(['*', '?', '[']) {
        return refuse("its program must be named");
    }
    match open_ended(name) {
        // By its bare name it is only listed: what it does with its words is judged as ever.
        Some(why) if why == INTERPRETER && words.len() == 1 => Ok(()),
        Some(why) => refuse(why),
        None => Ok(()),
    }
}

fn open_ended(name: &str) -> Option<&'static str> {
    OPEN_ENDED
        .iter()
        .find(|(_, names)| names.contains(&name))
        .map(|(why, _)| *why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_that_would_open_everything_are_refused() {
        for pattern in [
            "*",
            "bash",
            "bash *",
            "/bin/bash -c *",
            "sudo apt *",
            "python3 x.py",
            "node *",
            "env *",
            "./run.sh",
            "p* x",
            "a | b",
            "xargs rm",
        ] {
            assert!(check(pattern).is_err(), "{pattern}");
        }
        for pattern in [
            "cargo build",
            "npm install *",
            "git push origin main",
            "ls",
            "make *",
            "python",
            "node",
        ] {
            assert!(check(pattern).is_ok(), "{pattern}");
        }
    }
}
