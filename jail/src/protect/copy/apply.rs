//! Going through the layer of a copy when the command has ended: what is harmless is moved
//! into place.
//!
//! Another jail may run in the same workspace and swap folders for links meanwhile. So the
//! host's side is reached from its open folder alone, through no link.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, renameat};
use nix::sys::stat::{FchmodatFlags, FileStat, Mode, fchmodat};
use sjail_policy::git_config::Document;
use sjail_policy::git_keys::{self, led_from};
use sjail_policy::show;

use super::Copy;
use super::part::{Part, part};
use crate::beneath::{Beneath, Kind, kind};
use crate::protect::finding::Finding;
use crate::protect::judge::{Court, is_live_hook};
use crate::protect::new_file::{self, New};
use crate::protect::quarantine;
use crate::protect::repository::{self, line, small};
use crate::sys::file::DescriptorPath;

/// A configuration is no longer than this.
const MOST: u64 = 1 << 20;

/// Carries over what the layer holds, judged.
pub(super) fn all(copy: &Copy, court: Court<'_>, findings: &mut Vec<Finding>) {
    let upper = match Beneath::open(&copy.upper()) {
        Ok(upper) => upper,
        Err(error) => {
            let why = format!("was not changed: what the command wrote cannot be read ({error})");
            findings.push(Finding::noted(copy.lower(), why));
            return;
        }
    };
    let mut applying = Applying {
        copy,
        upper,
        court,
        findings,
    };
    applying.folder(Path::new(""));
}

struct Applying<'a, 'b> {
    copy: &'a Copy,
    upper: Beneath,
    court: Court<'a>,
    findings: &'b mut Vec<Finding>,
}

impl Applying<'_, '_> {
    fn folder(&mut self, below: &Path) {
        let names = self.upper.names(below).unwrap_or_default();
        let mut entries: Vec<PathBuf> = names.into_iter().map(|name| below.join(name)).collect();
        // Objects before the refs that name them, configuration last.
        entries.sort_by_key(|path| {
            let name = path.file_name().unwrap_or_default();
            (name == "config", name != "objects", path.clone())
        });
        if self.upper.is_opaque(below) {
            self.clear(below, &entries);
        }
        for entry in entries {
            if let Err(error) = self.entry(&entry) {
                let why = format!("could not be carried over: {error}");
                self.note(&entry, &why);
            }
        }
    }

    /// A folder that was deleted and made again hides what was in it.
    fn clear(&mut self, below: &Path, kept: &[PathBuf]) {
        for name in self.copy.lower.names(below).unwrap_or_default() {
            let path = below.join(name);
            if !kept.contains(&path) {
                let _ = self.delete(&path);
            }
        }
    }

    fn entry(&mut self, below: &Path) -> io::Result<()> {
        let Some(stat) = self.upper.stat(below)? else {
            return Ok(());
        };
        let part = self.part(below);
        match kind(&stat) {
            Kind::Whiteout => self.delete(below),
            Kind::Folder => self.subfolder(below, part, &stat),
            Kind::File => self.file(below, part, &stat),
            Kind::Link | Kind::Other => self.leave_out(below, "is not what git makes there"),
        }
    }

    fn subfolder(&mut self, below: &Path, part: Part, stat: &FileStat) -> io::Result<()> {
        match part {
            // As a file or a link these would be read; as folders they are nothing.
            Part::Data | Part::Hooks | Part::WorktreeFolder => {}
            _ => return self.leave_out(below, "is not what git makes there"),
        }
        let lower = &self.copy.lower;
        match lower.stat(below)?.map(|there| kind(&there)) {
            Some(Kind::Folder) => {}
            there => {
                if there.is_some() {
                    lower.remove(below)?;
                }
                lower.make_folder(below)?;
                set_mode(lower, below, stat)?;
            }
        }
        self.folder(below);
        Ok(())
    }

    fn file(&mut self, below: &Path, part: Part, stat: &FileStat) -> io::Result<()> {
        match part {
            Part::Config => self.config(below),
            Part::Hook if is_live_hook(&self.copy.upper().join(below)) => {
                self.leave_out(below, "is a program that git would run")
            }
            Part::Pointer => self.leave_out(below, "would point git elsewhere"),
            Part::Worktree if !self.is_sound(below) => {
                self.leave_out(below, "would point git elsewhere")
            }
            Part::Hooks | Part::WorktreeFolder => {
                self.leave_out(below, "is not what git makes there")
            }
            Part::Data | Part::Hook | Part::Worktree => self.put(below, stat),
        }
    }

    /// Moves a file into place, unless the host changed it meanwhile.
    fn put(&mut self, below: &Path, stat: &FileStat) -> io::Result<()> {
        let lower = &self.copy.lower;
        let there = lower.stat(below)?;
        if there.is_some_and(|there| self.copy.started.may_precede(&there)) {
            let why = "was changed on the host while the command ran; the command's version is kept aside";
            return self.leave_out(below, why);
        }
        let (from, name) = self.upper.parent(below)?;
        let (to, _) = lower.parent(below)?;
        match renameat(&from, name.as_c_str(), &to, name.as_c_str()) {
            Err(Errno::EXDEV) => {
                let mut bytes = Vec::new();
                self.upper.file(below)?.read_to_end(&mut bytes)?;
                let beside = new_file::beside(below);
                let mode = Mode::from_bits_truncate(stat.st_mode);
                let mut new = New::make(lower, &beside, mode)?;
                new.file.write_all(&bytes)?;
                new.rename(below)
            }
            done => Ok(done?),
        }
    }

