//! The files that a program says it cannot have, and whether the jail is why.

use std::path::{Path, PathBuf};

use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::unistd::{AccessFlags, faccessat};
use sjail_policy::plan::Plan;
use sjail_policy::protect;

use super::{Denial, Kind};
use crate::layout::never_shown;

/// A path that the host has and the jail does not, or whose folder it does not.
pub fn not_there(path: &Path, plan: &Plan) -> Option<Denial> {
    let home = plan.home.path.as_path();
    if path.starts_with(plan.workspace.path.as_path()) || path == home {
        return None;
    }
    if std::fs::symlink_metadata(path).is_err() {
        // To be made, then, in a folder that is not there.
        let folder = path.parent()?;
        let missing = folder != home && folder.is_dir() && !is_shown(folder, plan);
        return missing.then(|| to_write(folder, "is on the host but not in the jail"));
    }
    let shown = path.display().to_string();
    if let Some(why) = never_shown(path) {
        return Some(Denial {
            kind: Kind::PathMissing,
            why: format!("{shown} is not in the jail, and cannot be: {why}"),
            flag: None,
            policy: None,
            what: shown,
        });
    }
    Some(Denial {
        kind: Kind::PathMissing,
        why: format!("{shown} is on the host but not in the jail"),
        flag: Some(format!("--ro {shown}")),
        policy: Some(format!("[filesystem] read = [\"{shown}\"]")),
        what: shown,
    })
}

/// Whether a folder is in every jail, or in this one by a grant.
fn is_shown(folder: &Path, plan: &Plan) -> bool {
    const WITH_ALL: [&str; 9] = [
        "/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt", "/nix", "/etc", "/proc",
    ];
    // Of these the jail has its own.
    const ALONE: [&str; 5] = ["/", "/tmp", "/var/tmp", "/dev", "/run"];
    let grants = &plan.filesystem.grants;
    ALONE.iter().any(|shown| folder == Path::new(shown))
        || WITH_ALL.iter().any(|shown| folder.starts_with(shown))
        || grants
            .iter()
            .any(|grant| folder.starts_with(grant.dest.as_path()))
}

/// A path that may not be changed.
pub fn not_writable(path: &Path, plan: &Plan) -> Option<Denial> {
    let shown = path.display().to_string();
    let workspace = plan.workspace.path.as_path();
    if let Ok(below) = path.strip_prefix(workspace) {
        let names: Vec<&str> = plan
            .filesystem
            .protect
            .names
            .iter()
            .filter_map(|name| name.to_str())
            .collect();
        let (name, _) = protect::covering(below.to_str()?, &names)?;
        return Some(Denial {
            kind: Kind::Protected,
            why: format!(
                "{shown} is protected ({name}): what is in it runs code on the host later"
            ),
            flag: None,
            policy: None,
            what: shown,
        });
    }
    if path.is_relative() || !path.parent()?.is_dir() {
        return None;
    }
    Some(to_write(path, "cannot be changed from the jail"))
}

/// A path that a command wants to write, with the flag that would let it: for one that is
/// to be made, the folder it is in.
fn to_write(path: &Path, why: &str) -> Denial {
    let shown = path.display().to_string();
    let there = std::fs::symlink_metadata(path).is_ok();
    let granted = match path.parent() {
        Some(folder) if !there => folder,
        _ => path,
    };
    let may = faccessat(AT_FDCWD, granted, AccessFlags::W_OK, AtFlags::AT_EACCESS).is_ok();
    let (why, grant) = match never_shown(granted) {
        _ if !may => (
            format!("{shown} {why}, and your user may not write it outside, either"),
            None,
        ),
        Some(refused) => (format!("{shown} {why}: {refused}"), None),
        None => (format!("{shown} {why}"), Some(granted.display())),
    };
    Denial {
        kind: Kind::PathReadOnly,
        why,
        flag: grant.as_ref().map(|path| format!("--rw {path}")),
        policy: grant.map(|path| format!("[filesystem] write = [\"{path}\"]")),
        what: shown,
    }
}

/// Which words of a line may be paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Words {
    /// Those with a slash in them.
    WithSlash,
    /// Any: what is no protected name in the workspace comes to nothing.
    All,
}

/// The paths that a line mentions: words without what stands around them. Relative ones
/// count from where the command started.
pub fn in_line(line: &str, cwd: &Path, words: Words) -> Vec<PathBuf> {
    let around = |c: char| c.is_whitespace() || "'\"`‘’“”,;()<>[]{}=|".contains(c);
    // Who complains stands first, sometimes with its whole path.
    let line = match line.split_once(": ") {
        Some((who, rest)) if who.starts_with('/') && rest.contains('/') => rest,
        _ => line,
    };
    line.split(around)
        .map(|word| word.trim_matches([':', '!', '?']))
        .filter(|word| word.contains('/') || words == Words::All)
        .filter(|word| !word.contains("://") && word.len() > 1)
        .filter(|word| !word.contains('\u{fffd}') && !word.chars().any(char::is_control))
        .filter_map(|word| sjail_policy::git_keys::normal(&cwd.join(word)))
        .take(16)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_found_in_what_programs_say() {
        for (line, path) in [
            ("cat: /opt/x/y: No such file or directory", "/opt/x/y"),
            (
                "sh: 1: cannot create /etc/x: Read-only file system",
                "/etc/x",
            ),
            (
                "Error: ENOENT: no such file or directory, open '/opt/x'",
                "/opt/x",
            ),
            ("open(\"/a/b\") failed", "/a/b"),
            ("touch: cannot touch 'sub/f': Permission denied", "/w/sub/f"),
            ("cp: ../up/x: denied", "/up/x"),
            (
                "/usr/bin/ld: cannot open output file /usr/lib/x.so: Read-only file system",
                "/usr/lib/x.so",
            ),
            ("/opt/x: Permission denied", "/opt/x"),
        ] {
            let found = in_line(line, Path::new("/w"), Words::WithSlash);
            assert_eq!(found, [Path::new(path)], "{line}");
        }
        let words = "see https://example.org/x";
        assert!(in_line(words, Path::new("/w"), Words::WithSlash).is_empty());
    }
}
