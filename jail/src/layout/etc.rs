//! A harmless `/etc`: a few generated files, and the files and folders that the profile
//! names.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use sjail_policy::bytes::ByteString;

use super::etc_image::Image;
use super::origin::{Kind, Shown};
use super::tree::Tree;
use super::{Host, NetworkSpace, look};
use crate::error::Error;
use crate::net;

/// Files up to this length are copied.
const SMALL: u64 = 64 * 1024;

/// Shows an image of the harmless `/etc` where there is a place to keep one; draws it up
/// file by file otherwise. The image must be kept as long as the jail runs.
pub fn lay(
    tree: &mut Tree,
    list: &[ByteString],
    host: &Host,
    network: NetworkSpace,
) -> Result<Option<Image>, Error> {
    let generated = generated(host, network);
    let place = Path::new("/etc");
    if let Some(folder) = &host.images
        && let Some(image) = Image::find(folder, list, &generated)
    {
        tree.show(image.seen.clone(), place, Shown::ReadOnly);
        return Ok(Some(image));
    }
    tree.folder(place, 0o755);
    for (path, contents) in &generated {
        tree.file(Path::new(path), contents.clone().into_bytes(), 0o444)?;
    }
    for path in list {
        let path = path.as_path();
        if !generated.iter().any(|(made, _)| Path::new(made) == path) {
            single(tree, path)?;
        }
    }
    Ok(None)
}

fn single(tree: &mut Tree, path: &Path) -> Result<(), Error> {
    let Some((seen, stat)) = look::at(path) else {
        return Ok(());
    };
    match seen.kind {
        Kind::Link => {
            if let Ok(target) = std::fs::read_link(path) {
                tree.link(path, &target);
            }
        }
        Kind::Folder => tree.show(seen, path, Shown::ReadOnly),
        Kind::File if stat.st_size as u64 <= SMALL => {
            // What this user cannot read the jail could not either.
            if let Some(contents) = contents(path) {
                tree.file(path, contents, 0o444)?;
            }
        }
        Kind::File => tree.show(seen, path, Shown::ReadOnly),
    }
    Ok(())
}

fn contents(path: &Path) -> Option<Vec<u8>> {
    let mut contents = Vec::new();
    let file = File::open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    file.take(SMALL).read_to_end(&mut contents).ok()?;
    Some(contents)
}

/// Users, groups and hosts as they are inside: root, oneself, nobody; this machine only.
fn generated(host: &Host, network: NetworkSpace) -> Vec<(&'static str, String)> {
    let Host {
        uid,
        gid,
        user,
        group,
        ..
    } = host;
    let home = host.home.display();
    let mut passwd = String::from("root:x:0:0:root:/root:/bin/sh\n");
    let mut groups = String::from("root:x:0:\n");
    if *uid != 0 {
        passwd.push_str(&format!("{user}:x:{uid}:{gid}::{home}:{}\n", host.shell));
    }
    if *gid != 0 {
        groups.push_str(&format!("{group}:x:{gid}:\n"));
    }
    passwd.push_str("nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n");
    groups.push_str("tty:x:5:\nnogroup:x:65534:\n");
    let mut files = vec![
        ("/etc/passwd", passwd),
        ("/etc/group", groups),
        ("/etc/hostname", format!("{}\n", super::HOST_NAME)),
    ];
    match network {
        NetworkSpace::Own | NetworkSpace::Published | NetworkSpace::Filtered => files.extend([
            (
                "/etc/hosts",
                format!(
                    "127.0.0.1 localhost {}\n::1 localhost ip6-localhost ip6-loopback\n",
                    super::HOST_NAME
                ),
            ),
            (
                "/etc/nsswitch.conf",
                "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n"
                    .to_owned(),
            ),
            (
                "/etc/resolv.conf",
                match network {
                    NetworkSpace::Filtered => format!("nameserver {}\n", net::RESOLVER),
                    _ => "# This jail has no network.\n".to_owned(),
                },
            ),
        ]),
        NetworkSpace::Host => files.extend([
            ("/etc/hosts", read("/etc/hosts")),
            (
                "/etc/nsswitch.conf",
                "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n"
                    .to_owned(),
            ),
            ("/etc/resolv.conf", read("/etc/resolv.conf")),
        ]),
    }
    files
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}
