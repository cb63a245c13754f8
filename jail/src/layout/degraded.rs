//! The layout of a jail without namespaces: the same grants, drawn as Landlock rules on
//! the host's own paths.
//!
//! Landlock only allows, and what it allows in a folder it allows below. So where a
//! protected or hidden name lies below a granted folder, that folder is not granted as a
//! whole: its children are, one by one, all but the name itself and the folders that lead
//! there. Nothing new can be made in such a folder, for that right would reach the name.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use sjail_policy::bytes::ByteString;
use sjail_policy::plan::{CacheSource, Home, NetworkMode, Plan};

use super::look::{self, Names};
use super::origin::{Kind, Origin, Shown};
use super::path::c_string;
use super::tree::Tree;
use super::{
    Host, Layout, NetworkSpace, Observation, Release, Root, What, grants, hide, home, number,
    program, system, working_folder,
};
use crate::degraded::room::Room;
use crate::degraded::{Bare, Signals, Sockets, filter};
use crate::error::Error;
use crate::landlock::{self, Grant, Rule, Rules, Tcp};
use crate::limits::rlimits::Rlimits;
use crate::processor::Processors;
use crate::protect::Hold;

/// More rules than this would make every opened file slow.
const MOST: usize = 20_000;

/// How many names the self-check tries.
const CHECKED: usize = 64;

/// What the generated files of a whole jail stand for: here the host's own are read.
const ETC: [&str; 6] = [
    "/etc/passwd",
    "/etc/group",
    "/etc/hosts",
    "/etc/hostname",
    "/etc/nsswitch.conf",
    "/etc/resolv.conf",
];

/// Makes a plan concrete on this machine, without namespaces. `held` are the protected
/// names.
pub fn prepare(
    plan: &Plan,
    host: &Host,
    limits: Rlimits,
    held: &[(PathBuf, Hold)],
    room: &Room,
) -> Result<Layout, Error> {
    let mut tree = Tree::default();
    system::folders(&mut tree, &plan.filesystem.system)?;
    for path in plan.filesystem.etc.iter().map(ByteString::as_path) {
        readable(&mut tree, path);
    }
    for path in ETC {
        readable(&mut tree, Path::new(path));
    }
    grants::workspace(&mut tree, &plan.workspace)?;
    grants::lay(&mut tree, &plan.workspace, &plan.filesystem.grants)?;
    for path in plan.home.toolchains.iter().chain(&plan.home.config) {
        if !home::is_git_config(path.as_path(), plan.home.path.as_path()) {
            readable(&mut tree, path.as_path());
        }
    }
    hide::lay(
        &mut tree,
        &plan.filesystem,
        plan.home.path.as_path(),
        &host.own,
    )?;
    let (network, sockets) = match plan.network.mode {
        NetworkMode::Host => (NetworkSpace::Host, Sockets::Internet),
        NetworkMode::None | NetworkMode::Filtered => (NetworkSpace::Own, Sockets::None),
    };
    let mut draft = Draft::of(&tree, held)?;
    draft.own(room.path());
    if let Some(cache) = &host.cache {
        draft.own(cache);
    }
    let cwd = plan.command.cwd.as_path();
    let abi = landlock::usable_abi()?;
    let rules = Rules {
        abi,
        rules: draft.rules()?,
        tcp: match sockets {
            Sockets::None => Tcp::Refused,
            Sockets::Internet => Tcp::Unhandled,
        },
    };
    let checked = |paths: Vec<&PathBuf>| {
        paths
            .into_iter()
            .take(CHECKED)
            .map(|path| c_string(path))
            .collect::<Result<Vec<_>, Error>>()
    };
    let closed = draft.closed.iter().filter(|path| path.is_file());
    Ok(Layout {
        network,
        root: Root::none(),
        host_name: c"".into(),
        // The run's own home lies elsewhere here.
        working_folder: working_folder(&tree, cwd, Path::new(""))?,
        limits,
        rules: Some(rules),
        missing: Vec::new(),
        program: program::resolve(&tree, &plan.command, cwd)?,
        _image: None,
        observation: Observation::None,
        release: Release::AtOnce,
        processors: Processors::All,
        ssh_agent: None,
        bare: Some(Bare {
            filter: filter::program(sockets),
            sockets,
            signals: Signals::of(abi),
            closed: checked(closed.collect())?,
            hidden: checked(draft.hidden.iter().map(|(path, _)| path).collect())?,
            split: draft.split,
        }),
    })
}

/// Shows what a path leads to under its real name, read-only, where it exists.
fn readable(tree: &mut Tree, path: &Path) {
    if let Ok(real) = look::through_links(path)
        && !tree.covered(&real.path)
    {
        let dest = real.path.clone();
        tree.show(real, &dest, Shown::ReadOnly);
    }
}

