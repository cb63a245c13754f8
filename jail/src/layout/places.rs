//! Every path inside at which something of the host is seen: a bind shows it a second time.

use std::path::{Path, PathBuf};

use sjail_policy::plan::{Access, Grant, Workspace};

use super::look;
use super::path::{join, plain, within};

/// Where the workspace and the grants of a plan appear.
#[derive(Debug, Default)]
pub struct Places(Vec<Shown>);

#[derive(Debug)]
struct Shown {
    /// On the host, links followed.
    host: PathBuf,
    inside: PathBuf,
    access: Access,
}

impl Places {
    /// What these show on this machine. What is not there appears nowhere.
    pub fn of(workspace: &Workspace, grants: &[Grant]) -> Places {
        let mut places = Places::default();
        let path = workspace.path.as_path();
        places.add(path, path, workspace.access);
        for grant in grants {
            places.add(grant.source.as_path(), grant.dest.as_path(), grant.access);
        }
        places
    }

    fn add(&mut self, source: &Path, dest: &Path, access: Access) {
        let (Ok(seen), Some(dest)) = (look::through_links(source), plain(dest)) else {
            return;
        };
        if access == Access::None {
            return;
        }
        // Under its own name it is shown where the name leads.
        let inside = match dest == source {
            true => seen.path.clone(),
            false => dest,
        };
        // The later one wins.
        self.0.retain(|shown| shown.inside != inside);
        self.0.push(Shown {
            host: seen.path,
            inside,
            access,
        });
    }

    /// Every path inside at which a path of the host is seen, and what may be done there.
    /// `host` has no links on its way; its last name may be one, or not exist.
    pub fn appearances(&self, host: &Path) -> Vec<(PathBuf, Access)> {
        let shows = |shown: &Shown| {
            let rest = host.strip_prefix(&shown.host).ok()?;
            let inside = join(&shown.inside, rest);
            // Something else may be mounted further down.
            let seen = self.deepest(&inside)?.inside == shown.inside;
            seen.then_some((inside, shown.access))
        };
        self.0.iter().filter_map(shows).collect()
    }

    /// Whether a path of the host can be written by any of its names inside.
    pub fn is_writable(&self, host: &Path) -> bool {
        let mut seen = self.appearances(host).into_iter();
        seen.any(|(_, access)| access == Access::Rw)
    }

    /// What is mounted where a path inside lies.
    fn deepest(&self, inside: &Path) -> Option<&Shown> {
        self.0
            .iter()
            .filter(|shown| within(inside, &shown.inside))
            .max_by_key(|shown| shown.inside.as_os_str().len())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use sjail_policy::bytes::ByteString;
    use sjail_policy::plan::Missing;
    use std::os::unix::ffi::OsStrExt;

    fn bytes(path: &Path) -> ByteString {
        ByteString::from(path.as_os_str().as_bytes().to_vec())
    }

    fn grant(source: &Path, dest: &Path, access: Access) -> Grant {
        Grant {
            source: bytes(source),
            dest: bytes(dest),
            access,
            missing: Missing::Skip,
        }
    }

    #[test]
    fn a_bind_shows_a_path_once_more() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        let workspace = top.join("ws");
        std::fs::create_dir_all(workspace.join("sub/deep")).unwrap();
        std::os::unix::fs::symlink("ws", top.join("link")).unwrap();
        let places = Places::of(
            &Workspace {
                path: bytes(&workspace),
                access: Access::Rw,
            },
            &[
                grant(&top.join("link"), Path::new("/app"), Access::Ro),
                grant(&top, Path::new("/up"), Access::Rw),
                grant(&workspace.join("sub"), Path::new("/s"), Access::Rw),
                // Over a part of what is shown already.
                grant(
                    &workspace.join("sub/deep"),
                    Path::new("/app/sub"),
                    Access::Rw,
                ),
                // At its own path, with less.
                grant(&workspace.join("sub"), &workspace.join("sub"), Access::Ro),
                grant(&top.join("gone"), Path::new("/gone"), Access::Rw),
            ],
        );
        let mut seen = places.appearances(&workspace.join("sub/.env"));
        seen.sort();
        let mut expected = vec![
            (workspace.join("sub/.env"), Access::Ro),
            ("/s/.env".into(), Access::Rw),
            ("/up/ws/sub/.env".into(), Access::Rw),
        ];
        expected.sort();
        assert_eq!(seen, expected);
        let mut seen = places.appearances(&workspace);
        seen.sort();
        let mut expected = vec![
            (workspace.clone(), Access::Rw),
            ("/app".into(), Access::Ro),
            ("/up/ws".into(), Access::Rw),
        ];
        expected.sort();
        assert_eq!(seen, expected);
        assert_eq!(places.appearances(Path::new("/elsewhere")), []);
    }

    #[test]
    fn the_whole_host_is_at_its_own_paths() {
        let places = Places::of(
            &Workspace {
                path: "/".into(),
                access: Access::Ro,
            },
            &[],
        );
        let etc = Path::new("/srv/x");
        assert_eq!(places.appearances(etc), [(etc.to_owned(), Access::Ro)]);
    }
}
