//! Which changes of a git configuration are harmless to the host, and which would run a
//! program there. The knowledge is `judge/git_keys.toml`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

use serde::Deserialize;

use crate::git_config::{Change, Document, Key};
use crate::protect::NOT_SEARCHED;

/// Where a configuration lies: some values name places.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The workspace's top folder.
    pub workspace: &'a Path,
    /// The folder that holds the `config`.
    pub git_dir: &'a Path,
    /// How deep below the workspace repositories are looked for, and judged.
    pub depth: u8,
    /// What the files there are.
    pub ground: &'a dyn Ground,
}

/// What the judge has to know of files; it reads none itself.
pub trait Ground: std::fmt::Debug {
    /// Whether this is a folder, reached through no link.
    fn is_folder(&self, path: &Path) -> bool;
    /// Whether this is the top of a repository or a bare one, reached through no link.
    fn is_repository(&self, path: &Path) -> bool;
    /// Whether a path outside the workspace leads, through whatever links, to where no jail
    /// writes.
    fn is_out_of_reach(&self, path: &Path) -> bool;
}

/// A change that stays out, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// What was to change.
    pub change: Change,
    /// The end of a sentence that starts with the key.
    pub why: String,
}

/// A configuration after a run: the host's text with the harmless changes made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merged {
    /// The new text.
    pub text: Vec<u8>,
    /// The changes that were made.
    pub carried: Vec<Change>,
    /// The changes that were not.
    pub left_out: Vec<LeftOut>,
}

/// Carries the harmless changes from `before` to `after` over into `before`'s text.
pub fn merge(before: &Document, after: &Document, place: Place<'_>) -> Merged {
    let mut carried = Vec::new();
    let mut left_out = Vec::new();
    for change in before.changes(after) {
        match judge(&change, place) {
            Ok(()) => carried.push(change),
            Err(why) => left_out.push(LeftOut { change, why }),
        }
    }
    Merged {
        text: before.apply(&carried),
        carried,
        left_out,
    }
}

/// Whether a change is harmless; otherwise the end of a sentence that says why not.
pub fn judge(change: &Change, place: Place<'_>) -> Result<(), String> {
    let table = table();
    let mut known = false;
    for harmless in &table.key {
        if matches(&harmless.key, &change.key) {
            known = true;
            let fits = |value: Option<&[u8]>| harmless.value.fits(value, place);
            if change.added().all(fits) {
                return Ok(());
            }
        }
    }
    let program = table
        .program
        .iter()
        .find(|program| matches(&program.key, &change.key));
    Err(match (known, program) {
        (_, Some(program)) => program.why.clone(),
        (true, None) => "has a value that is not known to be harmless".to_owned(),
        (false, None) => "is not known to be harmless".to_owned(),
    })
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    key: Vec<Harmless>,
    program: Vec<Program>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Harmless {
    key: String,
    value: Value,
    #[allow(dead_code, reason = "the reason is for whoever reads the table")]
    why: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Program {
    key: String,
    why: String,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Value {
    OneOf(Vec<String>),
    Kind(Kind),
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Bool,
    Number,
    Word,
    Text,
    Remote,
    Ref,
    Url,
    Submodule,
}

/// Read when something has to be judged, which few runs need.
fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| {
        // The file is part of the program and a test reads it; an unreadable table
        // would judge every key as unknown, the strict side.
        toml::from_str(include_str!("../judge/git_keys.toml")).unwrap_or(Table {
            key: Vec::new(),
            program: Vec::new(),
        })
    })
}

fn matches(pattern: &str, key: &Key) -> bool {
    let name = |wanted: &str| wanted == "*" || wanted == key.name;
    match pattern.split('.').collect::<Vec<_>>()[..] {
        [section, wanted] => *section == *key.section && key.subsection.is_none() && name(wanted),
        [section, "*", wanted] => {
            *section == *key.section && key.subsection.is_some() && name(wanted)
        }
        _ => false,
    }
}

impl Value {
    fn fits(&self, value: Option<&[u8]>, place: Place<'_>) -> bool {
        let Some(bytes) = value else {
            return match self {
                Value::OneOf(list) => list.iter().any(|one| one == "true"),
                Value::Kind(kind) => matches!(kind, Kind::Bool),
            };
        };
        let Ok(text) = std::str::from_utf8(bytes) else {
            return false;
        };
        match self {
            Value::OneOf(list) => list.iter().any(|one| one.eq_ignore_ascii_case(text)),
            Value::Kind(kind) => kind.fits(text, place),
        }
    }
}

impl Kind {
    fn fits(self, text: &str, place: Place<'_>) -> bool {
        let only = |extra: &str| {
            text.chars()
                .all(|c| c.is_ascii_alphanumeric() || extra.contains(c))
        };
        match self {
            Kind::Bool => ["true", "false", "yes", "no", "on", "off", "1", "0", ""]
                .iter()
                .any(|one| one.eq_ignore_ascii_case(text)),
            Kind::Number => {
                let digits = text.strip_prefix('-').unwrap_or(text);
                let digits = digits.trim_end_matches(['k', 'm', 'g', 'K', 'M', 'G']);
                !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit())
            }
            Kind::Word => !text.starts_with('-') && !text.contains("::") && only("-_.,:/@+=%^"),
            Kind::Text => !text.chars().any(char::is_control),
            // A name; with a slash, or that of a folder, it may as well be a path.
            Kind::Remote => {
                let is_plain =
                    only("-_./") && !text.starts_with(['-', '/', '.']) && !text.contains("..");
                let is_name = !text.contains('/') && !NOT_SEARCHED.contains(&text);
                text == "." || is_plain && (is_name || path_fits(text, place))
            }
            Kind::Ref => !text.starts_with('-') && only("-_./+:*^@{}#%=!,~"),
            Kind::Url => url_fits(text, place),
            Kind::Submodule => {
                // A repository's own tree lies around its folder of git and is not named.
                let of_submodule = place.git_dir.iter().any(|name| name == "modules");
                of_submodule
                    && Path::new(text).is_relative()
                    && led_from(place.git_dir, text.as_bytes()).is_some_and(|path| {
                        path.starts_with(place.workspace) && place.ground.is_folder(&path)
                    })
            }
        }
    }
}

