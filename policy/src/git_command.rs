//! Git commands that must write the repository's configuration, told from their
//! arguments alone.
//!
//! Such a command, alone on the line, runs on a copy of the repository's folder that is
//! judged when it ends. Not recognising one is safe: it then meets the read-only
//! configuration and fails. So whatever is unusual is not recognised.

use crate::shell;

/// A git command that must write configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Writer {
    /// The arguments of `-C`, in order: where git goes before it looks for a repository.
    pub folders: Vec<Vec<u8>>,
    /// What it needs.
    pub need: Need,
}

/// What a git command needs in order to work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Need {
    /// To write the configuration of the repository it runs in.
    Config,
    /// To make a repository, here or below.
    NewRepository,
    /// To write the configuration, if a local branch of this name does not exist yet:
    /// git then makes it follow the remote's branch.
    ConfigUnlessBranch(Vec<u8>),
}

/// The name of a program of the system: searched for, or in one of its folders. Any other
/// is somebody's own, whatever it is called.
fn base(program: &[u8]) -> Option<&[u8]> {
    const FOLDERS: [&[u8]; 3] = [b"/usr/bin/", b"/bin/", b"/usr/local/bin/"];
    let in_folder = FOLDERS
        .iter()
        .find_map(|folder| program.strip_prefix(*folder));
    let name = in_folder.unwrap_or(program);
    (!name.contains(&b'/')).then_some(name)
}

/// Whether this argv is a git command that must write configuration: by itself, or as
/// the one simple command of a shell line.
pub fn writer<A: AsRef<[u8]>>(argv: &[A]) -> Option<Writer> {
    let (program, args) = argv.split_first()?;
    let name = base(program.as_ref())?;
    if matches!(name, b"sh" | b"bash" | b"dash") {
        let rest = match args {
            [own, line, rest @ ..] if own.as_ref() == b"-p" && line.as_ref() == b"-c" => rest,
            [line, rest @ ..] if line.as_ref() == b"-c" => rest,
            _ => return None,
        };
        return match rest {
            [line] => writer(&only_command(line.as_ref())?),
            [end, line] if end.as_ref() == b"--" => writer(&only_command(line.as_ref())?),
            _ => None,
        };
    }
    if name != b"git" {
        return None;
    }
    let mut folders = Vec::new();
    let mut args = args.iter().map(AsRef::as_ref);
    let command = loop {
        match args.next()? {
            b"-C" => folders.push(args.next()?.to_vec()),
            // Set for this one command, inside the jail.
            b"-c" => drop(args.next()?),
            b"-p"
            | b"--paginate"
            | b"-P"
            | b"--no-pager"
            | b"--no-optional-locks"
            | b"--no-replace-objects"
            | b"--literal-pathspecs"
            | b"--no-advice" => {}
            // --git-dir, --work-tree and what is not known: not for us.
            option if option.starts_with(b"-") => return None,
            command => break command,
        }
    };
    let rest: Vec<&[u8]> = args.collect();
    let need = Args(&rest).need(command)?;
    Some(Writer { folders, need })
}

/// The words of a line that is one simple command without anything around it.
fn only_command(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    // Nothing that this is for is long, and most lines that are have no git in them.
    if line.len() > 4096 || !line.trim_ascii_start().starts_with(b"git ") {
        return None;
    }
    let script = shell::parse(line);
    let (command, simple) = script.only_command()?;
    if !command.redirects.is_empty() || !simple.assignments.is_empty() {
        return None;
    }
    simple.words.iter().map(|word| word.literal()).collect()
}

/// The sub-commands of one git command that write configuration.
struct Verbs {
    command: &'static str,
    verbs: &'static [&'static str],
}

const VERBS: &[Verbs] = &[
    // Not: show, get-url, update, prune, set-head; they read, or write refs.
    Verbs {
        command: "remote",
        verbs: &["add", "set-url", "set-branches", "rename", "remove", "rm"],
    },
    // Not: status, summary, foreach; they read or run programs.
    Verbs {
        command: "submodule",
        verbs: &[
            "add",
            "init",
            "update",
            "deinit",
            "sync",
            "set-url",
            "set-branch",
            "absorbgitdirs",
        ],
    },
    // `add` makes a tracking branch when it is given a remote's; the others take folders
    // away that are read-only otherwise.
    Verbs {
        command: "worktree",
        verbs: &["remove", "move", "prune", "repair"],
    },
    Verbs {
        command: "sparse-checkout",
        verbs: &["init", "set", "add", "reapply", "disable"],
    },
    Verbs {
        command: "config",
        verbs: &["set", "unset", "rename-section", "remove-section", "edit"],
    },
];

