//! Holes of sparse files.
//!
//! When a command first writes to a file of the host, or gives it another name, the kernel
//! copies it into the layer, and writes out as zeros most of what was a hole (it looks for
//! one only where a megabyte begins). Kept like that, a file could take up far more room
//! than it does after a run for real. So what was a hole, and still reads as zeros, becomes
//! a hole again.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, FallocateFlags, fallocate};
use nix::sys::stat::{FchmodatFlags, Mode, fchmod, fchmodat, futimens};
use nix::sys::time::TimeSpec;
use nix::unistd::{Whence, lseek};

use super::entry::{Act, Entry};
use crate::beneath::{Beneath, Kind};
use crate::sys::file::DescriptorPath;
use crate::sys::xattr;

/// Where it is not known what the file was, only larger ones are gone through.
const WORTH_IT: u64 = 64 << 10;
/// So much is looked at at a time: a multiple of every block size.
const PIECE: u64 = 64 << 10;

/// Digs the holes again that a change of an overlay's layer has lost. That it cannot be
/// done costs room and nothing else.
pub fn dig(entry: &Entry, upper: &Beneath, lower: &Beneath) {
    if entry.kind != Kind::File || entry.kept_out.is_some() {
        return;
    }
    let path = entry.path.as_path();
    let source = match (entry.act, &entry.renamed_from) {
        (Act::Modified, _) if entry.was.is_none() => Some(path),
        (Act::Created, Some(from)) => Some(from.as_path()),
        (Act::Created, None) if entry.size > WORTH_IT && is_copy(upper, path) => None,
        _ => return,
    };
    let _ = match source.map(|source| lower.file(source)) {
        Some(Ok(source)) => holes(&source).and_then(|holes| again(upper, path, &holes)),
        Some(Err(error)) => Err(error),
        None => again(upper, path, std::slice::from_ref(&(0..entry.size))),
    };
}

/// Whether the kernel has copied it from the host: it notes where from.
fn is_copy(upper: &Beneath, path: &Path) -> bool {
    upper
        .place(path)
        .is_ok_and(|place| xattr::value(place.as_fd(), c"user.overlay.origin").is_ok())
}

/// The holes of a file.
fn holes(file: &File) -> io::Result<Vec<Range<u64>>> {
    let size = file.metadata()?.size();
    let (mut found, mut at) = (Vec::new(), 0);
    while at < size {
        let hole = seek(file, at, Whence::SeekHole)?.unwrap_or(size);
        at = seek(file, hole, Whence::SeekData)?.unwrap_or(size);
        if hole < at {
            found.push(hole..at);
        }
    }
    Ok(found)
}

