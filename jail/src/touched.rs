//! What a run has touched of the files that run code later, told when it has ended.
//!
//! Names tell which files those are, and reading all names of a workspace takes longer than
//! many a command. So they are read ahead, while the jail is built and the command runs; at
//! the end only folders that have changed meanwhile are read again.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::fcntl::OFlag;
use nix::poll::PollFlags;
use nix::sys::stat::{FileStat, Mode, fstat, lstat};
use nix::time::{ClockId, clock_gettime};
use serde::Serialize;
use sjail_policy::bytes::ByteString;
use sjail_policy::plan::{Access, Plan};
use sjail_policy::show;

use crate::preview::auto_exec;
use crate::spawn::Jail;
use crate::supervise::{Ahead, Guard, Notice};
use crate::sys::directory::{self, Kind};
use crate::sys::file::FileId;

/// So many names of a workspace are looked at after a short run; they are read ahead,
const LEAST: usize = 2_000;
/// so many more for every millisecond that it took,
const EACH: usize = 100;
/// and so many after the longest.
const MOST: usize = 200_000;

/// Folders of things that were built or downloaded: not where people's own files are.
const SKIPPED: [&str; 8] = [
    "node_modules",
    "target",
    ".venv",
    "venv",
    "__pycache__",
    ".tox",
    "site-packages",
    "objects",
];

/// Of git's own folder these hold what is run; the others hold what it keeps.
const GIT: [&str; 4] = ["hooks", "info", "modules", "worktrees"];

/// A file that was touched and runs code later.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Touched {
    /// The file.
    pub path: ByteString,
    /// `touched`, beside the actions of protected names.
    pub action: &'static str,
    /// What runs it.
    pub run_by: String,
}

impl Touched {
    /// This file, run by that.
    pub fn new(path: &Path, run_by: &str) -> Touched {
        Touched {
            path: path.into(),
            action: "touched",
            run_by: run_by.to_owned(),
        }
    }

    /// One line for people.
    pub fn sentence(&self) -> String {
        format!(
            "{} was written and will be run by {}",
            show::inert(self.path.as_bytes()),
            self.run_by
        )
    }
}

/// What was found in a workspace after a run.
#[derive(Debug, Default)]
pub struct Looked {
    /// Files that were touched and run code later.
    pub touched: Vec<Touched>,
    /// Whether the workspace has more names than were looked at.
    pub is_partial: bool,
}

/// A moment as file systems tell it: seconds and nanoseconds.
type Time = (i64, i64);

fn now() -> Time {
    let now = clock_gettime(ClockId::CLOCK_REALTIME_COARSE);
    now.map_or((0, 0), |time| (time.tv_sec(), time.tv_nsec()))
}

/// The look at the places that a command may write, from before it starts to when it has
/// ended. The working folder and the folders at the top come first.
#[derive(Debug)]
pub struct Survey {
    began: Time,
    cwd: PathBuf,
    /// What has been read ahead, in order.
    folders: Vec<Folder>,
    /// Folders that are still to be read.
    open: VecDeque<PathBuf>,
    /// How many names may still be read ahead; none when that is over.
    left: usize,
}

/// A folder that was read.
#[derive(Debug)]
struct Folder {
    path: PathBuf,
    /// Names in it have changed if it has another one now. None where that cannot be told.
    stamp: Option<Stamp>,
    /// How many names it has.
    names: usize,
    /// The files in it that run code later.
    running: Vec<PathBuf>,
}

/// Which folder it was, and when its names changed last.
#[derive(Debug, PartialEq, Eq)]
struct Stamp(FileId, Time);

impl Stamp {
    fn of(stat: &FileStat) -> Stamp {
        Stamp(FileId::from(stat), (stat.st_ctime, stat.st_ctime_nsec))
    }
}

/// What a folder has in it, as far as it matters here.
struct Contents {
    folder: Folder,
    /// Folders that are to be read as well.
    below: Vec<PathBuf>,
    /// There was no allowance for all of its names.
    is_partial: bool,
}

impl Survey {
    /// Begins now, in the places that a command may write.
    pub fn begin(plan: &Plan) -> Survey {
        let workspace = &plan.workspace;
        let granted = plan.filesystem.grants.iter();
        let tops: Vec<&Path> = (workspace.access == Access::Rw)
            .then_some(workspace.path.as_path())
            .into_iter()
            .chain(
                granted
                    .filter(|grant| grant.access == Access::Rw)
                    .map(|grant| grant.source.as_path()),
            )
            .collect();
        Survey::of(&tops, plan.command.cwd.as_path(), now())
    }

    fn of(tops: &[&Path], cwd: &Path, began: Time) -> Survey {
        let mut open: VecDeque<PathBuf> = tops.iter().map(|top| (*top).to_owned()).collect();
        if tops.iter().any(|top| cwd != *top && cwd.starts_with(top)) {
            open.push_front(cwd.to_owned());
        }
        Survey {
            began,
            cwd: cwd.to_owned(),
            folders: Vec::new(),
            open,
            left: LEAST,
        }
    }

