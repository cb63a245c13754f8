//! What is kept of a preview beside its layers: who ran what, and the list of changes.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};
use sjail_policy::bytes::ByteString;

use super::entry::{Act, Entry, Span};
use super::layer::Layer;
use crate::beneath::Kind;

/// A preview as it is written down.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    /// The run's id.
    pub id: String,
    /// The command, as a person would type it.
    pub command: String,
    /// The command, word by word.
    pub argv: Vec<ByteString>,
    /// Where it started.
    pub cwd: ByteString,
    /// The project.
    pub workspace: ByteString,
    /// When it ran, seconds since 1970.
    pub time: i64,
    /// And nanoseconds: of several in one second, which was the last.
    #[serde(default)]
    pub nanos: u32,
    /// What it exited with.
    pub exit_code: u8,
    /// What has become of it.
    pub state: State,
    /// When it was committed, as file systems tell time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub committed: Option<(i64, i64)>,
    /// When its commit began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began: Option<(i64, i64)>,
    /// When sjail itself moved files of the host for it: commits and their undoing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub own: Vec<Span>,
    /// The writable places.
    pub layers: Vec<Layer>,
    /// What changed, in numbers.
    pub totals: Totals,
    /// What the policy says to running it for real.
    pub verdict: Verdict,
    /// What a reader should know beyond the numbers, each in a sentence.
    #[serde(default)]
    pub notes: Vec<String>,
}

impl Record {
    /// Until when it is kept, in seconds since 1970; a commit starts that anew.
    pub fn kept_until(&self) -> i64 {
        self.committed
            .map_or(self.time, |(seconds, _)| self.time.max(seconds))
            + KEPT
    }

    /// The path of the host at which something changes.
    pub fn full(&self, entry: &Entry) -> PathBuf {
        let layer = self.layers.get(entry.layer);
        let host = layer.map_or(Path::new("/"), |layer| layer.host.as_path());
        match entry.path.is_empty() {
            true => host.to_owned(),
            false => host.join(entry.path.as_path()),
        }
    }
}

/// What has become of a preview.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Nothing of it is on the host.
    Pending,
    /// A commit has begun; its journal says how far it is.
    Committing,
    /// What was chosen of it is on the host.
    Committed,
    /// A commit is being taken back.
    Undoing,
}

impl State {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            State::Pending => "pending",
            State::Committing => "committing",
            State::Committed => "committed",
            State::Undoing => "undoing",
        }
    }
}

/// What the policy says.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Verdict {
    /// `execute`, `queue_for_approval` or `block`.
    pub action: String,
    /// The risk.
    pub risk: String,
    /// Why.
    pub reasons: Vec<String>,
    /// The rule.
    pub rule: String,
}

/// What changed, in numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// New files.
    pub created: u64,
    /// Files with another content.
    pub modified: u64,
    /// Deleted files, those in deleted folders included.
    pub deleted: u64,
    /// Files that only have another name.
    pub renamed: u64,
    /// Other permissions, owners or attributes.
    pub changed: u64,
    /// Files of which nothing but the time differs.
    #[serde(default)]
    pub touched: u64,
    /// New or changed symbolic links.
    pub links: u64,
    /// New folders.
    pub folders: u64,
    /// Deleted folders.
    #[serde(default)]
    pub removed_folders: u64,
    /// The bytes of new and changed files.
    pub bytes_written: u64,
    /// The bytes of deleted files.
    pub bytes_deleted: u64,
    /// Changes that are never committed.
    pub kept_out: u64,
    /// Files that run code later.
    pub auto_exec: u64,
    /// Everything in the list.
    pub entries: u64,
    /// Changed and deleted files that git knows; nothing where that cannot be told.
    #[serde(default)]
    pub tracked: Option<u64>,
    /// Changes outside the workspace.
    #[serde(default)]
    pub outside: u64,
}