/// Where the next one begins, if there is one.
fn seek(file: &File, from: u64, what: Whence) -> io::Result<Option<u64>> {
    match lseek(file, from.cast_signed(), what) {
        Ok(at) => Ok(Some(at.unsigned_abs())),
        Err(Errno::ENXIO) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// Makes holes of whole blocks of zeros within these ranges; nothing else of the file changes.
fn again(upper: &Beneath, path: &Path, ranges: &[Range<u64>]) -> io::Result<()> {
    let file = upper.file(path)?;
    let meta = file.metadata()?;
    let block = meta.blksize().clamp(512, PIECE);
    let mut zeros = Vec::new();
    for range in ranges {
        let end = range.end.min(meta.size());
        let mut at = range.start.next_multiple_of(block);
        while at < end {
            // What is a hole already is passed over.
            at = match seek(&file, at, Whence::SeekData)? {
                Some(data) if data < end => data - data % block,
                _ => break,
            };
            let stop = end.min(at + PIECE);
            add_zeros(&file, at..stop, block, &mut zeros)?;
            at = stop;
        }
    }
    if zeros.is_empty() {
        return Ok(());
    }
    drop(file);
    let file = writable(upper, path)?;
    let mut done = Ok(());
    for hole in zeros {
        let (start, length) = (hole.start.cast_signed(), hole.end - hole.start);
        let flags = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
        done = done.and(fallocate(&file, flags, start, length.cast_signed()));
    }
    // Writing may have taken bits away that let a program run as somebody else.
    fchmod(&file, Mode::from_bits_truncate(meta.mode() & 0o7777))?;
    let mtime = TimeSpec::new(meta.mtime(), meta.mtime_nsec());
    futimens(&file, &TimeSpec::UTIME_OMIT, &mtime)?;
    Ok(done?)
}

/// The whole blocks of zeros in a piece, and its last one though the file ends in it.
fn add_zeros(
    file: &File,
    piece: Range<u64>,
    block: u64,
    zeros: &mut Vec<Range<u64>>,
) -> io::Result<()> {
    let mut bytes = vec![0; (piece.end - piece.start) as usize];
    file.read_exact_at(&mut bytes, piece.start)?;
    let mut at = piece.start;
    for chunk in bytes.chunks(block as usize) {
        let end = at + chunk.len() as u64;
        if chunk.iter().all(|byte| *byte == 0) {
            match zeros.last_mut() {
                Some(last) if last.end == at => last.end = end,
                _ => zeros.push(at..end),
            }
        }
        at = end;
    }
    Ok(())
}

/// A file of the layer for writing, though it may be closed to its own user.
fn writable(upper: &Beneath, path: &Path) -> io::Result<File> {
    match upper.file_to_change(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let place = upper.place(path)?;
            let own = DescriptorPath::of(place.as_fd());
            let mode = Mode::S_IRUSR | Mode::S_IWUSR;
            fchmodat(AT_FDCWD, own.as_c_str(), mode, FchmodatFlags::FollowSymlink)?;
            upper.file_to_change(path)
        }
        done => done,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const SIZE: u64 = 1 << 20;

    #[test]
    fn what_was_a_hole_is_one_again() {
        let scratch = tempfile::tempdir_in("/var/tmp").unwrap();
        let scratch = fs::canonicalize(scratch.path()).unwrap();
        let (above, below) = (scratch.join("upper"), scratch.join("lower"));
        for folder in [&above, &below] {
            fs::create_dir(folder).unwrap();
        }
        let lower = File::create(below.join("file")).unwrap();
        lower.set_len(SIZE).unwrap();
        lower.write_all_at(b"data", SIZE / 2).unwrap();
        let full = vec![0; SIZE as usize];
        fs::write(above.join("file"), full).unwrap();
        let upper = File::options()
            .write(true)
            .open(above.join("file"))
            .unwrap();
        upper.write_all_at(b"data", SIZE / 2).unwrap();
        upper.write_all_at(b"new", 100_000).unwrap();
        // A hole of both, before data.
        let flags = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
        fallocate(
            &upper,
            flags,
            SIZE.cast_signed() / 4,
            SIZE.cast_signed() / 4,
        )
        .unwrap();
        super::super::fallback::times(&above.join("file"), (1000, 7)).unwrap();
        fs::set_permissions(above.join("file"), Permissions::from_mode(0o4444)).unwrap();
        let before = fs::read(above.join("file")).unwrap();

        let entry = Entry::new(0, "file".into(), Act::Modified, Kind::File);
        let open = |path: &Path| Beneath::open(path).unwrap();
        dig(&entry, &open(&above), &open(&below));

        let meta = fs::metadata(above.join("file")).unwrap();
        assert!(meta.blocks() * 512 < SIZE / 8, "{} blocks", meta.blocks());
        assert_eq!(meta.mode() & 0o7777, 0o4444);
        assert_eq!((meta.mtime(), meta.mtime_nsec()), (1000, 7));
        assert!(fs::read(above.join("file")).unwrap() == before);
    }

    #[test]
    fn zeros_that_were_written_stay() {
        let scratch = tempfile::tempdir_in("/var/tmp").unwrap();
        let scratch = fs::canonicalize(scratch.path()).unwrap();
        fs::write(scratch.join("file"), vec![0; SIZE as usize]).unwrap();
        let beneath = Beneath::open(&scratch).unwrap();
        let before = fs::metadata(scratch.join("file")).unwrap().blocks();
        let entry = Entry::new(0, "file".into(), Act::Modified, Kind::File);
        dig(&entry, &beneath, &beneath);
        assert_eq!(fs::metadata(scratch.join("file")).unwrap().blocks(), before);
    }
}
