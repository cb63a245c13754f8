//! A glance at files that were read before: whether reading them again would give the same.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds after which a further change of a file shows in its times, whatever the file
/// system's clock.
const SETTLED: i64 = 2;

/// What was found at some paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glance {
    seen: Vec<(PathBuf, Option<Stamp>)>,
}

/// Seconds and nanoseconds.
type Moment = (i64, i64);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Stamp {
    place: (u64, u64),
    owner: (u32, u32),
    mode: u32,
    /// Length, change of content, change of anything: of files. What folders hold is looked
    /// at by its own paths.
    content: Option<(u64, Moment, Moment)>,
}

impl Stamp {
    fn of(path: &Path) -> Option<Stamp> {
        let meta = fs::symlink_metadata(path).ok()?;
        let content = (
            meta.size(),
            (meta.mtime(), meta.mtime_nsec()),
            (meta.ctime(), meta.ctime_nsec()),
        );
        Some(Stamp {
            place: (meta.dev(), meta.ino()),
            owner: (meta.uid(), meta.gid()),
            mode: meta.mode(),
            content: (!meta.is_dir()).then_some(content),
        })
    }
}

impl Glance {
    /// Looks at each path, at what it leads to, and at every folder above both.
    pub fn at<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Glance {
        let mut all: Vec<PathBuf> = Vec::new();
        for path in paths {
            let real = fs::canonicalize(path).ok();
            let above = path
                .ancestors()
                .chain(real.iter().flat_map(|p| p.ancestors()));
            for path in above {
                if !all.iter().any(|known| known == path) {
                    all.push(path.to_owned());
                }
            }
        }
        Glance::again(all)
    }

    /// Whether all of it is as it was.
    pub fn holds(&self) -> bool {
        self.seen
            .iter()
            .all(|(path, stamp)| Stamp::of(path) == *stamp)
    }

    /// Whether nothing of it was changed just now: one more change could bear the same time.
    pub fn is_settled(&self) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let Some(now) = now.ok().and_then(|now| i64::try_from(now.as_secs()).ok()) else {
            return false;
        };
        let contents = self
            .seen
            .iter()
            .filter_map(|(_, stamp)| stamp.as_ref()?.content);
        contents
            .into_iter()
            .all(|(_, changed, touched)| changed.0.max(touched.0) + SETTLED < now)
    }

    fn again(paths: Vec<PathBuf>) -> Glance {
        Glance {
            seen: paths
                .into_iter()
                .map(|path| {
                    let stamp = Stamp::of(&path);
                    (path, stamp)
                })
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::fs::{File, FileTimes};
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn every_change_shows() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (folder.path().join("a"), folder.path().join("b"));
        let file = a.join("x");
        for folder in [&a, &b] {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join("x"), "same").unwrap();
        }
        let link = folder.path().join("link");
        symlink(&a, &link).unwrap();
        let (typed, missing) = (link.join("x"), a.join("missing"));
        let look = || Glance::at([typed.as_path(), missing.as_path()]);
        let glance = look();
        assert!(glance.holds() && glance == look());
        // It was written just now.
        assert!(!glance.is_settled());
        // As long, and with the old time.
        let time = fs::metadata(&file).unwrap().modified().unwrap();
        fs::write(&file, "else").unwrap();
        let times = FileTimes::new().set_modified(time);
        File::options()
            .write(true)
            .open(&file)
            .unwrap()
            .set_times(times)
            .unwrap();
        assert!(!glance.holds());
        let glance = look();
        fs::set_permissions(&a, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(!glance.holds());
        let glance = look();
        fs::write(&missing, "").unwrap();
        assert!(!glance.holds());
        let glance = look();
        fs::remove_file(&link).unwrap();
        symlink(&b, &link).unwrap();
        assert!(!glance.holds());
    }
}
