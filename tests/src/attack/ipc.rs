//! Memory, queues and keys that live in the kernel rather than in a file system.

use std::ffi::c_void;

use super::files::{CANARY, proof};
use super::raw::{address, address_mut, c, call};
use super::{Found, number, word};

/// `shm KEY`: a System V segment that the host made.
pub fn sysv_shared_memory(words: &[String]) -> Found {
    let segment = call(libc::SYS_shmget, &[number(words, 0)? as usize, 0, 0])?;
    // SAFETY: attaches the segment where the kernel likes; it is 4096 bytes long
    // by the suite's making and stays attached.
    unsafe {
        let place = libc::shmat(segment as i32, std::ptr::null(), libc::SHM_RDONLY);
        if place as isize == -1 {
            return Err(std::io::Error::last_os_error().into());
        }
        proof(std::slice::from_raw_parts(place.cast::<u8>(), CANARY.len()))
    }
}

/// `msg-queue KEY`: a System V queue with a message of the host in it.
pub fn sysv_message(words: &[String]) -> Found {
    let queue = call(libc::SYS_msgget, &[number(words, 0)? as usize, 0])?;
    let mut message = [0u8; 8 + 256];
    let flags = (libc::IPC_NOWAIT | 0o40000) as usize; // MSG_COPY: leaves it there
    let arguments = [queue, address_mut(&mut message), 256, 0, flags];
    call(libc::SYS_msgrcv, &arguments)?;
    proof(&message[8..])
}

/// `sem KEY`: a System V semaphore of the host.
pub fn sysv_semaphore(words: &[String]) -> Found {
    let set = call(libc::SYS_semget, &[number(words, 0)? as usize, 0, 0])?;
    Ok(format!("found the host's semaphore {set}"))
}

/// `mqueue NAME`: a POSIX queue of the host.
pub fn message_queue(words: &[String]) -> Found {
    let name = c(word(words, 0)?);
    let flags = (libc::O_RDONLY | libc::O_NONBLOCK) as usize;
    let queue = call(libc::SYS_mq_open, &[address(name.as_c_str()), flags, 0, 0])?;
    let mut message = [0u8; 8192];
    let arguments = [queue, address_mut(&mut message), message.len(), 0, 0];
    call(libc::SYS_mq_timedreceive, &arguments)?;
    proof(&message)
}

/// `posix-shm NAME`: shared memory by name, which is a file below /dev/shm.
pub fn posix_shared_memory(words: &[String]) -> Found {
    super::files::read(&[format!("/dev/shm/{}", word(words, 0)?)])
}

/// `keyring NAME`: a key of the host user.
pub fn keyring(words: &[String]) -> Found {
    const SEARCH: usize = 10;
    const READ: usize = 11;
    const USER_KEYRING: usize = -4isize as usize;
    let kind = c("user");
    let name = c(word(words, 0)?);
    let arguments = [
        SEARCH,
        USER_KEYRING,
        address(kind.as_c_str()),
        address(name.as_c_str()),
        0,
    ];
    let key = call(libc::SYS_keyctl, &arguments)?;
    let mut content = [0u8; 256];
    call(
        libc::SYS_keyctl,
        &[READ, key, address_mut(&mut content), content.len()],
    )?;
    proof(&content)
}

/// What the suite puts there for the attacker to find. Each gives back how to
/// take it away again.
pub mod plant {
    use super::*;

    /// A System V segment holding the canary; the id to remove it by.
    pub fn segment(key: i32) -> std::io::Result<usize> {
        let flags = (libc::IPC_CREAT | libc::IPC_EXCL | 0o600) as usize;
        let segment = call(libc::SYS_shmget, &[key as usize, 4096, flags])?;
        // SAFETY: a fresh segment of 4096 bytes; the canary is shorter.
        unsafe {
            let place = libc::shmat(segment as i32, std::ptr::null(), 0);
            if place as isize == -1 {
                return Err(std::io::Error::last_os_error());
            }
            std::ptr::copy_nonoverlapping(CANARY.as_ptr(), place.cast::<u8>(), CANARY.len());
            libc::shmdt(place.cast::<c_void>());
        }
        Ok(segment)
    }

    /// A System V queue with one message that holds the canary.
    pub fn queue(key: i32) -> std::io::Result<usize> {
        let flags = (libc::IPC_CREAT | libc::IPC_EXCL | 0o600) as usize;
        let queue = call(libc::SYS_msgget, &[key as usize, flags])?;
        let mut message = 1i64.to_ne_bytes().to_vec();
        message.extend_from_slice(CANARY.as_bytes());
        call(
            libc::SYS_msgsnd,
            &[queue, message.as_ptr() as usize, CANARY.len(), 0],
        )?;
        Ok(queue)
    }

    /// A System V semaphore.
    pub fn semaphore(key: i32) -> std::io::Result<usize> {
        let flags = (libc::IPC_CREAT | libc::IPC_EXCL | 0o600) as usize;
        call(libc::SYS_semget, &[key as usize, 1, flags])
    }

    /// A POSIX queue with one message that holds the canary.
    pub fn posix_queue(name: &str) -> std::io::Result<()> {
        let name = c(name);
        let flags = (libc::O_RDWR | libc::O_CREAT | libc::O_EXCL) as usize;
        let queue = call(
            libc::SYS_mq_open,
            &[address(name.as_c_str()), flags, 0o600, 0],
        )?;
        let arguments = [queue, CANARY.as_ptr() as usize, CANARY.len(), 0, 0];
        call(libc::SYS_mq_timedsend, &arguments).map(drop)
    }

    /// A key in the user's keyring.
    pub fn key(name: &str) -> std::io::Result<usize> {
        let kind = c("user");
        let name = c(name);
        let user_keyring = -4isize as usize;
        // A service's own session does not hold its user's keyring as a login's does; without it
        // nobody, jailed or not, could read the key.
        const LINK: usize = 8;
        let session_keyring = -3isize as usize;
        let _ = call(libc::SYS_keyctl, &[LINK, user_keyring, session_keyring]);
        let arguments = [
            address(kind.as_c_str()),
            address(name.as_c_str()),
            CANARY.as_ptr() as usize,
            CANARY.len(),
            user_keyring,
        ];
        call(libc::SYS_add_key, &arguments)
    }

    /// Takes away what the others made; each by its own kind.
    pub fn remove_segment(id: usize) {
        let _ = call(libc::SYS_shmctl, &[id, libc::IPC_RMID as usize, 0]);
    }

    /// See [`remove_segment`].
    pub fn remove_queue(id: usize) {
        let _ = call(libc::SYS_msgctl, &[id, libc::IPC_RMID as usize, 0]);
    }

    /// See [`remove_segment`].
    pub fn remove_semaphore(id: usize) {
        let _ = call(libc::SYS_semctl, &[id, 0, libc::IPC_RMID as usize, 0]);
    }

    /// See [`remove_segment`].
    pub fn remove_posix_queue(name: &str) {
        let name = c(name);
        let _ = call(libc::SYS_mq_unlink, &[address(name.as_c_str())]);
    }

    /// See [`remove_segment`].
    pub fn remove_key(key: usize) {
        const INVALIDATE: usize = 21;
        let _ = call(libc::SYS_keyctl, &[INVALIDATE, key]);
    }
}