/// The links of a private home and the text of its `.gitconfig`: toolchains at their
/// places, the sandbox's own caches.
pub fn private_home(
    home: &Home,
    cache: Option<&Path>,
) -> Result<(Vec<(PathBuf, PathBuf)>, String), Error> {
    let top = home.path.as_path();
    let names = Names::of(top);
    let below = |path: &ByteString| -> Option<PathBuf> {
        let below = path.as_path().strip_prefix(top).ok()?;
        names.may_have(below).then(|| below.to_owned())
    };
    let mut links = Vec::new();
    for path in home.toolchains.iter().chain(&home.config) {
        if let Some(below) = below(path)
            && !home::is_git_config(path.as_path(), top)
            && let Ok(real) = look::through_links(path.as_path())
        {
            links.push((below, real.path));
        }
    }
    if let (CacheSource::Own, Some(cache)) = (home.cache_source, cache) {
        links.push((PathBuf::from(home::CACHE), cache.to_owned()));
        for below in home::COMMON.iter().map(Path::new) {
            let own = cache.join(home::flat_name(below));
            home::make_folder(&own)?;
            links.push((below.to_owned(), own));
        }
    }
    let identity = home.config.iter().filter(|path| below(path).is_some());
    Ok((links, home::git_config(identity, top)))
}

/// Rules while they are being drawn.
struct Draft {
    rules: Vec<(PathBuf, Grant, Kind)>,
    /// Not to be written, although a folder above is.
    closed: Vec<PathBuf>,
    /// Not to be read, although a folder above is.
    hidden: Vec<(PathBuf, Kind)>,
    /// Writable folders that are granted child by child.
    split: Vec<PathBuf>,
}

impl Draft {
    fn of(tree: &Tree, held: &[(PathBuf, Hold)]) -> Result<Draft, Error> {
        let shown = || {
            tree.mounts()
                .iter()
                .filter_map(|entry| match &entry.origin {
                    Origin::Host(seen) => Some((entry, seen)),
                    Origin::Own(_) => None,
                })
        };
        let mut closed: Vec<PathBuf> = held
            .iter()
            .filter(|(_, hold)| *hold == Hold::ReadOnly)
            .map(|(path, _)| path.clone())
            .collect();
        for (entry, seen) in shown() {
            if entry.dest != seen.path {
                return Err(Error::BareBind {
                    from: seen.path.clone(),
                    dest: entry.dest.clone(),
                });
            }
            if !entry.is_writable() {
                closed.push(entry.dest.clone());
            }
        }
        let hidden = tree
            .mounts()
            .iter()
            .filter_map(|entry| match &entry.origin {
                Origin::Own(What::MaskFolder) => Some((entry.dest.clone(), Kind::Folder)),
                Origin::Own(What::MaskFile) => Some((entry.dest.clone(), Kind::File)),
                _ => None,
            });
        let mut draft = Draft {
            rules: Vec::new(),
            closed,
            hidden: hidden.collect(),
            split: Vec::new(),
        };
        draft.push(Path::new("/proc"), Grant::Read, Kind::Folder);
        for name in system::DEVICES {
            draft.push(&Path::new("/dev").join(name), Grant::Devices, Kind::File);
        }
        for (entry, seen) in shown() {
            let grant = match entry.is_writable() {
                true => Grant::Change,
                false => Grant::Read,
            };
            draft.cover(&entry.dest, seen.kind, grant)?;
        }
        Ok(draft)
    }

    /// A folder of sjail's own that the command writes.
    fn own(&mut self, path: &Path) {
        self.push(path, Grant::Change, Kind::Folder);
    }

    fn push(&mut self, path: &Path, grant: Grant, kind: Kind) {
        self.rules.push((path.to_owned(), grant, kind));
    }

    /// Grants a path and all below it, but for what is closed or hidden.
    fn cover(&mut self, path: &Path, kind: Kind, grant: Grant) -> Result<(), Error> {
        if self
            .hidden
            .iter()
            .any(|(hidden, _)| path.starts_with(hidden))
        {
            return Ok(());
        }
        let closed = self.closed.iter().any(|closed| path.starts_with(closed));
        let grant = match grant {
            Grant::Change if closed => Grant::Read,
            other => other,
        };
        if kind != Kind::Folder {
            let grant = match grant {
                Grant::Change => Grant::Write,
                other => other,
            };
            self.push(path, grant, kind);
            return Ok(());
        }
        let mut hidden_below = self
            .hidden
            .iter()
            .filter(|(below, _)| below.starts_with(path));
        let (any_hidden, folder_hidden) = (
            hidden_below.clone().next().is_some(),
            hidden_below.any(|(_, kind)| *kind == Kind::Folder),
        );
        let any_closed =
            grant == Grant::Change && self.closed.iter().any(|below| below.starts_with(path));
        match (any_hidden, any_closed) {
            (false, false) => {
                self.push(path, grant, kind);
                return Ok(());
            }
            // Closed names can be read like everything else.
            (false, true) => self.push(path, Grant::Read, kind),
            // Names of files tell little; what is in a hidden folder is hidden too.
            (true, _) if !folder_hidden => self.push(path, Grant::List, kind),
            (true, _) => {}
        }
        if grant == Grant::Change {
            self.split.push(path.to_owned());
        }
        self.children(path, grant)
    }

