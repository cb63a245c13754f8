//! The terminal: typing into it on behalf of the person who sits there.

use super::gate::on_the_host;
use super::raw::{address, call, is};
use super::{Found, Held, word};

/// `tiocsti plain|high|tty`: types a character into the terminal on stdin; with
/// bits set above those the kernel looks at; or on the terminal by its name.
pub fn tiocsti(words: &[String]) -> Found {
    let character = b'x';
    let (descriptor, request) = match word(words, 0)? {
        "high" => (0, libc::TIOCSTI as usize | 0xdead_beef << 32),
        "sign" => (0, libc::TIOCSTI as usize | 0xffff_ffff << 32),
        "tty" => {
            let tty = std::fs::File::open("/dev/tty")?;
            let number = std::os::fd::IntoRawFd::into_raw_fd(tty) as usize;
            (number, libc::TIOCSTI as usize)
        }
        "stdout" => (1, libc::TIOCSTI as usize),
        _ => (0, libc::TIOCSTI as usize),
    };
    match call(libc::SYS_ioctl, &[descriptor, request, address(&character)]) {
        Ok(_) => Ok("typed into the terminal".to_string()),
        Err(error) if is(&error, libc::EIO) && on_the_host() => {
            Err(Held::Absent("dev.tty.legacy_tiocsti is 0".to_string()))
        }
        Err(error) => Err(error.into()),
    }
}

/// `tioclinux plain|high`: the console's own way to paste. On a pseudo-terminal
/// the driver knows no such request: its own answer shows that none stood before.
pub fn tioclinux(words: &[String]) -> Found {
    let subcode = 3u8; // TIOCL_PASTESEL
    let request = libc::TIOCLINUX as usize
        | if word(words, 0)? == "high" {
            1 << 32
        } else {
            0
        };
    match call(libc::SYS_ioctl, &[0, request, address(&subcode)]) {
        Ok(_) => Ok("pasted".to_string()),
        Err(error) if is(&error, libc::ENOTTY) => Ok("the driver itself answered".to_string()),
        Err(error) => Err(error.into()),
    }
}
