//! How something looks: permissions, times and attributes, read and set again.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::AT_FDCWD;
use nix::sys::stat::{FchmodatFlags, Mode, UtimensatFlags, fchmodat, utimensat};
use nix::sys::time::TimeSpec;
use serde::{Deserialize, Serialize};
use sjail_policy::bytes::ByteString;

use crate::beneath::{Attributes, Beneath, Kind, attributes, kind};
use crate::sys::file::DescriptorPath;
use crate::sys::xattr;

/// Permissions, times and attributes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Look {
    mode: Option<u32>,
    mtime: (i64, i64),
    attributes: Vec<(ByteString, ByteString)>,
}

impl Look {
    /// How something looks.
    pub fn of(beneath: &Beneath, path: &Path) -> io::Result<Look> {
        let stat = beneath.stat(path)?.ok_or(Errno::ENOENT)?;
        let is_link = kind(&stat) == Kind::Link;
        let own = match is_link {
            true => Attributes::new(),
            false => beneath.attributes(path)?,
        };
        Ok(Look {
            mode: (!is_link).then_some(stat.st_mode & 0o7777),
            mtime: (stat.st_mtime, stat.st_mtime_nsec),
            attributes: own
                .into_iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
        })
    }

    /// Whether another one is the same but for its time.
    pub fn differs_by_time_alone(&self, other: &Look) -> bool {
        self.mode == other.mode && self.attributes == other.attributes
    }

    /// Whether it is that of something that can be opened: a link has nothing but a time.
    pub fn has_mode(&self) -> bool {
        self.mode.is_some()
    }

    /// The same with this time, where one is known.
    pub fn at(self, mtime: Option<(i64, i64)>) -> Look {
        Look {
            mtime: mtime.unwrap_or(self.mtime),
            ..self
        }
    }

    /// Gives it to something in an open folder; `place` is the thing itself, but for links.
    pub fn apply(&self, folder: &OwnedFd, name: &CStr, place: Option<OwnedFd>) -> io::Result<()> {
        if let (Some(mode), Some(place)) = (self.mode, place) {
            for own in attributes(&place)?.keys() {
                if !self
                    .attributes
                    .iter()
                    .any(|(name, _)| name.as_bytes() == own)
                {
                    xattr::remove(place.as_fd(), &CString::new(own.as_slice())?)?;
                }
            }
            for (own, value) in &self.attributes {
                xattr::set(
                    place.as_fd(),
                    &CString::new(own.as_bytes())?,
                    value.as_bytes(),
                )?;
            }
            // Through the descriptor: the name may be a link by now.
            let own = DescriptorPath::of(place.as_fd());
            let mode = Mode::from_bits_truncate(mode);
            fchmodat(AT_FDCWD, own.as_c_str(), mode, FchmodatFlags::FollowSymlink)?;
        }
        self.apply_time(folder, name)
    }

    /// Sets the time alone.
    pub fn apply_time(&self, folder: &OwnedFd, name: &CStr) -> io::Result<()> {
        let time = TimeSpec::new(self.mtime.0, self.mtime.1);
        let flags = UtimensatFlags::NoFollowSymlink;
        Ok(utimensat(
            folder,
            name,
            &TimeSpec::UTIME_OMIT,
            &time,
            flags,
        )?)
    }
}
