//! Finding the program: by the jail's own PATH, in the jail's own view, from outside.

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::AtFlags;
use nix::unistd::{AccessFlags, faccessat};
use sjail_policy::plan::{Command, Variable};

use super::Place;
use super::path::{c_string, plain};
use super::tree::Tree;
use crate::error::Error;
use crate::exec::{Program, ShellScript, shebang};
use crate::sys::file::{FileId, Strings};

/// The kernel follows this many interpreters that are scripts themselves.
const SCRIPTS: usize = 4;

/// The kernel reads this much of a file to see what it is.
const HEAD: usize = 256;

/// Where programs are looked for when the environment does not say.
const USUAL_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Resolves the command's program and prepares its execution.
pub fn resolve(tree: &Tree, command: &Command, cwd: &Path) -> Result<Program, Error> {
    let mut env = command.env.clone();
    let path = clean_path(tree, &mut env);
    let argv = c_strings(command.argv.iter().map(AsRef::<OsStr>::as_ref))?;
    let name = command.argv.first().ok_or(Error::NoCommand)?;
    let wanted = command.program.as_ref().unwrap_or(name);
    let found = find(tree, wanted.as_os_str(), &path, cwd)?;
    let envp = c_strings(
        env.iter()
            .map(entry)
            .collect::<Vec<_>>()
            .iter()
            .map(|entry| OsStr::from_bytes(entry)),
    )?;
    build(tree, found, argv, envp.into(), cwd)
}

/// A program as it was found.
struct Found {
    /// As it is called inside: what a script is told to be its own name.
    called: PathBuf,
    /// Where it is inside.
    place: Place,
    /// Its first bytes.
    head: Vec<u8>,
}

fn find(tree: &Tree, name: &OsStr, path: &[PathBuf], cwd: &Path) -> Result<Found, Error> {
    let missing = || Error::NotFound {
        program: name.to_owned(),
    };
    if name.is_empty() {
        return Err(missing());
    }
    if name.as_bytes().contains(&b'/') {
        return open(tree, Path::new(name), cwd)
            .map_err(|errno| refused(name, errno))?
            .ok_or_else(missing);
    }
    let mut worst = None;
    for folder in path {
        match open(tree, &folder.join(name), cwd) {
            Ok(Some(found)) => return Ok(found),
            Ok(None) | Err(Errno::ENOENT | Errno::ENOTDIR) => {}
            Err(errno) => worst = Some(errno),
        }
    }
    Err(worst.map_or_else(missing, |errno| refused(name, errno)))
}

fn refused(name: &OsStr, errno: Errno) -> Error {
    match errno {
        Errno::ENOENT | Errno::ENOTDIR => Error::NotFound {
            program: name.to_owned(),
        },
        errno => Error::NotExecutable {
            program: name.to_owned(),
            errno,
        },
    }
}

/// Opens what a path inside stands for; `None` when the jail does not show it.
fn open(tree: &Tree, called: &Path, cwd: &Path) -> Result<Option<Found>, Errno> {
    let inside = cwd.join(called);
    let outside = match plain(&inside).and_then(|plain| host_path(tree, &plain)) {
        Some(outside) => outside,
        // With `..` in it, or not on a host mount by name: as the host has it, and the
        // child compares.
        None if inside
            .components()
            .any(|part| part == std::path::Component::ParentDir) =>
        {
            inside.clone()
        }
        None => return Ok(None),
    };
    faccessat(
        nix::fcntl::AT_FDCWD,
        &outside,
        AccessFlags::X_OK,
        AtFlags::AT_EACCESS,
    )?;
    let mut head = Vec::new();
    let id = match File::open(&outside) {
        Ok(file) => {
            let stat = nix::sys::stat::fstat(&file)?;
            if stat.st_mode & libc::S_IFMT != libc::S_IFREG {
                return Err(Errno::EACCES);
            }
            let _ = file.take(HEAD as u64).read_to_end(&mut head);
            FileId::from(&stat)
        }
        // Executable but not readable: an ELF file, since a script could not be read.
        Err(_) => {
            let stat = nix::sys::stat::stat(&outside)?;
            if stat.st_mode & libc::S_IFMT != libc::S_IFREG {
                return Err(Errno::EACCES);
            }
            FileId::from(&stat)
        }
    };
    let place = Place {
        path: CString::new(inside.as_os_str().as_bytes()).map_err(|_| Errno::EINVAL)?,
        id: Some(id),
    };
    Ok(Some(Found {
        called: called.to_owned(),
        place,
        head,
    }))
}

