//! What the exit status of `sjail` says: one table.

/// An exit status of sjail's own; a command that ran gives its own instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// All went well.
    Success = 0,
    /// Approval is pending or has expired.
    Pending = 75,
    /// Blocked by policy, rejected, or the approval is unknown or used up.
    Blocked = 77,
    /// The command ran out of time and was killed.
    TimedOut = 124,
    /// Wrong usage, or sjail could not set up or keep its promise.
    Failed = 125,
    /// The program is there but cannot be executed.
    NotExecutable = 126,
    /// There is no such program.
    NotFound = 127,
}

impl Exit {
    /// The number that the process exits with.
    pub fn code(self) -> u8 {
        self as u8
    }
}

/// The exit status for a command that ended with this raw `waitpid` status: its own
/// code, or 128 and the number of the signal that ended it.
pub fn of_wait_status(status: i32) -> u8 {
    if libc::WIFSIGNALED(status) {
        128 + (libc::WTERMSIG(status) as u8 & 0x7f)
    } else {
        libc::WEXITSTATUS(status) as u8
    }
}

#[cfg(test)]
mod tests {
    use super::of_wait_status;

    #[test]
    fn a_status_is_the_commands_own_or_its_signal() {
        assert_eq!(of_wait_status(0), 0);
        assert_eq!(of_wait_status(3 << 8), 3);
        assert_eq!(of_wait_status(255 << 8), 255);
        assert_eq!(of_wait_status(libc::SIGKILL), 137);
        assert_eq!(of_wait_status(libc::SIGSEGV | 0x80), 139);
    }
}