/// The arguments behind the git command.
struct Args<'a>(&'a [&'a [u8]]);

impl Args<'_> {
    fn need(&self, command: &[u8]) -> Option<Need> {
        match command {
            b"init" | b"clone" => Some(Need::NewRepository),
            b"config" => self.config(),
            b"branch" => self.branch(),
            b"checkout" => self.checkout(&[b"-b", b"-B"]),
            b"switch" => self.checkout(&[b"-c", b"-C", b"--create", b"--force-create"]),
            b"push" => self
                .has(&[b"-u", b"--set-upstream"])
                .then_some(Need::Config),
            b"fetch" | b"pull" => self.has(&[b"--set-upstream"]).then_some(Need::Config),
            b"worktree" if self.verb() == Some(b"add") => {
                (self.plain().count() > 2).then_some(Need::Config)
            }
            other => {
                let verb = self.verb()?;
                VERBS
                    .iter()
                    .any(|row| {
                        row.command.as_bytes() == other
                            && row.verbs.iter().any(|known| known.as_bytes() == verb)
                    })
                    .then_some(Need::Config)
            }
        }
    }

    fn config(&self) -> Option<Need> {
        // Another file than the repository's own.
        const ELSEWHERE: [&[u8]; 6] = [
            b"--global",
            b"--system",
            b"-f",
            b"--file",
            b"--blob",
            b"--default",
        ];
        const READS: [&[u8]; 9] = [
            b"--get",
            b"--get-all",
            b"--get-regexp",
            b"--get-urlmatch",
            b"-l",
            b"--list",
            b"--get-color",
            b"--get-colorbool",
            b"--name-only",
        ];
        const WRITES: [&[u8]; 7] = [
            b"--add",
            b"--unset",
            b"--unset-all",
            b"--replace-all",
            b"--rename-section",
            b"--remove-section",
            b"--edit",
        ];
        let elsewhere = self
            .0
            .iter()
            .any(|arg| arg.starts_with(b"--file=") || arg.starts_with(b"--blob="));
        if elsewhere || self.has(&ELSEWHERE) || self.has(&READS) {
            return None;
        }
        let verb = self.verb()?;
        let known = VERBS
            .iter()
            .any(|row| row.command == "config" && row.verbs.iter().any(|v| v.as_bytes() == verb));
        let writes = known || self.has(&WRITES) || self.has(&[b"-e"]) || {
            // The old form: `git config key value`. One name alone reads.
            verb.contains(&b'.') && self.plain().count() >= 2
        };
        writes.then_some(Need::Config)
    }

    fn branch(&self) -> Option<Need> {
        const WRITES: [&[u8]; 16] = [
            b"-u",
            b"--set-upstream-to",
            b"--unset-upstream",
            b"-t",
            b"--track",
            b"-m",
            b"-M",
            b"--move",
            b"-c",
            b"-C",
            b"--copy",
            b"-d",
            b"-D",
            b"--delete",
            b"--edit-description",
            b"-dr",
        ];
        const READS: [&[u8]; 8] = [
            b"--list",
            b"-l",
            b"-a",
            b"-r",
            b"--contains",
            b"--merged",
            b"--no-merged",
            b"--points-at",
        ];
        let with_value = self
            .0
            .iter()
            .any(|arg| arg.starts_with(b"--set-upstream-to=") || arg.starts_with(b"--track="));
        let writes = with_value || self.has(&WRITES);
        // `git branch new origin/old` makes `new` follow it.
        let from = !self.has(&READS) && self.plain().count() == 2;
        (writes || from).then_some(Need::Config)
    }

    fn checkout(&self, create: &[&[u8]]) -> Option<Need> {
        if self.0.contains(&b"--".as_slice()) {
            return None;
        }
        let track =
            self.has(&[b"-t", b"--track"]) || self.0.iter().any(|arg| arg.starts_with(b"--track="));
        let plain: Vec<&[u8]> = self.plain().collect();
        if self.has(create) {
            // The new branch and where it starts; from the current commit it follows nothing.
            return (track || plain.len() >= 2).then_some(Need::Config);
        }
        match plain[..] {
            _ if track => Some(Need::Config),
            [branch] if !self.has(&[b"--detach", b"-d", b"--orphan", b"--no-guess"]) => {
                Some(Need::ConfigUnlessBranch(branch.to_vec()))
            }
            _ => None,
        }
    }

    /// The first argument that is no option.
    fn verb(&self) -> Option<&[u8]> {
        self.plain().next()
    }

    fn plain(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().copied().filter(|arg| !arg.starts_with(b"-"))
    }

    fn has(&self, options: &[&[u8]]) -> bool {
        self.0
            .iter()
            .take_while(|arg| **arg != b"--")
            .any(|arg| options.contains(arg))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn need(line: &str) -> Option<Need> {
        let argv: Vec<&str> = line.split(' ').collect();
        writer(&argv).map(|writer| writer.need)
    }

    #[test]
    fn writers_are_recognised() {
        for line in [
            "git remote add origin https://h/x",
            "git remote set-url origin y",
            "git remote rm origin",
            "/usr/bin/git -C sub config user.name x",
            "git config --unset user.name",
            "git config set user.name x",
            "git config --local core.bare true",
            "git branch -u origin/main",
            "git branch --set-upstream-to=origin/main",
            "git branch -m old new",
            "git branch -D old",
            "git branch new origin/old",
            "git checkout -b x origin/x",
            "git checkout --track origin/x",
            "git switch -c x origin/x",
            "git push -u origin main",
            "git submodule update --init",
            "git submodule add url path",
            "git sparse-checkout set a",
            "git worktree add -b x path origin/x",
            "git worktree remove path",
            "git -c core.pager=cat remote add a b",
        ] {
            assert_eq!(need(line), Some(Need::Config), "{line}");
        }
        for line in ["git init", "git clone x y", "git -C a init --bare b"] {
            assert_eq!(need(line), Some(Need::NewRepository), "{line}");
        }
        for line in ["git checkout topic", "git switch topic"] {
            assert_eq!(
                need(line),
                Some(Need::ConfigUnlessBranch(b"topic".to_vec()))
            );
        }
    }

    #[test]
    fn other_commands_are_not() {
        for line in [
            "git",
            "git status",
            "git add -A",
            "git commit -m branch",
            "git stash",
            "git rebase main",
            "git merge x",
            "git worktree add path",
            "git worktree list",
            "git config --get user.name",
            "git config user.name",
            "git config --global user.name x",
            "git config --list",
            "git config -f x a.b c",
            "git remote -v",
            "git remote show origin",
            "git branch",
            "git branch new",
            "git branch -a",
            "git branch --contains x y",
            "git checkout -b new",
            "git checkout -- file",
            "git checkout HEAD file",
            "git push origin main",
            "git submodule status",
            "git --git-dir=/x remote add a b",
            "git --exec-path=/x remote add a b",
            "notgit remote add a b",
            "sudo git remote add a b",
        ] {
            assert_eq!(need(line), None, "{line}");
        }
    }

    #[test]
    fn a_line_with_one_command_counts_and_no_other() {
        let of = |line: &str| writer(&["/bin/sh", "-c", line]).is_some();
        assert!(of("git remote add origin 'https://h/x y'"));
        for line in [
            "git remote add a b; id",
            "git remote add a b && id",
            "git remote add a b | cat",
            "git remote add a b &",
            "git remote add a $(id)",
            "git remote add a b >x",
            "A=1 git remote add a b",
            "(git remote add a b)",
            "if git remote add a b; then id; fi",
        ] {
            assert!(!of(line), "{line}");
        }
        assert!(writer(&["/bin/sh", "-c", "git init", "x"]).is_none());
        assert!(writer(&["/bin/sh", "-c", "--", "git init"]).is_some());
        assert!(writer(&["/bin/sh", "-c", "--", "git init", "x"]).is_none());
    }

    #[test]
    fn folders_are_kept_in_order() {
        let writer = writer(&["git", "-C", "a", "-C", "b", "init"]);
        assert_eq!(
            writer.map(|writer| writer.folders),
            Some(vec![b"a".to_vec(), b"b".to_vec()])
        );
    }
}
