//! An index as git sees it: a file mapped into memory. Entries are wherever an offset says,
//! and behind the file's end are zeros up to the page's.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::Unread;

/// A real one of so many bytes has ten million entries.
const LARGEST: u64 = 1 << 30;

/// What of the last page is behind the end, at most.
const PAGE: u64 = 4096;

/// Why reading ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Git itself gets no further.
    End,
    /// It could go on, and is not gone through any further here.
    Unread(Unread),
}

/// An open index.
#[derive(Debug)]
pub struct Text {
    file: BufReader<File>,
    size: u64,
    at: u64,
    /// How many bytes may still be read: offsets could lead to the same ones again and again.
    left: u64,
}

impl Text {
    /// `None` where git finds no index, either.
    pub fn open(path: &Path) -> Result<Option<Text>, Unread> {
        let file = match open(path) {
            Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {
                fs::canonicalize(path).and_then(|real| open(&real))
            }
            file => file,
        };
        let Ok(file) = file else { return Ok(None) };
        let Ok(there) = file.metadata() else {
            return Ok(None);
        };
        if !there.is_file() {
            return Ok(None);
        }
        let size = there.len();
        if size > LARGEST {
            return Err(Unread::TooMuch);
        }
        Ok(Some(Text {
            file: BufReader::with_capacity(16 << 10, file),
            size,
            at: 0,
            left: size * 4 + PAGE,
        }))
    }

    /// How long the file is.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Where the next byte comes from.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// Goes on at another place.
    pub fn go_to(&mut self, at: u64) -> Result<(), Stop> {
        let forth = at
            .checked_sub(self.at)
            .and_then(|by| i64::try_from(by).ok());
        let gone = match forth {
            Some(by) => self.file.seek_relative(by),
            None => self.file.seek(SeekFrom::Start(at)).map(drop),
        };
        gone.map_err(|_| Stop::End)?;
        self.at = at;
        Ok(())
    }

    /// The next bytes, all of them.
    pub fn fill(&mut self, bytes: &mut [u8]) -> Result<(), Stop> {
        let mut rest = &mut bytes[..];
        self.pieces(Some(rest.len()), |piece| {
            let (to, left) = std::mem::take(&mut rest).split_at_mut(piece.len());
            to.copy_from_slice(piece);
            rest = left;
        })
        .map(drop)
    }

    /// The next four bytes as a number.
    pub fn number(&mut self) -> Result<u32, Stop> {
        let mut bytes = [0; 4];
        self.fill(&mut bytes)?;
        Ok(u32::from_be_bytes(bytes))
    }

    /// The next byte.
    pub fn byte(&mut self) -> Result<u8, Stop> {
        let mut bytes = [0];
        self.fill(&mut bytes)?;
        Ok(bytes[0])
    }

    /// So many of the next bytes, or all to a zero and with it, in pieces; how many there were.
    pub fn pieces(
        &mut self,
        count: Option<usize>,
        mut each: impl FnMut(&[u8]),
    ) -> Result<usize, Stop> {
        let mut done = 0;
        while count != Some(done) {
            let there = match self.file.fill_buf() {
                Ok([]) if self.at < self.size.next_multiple_of(PAGE) => &[0],
                Ok([]) | Err(_) => return Err(Stop::End),
                Ok(there) => there,
            };
            let end = match count {
                Some(count) => count - done,
                None => there
                    .iter()
                    .position(|byte| *byte == 0)
                    .map_or(there.len(), |at| at + 1),
            };
            let piece = there.get(..end).unwrap_or(there);
            each(piece);
            let (length, is_end) = (piece.len(), count.is_none() && piece.ends_with(&[0]));
            self.file.consume(length);
            self.at += length as u64;
            self.left = self
                .left
                .checked_sub(length as u64)
                .ok_or(Stop::Unread(Unread::TooMuch))?;
            done += length;
            if is_end {
                break;
            }
        }
        Ok(done)
    }
}

fn open(path: &Path) -> io::Result<File> {
    File::options()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)
}