/// Transports that are built into git. Any other scheme runs `git-remote-SCHEME`.
const SCHEMES: [&str; 9] = [
    "https", "http", "ssh", "git", "git+ssh", "ssh+git", "ftp", "ftps", "file",
];

fn url_fits(text: &str, place: Place<'_>) -> bool {
    if text.is_empty()
        || text.starts_with('-')
        || text.contains("::")
        || text.chars().any(|c| c.is_control())
    {
        return false;
    }
    if let Some((scheme, rest)) = text.split_once("://") {
        if scheme.eq_ignore_ascii_case("file") {
            return path_fits(rest, place);
        }
        // ssh://-oProxyCommand=… and user@-o… would reach ssh as options.
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let option = authority.split('@').any(|part| part.starts_with('-'));
        return SCHEMES
            .iter()
            .any(|known| scheme.eq_ignore_ascii_case(known))
            && !option;
    }
    match (text.find(':'), text.find('/')) {
        // host:path, unless a slash comes first.
        (Some(colon), slash) if slash.is_none_or(|slash| colon < slash) => {
            let (host, path) = text.split_at(colon);
            !host.split('@').any(|part| part.starts_with('-')) && !path.starts_with(":-")
        }
        _ => path_fits(text, place),
    }
}

/// A push to a path runs the hooks of the repository there. Outside the workspace the
/// jail cannot have put any; inside, they are judged where repositories are looked for,
/// and what is a repository now can no longer be swapped for a link by a later command.
fn path_fits(text: &str, place: Place<'_>) -> bool {
    let base = if place.git_dir.file_name() == Some(".git".as_ref()) {
        place.git_dir.parent().unwrap_or(place.git_dir)
    } else {
        place.git_dir
    };
    let Some(path) = led_from(base, text.as_bytes()) else {
        return false;
    };
    match path.strip_prefix(place.workspace) {
        Ok(below) => {
            below.components().count() <= usize::from(place.depth)
                && !below
                    .iter()
                    .any(|name| NOT_SEARCHED.iter().any(|own| name == *own))
                && place.ground.is_repository(&path)
        }
        Err(_) => place.ground.is_out_of_reach(&path),
    }
}

