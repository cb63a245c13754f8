//! What every jail has: system folders, `/proc`, `/dev`, private `/tmp` and `/run`.

use std::path::{Path, PathBuf};

use sjail_policy::bytes::ByteString;

use super::origin::{Kind, Shown};
use super::tree::Tree;
use super::{What, look};
use crate::error::Error;
use crate::sys::mount::{NO_DEVICES, NO_EXEC, NO_SUID, READ_ONLY};

/// Devices that programs expect and that give nothing away.
pub const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// Parts of `/proc` that can be looked at but not changed. Only the first needs a mount
/// where the command is not root: the sysctls of the jail's own namespaces are its own.
/// The others belong to the host's root, who is not in the jail.
const PROC_READ_ONLY: [&str; 5] = ["sys", "irq", "bus", "fs", "sysrq-trigger"];

/// Parts of `/proc` that tell about the host, its keys or its memory. Only the first two
/// can be read by others than the host's root.
const PROC_MASKED: [&str; 14] = [
    "keys",
    "key-users",
    "kcore",
    "kmsg",
    "kpagecgroup",
    "kpagecount",
    "kpageflags",
    "timer_list",
    "sched_debug",
    "latency_stats",
    "slabinfo",
    "vmallocinfo",
    "acpi",
    "scsi",
];

/// The ground that everything else is put on.
pub fn lay(tree: &mut Tree, system: &[ByteString], uid: u32) -> Result<(), Error> {
    folders(tree, system)?;
    processes(tree, uid);
    devices(tree)?;
    for (path, mode) in [("/tmp", 0o1777), ("/var/tmp", 0o1777), ("/dev/shm", 0o1777)] {
        tree.folder(Path::new(path), mode);
        tree.own(What::Itself, Path::new(path), 0);
    }
    tree.folder(Path::new("/run"), 0o755);
    tree.link(Path::new("/var/run"), Path::new("../run"));
    Ok(())
}

/// `/usr` and its kin, read-only; a link among them (`/bin` where `/usr` is merged) stays
/// a link.
pub fn folders(tree: &mut Tree, system: &[ByteString]) -> Result<(), Error> {
    for path in system {
        let path = path.as_path();
        let Some((seen, _)) = look::at(path) else {
            continue;
        };
        match seen.kind {
            Kind::Folder | Kind::File => tree.show(seen, path, Shown::ReadOnly),
            Kind::Link => {
                let target = std::fs::read_link(path).map_err(|error| Error::Look {
                    path: path.to_owned(),
                    error,
                })?;
                tree.link(path, &target);
            }
        }
    }
    Ok(())
}

fn processes(tree: &mut Tree, uid: u32) {
    let proc = Path::new("/proc");
    tree.folder(proc, 0o555);
    tree.own(What::Proc, proc, 0);
    let count = if uid == 0 { PROC_READ_ONLY.len() } else { 1 };
    for name in PROC_READ_ONLY.iter().take(count) {
        let path = proc.join(name);
        if look::at(&path).is_some() {
            tree.own(
                What::Itself,
                &path,
                READ_ONLY | NO_SUID | NO_DEVICES | NO_EXEC,
            );
        }
    }
    let count = if uid == 0 { PROC_MASKED.len() } else { 2 };
    for name in PROC_MASKED.iter().take(count) {
        let path = proc.join(name);
        if let Some((seen, _)) = look::at(&path) {
            tree.mask(&path, seen.kind);
        }
    }
}

fn devices(tree: &mut Tree) -> Result<(), Error> {
    let dev = Path::new("/dev");
    tree.folder(dev, 0o755);
    for name in DEVICES {
        let path = dev.join(name);
        let Some((seen, _)) = look::at(&path) else {
            return Err(Error::NoDevice { path });
        };
        tree.show(seen, &path, Shown::Device);
    }
    tree.folder(&dev.join("pts"), 0o755);
    tree.own(What::Pts, &dev.join("pts"), 0);
    for (name, target) in [
        ("ptmx", "pts/ptmx"),
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ] {
        tree.link(&dev.join(name), &PathBuf::from(target));
    }
    Ok(())
}