    /// Reads the next folder ahead.
    fn read_ahead(&mut self) -> Ahead {
        let Some(path) = self.open.pop_front() else {
            self.left = 0;
            return Ahead::Done;
        };
        let mut left = self.left;
        match read(&path, &mut left, &self.cwd) {
            // Where so much is left, it is read at the end.
            Some(contents) if contents.is_partial => {
                self.open.push_front(path);
                left = 0;
            }
            Some(contents) => {
                self.queue(contents.below);
                self.folders.push(contents.folder);
            }
            None => {}
        }
        self.left = left;
        match left {
            0 => Ahead::Done,
            _ => Ahead::More,
        }
    }

    fn queue(&mut self, below: Vec<PathBuf>) {
        for path in below {
            let name = path.file_name().unwrap_or_default().as_bytes();
            match name.first() {
                // What tools and editors run is mostly there.
                Some(b'.') => self.open.push_front(path),
                _ => self.open.push_back(path),
            }
        }
    }

    /// What was touched since it began. The longer the run was, the more is looked at.
    pub fn finish(mut self, took: Duration) -> Looked {
        let millis = usize::try_from(took.as_millis()).unwrap_or(usize::MAX);
        let mut left = millis.saturating_mul(EACH).clamp(LEAST, MOST);
        let mut found = BTreeSet::new();
        let mut changed = Vec::new();
        for folder in &self.folders {
            match folder.is_as_it_was() {
                true => {
                    left = left.saturating_sub(folder.names);
                    self.note(folder, &mut found);
                }
                false => changed.push(folder.path.clone()),
            }
        }
        if !changed.is_empty() {
            let known: HashSet<PathBuf> =
                self.folders.drain(..).map(|folder| folder.path).collect();
            let known: HashSet<PathBuf> = known.into_iter().chain(self.open.clone()).collect();
            for path in changed {
                if let Some(mut contents) = read(&path, &mut left, &self.cwd) {
                    self.note(&contents.folder, &mut found);
                    contents.below.retain(|path| !known.contains(path));
                    self.queue(contents.below);
                }
            }
        }
        let mut is_partial = false;
        while let Some(path) = self.open.pop_front() {
            if let Some(contents) = read(&path, &mut left, &self.cwd) {
                self.note(&contents.folder, &mut found);
                self.queue(contents.below);
                is_partial |= contents.is_partial;
            }
        }
        Looked {
            touched: found.into_iter().collect(),
            is_partial,
        }
    }

    /// Those of a folder's files that were touched.
    fn note(&self, folder: &Folder, found: &mut BTreeSet<Touched>) {
        for path in &folder.running {
            if let Some(run_by) = auto_exec::runs(path)
                && is_newer(path, self.began)
            {
                found.insert(Touched::new(path, run_by));
            }
        }
    }
}

impl Folder {
    fn is_as_it_was(&self) -> bool {
        let now = lstat(&self.path).ok().map(|stat| Stamp::of(&stat));
        self.stamp.is_some() && self.stamp == now
    }
}

/// Reads a folder, as far as there are names left to be read.
fn read(path: &Path, left: &mut usize, cwd: &Path) -> Option<Contents> {
    let began = now();
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let open = nix::fcntl::open(path, flags, Mode::empty()).ok()?;
    let stamp = fstat(&open).ok().map(|stat| Stamp::of(&stat));
    let mut contents = Contents {
        folder: Folder {
            path: path.to_owned(),
            // One that changed just now could change again without being seen to.
            stamp: stamp.filter(|stamp| stamp.1 < began),
            names: 0,
            running: Vec::new(),
        },
        below: Vec::new(),
        is_partial: false,
    };
    let is_git = path.ends_with(".git");
    let is_special = auto_exec::is_special(path);
    let mut buffer = vec![0; 16 << 10];
    while let Ok(entries) = directory::read(open.as_fd(), &mut buffer)
        && !entries.is_end()
    {
        for (entry, kind) in entries {
            if *left == 0 {
                contents.is_partial = true;
                return Some(contents);
            }
            *left -= 1;
            contents.folder.names += 1;
            let name = entry.to_bytes();
            let at = || path.join(OsStr::from_bytes(name));
            let is_one_of = |list: &[&str]| list.iter().any(|own| own.as_bytes() == name);
            if directory::known(open.as_fd(), entry, kind) == Kind::Folder {
                let is_left_out = is_one_of(&SKIPPED) || is_git && !is_one_of(&GIT);
                // The working folder was the first that was looked at.
                if !is_left_out && at().as_os_str() != cwd.as_os_str() {
                    contents.below.push(at());
                }
            } else if is_special || auto_exec::by_name(name).is_some() {
                contents.folder.running.push(at());
            }
        }
    }
    Some(contents)
}