    fn children(&mut self, folder: &Path, grant: Grant) -> Result<(), Error> {
        // A folder that this user cannot read the command cannot read either.
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(stat) = entry.metadata() else {
                continue;
            };
            let (kind, grant) = match (stat.file_type(), grant) {
                (kind, _) if kind.is_symlink() => continue,
                (kind, grant) if kind.is_dir() => (Kind::Folder, grant),
                // Another name of the same file may be a closed one.
                (_, Grant::Change) if stat.nlink() > 1 => (Kind::File, Grant::Read),
                (_, grant) => (Kind::File, grant),
            };
            self.cover(&entry.path(), kind, grant)?;
            if self.rules.len() > MOST {
                return Err(Error::TooManyRules {
                    path: folder.to_owned(),
                });
            }
        }
        Ok(())
    }

    fn rules(&self) -> Result<Vec<Rule>, Error> {
        self.rules
            .iter()
            .map(|(path, grant, kind)| {
                Ok(Rule {
                    path: c_string(path)?,
                    grant: *grant,
                    kind: *kind,
                })
            })
            .collect()
    }
}

impl Root {
    /// No root of its own.
    fn none() -> Root {
        Root {
            size: number(0),
            inodes: number(0),
            folders: Vec::new(),
            files: Vec::new(),
            links: Vec::new(),
            mounts: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn draft(closed: &[PathBuf], hidden: &[(PathBuf, Kind)]) -> Draft {
        Draft {
            rules: Vec::new(),
            closed: closed.to_vec(),
            hidden: hidden.to_vec(),
            split: Vec::new(),
        }
    }

    fn drawn(draft: &Draft, top: &Path) -> Vec<(String, Grant)> {
        let mut drawn: Vec<(String, Grant)> = draft
            .rules
            .iter()
            .map(|(path, grant, _)| {
                let below = path.strip_prefix(top).unwrap();
                (below.display().to_string(), *grant)
            })
            .collect();
        drawn.sort_by(|one, other| one.0.cmp(&other.0));
        drawn
    }

    #[test]
    fn a_folder_with_a_closed_name_is_granted_child_by_child() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path();
        std::fs::create_dir_all(top.join(".git/objects")).unwrap();
        std::fs::create_dir_all(top.join("src/deep")).unwrap();
        for name in [".git/config", ".git/HEAD", "a", "src/b"] {
            std::fs::write(top.join(name), "").unwrap();
        }
        std::fs::hard_link(top.join(".git/config"), top.join("linked")).unwrap();
        std::os::unix::fs::symlink(".git/config", top.join("link")).unwrap();
        let mut draft = draft(&[top.join(".git/config")], &[]);
        draft.cover(top, Kind::Folder, Grant::Change).unwrap();
        let expected = [
            ("", Grant::Read),
            (".git", Grant::Read),
            (".git/HEAD", Grant::Write),
            (".git/config", Grant::Read),
            (".git/objects", Grant::Change),
            ("a", Grant::Write),
            ("linked", Grant::Read),
            ("src", Grant::Change),
        ];
        let expected = expected.map(|(name, grant)| (name.to_owned(), grant));
        assert_eq!(drawn(&draft, top), expected);
        assert_eq!(draft.split, [top.to_owned(), top.join(".git")]);
    }

    #[test]
    fn nothing_is_granted_above_a_hidden_name() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path();
        std::fs::create_dir_all(top.join("secrets")).unwrap();
        std::fs::create_dir_all(top.join("src")).unwrap();
        for name in ["a", "src/.env", "src/b"] {
            std::fs::write(top.join(name), "").unwrap();
        }
        let mut file = draft(&[], &[(top.join("src/.env"), Kind::File)]);
        file.cover(top, Kind::Folder, Grant::Read).unwrap();
        let expected = [
            ("", Grant::List),
            ("a", Grant::Read),
            ("secrets", Grant::Read),
            ("src", Grant::List),
            ("src/b", Grant::Read),
        ];
        assert_eq!(
            drawn(&file, top),
            expected.map(|(name, grant)| (name.to_owned(), grant))
        );
        let mut all = draft(&[], &[(top.join("secrets"), Kind::Folder)]);
        all.cover(top, Kind::Folder, Grant::Change).unwrap();
        let expected = [("a", Grant::Write), ("src", Grant::Change)];
        assert_eq!(
            drawn(&all, top),
            expected.map(|(name, grant)| (name.to_owned(), grant))
        );
    }
}
