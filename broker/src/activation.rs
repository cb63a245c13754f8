//! Getting the two sockets: handed over by systemd, or made here by the first who
//! needs them, one broker per account.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::fcntl::Flock;
use sjail_policy::show;

use crate::error::{Error, Result};
use crate::paths::Places;
use crate::private_file::lock;

/// The two sockets, and what has to be put away at the end.
pub struct Listeners {
    /// Where commands are submitted.
    pub request: UnixListener,
    /// Where the owner answers.
    pub control: UnixListener,
    origin: Origin,
    /// Held for as long as this broker lives; that of the records is let go first.
    _locks: (Flock<File>, Flock<File>),
}

/// Whose sockets they are.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Origin {
    /// systemd's: it keeps listening when we end.
    Handed,
    /// Ours: they go when we do.
    Own(Vec<PathBuf>),
}

/// What came of looking for sockets.
pub enum Activation {
    /// Here they are.
    Ready(Box<Listeners>),
    /// Another broker is at work already.
    Elsewhere,
}

/// Takes the sockets that were handed over, or makes them.
pub fn activate(places: &Places) -> Result<Activation> {
    let handed = handed_over(places)?;
    let Some(lock) = lock(&places.lock())? else {
        return Ok(Activation::Elsewhere);
    };
    let locks = (lock_records(places)?, lock);
    if let Some((request, control)) = handed {
        return Ok(Activation::Ready(Box::new(Listeners {
            request,
            control,
            origin: Origin::Handed,
            _locks: locks,
        })));
    }
    let (request, control) = (places.request_socket(), places.control_socket());
    for path in [&request, &control] {
        if !clear_stale(path)? {
            // systemd listens there, and will start a broker of its own.
            return Ok(Activation::Elsewhere);
        }
    }
    // Control first: whoever can submit must be able to be answered.
    let control_listener = bind(&control)?;
    let request_listener = bind(&request)?;
    Ok(Activation::Ready(Box::new(Listeners {
        request: request_listener,
        control: control_listener,
        origin: Origin::Own(vec![request, control]),
        _locks: locks,
    })))
}

impl Listeners {
    /// Takes our own sockets away, so that the next caller starts a new broker.
    pub fn put_away(&self) {
        if let Origin::Own(paths) = &self.origin {
            for path in paths {
                let _ = fs::remove_file(path);
            }
        }
    }
}

/// The sockets of `LISTEN_FDS`, told apart by where they are bound.
fn handed_over(places: &Places) -> Result<Option<(UnixListener, UnixListener)>> {
    let mut handed = listenfd::ListenFd::from_env();
    let (mut request, mut control) = (None, None);
    for index in 0..handed.len() {
        let listener = handed
            .take_unix_listener(index)
            .map_err(Error::file("take over", "a socket of LISTEN_FDS"))?;
        let Some(listener) = listener else { continue };
        let address = listener
            .local_addr()
            .map_err(Error::file("look at", "a socket of LISTEN_FDS"))?;
        match address.as_pathname() {
            Some(path) if path.file_name() == places.request_socket().file_name() => {
                request = Some(listener);
            }
            Some(path) if path.file_name() == places.control_socket().file_name() => {
                control = Some(listener);
            }
            _ => {}
        }
    }
    match (request, control) {
        (Some(request), Some(control)) => Ok(Some((request, control))),
        (None, None) => Ok(None),
        _ => Err(Error::Refused(
            "LISTEN_FDS holds only one of request.sock and control.sock; enable both sockets"
                .to_owned(),
        )),
    }
}

/// The records are one broker's: a second one, with its sockets elsewhere, would write numbers
/// that the first has given out already.
fn lock_records(places: &Places) -> Result<Flock<File>> {
    let path = places.state_lock();
    let began = Instant::now();
    loop {
        if let Some(mut lock) = lock(&path)? {
            // For whoever comes here by another way.
            let told = lock.set_len(0).and_then(|()| {
                let sockets = places.runtime.as_os_str().as_encoded_bytes();
                lock.write_all(sockets)
            });
            told.map_err(Error::file("write", &path))?;
            return Ok(lock);
        }
        // One that ends just now.
        if began.elapsed() > ENDING {
            let sockets = fs::read(&path).unwrap_or_default();
            return Err(Error::Refused(format!(
                "another broker of yours keeps the records in {}, with its sockets in {}: set XDG_RUNTIME_DIR to the folder above that, or end it",
                show::name(&places.state),
                show::inert(&sockets)
            )));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A broker that was told to end lets go within this time.
const ENDING: Duration = Duration::from_secs(2);

/// Removes a socket that nobody listens on; false when somebody does.
fn clear_stale(path: &Path) -> Result<bool> {
    match UnixStream::connect(path) {
        Ok(_) => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(_) => fs::remove_file(path)
            .map(|()| true)
            .map_err(Error::file("remove the stale", path)),
    }
}

fn bind(path: &Path) -> Result<UnixListener> {
    let failed = |act: &'static str| {
        let path = path.to_owned();
        move |source| Error::Socket { act, path, source }
    };
    let listener = UnixListener::bind(path).map_err(failed("bind"))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(failed("restrict"))?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use std::os::unix::fs::MetadataExt;

    fn places(folder: &Path) -> Places {
        Places {
            runtime: folder.to_owned(),
            state: folder.to_owned(),
        }
    }

    fn ready(places: &Places) -> Box<Listeners> {
        match activate(places).unwrap() {
            Activation::Ready(listeners) => listeners,
            Activation::Elsewhere => panic!("somebody else listens"),
        }
    }

    #[test]
    fn there_is_one_broker_and_a_stale_socket_does_no_harm() {
        let folder = tempfile::tempdir().unwrap();
        let places = places(folder.path());
        let first = ready(&places);
        let mode = fs::metadata(places.control_socket()).unwrap().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(matches!(activate(&places).unwrap(), Activation::Elsewhere));
        // As after SIGKILL: the sockets stay, the lock is gone.
        drop(first);
        assert!(places.request_socket().exists());
        let second = ready(&places);
        second.put_away();
        assert!(!places.request_socket().exists());
    }

    #[test]
    fn a_socket_that_somebody_else_listens_on_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let places = places(folder.path());
        let _systemd = UnixListener::bind(places.request_socket()).unwrap();
        assert!(matches!(activate(&places).unwrap(), Activation::Elsewhere));
        assert!(places.request_socket().exists());
    }
}
