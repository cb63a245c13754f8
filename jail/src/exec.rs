//! Executing the very file that was resolved.
//!
//! An ELF program is executed by descriptor. A script cannot be: its interpreter would be
//! handed `/dev/fd/N`. So the supervisor reads the `#!` line, and what is executed by
//! descriptor is the interpreter, with the script's path; the script must still be the
//! file that was read.

use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;

use crate::layout::Place;
use crate::step::{At, Failure, Step};
use crate::sys::file::{self, FileId, Strings};

/// What is executed, as the supervisor resolved it.
#[derive(Debug)]
pub struct Program {
    /// The ELF file: the program itself, or the interpreter of a script.
    pub file: Place,
    /// The scripts on the way there; usually none.
    pub scripts: Vec<Place>,
    /// Arguments, the zeroth included.
    pub argv: Strings,
    /// The environment.
    pub envp: Strings,
    /// For a file that the kernel does not know how to execute: what shells do with it.
    pub as_shell_script: Option<ShellScript>,
}

/// A file without `#!` run by the shell, as `execvp` does.
#[derive(Debug)]
pub struct ShellScript {
    /// `/bin/sh`.
    pub shell: Place,
    /// `sh FILE ARG…`.
    pub argv: Strings,
}

/// The program open inside the jail, and known to be the right one.
#[derive(Debug)]
pub struct Opened {
    file: OwnedFd,
    shell: Option<OwnedFd>,
}

/// Opens the program in the jail's own view and compares it with what was resolved.
pub fn open(program: &Program) -> Result<Opened, Failure> {
    for (index, script) in program.scripts.iter().enumerate() {
        open_same(script, index + 1)?;
    }
    Ok(Opened {
        file: open_same(&program.file, 0)?,
        shell: match &program.as_shell_script {
            Some(script) => Some(open_same(&script.shell, 0)?),
            None => None,
        },
    })
}

fn open_same(place: &Place, item: usize) -> Result<OwnedFd, Failure> {
    // Links are followed: they are the jail's own by now. (openat2 is behind the filter.)
    let flags = OFlag::O_PATH | OFlag::O_CLOEXEC;
    let file = nix::fcntl::open(place.path.as_c_str(), flags, Mode::empty())
        .at_item(Step::OpenProgram, item)?;
    if !place.is(FileId::of(file.as_fd()).at_item(Step::OpenProgram, item)?) {
        return Err(Errno::ESTALE).at_item(Step::ProgramChanged, item);
    }
    Ok(file)
}

/// Executes; returns only what went wrong.
pub fn run(program: &Program, opened: &Opened) -> Failure {
    let mut errno = file::execute(opened.file.as_fd(), &program.argv, &program.envp);
    if let (Errno::ENOEXEC, Some(script), Some(shell)) =
        (errno, &program.as_shell_script, &opened.shell)
    {
        errno = file::execute(shell.as_fd(), &script.argv, &program.envp);
    }
    Failure {
        step: Step::Exec,
        errno: errno as i32,
        item: 0,
    }
}

/// The interpreter and its one argument in a `#!` line, as the kernel splits it.
pub fn shebang(head: &[u8]) -> Option<(CString, Option<CString>)> {
    let line = head.strip_prefix(b"#!")?;
    let line = line.split(|byte| *byte == b'\n').next()?;
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let line = line.trim_ascii();
    let end = line.iter().position(blank).unwrap_or(line.len());
    let (interpreter, rest) = line.split_at_checked(end)?;
    if interpreter.is_empty() {
        return None;
    }
    let rest = rest.trim_ascii();
    let argument = match rest {
        [] => None,
        rest => Some(CString::new(rest).ok()?),
    };
    Some((CString::new(interpreter).ok()?, argument))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_shebang_has_one_argument_at_most() {
        let read = |text: &str| {
            shebang(text.as_bytes()).map(|(interpreter, argument)| {
                (
                    interpreter.into_string().unwrap(),
                    argument.map(|argument| argument.into_string().unwrap()),
                )
            })
        };
        assert_eq!(read("#!/bin/sh\necho"), Some(("/bin/sh".into(), None)));
        assert_eq!(
            read("#! /usr/bin/env  python3 -u \nx"),
            Some(("/usr/bin/env".into(), Some("python3 -u".into())))
        );
        assert_eq!(read("#!/bin/sh"), Some(("/bin/sh".into(), None)));
        assert_eq!(read("#!\n/bin/sh"), None);
        assert_eq!(read("\x7fELF"), None);
        assert_eq!(read(""), None);
    }
}
