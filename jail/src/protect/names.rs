//! The protected names of a plan, ready to be compared with what a folder holds.

use sjail_policy::bytes::ByteString;

/// Names below a folder, as lists of parts. Comparison folds ASCII case: a file system
/// may do so, and a name that differs in case only is then the name.
#[derive(Debug, Clone, Default)]
pub struct Names {
    /// Below the top of a workspace or repository.
    pub plain: Vec<Name>,
    /// Below git's own folder (`.git/` taken off), but not in its sub-repositories.
    pub git: Vec<Name>,
    /// Below the folder that git keeps of a further working tree.
    pub worktree: Vec<Name>,
}

/// One name: its parts, in lower case, with slashes between them; `*` stands for one part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    parts: Vec<u8>,
    /// So long is the first of them: names are compared by it again and again.
    first: usize,
}

impl Name {
    fn of(parts: &[u8]) -> Name {
        Name {
            first: first_part(parts).0.len(),
            parts: parts.to_vec(),
        }
    }

    /// The first part, and what is left.
    pub fn split(&self) -> (&[u8], &[u8]) {
        first_part(&self.parts)
    }

    fn first(&self) -> &[u8] {
        self.parts.get(..self.first).unwrap_or_default()
    }
}

/// The first part of some parts with slashes between them, and the others.
pub fn first_part(parts: &[u8]) -> (&[u8], &[u8]) {
    match parts.iter().position(|byte| *byte == b'/') {
        Some(at) => (
            parts.get(..at).unwrap_or_default(),
            parts.get(at + 1..).unwrap_or_default(),
        ),
        None => (parts, &[]),
    }
}

impl Names {
    /// Sorts the plan's list. What a plan says of `modules/*` is not needed: such a
    /// folder is itself a repository's and gets all of it.
    pub fn new(list: &[ByteString]) -> Names {
        let mut names = Names::default();
        for entry in list {
            let mut name = Vec::with_capacity(entry.as_bytes().len());
            for part in entry.as_bytes().split(|byte| *byte == b'/') {
                if part.is_empty() || part == b"." {
                    continue;
                }
                if !name.is_empty() {
                    name.push(b'/');
                }
                name.extend(part.iter().map(u8::to_ascii_lowercase));
            }
            let below = |top: &[u8]| name.strip_prefix(top).map(Name::of);
            if name.is_empty() || name == b".git/modules" || name.starts_with(b".git/modules/") {
                continue;
            } else if let Some(name) = below(b".git/worktrees/*/") {
                names.worktree.push(name);
            } else if let Some(name) = below(b".git/") {
                names.git.push(name);
            } else {
                names.plain.push(Name::of(&name));
            }
        }
        // Of one first part, the shortest name covers the others.
        let slashes = |name: &Name| name.parts.iter().filter(|byte| **byte == b'/').count();
        for list in [&mut names.plain, &mut names.git, &mut names.worktree] {
            list.sort_by(|a, b| {
                let firsts = a.first().cmp(b.first());
                firsts.then_with(|| slashes(a).cmp(&slashes(b)))
            });
        }
        names
    }
}

/// The names in a sorted list whose first part fits this entry of a folder.
pub fn starting_with<'a>(list: &'a [Name], entry: &[u8]) -> &'a [Name] {
    let against = |name: &Name| {
        name.first()
            .iter()
            .copied()
            .cmp(entry.iter().map(u8::to_ascii_lowercase))
    };
    let from = list.partition_point(|name| against(name).is_lt());
    let rest = list.get(from..).unwrap_or_default();
    let count = rest.iter().take_while(|name| against(name).is_eq()).count();
    rest.get(..count).unwrap_or_default()
}

/// Whether an entry of a folder fits a part of a name.
pub fn part_fits(part: &[u8], entry: &[u8]) -> bool {
    part == b"*" || part.eq_ignore_ascii_case(entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_into_their_places_and_found_whatever_their_case() {
        let names = Names::new(
            &[
                ".vscode",
                ".git/config",
                ".git/modules/*/config",
                ".git/worktrees/*/commondir",
                ".git/info/attributes",
                ".Claude/",
                ".hg/hgrc",
            ]
            .map(ByteString::from),
        );
        assert_eq!(names.git.len(), 2);
        assert_eq!(names.worktree, [Name::of(b"commondir")]);
        assert_eq!(starting_with(&names.plain, b".VSCode").len(), 1);
        assert_eq!(starting_with(&names.plain, b".claude").len(), 1);
        assert_eq!(starting_with(&names.plain, b".hg"), [Name::of(b".hg/hgrc")]);
        assert!(starting_with(&names.plain, b"src").is_empty());
    }
}
