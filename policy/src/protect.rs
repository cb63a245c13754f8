//! Names inside a workspace that run code on the host later.
//!
//! The list itself is data (`profiles/workspace.toml`, table `protect`); here is what it
//! means for a path.

use crate::profile::{Entry, Profile};

/// The built-in list.
pub fn names() -> &'static [Entry] {
    Profile::default_profile().protect
}

/// Folders that are not searched for repositories: what is in them was built or
/// downloaded, is large, and is not where people work.
pub const NOT_SEARCHED: [&str; 16] = [
    ".git",
    "node_modules",
    "target",
    ".venv",
    "venv",
    "__pycache__",
    ".cache",
    ".tox",
    ".nox",
    ".gradle",
    ".next",
    ".nuxt",
    ".mypy_cache",
    ".terraform",
    "bower_components",
    "site-packages",
];

/// The first pattern that a path, relative to a repository's top folder, falls under:
/// because it is the name itself, lies below it, or is a folder on the way to it (moving
/// that away would move the name along).
pub fn covering<'a, P: AsRef<str>>(path: &str, patterns: &'a [P]) -> Option<(&'a P, Cover)> {
    let parts: Vec<&str> = path
        .split('/')
        .filter(|part| !part.is_empty() && *part != ".")
        .collect();
    patterns
        .iter()
        .find_map(|pattern| cover(&parts, pattern.as_ref()).map(|cover| (pattern, cover)))
}

/// How a path relates to a protected name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cover {
    /// It is the name.
    Itself,
    /// It lies below the name.
    Below,
    /// It is a folder above the name.
    Above,
}

fn cover(parts: &[&str], pattern: &str) -> Option<Cover> {
    if parts.is_empty() {
        return None;
    }
    let mut wanted = pattern.split('/');
    for part in parts {
        match wanted.next() {
            None => return Some(Cover::Below),
            // A file system may fold case; a name that differs in case only is the name.
            Some(want) if want == "*" || want.eq_ignore_ascii_case(part) => {}
            Some(_) => return None,
        }
    }
    match wanted.next() {
        None => Some(Cover::Itself),
        Some(_) => Some(Cover::Above),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cover_themselves_what_is_below_and_the_way_to_them() {
        let patterns = [".git/config", ".git/modules/*/hooks", ".claude"];
        let check = |path| covering(path, &patterns).map(|(pattern, cover)| (*pattern, cover));
        assert_eq!(check(".git/config"), Some((".git/config", Cover::Itself)));
        assert_eq!(
            check("./.GIT//Config"),
            Some((".git/config", Cover::Itself))
        );
        assert_eq!(check(".git"), Some((".git/config", Cover::Above)));
        assert_eq!(
            check(".git/modules/x/hooks/pre-commit"),
            Some((".git/modules/*/hooks", Cover::Below))
        );
        assert_eq!(
            check(".claude/settings.json"),
            Some((".claude", Cover::Below))
        );
        assert_eq!(check(".git/index"), None);
        assert_eq!(check("src/main.rs"), None);
        assert_eq!(check(""), None);
    }

    #[test]
    fn the_built_in_list_has_what_matters_most() {
        let values: Vec<&str> = names().iter().map(|entry| entry.value()).collect();
        for name in [
            ".git/hooks",
            ".git/config",
            ".git/config.worktree",
            ".git/modules/*/config",
            ".git/modules/*/hooks",
            ".git/worktrees/*/config.worktree",
            "sjail.toml",
            "SANDBOX.md",
            ".claude",
            ".codex",
            ".cursor",
            ".gemini",
            ".mcp.json",
            ".vscode",
            ".idea",
            ".envrc",
        ] {
            assert!(values.contains(&name), "{name}");
        }
    }
}