    fn delete(&mut self, below: &Path) -> io::Result<()> {
        let lower = &self.copy.lower;
        let Some(stat) = lower.stat(below)? else {
            return Ok(());
        };
        match self.part(below) {
            Part::Data | Part::Worktree => {}
            // A working tree that the jail cannot see looks dead to its git.
            Part::WorktreeFolder => {
                let tree = repository::worktree_of(&lower.path().join(below));
                if tree.is_some_and(|tree| !tree.starts_with(self.court.workspace) && tree.exists())
                {
                    self.note(
                        below,
                        "belongs to a working tree outside the workspace and was kept",
                    );
                    return Ok(());
                }
            }
            _ => {
                self.note(below, "was deleted in the jail and kept on the host");
                return Ok(());
            }
        }
        if kind(&stat) != Kind::Folder && self.copy.started.may_precede(&stat) {
            self.note(
                below,
                "was changed on the host while the command ran, and not deleted",
            );
            return Ok(());
        }
        lower.remove(below)
    }

    /// Merges a configuration key by key into what the host has now.
    fn config(&mut self, below: &Path) -> io::Result<()> {
        let lower = self.copy.lower.path().join(below);
        let known = self.copy.configs.iter().find(|(place, _)| place == below);
        let before = known.map_or(&[][..], |(_, text)| text.as_slice());
        let Some(after) = text(&self.upper, below) else {
            return self.leave_out(below, "is no file that git's configuration can be");
        };
        let (before, after) = match (Document::parse(before), Document::parse(&after)) {
            (Ok(before), Ok(after)) => (before, after),
            (Err(error), _) | (_, Err(error)) => {
                let why = format!("cannot be read as git's configuration ({error})");
                return self.leave_out(below, &why);
            }
        };
        let git_dir = lower.parent().unwrap_or(self.copy.lower.path());
        let merged = git_keys::merge(&before, &after, self.court.place(git_dir));
        self.findings
            .extend(Finding::keys(&lower, &merged.left_out, None));
        let there = self.copy.lower.stat(below)?;
        if merged.carried.is_empty() && there.is_some() {
            return Ok(());
        }
        let mut lock = lock(&self.copy.lower, below, there.as_ref())?;
        let now = text(&self.copy.lower, below).unwrap_or_default();
        let text = match Document::parse(&now) {
            Ok(now) => now.apply(&merged.carried),
            Err(_) => merged.text,
        };
        lock.file.write_all(&text)?;
        lock.rename(below)
    }

    fn leave_out(&mut self, below: &Path, why: &str) -> io::Result<()> {
        let upper = self.copy.upper().join(below);
        let lower = self.copy.lower.path().join(below);
        let kept = self.court.quarantine.take_as(&upper, &lower, why);
        self.settled(kept)
    }

    fn settled(&mut self, kept: Result<quarantine::Item, quarantine::Error>) -> io::Result<()> {
        let item = kept.map_err(|error| io::Error::other(error.to_string()))?;
        self.findings.push(Finding::quarantined(&item));
        Ok(())
    }

    fn note(&mut self, below: &Path, why: &str) {
        let path = self.copy.lower.path().join(below);
        self.findings.push(Finding::noted(&path, why));
    }

    fn part(&self, below: &Path) -> Part {
        let has_head = |side: &Beneath, folder: &Path| {
            let head = side.stat(&folder.join("HEAD"));
            // What cannot be looked at may be there.
            !matches!(head, Ok(None))
        };
        part(below, &|folder: &Path| {
            has_head(&self.upper, folder) || has_head(&self.copy.lower, folder)
        })
    }

    /// Whether a working tree's pointers lead where git makes them lead: to this very
    /// repository, and to a tree inside the workspace.
    fn is_sound(&self, below: &Path) -> bool {
        let Some(text) = small(&self.copy.upper().join(below)) else {
            return false;
        };
        let Some(admin) = below
            .parent()
            .map(|admin| self.copy.lower.path().join(admin))
        else {
            return false;
        };
        let target = led_from(&admin, line(&text));
        match below.file_name().map(OsStrExt::as_bytes) {
            Some(b"commondir") => target.as_deref() == admin.parent().and_then(Path::parent),
            _ => target.is_some_and(|target| target.starts_with(self.court.workspace)),
        }
    }
}

/// The contents of a small regular file.
fn text(side: &Beneath, below: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = side.file(below).ok()?;
    file.take(MOST + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= MOST).then_some(bytes)
}

fn set_mode(side: &Beneath, below: &Path, stat: &FileStat) -> io::Result<()> {
    let place = side.place(below)?;
    let own = DescriptorPath::of(place.as_fd());
    let mode = Mode::from_bits_truncate(stat.st_mode);
    let flag = FchmodatFlags::FollowSymlink;
    Ok(fchmodat(AT_FDCWD, own.as_c_str(), mode, flag)?)
}

/// Git's own lock on a file: `NAME.lock`, renamed over it.
fn lock(side: &Beneath, below: &Path, there: Option<&FileStat>) -> io::Result<New> {
    let mut name = below.file_name().unwrap_or_default().to_owned();
    name.push(".lock");
    let beside = below.with_file_name(name);
    let mode = there.map_or(0o644, |there| there.st_mode & 0o777);
    for _ in 0..50 {
        match New::make(side, &beside, Mode::from_bits_truncate(mode)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                std::thread::sleep(Duration::from_millis(20));
            }
            made => return made,
        }
    }
    Err(io::Error::other(format!(
        "{} exists: another git holds it, or one has died",
        show::name(side.path().join(beside))
    )))
}