fn is_newer(path: &Path, began: Time) -> bool {
    let is_folder = |stat: &FileStat| stat.st_mode & libc::S_IFMT == libc::S_IFDIR;
    lstat(path).is_ok_and(|stat| !is_folder(&stat) && (stat.st_ctime, stat.st_ctime_nsec) >= began)
}

impl Guard for Survey {
    fn waits_for(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        None
    }

    fn notice(&mut self, _: &Jail) -> Notice {
        Notice::GoOn
    }

    fn ahead(&mut self) -> Ahead {
        self.read_ahead()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::fs;
    use std::thread::sleep;

    /// A workspace with files that run and others, all older than now.
    fn scene() -> tempfile::TempDir {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let top = folder.path();
        for name in ["sub", "sub/deep", ".github/workflows", "node_modules/x"] {
            fs::create_dir_all(top.join(name)).unwrap();
        }
        for name in [
            "Makefile",
            "notes",
            "sub/build.rs",
            "sub/deep/setup.py",
            ".github/workflows/ci.yml",
            "node_modules/x/package.json",
        ] {
            fs::write(top.join(name), "").unwrap();
        }
        sleep(Duration::from_millis(30));
        folder
    }

    fn ahead(mut survey: Survey) -> Survey {
        while survey.read_ahead() == Ahead::More {}
        survey
    }

    fn names(looked: &Looked, top: &Path) -> Vec<String> {
        let name = |touched: &Touched| {
            let below = touched.path.as_path().strip_prefix(top).unwrap();
            below.to_str().unwrap().to_owned()
        };
        looked.touched.iter().map(name).collect()
    }

    #[test]
    fn what_was_touched_is_named_whether_it_was_read_ahead_or_not() {
        for is_read_ahead in [true, false] {
            let folder = scene();
            let top = folder.path();
            let survey = Survey::of(&[top], top, now());
            let survey = match is_read_ahead {
                true => ahead(survey),
                false => survey,
            };
            assert_eq!(survey.folders.len(), if is_read_ahead { 5 } else { 0 });
            fs::write(top.join("notes"), "in place").unwrap();
            fs::write(top.join("sub/build.rs"), "in place").unwrap();
            fs::write(top.join("sub/deep/conftest.py"), "new").unwrap();
            fs::create_dir_all(top.join("new/below")).unwrap();
            fs::write(top.join("new/below/Makefile"), "new").unwrap();
            fs::write(top.join("node_modules/x/package.json"), "").unwrap();
            fs::rename(top.join("Makefile"), top.join(".github/workflows/m.yml")).unwrap();
            let looked = survey.finish(Duration::ZERO);
            assert_eq!(
                names(&looked, top),
                [
                    ".github/workflows/m.yml",
                    "new/below/Makefile",
                    "sub/build.rs",
                    "sub/deep/conftest.py"
                ]
            );
            assert!(!looked.is_partial);
        }
    }

    #[test]
    fn a_folder_that_took_the_place_of_another_is_read() {
        let folder = scene();
        let top = folder.path();
        let survey = ahead(Survey::of(&[top], top, now()));
        fs::rename(top.join("sub"), top.join("old")).unwrap();
        fs::create_dir(top.join("sub")).unwrap();
        fs::write(top.join("sub/Cargo.toml"), "").unwrap();
        fs::rename(top.join("old/deep"), top.join("sub/deep")).unwrap();
        fs::write(top.join("sub/deep/setup.py"), "in place").unwrap();
        let looked = survey.finish(Duration::ZERO);
        assert_eq!(names(&looked, top), ["sub/Cargo.toml", "sub/deep/setup.py"]);
    }

    #[test]
    fn nothing_is_named_that_is_older_and_all_that_is_not() {
        let folder = scene();
        let top = folder.path();
        let sub = top.join("sub");
        for cwd in [top, &sub] {
            let survey = ahead(Survey::of(&[top], cwd, (0, 0)));
            assert_eq!(survey.finish(Duration::ZERO).touched.len(), 4);
            let survey = ahead(Survey::of(&[top], cwd, (i64::MAX, 0)));
            let later = survey.finish(Duration::ZERO);
            assert!(later.touched.is_empty() && !later.is_partial);
        }
    }

    #[test]
    fn more_names_than_are_looked_at_are_said_to_be_there() {
        let folder = scene();
        let top = folder.path();
        let many = top.join("sub/deep");
        for number in 0..LEAST {
            fs::write(many.join(format!("{number}")), "").unwrap();
        }
        for is_read_ahead in [true, false] {
            let begun = || {
                let survey = Survey::of(&[top], top, (0, 0));
                match is_read_ahead {
                    true => ahead(survey),
                    false => survey,
                }
            };
            assert!(begun().finish(Duration::ZERO).is_partial);
            let looked = begun().finish(Duration::from_millis(30));
            assert!(!looked.is_partial && looked.touched.len() == 4);
        }
    }
}