impl Totals {
    /// Counts one change.
    pub fn add(&mut self, entry: &Entry) {
        self.entries += 1;
        self.kept_out += u64::from(entry.kept_out.is_some());
        self.auto_exec += u64::from(entry.auto_exec.is_some());
        let is_link = entry.kind == Kind::Link && entry.act != Act::Deleted;
        self.links += u64::from(is_link);
        match entry.act {
            Act::Created if entry.renamed_from.is_some() => {
                self.renamed += u64::from(entry.kind != Kind::Folder);
            }
            Act::Created if entry.kind == Kind::Folder => self.folders += 1,
            Act::Created => self.created += 1,
            Act::Modified => self.modified += 1,
            Act::Deleted if entry.renamed_to.is_some() => {}
            Act::Deleted => {
                self.deleted += entry.files;
                self.removed_folders += u64::from(entry.kind == Kind::Folder);
                self.bytes_deleted += entry.old_size;
            }
            Act::Changed => self.changed += 1,
            Act::Touched => self.touched += u64::from(entry.is_shown()),
        }
        if matches!(entry.act, Act::Created | Act::Modified) && entry.renamed_from.is_none() {
            self.bytes_written += entry.size;
        }
    }

    /// Whether nothing would change.
    pub fn is_nothing(&self) -> bool {
        [
            self.created,
            self.modified,
            self.deleted,
            self.renamed,
            self.changed,
            self.touched,
            self.links,
            self.folders,
            self.removed_folders,
        ]
        .iter()
        .all(|count| *count == 0)
    }
}

/// Previews are dropped when they are this old, and commits can be taken back as long.
const KEPT: i64 = 7 * 24 * 3600;

const RECORD: &str = "preview.json";
const ENTRIES: &str = "changes.jsonl";
const LOCK: &str = "lock";
const RESERVE: &str = "reserve";

fn is_full(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT))
}

/// The folder of one preview, locked: whoever holds this is alone with it.
#[derive(Debug)]
pub struct Held {
    path: PathBuf,
    _lock: Flock<File>,
}

impl Held {
    /// Locks a folder; `None` while somebody else has it.
    pub fn lock(path: &Path) -> io::Result<Option<Held>> {
        let file = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(path.join(LOCK))?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => Ok(Some(Held {
                path: path.to_owned(),
                _lock: lock,
            })),
            Err((_, nix::errno::Errno::EWOULDBLOCK)) => Ok(None),
            Err((_, errno)) => Err(errno.into()),
        }
    }

    /// The same, after its folder got another name.
    pub fn moved(self, path: PathBuf) -> Held {
        Held { path, ..self }
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the record; it is there as a whole or not at all.
    pub fn write(&self, record: &Record) -> io::Result<()> {
        let (path, bytes) = (self.path.join(RECORD), serde_json::to_vec(record)?);
        match write_whole(&path, &bytes) {
            Err(error) if is_full(&error) && self.release() => write_whole(&path, &bytes),
            done => done,
        }
    }

    /// Sets room aside: how far a commit is can be written down on a full disk, too.
    pub fn reserve(&self) -> io::Result<()> {
        write_whole(&self.path.join(RESERVE), &[0; 64 << 10])
    }

    /// Gives that room up, if there is any.
    pub fn release(&self) -> bool {
        fs::remove_file(self.path.join(RESERVE)).is_ok()
    }

    /// Starts the list of changes.
    pub fn entries_writer(&self) -> io::Result<BufWriter<File>> {
        Ok(BufWriter::new(File::create(self.path.join(ENTRIES))?))
    }
}

/// Writes a file so that it has its old or its new content whatever happens.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let draft = path.with_extension("new");
    let mut file = File::create(&draft)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&draft, path)
}

/// Writes one change.
pub fn write_entry(out: &mut impl Write, entry: &Entry) -> io::Result<()> {
    serde_json::to_writer(&mut *out, entry)?;
    out.write_all(b"\n")
}

/// Reads the record of a preview's folder.
pub fn read(path: &Path) -> io::Result<Record> {
    Ok(serde_json::from_slice(&fs::read(path.join(RECORD))?)?)
}

/// The hash of the list of changes, which names everything that a commit does.
pub fn digest(path: &Path) -> io::Result<String> {
    super::walk::hash(File::open(path.join(ENTRIES))?)
}

/// Reads the list of changes, one by one.
pub fn entries(path: &Path) -> io::Result<impl Iterator<Item = io::Result<Entry>> + use<>> {
    let file = BufReader::new(File::open(path.join(ENTRIES))?);
    Ok(file
        .split(b'\n')
        .map(|line| Ok(serde_json::from_slice(&line?)?)))
}

/// Seconds since 1970.
pub fn now() -> i64 {
    present().0
}

/// Seconds since 1970, and nanoseconds.
pub fn present() -> (i64, u32) {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or((0, 0), |time| (time.as_secs() as i64, time.subsec_nanos()))
}
