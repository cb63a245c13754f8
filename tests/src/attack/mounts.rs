//! The mount table: covering, uncovering and moving what a jail is made of.

use std::fs;
use std::io;

use nix::sys::statvfs::{FsFlags, statvfs};

use super::raw::{address, c, call};
use super::{ATTEMPTS, Found, word};

/// `mount PLACE`: an empty file system of one's own.
pub fn mount(words: &[String]) -> Found {
    let place = c(word(words, 0)?);
    let kind = c("tmpfs");
    let arguments = [
        address(kind.as_c_str()),
        address(place.as_c_str()),
        address(kind.as_c_str()),
        0,
        0,
    ];
    call(libc::SYS_mount, &arguments)?;
    Ok("mounted a tmpfs".to_string())
}

/// `mount-bind SOURCE PLACE`: the same files under another, writable name.
pub fn bind(words: &[String]) -> Found {
    let (source, place) = (c(word(words, 0)?), c(word(words, 1)?));
    let flags = (libc::MS_BIND | libc::MS_REC) as usize;
    call(
        libc::SYS_mount,
        &[
            address(source.as_c_str()),
            address(place.as_c_str()),
            0,
            flags,
            0,
        ],
    )?;
    Ok("bound a folder".to_string())
}

/// `remount PLACE`: read-only taken back. The other flags stay: those that the kernel has locked
/// (how access times are kept, say) may not be taken off along with it.
pub fn remount(words: &[String]) -> Found {
    let place = c(word(words, 0)?);
    let known = statvfs(place.as_c_str()).map_err(io::Error::from)?.flags();
    let kept = [
        (FsFlags::ST_NOSUID, libc::MS_NOSUID),
        (FsFlags::ST_NODEV, libc::MS_NODEV),
        (FsFlags::ST_NOEXEC, libc::MS_NOEXEC),
        (FsFlags::ST_NOATIME, libc::MS_NOATIME),
        (FsFlags::ST_NODIRATIME, libc::MS_NODIRATIME),
        (FsFlags::ST_RELATIME, libc::MS_RELATIME),
    ]
    .into_iter()
    .filter(|(flag, _)| known.contains(*flag))
    .fold(0, |flags, (_, flag)| flags | flag);
    let flags = (libc::MS_REMOUNT | libc::MS_BIND | kept) as usize;
    call(
        libc::SYS_mount,
        &[0, address(place.as_c_str()), 0, flags, 0],
    )?;
    Ok("remounted".to_string())
}

/// `umount PLACE`: uncovers what a mount hides.
pub fn umount(words: &[String]) -> Found {
    if super::gate::on_the_host() {
        // A weak jail has mounts of its own to take away; the host's are locked.
        mount(words)?;
    }
    // By its full name: "." would be what lies below the mount.
    let place = fs::canonicalize(word(words, 0)?)?;
    let place = c(&place.display().to_string());
    call(
        libc::SYS_umount2,
        &[address(place.as_c_str()), libc::MNT_DETACH as usize],
    )?;
    Ok("unmounted".to_string())
}

/// `fsopen`: the first step of the newer way to mount.
pub fn fsopen(_: &[String]) -> Found {
    let kind = c("tmpfs");
    let context = call(libc::SYS_fsopen, &[address(kind.as_c_str()), 0])?;
    Ok(format!("got file system context {context}"))
}

/// `fsmount`: the newer way to the end.
pub fn fsmount(_: &[String]) -> Found {
    let kind = c("tmpfs");
    let context = call(libc::SYS_fsopen, &[address(kind.as_c_str()), 0])?;
    const CREATE: usize = 6;
    call(libc::SYS_fsconfig, &[context, CREATE, 0, 0, 0])?;
    let mount = call(libc::SYS_fsmount, &[context, 0, 0])?;
    Ok(format!("got mount {mount}"))
}

/// `open-tree PLACE`: a private copy of a mount.
pub fn open_tree(words: &[String]) -> Found {
    let tree = clone_tree(word(words, 0)?)?;
    Ok(format!("got tree {tree}"))
}

fn clone_tree(place: &str) -> io::Result<usize> {
    const CLONE: usize = 1;
    let place = c(place);
    call(
        libc::SYS_open_tree,
        &[libc::AT_FDCWD as usize, address(place.as_c_str()), CLONE],
    )
}

