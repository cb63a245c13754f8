//! Protected names in a preview: what is never committed, and why.

use std::cell::RefCell;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use sjail_policy::plan::Plan;
use sjail_policy::protect::{Cover, covering};

use super::entry::Act;
use crate::beneath::{Beneath, Kind, kind};
use crate::protect::copy::part::{self, Part};
use crate::protect::repository;

/// The protected names of a workspace.
#[derive(Debug, Clone, Default)]
pub struct Guarded {
    workspace: PathBuf,
    names: Vec<String>,
    /// The names of the folders above what was asked about last, from the workspace down,
    /// and whether each is the top of a repository. Whoever goes through a tree asks about
    /// the same ones again and again.
    known: RefCell<Vec<(OsString, bool)>>,
}

impl Guarded {
    /// As the plan says.
    pub fn of(plan: &Plan) -> Guarded {
        Guarded {
            workspace: plan.workspace.path.as_path().to_owned(),
            names: plan
                .filesystem
                .protect
                .names
                .iter()
                .filter_map(|name| name.to_str().map(str::to_owned))
                .collect(),
            known: RefCell::default(),
        }
    }

    /// Why a change is not committed, if it is not. Names count from the workspace's top
    /// and from the top of each repository, on the host or made by the command.
    pub fn why(&self, path: &Path, act: Act, upper: &Beneath, lower: &Beneath) -> Option<String> {
        let below = path.strip_prefix(&self.workspace).ok()?;
        if below.as_os_str().is_empty() {
            return None;
        }
        if act != Act::Deleted
            && let Some(why) = self.git_elsewhere(path, upper, lower)
        {
            return Some(why);
        }
        for top in self.tops(below, upper, lower) {
            let (top, full) = (top.as_path(), self.workspace.join(&top));
            let rest = below.strip_prefix(top).ok()?.to_string_lossy();
            let Some((name, cover)) = covering(&rest, &self.names) else {
                continue;
            };
            let closed = match cover {
                Cover::Itself | Cover::Below => true,
                // Deleting the way to a name deletes the name.
                Cover::Above => act == Act::Deleted,
            };
            if closed && !self.is_harmless(&full, &rest, upper, lower) {
                return Some(format!(
                    "is protected ({name}): what is in it runs code on the host later"
                ));
            }
        }
        None
    }

    /// Git obeys folders of any name: where a `.git` file says so, and where one looks like a
    /// repository without a working tree.
    fn git_elsewhere(&self, path: &Path, upper: &Beneath, lower: &Beneath) -> Option<String> {
        let within = path.strip_prefix(lower.path()).ok()?;
        if path.file_name() == Some(".git".as_ref()) {
            let made = upper.stat(within).ok().flatten().map(|stat| kind(&stat));
            let is_sound = || {
                let to = repository::pointed_to_by(&upper.path().join(within), path);
                to.is_some_and(|to| {
                    to.starts_with(&self.workspace) && to.iter().any(|name| name == ".git")
                })
            };
            return match made {
                Some(Kind::Folder | Kind::Whiteout) | None => None,
                Some(Kind::File) if is_sound() => None,
                Some(_) => Some(
                    "is protected (.git): it points git at a folder that nobody has judged"
                        .to_owned(),
                ),
            };
        }
        let there = |path: &Path| {
            let of = |side: &Beneath| side.stat(path).ok().flatten().map(|stat| kind(&stat));
            match of(upper) {
                Some(Kind::Whiteout) => None,
                None => of(lower),
                kind => kind,
            }
        };
        let is_git = |folder: &Path| folder.file_name() == Some(".git".as_ref());
        let looks = |folder: &Path| {
            let has = |name: &str| there(&folder.join(name)).is_some();
            has("HEAD") && (has("objects") && has("refs") || has("commondir"))
        };
        if there(within) == Some(Kind::Link)
            && within
                .ancestors()
                .skip(1)
                .any(|folder| is_git(folder) || looks(folder))
        {
            return Some("is protected: git would write through a link in its folder".to_owned());
        }
        let own = within.ancestors().skip(1).find_map(|folder| {
            let rest = within.strip_prefix(folder).ok()?;
            let part = part::own(rest);
            (part != Part::Data && !is_git(folder) && looks(folder)).then_some((folder, part))
        });
        let (folder, part) = own?;
        let is_new = matches!(lower.stat(folder), Ok(None));
        let harmless = match part {
            // Judged when the command ended.
            Part::Config => there(within) == Some(Kind::File),
            Part::Hooks => there(within) == Some(Kind::Folder),
            Part::Hook => within.extension() == Some("sample".as_ref()),
            Part::Data | Part::WorktreeFolder => true,
            Part::Pointer | Part::Worktree => false,
        };
        (!(is_new && harmless)).then(|| {
            "is protected: git obeys it, for the folder it is in looks like a repository".to_owned()
        })
    }

    /// The folders that names count from, above something in the workspace; the deepest first.
    fn tops(&self, below: &Path, upper: &Beneath, lower: &Beneath) -> Vec<PathBuf> {
        let mut known = self.known.borrow_mut();
        let folder = below.parent().unwrap_or(Path::new(""));
        let same = known
            .iter()
            .zip(folder)
            .take_while(|((name, _), other)| name == other)
            .count();
        known.truncate(same);
        let mut path: PathBuf = self
            .workspace
            .join(folder.iter().take(same).collect::<PathBuf>());
        for name in folder.iter().skip(same) {
            path.push(name);
            known.push((name.to_owned(), is_repository(&path, upper, lower)));
        }
        let mut tops = vec![PathBuf::new()];
        for (depth, _) in known.iter().enumerate().filter(|(_, (_, is_top))| *is_top) {
            tops.push(folder.iter().take(depth + 1).collect());
        }
        tops.reverse();
        tops
    }

    /// A repository that the command made has a configuration, which was judged when the
    /// command ended, and examples of hooks, which git does not run.
    fn is_harmless(&self, top: &Path, rest: &str, upper: &Beneath, lower: &Beneath) -> bool {
        let Ok(top) = top.strip_prefix(lower.path()) else {
            return false;
        };
        let git = top.join(".git");
        let is_new = matches!(lower.stat(&git), Ok(None));
        let kind_of = |path: &Path| upper.stat(path).ok().flatten().map(|stat| kind(&stat));
        is_new
            && kind_of(&git) == Some(Kind::Folder)
            && match rest {
                ".git/config" => kind_of(&top.join(rest)) == Some(Kind::File),
                ".git/hooks" => kind_of(&top.join(rest)) == Some(Kind::Folder),
                _ => {
                    rest.starts_with(".git/hooks/")
                        && rest.ends_with(".sample")
                        && kind_of(&top.join(rest)) == Some(Kind::File)
                }
            }
    }
}

fn is_repository(top: &Path, upper: &Beneath, lower: &Beneath) -> bool {
    let Ok(below) = top.strip_prefix(lower.path()) else {
        // The top of a repository that a granted folder lies in.
        return std::fs::symlink_metadata(top.join(".git")).is_ok();
    };
    let git = below.join(".git");
    let there = |beneath: &Beneath| matches!(beneath.stat(&git), Ok(Some(stat)) if kind(&stat) != Kind::Whiteout);
    there(upper) || there(lower)
}