/// Where a path inside is outside: by the mount it is on, through the jail's own links.
fn host_path(tree: &Tree, inside: &Path) -> Option<PathBuf> {
    let mut path = inside.to_owned();
    for _ in 0..8 {
        if let Some((_, outside)) = tree.outside(&path) {
            return Some(outside);
        }
        // A link of the jail's own on the way, such as /bin.
        let (link, target) = path
            .ancestors()
            .find_map(|above| tree.link_at(above).map(|target| (above, target)))?;
        let rest = path.strip_prefix(link).ok()?;
        let next = link.parent()?.join(target).join(rest);
        path = normal(&next);
    }
    None
}

/// `..` taken out by name: the jail's own links have none that cross another link.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::from("/");
    for part in path.components() {
        match part {
            std::path::Component::Normal(name) => normal.push(name),
            std::path::Component::ParentDir => {
                normal.pop();
            }
            _ => {}
        }
    }
    normal
}

fn build(
    tree: &Tree,
    mut found: Found,
    mut argv: Vec<CString>,
    envp: Strings,
    cwd: &Path,
) -> Result<Program, Error> {
    let mut scripts = Vec::new();
    while let Some((interpreter, argument)) = shebang(&found.head) {
        if scripts.len() == SCRIPTS {
            return Err(refused(found.called.as_os_str(), Errno::ELOOP));
        }
        let script = c_string(&found.called)?;
        let mut longer = vec![interpreter.clone()];
        longer.extend(argument);
        longer.push(script);
        longer.extend(argv.into_iter().skip(1));
        argv = longer;
        scripts.push(found.place);
        let name = OsStr::from_bytes(interpreter.to_bytes());
        found = match open(tree, Path::new(name), cwd) {
            Ok(Some(found)) => found,
            Ok(None) | Err(Errno::ENOENT) => {
                return Err(Error::NoInterpreter {
                    script: found.called,
                    interpreter: name.to_owned(),
                });
            }
            Err(errno) => return Err(refused(name, errno)),
        };
    }
    let is_elf = found.head.starts_with(b"\x7fELF") || found.head.is_empty();
    let as_shell_script = if is_elf {
        None
    } else {
        match open(tree, Path::new("/bin/sh"), cwd) {
            Ok(Some(shell)) => {
                let mut longer = vec![c"sh".to_owned(), c_string(&found.called)?];
                longer.extend(argv.iter().skip(1).cloned());
                Some(ShellScript {
                    shell: shell.place,
                    argv: longer.into(),
                })
            }
            _ => None,
        }
    };
    Ok(Program {
        file: found.place,
        scripts,
        argv: argv.into(),
        envp,
        as_shell_script,
    })
}

/// Leaves in PATH what is absolute and exists inside, in the environment as well.
fn clean_path(tree: &Tree, env: &mut [Variable]) -> Vec<PathBuf> {
    let variable = env
        .iter_mut()
        .find(|variable| variable.name.as_bytes() == b"PATH");
    let text = variable
        .as_ref()
        .map_or(USUAL_PATH.as_bytes(), |path| path.value.as_bytes());
    let folders: Vec<PathBuf> = text
        .split(|byte| *byte == b':')
        .map(|folder| PathBuf::from(OsStr::from_bytes(folder)))
        .filter(|folder| plain(folder).is_some_and(|plain| host_path(tree, &plain).is_some()))
        .collect();
    if let Some(variable) = variable {
        let joined: Vec<&[u8]> = folders
            .iter()
            .map(|folder| folder.as_os_str().as_bytes())
            .collect();
        variable.value = joined.join(&b':').into();
    }
    folders
}

fn entry(variable: &Variable) -> Vec<u8> {
    [variable.name.as_bytes(), b"=", variable.value.as_bytes()].concat()
}

fn c_strings<'a>(strings: impl Iterator<Item = &'a OsStr>) -> Result<Vec<CString>, Error> {
    strings
        .map(|string| CString::new(string.as_bytes()).map_err(|_| Error::NulByte))
        .collect()
}