/// `move-mount SOURCE PLACE`: a mount moved to where it is writable.
pub fn move_mount(words: &[String]) -> Found {
    const FROM_DESCRIPTOR: usize = 4;
    let here = libc::AT_FDCWD as usize;
    let (source, place, empty) = (c(word(words, 0)?), c(word(words, 1)?), c(""));
    match clone_tree(word(words, 0)?) {
        Ok(tree) => call(
            libc::SYS_move_mount,
            &[
                tree,
                address(empty.as_c_str()),
                here,
                address(place.as_c_str()),
                FROM_DESCRIPTOR,
            ],
        )?,
        // Without a copy, the mount itself.
        Err(_) => call(
            libc::SYS_move_mount,
            &[
                here,
                address(source.as_c_str()),
                here,
                address(place.as_c_str()),
                0,
            ],
        )?,
    };
    Ok("moved a mount".to_string())
}

/// `mount-setattr PLACE`: read-only taken back, the newer way.
pub fn setattr(words: &[String]) -> Found {
    let place = c(word(words, 0)?);
    // struct mount_attr { set, clear, propagation, userns }: clears MOUNT_ATTR_RDONLY.
    let attributes: [u64; 4] = [0, 1, 0, 0];
    let size = size_of_val(&attributes);
    let arguments = [
        libc::AT_FDCWD as usize,
        address(place.as_c_str()),
        0,
        address(&attributes),
        size,
    ];
    call(libc::SYS_mount_setattr, &arguments)?;
    Ok("changed a mount".to_string())
}

/// `pivot-root PLACE`: another root.
pub fn pivot_root(words: &[String]) -> Found {
    // A mount point of one's own is needed first; where that is refused the
    // pivot is tried all the same.
    let _ = mount(words);
    // By its full name: "." would stay below what was just mounted there.
    std::env::set_current_dir(fs::canonicalize(word(words, 0)?)?)?;
    let dot = c(".");
    call(
        libc::SYS_pivot_root,
        &[address(dot.as_c_str()), address(dot.as_c_str())],
    )?;
    Ok("changed the root".to_string())
}

/// `chroot PLACE`: the classic: a root below, a folder kept above.
pub fn chroot(words: &[String]) -> Found {
    let place = c(word(words, 0)?);
    call(libc::SYS_chroot, &[address(place.as_c_str())])?;
    Ok("changed the root".to_string())
}

/// `mounts-nosuid`: a mount where a set-user-id bit or a device would work.
pub fn without_nosuid(words: &[String]) -> Found {
    let flag = word(words, 0)?;
    let table = fs::read_to_string("/proc/self/mountinfo")?;
    let open: Vec<&str> = table
        .lines()
        .filter_map(|line| {
            let mut fields = line.split(' ');
            let place = fields.nth(4)?;
            let options = fields.next()?;
            let kind = line.split(" - ").nth(1)?.split(' ').next()?;
            // Terminals and the few harmless devices are bound by file.
            let devices = flag == "nodev" && (kind == "devpts" || place.starts_with("/dev/"));
            (!devices && !options.split(',').any(|option| option == flag)).then_some(place)
        })
        .collect();
    if open.is_empty() {
        Err(format!("every mount is {flag}").into())
    } else {
        Ok(format!("not {flag}: {open:?}"))
    }
}

/// `weak ATTEMPT…`: the weaker arrangement for controls: own user, mount, net
/// and UTS namespaces, and all capabilities kept. What a jail looks like that
/// forgot to drop them and has no filter.
pub fn in_weak_jail(words: &[String]) -> Found {
    // SAFETY: ids of ourselves; no memory involved.
    let (uid, gid) = unsafe { (libc::getuid(), libc::getgid()) };
    let kinds = libc::CLONE_NEWUSER
        | libc::CLONE_NEWNS
        | libc::CLONE_NEWNET
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWIPC;
    call(libc::SYS_unshare, &[kinds as usize])?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
    fs::write("/proc/self/gid_map", format!("{gid} {gid} 1"))?;
    let root = c("/");
    let private = (libc::MS_REC | libc::MS_PRIVATE) as usize;
    call(
        libc::SYS_mount,
        &[0, address(root.as_c_str()), 0, private, 0],
    )?;
    let name = word(words, 0)?;
    match ATTEMPTS.iter().find(|(known, _)| *known == name) {
        Some((_, attempt)) => attempt(&words[1..]),
        None => {
            eprintln!("attacker: no such attempt: {name}");
            std::process::exit(2)
        }
    }
}
