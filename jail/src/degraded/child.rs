//! The jail's first process where there are no namespaces, from the clone to the moment
//! the command runs. An ordered list of acts, like [`crate::child`], of which it is the
//! other half.

use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use nix::sys::stat::{Mode, stat};
use nix::unistd::{geteuid, setsid};

use super::{Bare, Sockets};
use crate::channel::FromJail;
use crate::child::{Child, enter_working_folder};
use crate::exec;
use crate::init;
use crate::landlock;
use crate::layout::Release;
use crate::seccomp;
use crate::step::{At, Failure, Step};
use crate::sys::clone::Stack;
use crate::sys::file::FileId;
use crate::sys::{capability, process, tty};

/// Confines this process and starts the command in it.
pub fn build(child: &Child<'_>, bare: &Bare, stack: &mut Stack) -> Result<init::Command, Failure> {
    let layout = child.layout;
    process::die_with_parent().at(Step::ParentDeath)?;
    init::block_signals().at(Step::ParentDeath)?;
    child.keep_descriptors().at(Step::Descriptors)?;
    setsid().at(Step::ParentDeath)?;
    process::adopt_orphans().at(Step::ParentDeath)?;
    enter_working_folder(layout)?;
    let pty = child.open_pty(c"/dev/ptmx").at(Step::Terminal)?;
    child.wait_for_go()?;
    layout.limits.apply().at(Step::Limits)?;

    match geteuid().is_root() {
        true => capability::drop_all().at(Step::Capabilities)?,
        false => capability::drop_without_bounding().at(Step::Capabilities)?,
    }
    process::no_new_privileges().at(Step::NoNewPrivileges)?;
    process::undumpable().at(Step::Undumpable)?;
    let rules = layout
        .rules
        .as_ref()
        .ok_or(Errno::ENOTSUP)
        .at(Step::Landlock)?;
    let slave = pty.as_ref().map(|pty| pty.slave.as_fd());
    landlock::enforce_on_command(rules, slave)?;
    layout.processors.keep().at(Step::Seccomp)?;
    seccomp::load().at(Step::Seccomp)?;
    seccomp::add(&bare.filter).at(Step::Seccomp)?;

    verify(child, bare)?;

    let program = exec::open(&layout.program)?;
    if layout.release == Release::WhenTold {
        child.wait_for_word()?;
    }
    let master = pty.as_ref().map(|pty| pty.master.as_fd());
    child.channel.send(&FromJail::Ready, master).at(Step::Go)?;
    // From here on the end of the channel tells that the supervisor is gone: whoever is
    // below this process must be ended first.
    process::outlive_parent().at(Step::ParentDeath)?;
    child.start(stack, &program, pty)
}

/// Looks at each layer; the first that is not as promised is the failure.
fn verify(child: &Child<'_>, bare: &Bare) -> Result<(), Failure> {
    let promised = |kept: nix::Result<bool>, step| match kept {
        Ok(true) => Ok(()),
        Ok(false) => Err(Errno::EPERM).at(step),
        Err(errno) => Err(errno).at(step),
    };
    promised(capability::usable_are_empty(), Step::VerifyCapabilities)?;
    if geteuid().is_root() {
        promised(capability::bounding_is_empty(), Step::VerifyCapabilities)?;
    }
    promised(
        process::has_no_new_privileges(),
        Step::VerifyNoNewPrivileges,
    )?;
    const FILTER: i32 = 2;
    promised(
        process::seccomp_mode().map(|mode| mode == FILTER),
        Step::VerifySeccomp,
    )?;
    promised(tty::typing_is_refused(Errno::EPERM), Step::VerifySeccomp)?;
    promised(process::is_undumpable(), Step::Undumpable)?;
    promised(process::adopts_orphans(), Step::ParentDeath)?;
    promised(refuses_socket(AddressFamily::Unix), Step::VerifySeccomp)?;
    if bare.sockets == Sockets::None {
        promised(refuses_socket(AddressFamily::Inet), Step::VerifySeccomp)?;
    }
    promised(
        stat(c".").map(|here| child.layout.working_folder.is(FileId::from(&here))),
        Step::WorkingFolder,
    )?;
    // The root is granted to nobody, whatever else is.
    promised(refuses(c"/", OFlag::O_RDONLY), Step::VerifyLandlock)?;
    for path in &bare.hidden {
        promised(refuses(path, OFlag::O_RDONLY), Step::VerifyLandlock)?;
    }
    for path in &bare.closed {
        promised(refuses(path, OFlag::O_WRONLY), Step::VerifyLandlock)?;
    }
    Ok(())
}

/// Whether a socket of this family is refused by the second filter.
fn refuses_socket(family: AddressFamily) -> nix::Result<bool> {
    match socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None) {
        Err(Errno::EACCES) => Ok(true),
        Err(errno) => Err(errno),
        Ok(_) => Ok(false),
    }
}

/// Whether opening is refused; a name that has gone meanwhile cannot be opened either.
fn refuses(path: &std::ffi::CStr, how: OFlag) -> nix::Result<bool> {
    let flags = how | OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    match open(path, flags, Mode::empty()) {
        Err(_) => Ok(true),
        Ok(_) => Ok(false),
    }
}
