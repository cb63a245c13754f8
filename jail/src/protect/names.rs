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

/// One name: its parts, in lower case; `*` stands for one part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name(pub Vec<Vec<u8>>);

impl Names {
    /// Sorts the plan's list. What a plan says of `modules/*` is not needed: such a
    /// folder is itself a repository's and gets all of it.
    pub fn new(list: &[ByteString]) -> Names {
        let mut names = Names::default();
        for entry in list {
            let parts: Vec<Vec<u8>> = entry
                .as_bytes()
                .split(|byte| *byte == b'/')
                .filter(|part| !part.is_empty() && *part != b".")
                .map(<[u8]>::to_ascii_lowercase)
                .collect();
            let parts_of: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
            match parts_of.as_slice() {
                [] | [b".git", b"modules", ..] => {}
                [b".git", b"worktrees", b"*", rest @ ..] => names.worktree.push(Name::from(rest)),
                [b".git", rest @ ..] if !rest.is_empty() => names.git.push(Name::from(rest)),
                _ => names.plain.push(Name(parts)),
            }
        }
        // Of one first part, the shortest name covers the others.
        for list in [&mut names.plain, &mut names.git, &mut names.worktree] {
            list.sort_by(|a, b| (&a.0[..1], a.0.len()).cmp(&(&b.0[..1], b.0.len())));
        }
        names
    }
}

impl From<&[&[u8]]> for Name {
    fn from(parts: &[&[u8]]) -> Name {
        Name(parts.iter().map(|part| part.to_vec()).collect())
    }
}

/// The names in a sorted list whose first part fits this entry of a folder.
pub fn starting_with<'a>(list: &'a [Name], entry: &[u8]) -> &'a [Name] {
    let against = |name: &Name| {
        let first = name.0.first().map_or(&[][..], Vec::as_slice);
        first
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
        assert_eq!(names.worktree, [Name(vec![b"commondir".to_vec()])]);
        assert_eq!(starting_with(&names.plain, b".VSCode").len(), 1);
        assert_eq!(starting_with(&names.plain, b".claude").len(), 1);
        assert_eq!(
            starting_with(&names.plain, b".hg"),
            [Name(vec![b".hg".to_vec(), b"hgrc".to_vec()])]
        );
        assert!(starting_with(&names.plain, b"src").is_empty());
    }
}
