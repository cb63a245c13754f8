//! A home with a Rust toolchain in it that any user can read.
//!
//! The toolchain of whoever started the suites usually lies in a closed home.
//! The real-work suite needs one that an ordinary account sees as its own, so the
//! files (without the documentation) are linked into a home made for that.

use std::env;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Links the toolchain in use into `home`, as rustup lays it out. Without
/// rustup nothing is done: a toolchain of the system is seen by all.
pub(crate) fn share(home: &Path) -> io::Result<()> {
    let Some(sysroot) = sysroot() else {
        return Ok(());
    };
    let (Some(name), Some(rustup)) = (sysroot.file_name(), rustup_program()) else {
        return Ok(());
    };
    let toolchain = home.join(".rustup/toolchains").join(name);
    for part in ["bin", "lib", "libexec", "etc"] {
        link_tree(&sysroot.join(part), &toolchain.join(part))?;
    }
    fs::write(
        home.join(".rustup/settings.toml"),
        format!(
            "version = \"12\"\ndefault_toolchain = \"{}\"\n",
            name.display()
        ),
    )?;
    // Folders that rustup would otherwise make on first use.
    for name in ["update-hashes", "downloads", "tmp"] {
        fs::create_dir_all(home.join(".rustup").join(name))?;
    }
    let programs = home.join(".cargo/bin");
    fs::create_dir_all(&programs)?;
    link(&rustup, &programs.join("rustup"))?;
    for name in ["cargo", "rustc", "rustdoc"] {
        symlink("rustup", programs.join(name))?;
    }
    Ok(())
}

/// Where the compiler in use lives, if rustup put it there.
fn sysroot() -> Option<PathBuf> {
    let output = Command::new("rustc")
        .args(["--print", "sysroot"])
        .output()
        .ok()?;
    let path = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    path.parent()?.ends_with("toolchains").then_some(path)
}

fn rustup_program() -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?)
        .map(|folder| folder.join("rustup"))
        .find_map(|path| fs::canonicalize(path).ok())
}

fn link_tree(from: &Path, to: &Path) -> io::Result<()> {
    let Ok(entries) = fs::read_dir(from) else {
        return Ok(());
    };
    fs::create_dir_all(to)?;
    for entry in entries {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            link_tree(&entry.path(), &target)?;
        } else {
            link(&entry.path(), &target)?;
        }
    }
    Ok(())
}

/// A second name where that is possible, a copy where it is not.
fn link(from: &Path, to: &Path) -> io::Result<()> {
    fs::hard_link(from, to).or_else(|_| fs::copy(from, to).map(drop))
}
