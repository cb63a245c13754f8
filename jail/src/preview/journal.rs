//! The steps of a commit, written down before the first is done.
//!
//! Whether a step was done is not written down but seen: a new file has the inode that
//! the plan names, a replaced one lies among the backups. So a commit that was killed at
//! any moment can be finished or taken back by whoever comes next, and `undo` is the same
//! walk backwards. How a step is done, and taken back, is in [`super::ground`].

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Seek, SeekFrom, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use sjail_policy::bytes::ByteString;

use super::look::Look;

/// One step, at one path of one layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// The layer's number.
    pub layer: usize,
    /// The path below it.
    pub path: ByteString,
    /// What is done.
    pub act: Act,
}

/// What a step does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Act {
    /// Puts something of the layer in its place: this inode.
    Put {
        /// The inode of what is put.
        new: u64,
        /// The inode of what it replaces, which becomes the backup.
        over: Option<u64>,
    },
    /// Takes something away: it becomes the backup.
    Take {
        /// Its inode.
        old: u64,
    },
    /// Makes a folder of which only a part is committed.
    MakeFolder,
    /// Sets permissions, times and attributes of what stays in its place.
    Set {
        /// As they were; nothing for a folder that was just made.
        old: Option<Look>,
        /// As they shall be.
        new: Look,
    },
}

const JOURNAL: &str = "journal.jsonl";

/// Writes the journal, step by step; it counts when it is closed.
#[derive(Debug)]
pub struct Writer {
    out: BufWriter<File>,
    folder: std::path::PathBuf,
    /// The steps so far.
    pub count: usize,
}

impl Writer {
    /// Starts a journal in a preview's folder.
    pub fn begin(folder: &Path) -> io::Result<Writer> {
        Ok(Writer {
            out: BufWriter::new(File::create(folder.join(JOURNAL).with_extension("new"))?),
            folder: folder.to_owned(),
            count: 0,
        })
    }

    /// Adds a step.
    pub fn add(&mut self, step: &Step) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, step)?;
        self.count += 1;
        self.out.write_all(b"\n")
    }

    /// The journal is complete and on the disk.
    pub fn close(self) -> io::Result<()> {
        let file = self.out.into_inner().map_err(|error| error.into_error())?;
        file.sync_all()?;
        let path = self.folder.join(JOURNAL);
        std::fs::rename(path.with_extension("new"), path)
    }
}

/// Reads the journal of a preview's folder.
pub fn read(folder: &Path) -> io::Result<impl Iterator<Item = io::Result<Step>> + use<>> {
    let file = BufReader::new(File::open(folder.join(JOURNAL))?);
    Ok(file
        .split(b'\n')
        .map(|line| Ok(serde_json::from_slice(&line?)?)))
}

/// Reads it from its end, one step after the other: only where each begins is held.
pub fn read_back(
    folder: &Path,
) -> io::Result<impl Iterator<Item = io::Result<(usize, Step)>> + use<>> {
    let mut file = BufReader::new(File::open(folder.join(JOURNAL))?);
    let (mut starts, mut at, mut line) = (Vec::new(), 0, Vec::new());
    loop {
        line.clear();
        match file.read_until(b'\n', &mut line)? {
            0 => break,
            length => {
                starts.push(at);
                at += length as u64;
            }
        }
    }
    Ok((0..starts.len()).rev().map(move |number| {
        let start = starts.get(number).copied().unwrap_or_default();
        let mut line = Vec::new();
        file.seek(SeekFrom::Start(start))?;
        file.read_until(b'\n', &mut line)?;
        Ok((number, serde_json::from_slice(&line)?))
    }))
}
