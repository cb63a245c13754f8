//! Telling the system's own log how far ours goes: journald where it is, syslog
//! otherwise. Both keep it out of reach of whoever can write our files.

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use crate::audit::head::SignedHead;

/// Where journald listens.
const JOURNAL: &str = "/run/systemd/journal/socket";
/// Where syslog listens.
const SYSLOG: &str = "/dev/log";

/// A way to the system's log, if there is one.
pub struct Mirror {
    socket: Option<(UnixDatagram, PathBuf)>,
    dialect: Dialect,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Dialect {
    Journal,
    Syslog,
}

impl Mirror {
    /// The log of this system.
    pub fn of_system() -> Mirror {
        if Path::new(JOURNAL).exists() {
            Mirror::to(Path::new(JOURNAL), Dialect::Journal)
        } else if Path::new(SYSLOG).exists() {
            Mirror::to(Path::new(SYSLOG), Dialect::Syslog)
        } else {
            Mirror::none()
        }
    }

    /// No log at all.
    pub fn none() -> Mirror {
        Mirror {
            socket: None,
            dialect: Dialect::Syslog,
        }
    }

    fn to(path: &Path, dialect: Dialect) -> Mirror {
        let socket = UnixDatagram::unbound()
            .and_then(|socket| socket.set_nonblocking(true).map(|()| socket))
            .ok();
        Mirror {
            socket: socket.map(|socket| (socket, path.to_owned())),
            dialect,
        }
    }

    /// Sends a checkpoint.
    pub fn head(&self, head: &SignedHead) {
        self.send(5, &head.to_line());
    }

    /// Sends an alert.
    pub fn alert(&self, message: &str) {
        self.send(4, &format!("sjail alert: {message}"));
    }

    /// A log that is full or gone must not hold up anybody: what cannot be sent at
    /// once is not sent, the next checkpoint covers it.
    fn send(&self, priority: u8, text: &str) {
        let Some((socket, path)) = &self.socket else {
            return;
        };
        // One line each: a newline would start another field.
        let text: String = text
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .take(2000)
            .collect();
        let datagram = match self.dialect {
            Dialect::Journal => {
                format!("PRIORITY={priority}\nSYSLOG_IDENTIFIER=sjail-broker\nMESSAGE={text}\n")
            }
            // Facility 1, user.
            Dialect::Syslog => format!("<{}>sjail-broker: {text}", 8 + priority),
        };
        let _ = socket.send_to(datagram.as_bytes(), path);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_alert_is_one_field_whatever_is_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let log = UnixDatagram::bind(&path).unwrap();
        Mirror::to(&path, Dialect::Journal).alert("a\nPRIORITY=0");
        let mut buffer = [0; 256];
        let length = log.recv(&mut buffer).unwrap();
        assert_eq!(
            std::str::from_utf8(&buffer[..length]).unwrap(),
            "PRIORITY=4\nSYSLOG_IDENTIFIER=sjail-broker\nMESSAGE=sjail alert: a PRIORITY=0\n"
        );
    }
}
