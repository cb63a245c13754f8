//! Privileges: capabilities, set-user-id programs, ids, limits that can be raised.

use std::fs;
use std::process::Command;

use super::raw::{address, call};
use super::{Found, number};

/// `caps-any`: a capability in any of the five sets.
pub fn any_capability(_: &[String]) -> Found {
    let status = fs::read_to_string("/proc/self/status")?;
    let held: Vec<&str> = status
        .lines()
        .filter(|line| line.starts_with("Cap"))
        .filter(|line| {
            line.split_whitespace()
                .nth(1)
                .is_some_and(|set| set.bytes().any(|digit| digit != b'0'))
        })
        .collect();
    if held.is_empty() {
        Err("all five sets are empty".into())
    } else {
        Ok(format!("{held:?}"))
    }
}

/// `caps-raise`: takes every capability.
pub fn raise(_: &[String]) -> Found {
    let header: [u32; 2] = [0x2008_0522, 0];
    // Two sets of effective, permitted, inheritable.
    let wanted: [u32; 6] = [1 << 21, 1 << 21, 0, 0, 0, 0];
    call(libc::SYS_capset, &[address(&header), address(&wanted)])?;
    Ok("took CAP_SYS_ADMIN".to_string())
}

/// `new-privs`: whether a set-user-id program would be honoured.
pub fn new_privileges(_: &[String]) -> Found {
    // SAFETY: integer arguments only.
    match unsafe { libc::prctl(libc::PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) } {
        1 => Err("no_new_privs is set".into()),
        other => Ok(format!("no_new_privs is {other}")),
    }
}

/// `passwd-status`: the host's own set-user-id program, which shows a line of
/// the shadow file to who may not read it.
pub fn setuid_program(_: &[String]) -> Found {
    let output = Command::new("/usr/bin/passwd").arg("-S").output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() && text.split_whitespace().count() > 2 {
        Ok(format!("passwd says: {}", text.trim()))
    } else {
        Err(String::from_utf8_lossy(&output.stderr)
            .trim()
            .to_string()
            .into())
    }
}

/// `who-am-i`: root by effective id, or a capability in effect: what a
/// set-user-id or file-capability program gains.
pub fn effective_root(_: &[String]) -> Found {
    // SAFETY: asks for an id.
    if unsafe { libc::geteuid() } == 0 {
        return Ok("effective root".to_string());
    }
    let status = fs::read_to_string("/proc/self/status")?;
    let effective = status.lines().find(|line| line.starts_with("CapEff"));
    match effective {
        Some(line)
            if line
                .bytes()
                .skip(8)
                .any(|byte| byte.is_ascii_digit() && byte != b'0' || byte.is_ascii_lowercase()) =>
        {
            Ok(line.to_string())
        }
        _ => Err("an ordinary user".into()),
    }
}

/// `setuid UID`: becomes somebody else.
pub fn setuid(words: &[String]) -> Found {
    let uid = number(words, 0)? as usize;
    call(libc::SYS_setresuid, &[uid, uid, uid])?;
    Ok(format!("became {uid}"))
}

/// `setgroups`: drops the groups that deny.
pub fn setgroups(_: &[String]) -> Found {
    call(libc::SYS_setgroups, &[0, 0])?;
    Ok("changed the groups".to_string())
}

/// `core-limit`: a core file, which on many hosts is handed to a root helper.
pub fn core_limit(_: &[String]) -> Found {
    let unlimited = libc::rlimit {
        rlim_cur: 1 << 20,
        rlim_max: 1 << 20,
    };
    // SAFETY: plain numbers that outlive the call.
    if unsafe { libc::setrlimit(libc::RLIMIT_CORE, &unlimited) } < 0 {
        return Err(std::io::Error::last_os_error().into());
    }
    Ok("may write core files".to_string())
}