/// Where a path that is written in one of git's files leads, seen from `folder`: absolute,
/// without `..`. `None` where names alone cannot tell: a NUL, at which git stops reading, or a
/// `..` behind a name, which may be a link's by the time that git goes there.
pub fn led_from(folder: &Path, target: &[u8]) -> Option<PathBuf> {
    let target = Path::new(OsStr::from_bytes(target));
    if target.as_os_str().is_empty() || target.as_os_str().as_bytes().contains(&0) {
        return None;
    }
    let mut at = folder.to_owned();
    let mut named = false;
    for component in target.components() {
        match component {
            Component::ParentDir => {
                if named || !at.pop() {
                    return None;
                }
            }
            Component::CurDir => {}
            other => {
                named = true;
                at.push(other);
            }
        }
    }
    Some(at)
}

/// The path with `.` and `..` resolved by name; `None` when it leaves the root.
pub fn normal(path: &Path) -> Option<PathBuf> {
    let mut out = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                if !out.pop() {
                    return None;
                }
            }
            Component::CurDir => {}
            other => out.push(other),
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Folders everywhere, repositories in `/w/sub`, jails nowhere outside.
    #[derive(Debug)]
    struct Plain;

    impl Ground for Plain {
        fn is_folder(&self, path: &Path) -> bool {
            !path.ends_with("link")
        }
        fn is_repository(&self, path: &Path) -> bool {
            path.starts_with("/w/sub")
        }
        fn is_out_of_reach(&self, path: &Path) -> bool {
            !path.starts_with("/proc")
        }
    }

    const PLACE: fn() -> Place<'static> = || Place {
        workspace: Path::new("/w"),
        git_dir: Path::new("/w/.git"),
        depth: 3,
        ground: &Plain,
    };

    fn merged(before: &str, after: &str) -> (String, Vec<String>) {
        let merged = merge(
            &Document::parse(before.as_bytes()).unwrap(),
            &Document::parse(after.as_bytes()).unwrap(),
            PLACE(),
        );
        let left = merged.left_out.iter();
        (
            String::from_utf8(merged.text).unwrap(),
            left.map(|left| left.change.key.to_string()).collect(),
        )
    }

    #[test]
    fn the_table_can_be_read() {
        let table: Table = toml::from_str(include_str!("../judge/git_keys.toml")).unwrap();
        assert!(table.key.len() > 80 && table.program.len() > 30);
        for harmless in &table.key {
            assert_eq!(harmless.key, harmless.key.to_lowercase());
            assert!(harmless.key.split('.').count() <= 3, "{}", harmless.key);
        }
    }

    #[test]
    fn harmless_keys_are_carried_and_programs_are_not() {
        let (text, left) = merged(
            "[core]\n\tbare = false\n",
            "[core]\n\tbare = false\n\tfsmonitor = ./evil\n\tpager = less\n[remote \"o\"]\n\turl = https://h/x\n\tfetch = +refs/heads/*:refs/remotes/o/*\n\tuploadpack = evil\n[alias]\n\tst = !sh\n[unheard]\n\tof = 1\n[filter \"x\"]\n\tclean = evil\n[include]\n\tpath = ../x\n",
        );
        assert_eq!(
            text,
            "[core]\n\tbare = false\n[remote \"o\"]\n\turl = https://h/x\n\tfetch = +refs/heads/*:refs/remotes/o/*\n"
        );
        assert_eq!(
            left,
            [
                "core.fsmonitor",
                "core.pager",
                "remote.o.uploadpack",
                "alias.st",
                "unheard.of",
                "filter.x.clean",
                "include.path"
            ]
        );
    }

    #[test]
    fn what_the_host_set_is_neither_changed_nor_removed() {
        let (text, left) = merged(
            "[core]\n\tpager = delta\n\thooksPath = .husky\n[user]\n\tname = a\n",
            "[core]\n\tpager = evil\n",
        );
        assert_eq!(text, "[core]\n\tpager = delta\n\thooksPath = .husky\n");
        assert_eq!(left, ["core.pager", "core.hookspath"]);
    }

    #[test]
    fn values_are_looked_at() {
        for (key, value, fine) in [
            ("remote.o.url", "https://example.org/a.git", true),
            ("remote.o.url", "git@example.org:a/b.git", true),
            ("remote.o.url", "ssh://git@example.org:22/a", true),
            ("remote.o.url", "/srv/git/a.git", true),
            ("remote.o.url", "../sibling", true),
            ("remote.o.url", "/w/sub/b", true),
            ("remote.o.url", "./sub", true),
            ("remote.o.url", "/w/a/b", false),
            ("remote.o.url", "./link", false),
            ("remote.o.url", "sub/../sub", false),
            ("remote.o.url", "/proc/self/cwd/sub", false),
            ("remote.o.url", "file:///proc/self/cwd/sub", false),
            ("remote.o.url", "/w/a/b/c/d.git", false),
            ("remote.o.url", "file:///w/a/b/c/d.git", false),
            ("remote.o.url", "ext::sh -c evil", false),
            ("remote.o.url", "testgit::/x", false),
            ("remote.o.url", "evil://x", false),
            ("remote.o.url", "--upload-pack=evil", false),
            ("remote.o.url", "ssh://-oProxyCommand=evil/x", false),
            ("remote.o.url", "ssh://u@-oProxyCommand=evil/x", false),
            ("remote.o.url", "-oProxyCommand=evil:x", false),
            ("remote.o.url", "host:-x", false),
            ("remote.o.url", "", false),
            ("branch.b.remote", "origin", true),
            ("branch.b.remote", ".", true),
            ("branch.b.remote", "ext::evil", false),
            ("branch.b.remote", "/tmp/evil", false),
            ("branch.b.remote", "../evil", false),
            ("branch.b.remote", "a/b/c/d", false),
            ("branch.b.remote", "a/b", false),
            ("branch.b.remote", "node_modules", false),
            ("remote.o.url", "./sub/node_modules", false),
            ("remote.o.url", "/w/sub/target/x", false),
            ("submodule.s.update", "checkout", true),
            ("submodule.s.update", "!evil", false),
            ("core.worktree", "../sub", false),
            ("core.worktree", "../../x", false),
            ("core.worktree", "/w/x", false),
            ("core.bare", "TRUE", true),
            ("core.bare", "maybe", false),
            ("gc.auto", "0", true),
            ("commit.gpgsign", "true", false),
            ("user.name", "Zoë Ω", true),
            ("user.name", "a\u{1b}b", false),
        ] {
            let (section, rest) = key.split_once('.').unwrap();
            let (subsection, name) = match rest.rsplit_once('.') {
                Some((subsection, name)) => (Some(subsection.as_bytes().into()), name),
                None => (None, rest),
            };
            let change = Change {
                key: Key {
                    section: section.into(),
                    subsection,
                    name: name.to_owned(),
                },
                before: Vec::new(),
                after: vec![Some(value.as_bytes().to_vec())],
            };
            assert_eq!(judge(&change, PLACE()).is_ok(), fine, "{key} = {value}");
        }
    }

    #[test]
    fn a_submodules_tree_is_a_folder_of_the_workspace() {
        let place = Place {
            git_dir: Path::new("/w/.git/modules/sub"),
            ..PLACE()
        };
        let fits = |text: &str| Kind::Submodule.fits(text, place);
        assert!(fits("../../../sub"));
        assert!(!fits("../../../link"));
        assert!(!fits("../../../../sub"));
        assert!(!fits("/w/sub"));
    }

    #[test]
    fn names_alone_tell_where_a_path_leads() {
        let led = |target: &[u8]| led_from(Path::new("/w/a"), target);
        assert_eq!(led(b"../.git/modules/a"), Some("/w/.git/modules/a".into()));
        assert_eq!(led(b"./b/c"), Some("/w/a/b/c".into()));
        assert_eq!(led(b"/x/y"), Some("/x/y".into()));
        for unsure in [&b""[..], b"b/../c", b"/x/../y", b"b\0/c", b"../../../../x"] {
            assert_eq!(led(unsure), None, "{unsure:?}");
        }
    }
}
