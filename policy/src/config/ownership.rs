//! Whether a trusted policy file could have been written by somebody else.
//!
//! A policy that others can change is theirs. That goes for the file and for each folder
//! above it: whoever can write a folder can put another file in its place.

use super::error::Error;
use crate::bytes::ByteString;
use crate::show::inert;

/// What the system says of a file, or of a folder above it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Its path, links resolved.
    pub path: ByteString,
    /// Who owns it.
    pub uid: u32,
    /// The permission bits, sticky bit included.
    pub mode: u32,
    /// Who is in its group.
    pub group: GroupMembers,
    /// What it is.
    pub kind: HolderKind,
}

/// Who is in a file's group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupMembers {
    /// Nobody but the user in question: a private group, or root's.
    OwnerOnly,
    /// Others, or nobody knows.
    Others,
}

/// A file or a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HolderKind {
    /// The policy file itself.
    File,
    /// A folder above it.
    Folder,
}

/// Whose word counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// Root's alone.
    Root,
    /// This user's, and root's.
    User(u32),
}

const STICKY: u32 = 0o1000;
const GROUP_WRITE: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;

/// Refuses a file that anybody but its owner could have changed. The holders are the file
/// and every folder above it up to the root; none at all is refused as well.
pub fn check(path: &ByteString, holders: &[Holder], owner: Owner) -> Result<(), Error> {
    let refuse = |culprit: &ByteString, why: String, fix: String| Error::Writable {
        path: inert(path.as_bytes()),
        culprit: inert(culprit.as_bytes()),
        why,
        fix,
    };
    if holders.is_empty() {
        return Err(refuse(
            path,
            "nothing is known about its owner".to_owned(),
            "look at it with ls -l".to_owned(),
        ));
    }
    for holder in holders {
        let shown = inert(holder.path.as_bytes());
        let wanted = match owner {
            Owner::Root => holder.uid == 0,
            Owner::User(uid) => holder.uid == 0 || holder.uid == uid,
        };
        if !wanted {
            let new_owner = match owner {
                Owner::Root => "root".to_owned(),
                Owner::User(uid) => uid.to_string(),
            };
            let why = format!("it belongs to user {}", holder.uid);
            return Err(refuse(
                &holder.path,
                why,
                format!("to mend it: chown {new_owner} {shown}"),
            ));
        }
        // In a sticky folder everybody may add files, but replace only their own.
        let sticky = holder.kind == HolderKind::Folder && holder.mode & STICKY != 0;
        let by_group = holder.mode & GROUP_WRITE != 0 && holder.group == GroupMembers::Others;
        let by_others = holder.mode & OTHERS_WRITE != 0;
        if (by_group || by_others) && !sticky {
            let why = format!("mode {:o}", holder.mode & 0o7777);
            return Err(refuse(
                &holder.path,
                why,
                format!("to mend it: chmod go-w {shown}"),
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn holder(path: &str, uid: u32, mode: u32, kind: HolderKind) -> Holder {
        Holder {
            path: path.into(),
            uid,
            mode,
            group: GroupMembers::Others,
            kind,
        }
    }

    fn verdict(file: Holder, folder: Holder, owner: Owner) -> Result<(), Error> {
        check(&ByteString::from("/p/f"), &[file, folder], owner)
    }

    #[test]
    fn only_the_owner_may_have_written_it() {
        use HolderKind::{File, Folder};
        let file = |uid, mode| holder("/p/f", uid, mode, File);
        let folder = |uid, mode| holder("/p", uid, mode, Folder);
        let user = Owner::User(1000);
        assert!(verdict(file(1000, 0o644), folder(0, 0o755), user).is_ok());
        assert!(verdict(file(0, 0o644), folder(0, 0o755), Owner::Root).is_ok());
        assert!(verdict(file(1000, 0o644), folder(0, 0o755), Owner::Root).is_err());
        assert!(verdict(file(1001, 0o644), folder(0, 0o755), user).is_err());
        assert!(verdict(file(1000, 0o666), folder(0, 0o755), user).is_err());
        assert!(verdict(file(1000, 0o664), folder(0, 0o755), user).is_err());
        assert!(verdict(file(1000, 0o644), folder(1000, 0o777), user).is_err());
        assert!(verdict(file(1000, 0o644), folder(0, 0o1777), user).is_ok());
        assert!(verdict(file(1000, 0o1666), folder(0, 0o755), user).is_err());
        let mut private = file(1000, 0o664);
        private.group = GroupMembers::OwnerOnly;
        assert!(verdict(private, folder(0, 0o755), user).is_ok());
        assert!(check(&ByteString::from("/p/f"), &[], user).is_err());
    }

    #[test]
    fn the_message_says_how_to_mend_it() {
        let error = verdict(
            holder("/p/f", 1000, 0o666, HolderKind::File),
            holder("/p", 0, 0o755, HolderKind::Folder),
            Owner::User(1000),
        )
        .unwrap_err();
        assert_eq!(
            error.to_string(),
            "/p/f is not safe to obey: /p/f can be changed by others (mode 666); to mend it: chmod go-w /p/f"
        );
    }
}
