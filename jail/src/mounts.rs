//! The jail's file tree: built on a tmpfs through descriptors, then pivoted into.
//!
//! The walls: a source is opened without following any link and must be the very file
//! the supervisor looked at; a destination is opened beneath the new root, again without
//! links, so nothing that a workspace contains can lead a mount elsewhere.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::mount::{MntFlags, umount2};
use nix::sys::stat::{Mode, mkdirat};
use nix::unistd::{UnlinkatFlags, fchdir, pivot_root, symlinkat, unlinkat, write};

use crate::layout::{Lasting, Mount, Overlay, Place, Root, What};
use crate::step::{At, Failure, Step};
use crate::sys::file::{BENEATH, DescriptorPath, FileId, NO_LINKS, openat2};
use crate::sys::mount::{self, NO_DEVICES, NO_EXEC, NO_SUID, READ_ONLY, Reach};

/// What is kept of the world outside until the jail has verified itself: a handle on
/// the old root, which Landlock must refuse to open.
#[derive(Debug)]
pub struct Outside {
    /// The old root, as a place only (`O_PATH`).
    pub old_root: OwnedFd,
    /// The identity of the new root.
    pub new_root: FileId,
}

/// Builds the tree and makes it the root of this process.
pub fn enter(root: &Root) -> Result<Outside, Failure> {
    let old_root = openat2(None, c"/", libc::O_PATH | libc::O_DIRECTORY, 0, 0).at(Step::Private)?;
    mount::make_private(old_root.as_fd()).at(Step::Private)?;

    let new_root = mount::fresh(
        c"tmpfs",
        &[
            (c"size", &root.size),
            (c"nr_inodes", &root.inodes),
            (c"mode", c"0755"),
        ],
        NO_SUID | NO_DEVICES,
    )
    .at(Step::Root)?;
    // On top of the old root: lookups from `/` still see the old one beneath it.
    mount::attach(new_root.as_fd(), old_root.as_fd()).at(Step::Root)?;

    // The permissions below are meant as they stand.
    let callers = nix::sys::stat::umask(Mode::empty());
    make(root, new_root.as_fd())?;
    let masks = Masks::new(new_root.as_fd()).at(Step::Destination)?;
    for (index, entry) in root.mounts.iter().enumerate() {
        put(entry, new_root.as_fd(), &masks, index)?;
    }
    Masks::forget(new_root.as_fd()).at(Step::Destination)?;
    nix::sys::stat::umask(callers);
    mount::set_attributes(new_root.as_fd(), READ_ONLY, Reach::One).at(Step::Root)?;

    fchdir(&new_root).at(Step::Pivot)?;
    pivot_root(c".", c".").at(Step::Pivot)?;
    // The old root now lies on top of the new one, at the working folder.
    umount2(c".", MntFlags::MNT_DETACH).at(Step::Pivot)?;
    nix::unistd::chdir(c"/").at(Step::Pivot)?;
    let new_root = FileId::of(new_root.as_fd()).at(Step::Pivot)?;
    Ok(Outside { old_root, new_root })
}

/// Folders, files and links on the empty tmpfs.
fn make(root: &Root, at: BorrowedFd<'_>) -> Result<(), Failure> {
    for (index, folder) in root.folders.iter().enumerate() {
        mkdirat(
            at,
            folder.path.as_c_str(),
            Mode::from_bits_truncate(folder.mode),
        )
        .at_item(Step::Folder, index)?;
    }
    for (index, file) in root.files.iter().enumerate() {
        new_file(at, &file.path, &file.contents, file.mode).at_item(Step::File, index)?;
    }
    for (index, link) in root.links.iter().enumerate() {
        symlinkat(link.target.as_c_str(), at, link.path.as_c_str()).at_item(Step::Link, index)?;
    }
    Ok(())
}

fn new_file(at: BorrowedFd<'_>, path: &CStr, contents: &[u8], mode: u32) -> nix::Result<()> {
    let flags =
        OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let file = nix::fcntl::openat(at, path, flags, Mode::from_bits_truncate(mode))?;
    let mut rest = contents;
    while !rest.is_empty() {
        let written = write(&file, rest)?;
        rest = rest.get(written..).ok_or(Errno::EIO)?;
    }
    Ok(())
}

/// One mount: taken, given its attributes, attached.
fn put(entry: &Mount, root: BorrowedFd<'_>, masks: &Masks, index: usize) -> Result<(), Failure> {
    // With these flags a link at the very end is opened as itself, for a mask to cover it.
    let dest = openat2(
        Some(root),
        &entry.dest,
        libc::O_PATH | libc::O_NOFOLLOW,
        0,
        BENEATH,
    )
    .at_item(Step::Destination, index)?;
    let (tree, reach) = match &entry.what {
        What::Host(place) => (take(place, index)?, Reach::Tree),
        What::Itself => (
            mount::copy(dest.as_fd(), Reach::Tree).at_item(Step::CloneMount, index)?,
            Reach::Tree,
        ),
        What::Overlay(overlay) => (layer(overlay, index)?, Reach::One),
        What::Held => (
            mount::copy(dest.as_fd(), Reach::Tree).at_item(Step::CloneMount, index)?,
            Reach::Tree,
        ),
        What::MaskFile => (
            mount::copy(masks.file.as_fd(), Reach::One).at_item(Step::CloneMount, index)?,
            Reach::One,
        ),
        What::MaskFolder => (
            mount::copy(masks.folder.as_fd(), Reach::One).at_item(Step::CloneMount, index)?,
            Reach::One,
        ),
        What::Proc => {
            let proc = mount::fresh(
                c"proc",
                // Processes that one may not look into are not there at all: pid 1.
                &[(c"hidepid", c"2")],
                NO_SUID | NO_DEVICES | NO_EXEC,
            )
            .at(Step::Proc)?;
            forbid_user_namespaces(proc.as_fd()).at(Step::Proc)?;
            (proc, Reach::One)
        }
        What::Pts => (
            mount::fresh(
                c"devpts",
                &[(c"mode", c"0600"), (c"ptmxmode", c"0666")],
                NO_SUID | NO_EXEC,
            )
            .at(Step::Pts)?,
            Reach::One,
        ),
    };
    if entry.attributes != 0 {
        mount::set_attributes(tree.as_fd(), entry.attributes, reach)
            .at_item(Step::MountAttributes, index)?;
    }
    mount::attach(tree.as_fd(), dest.as_fd()).at_item(Step::Attach, index)
}

/// Even with the system-call filter gone nobody inside could make a user namespace, and
/// with it capabilities.
fn forbid_user_namespaces(proc: BorrowedFd<'_>) -> nix::Result<()> {
    let path = c"sys/user/max_user_namespaces";
    match openat2(Some(proc), path, libc::O_WRONLY, 0, BENEATH) {
        Ok(file) => write(&file, b"0").map(drop),
        // A kernel without this knob.
        Err(Errno::ENOENT) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// A copy of a host mount, if the source is still what the supervisor saw.
fn take(place: &Place, index: usize) -> Result<OwnedFd, Failure> {
    let source =
        openat2(None, &place.path, libc::O_PATH, 0, NO_LINKS).at_item(Step::OpenSource, index)?;
    if !place.is(FileId::of(source.as_fd()).at_item(Step::OpenSource, index)?) {
        return Err(Errno::ESTALE).at_item(Step::SourceChanged, index);
    }
    mount::copy(source.as_fd(), Reach::Tree).at_item(Step::CloneMount, index)
}

/// A folder of the host under a layer that takes the changes. The kernel is given
/// descriptors: a path would have to be short, and would be shown inside.
fn layer(overlay: &Overlay, index: usize) -> Result<OwnedFd, Failure> {
    let open = |path: &CStr| {
        openat2(None, path, libc::O_PATH | libc::O_DIRECTORY, 0, NO_LINKS)
            .at_item(Step::OpenSource, index)
    };
    let lower = open(&overlay.lower.path)?;
    if !overlay
        .lower
        .is(FileId::of(lower.as_fd()).at_item(Step::OpenSource, index)?)
    {
        return Err(Errno::ESTALE).at_item(Step::SourceChanged, index);
    }
    let (upper, work) = (open(&overlay.upper)?, open(&overlay.work)?);
    let names = [&lower, &upper, &work].map(|folder| DescriptorPath::of(folder.as_fd()));
    let [lower_name, upper_name, work_name] = &names;
    let usual = [
        (c"userxattr", c""),
        (c"lowerdir", lower_name.as_c_str()),
        (c"upperdir", upper_name.as_c_str()),
        (c"workdir", work_name.as_c_str()),
    ];
    let [attributes, lower, upper, work] = usual;
    let hasty = [attributes, lower, upper, work, (c"volatile", c"")];
    let options = match overlay.lasting {
        Lasting::AsUsual => usual.as_slice(),
        Lasting::WhenKept => hasty.as_slice(),
    };
    mount::fresh(c"overlay", options, NO_SUID | NO_DEVICES).at_item(Step::Overlay, index)
}

/// An unreadable file and an unreadable folder, to be laid over what must not be seen.
/// They are read-only mounts, so their owner, the jail's own user, cannot change their
/// permissions either.
struct Masks {
    file: OwnedFd,
    folder: OwnedFd,
}

const FILE: &CStr = c".mask-file";
const FOLDER: &CStr = c".mask-folder";

impl Masks {
    fn new(root: BorrowedFd<'_>) -> nix::Result<Masks> {
        new_file(root, FILE, b"", 0)?;
        mkdirat(root, FOLDER, Mode::empty())?;
        Ok(Masks {
            file: openat2(Some(root), FILE, libc::O_PATH, 0, BENEATH)?,
            folder: openat2(Some(root), FOLDER, libc::O_PATH, 0, BENEATH)?,
        })
    }

    /// Takes their names away; what they are mounted on stays covered.
    fn forget(root: BorrowedFd<'_>) -> nix::Result<()> {
        unlinkat(root, FILE, UnlinkatFlags::NoRemoveDir)?;
        unlinkat(root, FOLDER, UnlinkatFlags::RemoveDir)
    }
}
