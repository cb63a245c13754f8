//! The policy files: read when they change, and the last good ones kept when a new
//! one cannot be read.

mod command_line;
mod in_force;

use std::cell::LazyCell;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open, openat};
use nix::sys::stat::{Mode, fstatat};
use sjail_policy::bytes::ByteString;
use sjail_policy::config::{
    self, GroupMembers, Holder, HolderKind, MAX_FILE, PolicyFile, Sources, Trust, WORKSPACE_FILES,
    WorkspaceFile,
};

use crate::account::Account;
use crate::audit::record::Hash;
use crate::error::{Error, Result};
use crate::glance::Glance;
use crate::paths;
pub use in_force::{InForce, Owners};
use in_force::{hash, hash_of_good};

/// The policy of the whole machine.
const SYSTEM: &str = "/etc/sjail/policy.toml";
/// Who is in which group.
const GROUP: &str = "/etc/group";
/// Where the contents that are trusted are pinned.
const PINS: &str = "trust";
/// So many put-together policies are remembered.
const REMEMBERED: usize = 64;

/// Puts policies together and remembers them.
pub struct Policies {
    account: Account,
    machine_memory: Option<u64>,
    state: Mutex<State>,
}

/// What was put together, and the files as they were.
type Seen = (Arc<Glance>, Arc<InForce>);

#[derive(Default)]
struct State {
    known: HashMap<Hash, Arc<InForce>>,
    /// The same by workspace and command line, for as long as the files are what they were.
    seen: HashMap<(PathBuf, Vec<ByteString>), Seen>,
    good_system: Option<PolicyFile>,
    good_user: Option<PolicyFile>,
}

/// Why there is no policy.
pub enum NoPolicy {
    /// The command line would loosen what is locked, or makes no sense.
    CommandLine(config::Error),
    /// A file cannot be read or says what cannot be said.
    File(Error),
}

impl Policies {
    /// The policies of an account. Fails when what there is cannot be read: without a
    /// policy nothing may start.
    pub fn new(account: Account) -> Result<Policies> {
        let policies = Policies {
            machine_memory: machine_memory(),
            state: Mutex::default(),
            account,
        };
        let sources = Sources {
            system: policies.trusted(Path::new(SYSTEM))?,
            user: policies.trusted(&policies.user_file())?,
            uid: policies.account.uid,
            machine_memory: policies.machine_memory,
            ..Sources::default()
        };
        config::load(&sources).map_err(|error| Error::Policy(error.to_string()))?;
        let mut state = policies.lock();
        (state.good_system, state.good_user) = (sources.system, sources.user);
        drop(state);
        Ok(policies)
    }

    /// The owner's policy that was last found good.
    pub fn owners(&self) -> Owners {
        let state = self.lock();
        let sources = Sources {
            system: state.good_system.clone(),
            user: state.good_user.clone(),
            ..Sources::default()
        };
        Owners::of(&sources, &[])
    }

    /// Whose policies they are.
    pub fn account(&self) -> &Account {
        &self.account
    }

    fn user_file(&self) -> PathBuf {
        self.account.config.join("sjail/policy.toml")
    }

    /// The policy for a workspace under a command line.
    pub fn load(
        &self,
        workspace: &Path,
        options: &[ByteString],
    ) -> std::result::Result<Arc<InForce>, NoPolicy> {
        let asked = (workspace.to_owned(), options.to_vec());
        let seen = self.lock().seen.get(&asked).cloned();
        if let Some((glance, known)) = seen
            && glance.holds()
        {
            return Ok(known);
        }
        let glance = Arc::new(self.glance(workspace));
        let in_force = self.read(workspace, options)?;
        // What was read is what was looked at, and a change from now on would show.
        if in_force.problems.is_empty() && glance.is_settled() && glance.holds() {
            let mut state = self.lock();
            if state.seen.len() >= REMEMBERED {
                state.seen.clear();
            }
            state.seen.insert(asked, (glance, Arc::clone(&in_force)));
        }
        Ok(in_force)
    }

    /// Everything that the policy for a workspace is made of, as it is now.
    fn glance(&self, workspace: &Path) -> Glance {
        let own = [Path::new(SYSTEM).to_owned(), self.user_file()];
        let files = WORKSPACE_FILES.map(|(name, _)| workspace.join(name));
        let pins = files.each_ref().map(|file| pin(file));
        let group = PathBuf::from(GROUP);
        let all = own.iter().chain(&files).chain(&pins).chain([&group]);
        Glance::at(all.map(PathBuf::as_path))
    }

    /// The same, read and put together.
    fn read(
        &self,
        workspace: &Path,
        options: &[ByteString],
    ) -> std::result::Result<Arc<InForce>, NoPolicy> {
        let command_line = command_line::read(options).map_err(NoPolicy::CommandLine)?;
        let mut problems = Vec::new();
        let mut sources = Sources {
            system: self.trusted_or_last(Path::new(SYSTEM), &mut problems),
            user: self.trusted_or_last(&self.user_file(), &mut problems),
            workspace: self.workspace_files(workspace).map_err(NoPolicy::File)?,
            command_line,
            uid: self.account.uid,
            machine_memory: self.machine_memory,
        };
        let hash = hash(&sources, options);
        if problems.is_empty()
            && let Some(known) = self.lock().known.get(&hash)
        {
            return Ok(Arc::clone(known));
        }
        let loaded = match self.check_files(&sources) {
            Ok(()) => config::load(&sources),
            Err(error) => {
                problems.push(format!(
                    "{error}; the former policy stays in force until it is mended"
                ));
                let state = self.lock();
                sources.system.clone_from(&state.good_system);
                sources.user.clone_from(&state.good_user);
                drop(state);
                config::load(&sources)
            }
        };
        let loaded = loaded.map_err(|error| match error {
            config::Error::Locked { .. } => NoPolicy::CommandLine(error),
            other => NoPolicy::File(Error::Policy(other.to_string())),
        })?;
        let whole = problems.is_empty();
        let in_force = Arc::new(InForce {
            loaded,
            owners: Owners::of(&sources, &problems),
            hash: hash_of_good(hash, &problems),
            problems,
        });
        if whole {
            let mut state = self.lock();
            if state.known.len() >= REMEMBERED {
                state.known.clear();
            }
            state.known.insert(hash, Arc::clone(&in_force));
            (state.good_system, state.good_user) = (sources.system, sources.user);
        }
        Ok(in_force)
    }

    /// Whether the system's and the user's file make a policy by themselves.
    fn check_files(&self, sources: &Sources) -> std::result::Result<(), config::Error> {
        let alone = Sources {
            system: sources.system.clone(),
            user: sources.user.clone(),
            uid: sources.uid,
            machine_memory: sources.machine_memory,
            ..Sources::default()
        };
        config::load(&alone).map(|_| ())
    }

    fn trusted_or_last(&self, path: &Path, problems: &mut Vec<String>) -> Option<PolicyFile> {
        match self.trusted(path) {
            Ok(file) => file,
            Err(error) => {
                problems.push(format!(
                    "{error}; the former policy stays in force until it is mended"
                ));
                let state = self.lock();
                if path == Path::new(SYSTEM) {
                    state.good_system.clone()
                } else {
                    state.good_user.clone()
                }
            }
        }
    }

    /// The files that came with a project, and whether their content is pinned.
    fn workspace_files(&self, workspace: &Path) -> Result<Vec<WorkspaceFile>> {
        let mut files = Vec::new();
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let folder = match open(workspace, flags, Mode::empty()) {
            Ok(folder) => folder,
            Err(Errno::ENOENT | Errno::ENOTDIR) => return Ok(files),
            Err(errno) => return Err(Error::file("open", workspace)(errno.into())),
        };
        for (name, format) in WORKSPACE_FILES {
            let path = workspace.join(name);
            if !format.holds_beside(&files) {
                continue;
            }
            if let Some(text) = content(&path, beneath(&folder, name))? {
                let trust = self.trust(&path, &text);
                files.push(WorkspaceFile {
                    path: path.into(),
                    text,
                    format,
                    trust,
                });
            }
        }
        Ok(files)
    }

    /// Whether `sjail trust` has pinned exactly this content at this path: a file named
    /// by the hash of the path, its first line the hash of the content, written by nobody
    /// but this account.
    fn trust(&self, path: &Path, text: &[u8]) -> Trust {
        let pin = pin(path);
        let folder = paths::state_folder().join(PINS);
        let own = |path: &Path| {
            fs::symlink_metadata(path).is_ok_and(|meta| {
                meta.uid() == self.account.uid
                    && meta.mode() & 0o022 == 0
                    && !meta.file_type().is_symlink()
            })
        };
        let pinned = own(&folder)
            && own(&pin)
            && fs::read_to_string(&pin)
                .is_ok_and(|lines| lines.lines().next() == Some(&Hash::of(text).to_string()));
        if pinned {
            Trust::Pinned
        } else {
            Trust::Untrusted
        }
    }

    /// A file that is obeyed as it stands, with everybody who could have written it.
    fn trusted(&self, path: &Path) -> Result<Option<PolicyFile>> {
        let flags = nix::libc::O_NONBLOCK | nix::libc::O_NOCTTY;
        let opened = File::options().read(true).custom_flags(flags).open(path);
        let Some(text) = content(path, opened)? else {
            return Ok(None);
        };
        let real = fs::canonicalize(path).map_err(Error::file("read", path))?;
        let mut holders = Vec::new();
        let groups = LazyCell::new(|| fs::read_to_string(GROUP).unwrap_or_default());
        for (index, holder) in real.ancestors().enumerate() {
            let metadata = fs::symlink_metadata(holder).map_err(Error::file("look at", holder))?;
            holders.push(Holder {
                path: holder.into(),
                uid: metadata.uid(),
                mode: metadata.mode(),
                group: self.members(metadata.gid(), &groups),
                kind: if index == 0 {
                    HolderKind::File
                } else {
                    HolderKind::Folder
                },
            });
        }
        Ok(Some(PolicyFile {
            path: path.into(),
            text,
            holders,
        }))
    }

    /// Whether a group is its user's alone: root's, or the one that bears the user's
    /// name and has no further members.
    fn members(
        &self,
        gid: u32,
        groups: &LazyCell<String, impl FnOnce() -> String>,
    ) -> GroupMembers {
        if gid == 0 {
            return GroupMembers::OwnerOnly;
        }
        let name = self.account.name.as_str();
        let own = groups.lines().any(|line| {
            let fields: Vec<&str> = line.split(':').collect();
            matches!(fields.as_slice(), [group, _, number, users]
                if *group == name && number.parse() == Ok(gid) && (users.is_empty() || *users == name))
        });
        if own {
            GroupMembers::OwnerOnly
        } else {
            GroupMembers::Others
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The file that pins the content of a project's file.
fn pin(path: &Path) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    let name = Hash::of(path.as_os_str().as_bytes()).to_string();
    paths::state_folder().join(PINS).join(name)
}

/// Opens a file of a workspace, through no link: one would have us read, and quote, what its
/// maker cannot. Step by step, for systemd keeps `openat2` from the service.
fn beneath(workspace: &OwnedFd, name: &str) -> io::Result<File> {
    let linked = || io::Error::other("it is a link, or lies in a folder that is one");
    let path = Path::new(name);
    let mut folder = workspace.try_clone()?;
    for part in path.parent().into_iter().flatten() {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        folder = match openat(&folder, part, flags, Mode::empty()) {
            Ok(folder) => folder,
            Err(Errno::ENOTDIR) if is_link(&folder, part) => return Err(linked()),
            Err(errno) => return Err(errno.into()),
        };
    }
    let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let flags = flags | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let last = path.file_name().unwrap_or_default();
    match openat(&folder, last, flags, Mode::empty()) {
        Ok(file) => Ok(file.into()),
        Err(Errno::ELOOP) => Err(linked()),
        Err(errno) => Err(errno.into()),
    }
}

fn is_link(folder: &OwnedFd, name: &OsStr) -> bool {
    let stat = fstatat(folder, name, AtFlags::AT_SYMLINK_NOFOLLOW);
    stat.is_ok_and(|stat| stat.st_mode & nix::libc::S_IFMT == nix::libc::S_IFLNK)
}

/// A regular file's content, `None` where there is none.
fn content(path: &Path, opened: io::Result<File>) -> Result<Option<Vec<u8>>> {
    let file = match opened {
        Ok(file) => file,
        Err(error)
            if matches!(
                error.kind(),
                std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
            ) =>
        {
            return Ok(None);
        }
        Err(source) => {
            let advice = "nothing runs without it: make it readable, or remove it";
            let source = io::Error::new(source.kind(), format!("{source}; {advice}"));
            return Err(Error::file("read", path)(source));
        }
    };
    let metadata = file.metadata().map_err(Error::file("read", path))?;
    if !metadata.is_file() {
        let other = std::io::Error::other("it is not a regular file");
        return Err(Error::file("read", path)(other));
    }
    let mut text = Vec::new();
    // One byte more than allowed, so that whoever reads the text can say so.
    file.take(MAX_FILE as u64 + 1)
        .read_to_end(&mut text)
        .map_err(Error::file("read", path))?;
    Ok(Some(text))
}

/// Bytes of memory that the machine has.
fn machine_memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn account(home: &Path) -> Account {
        Account {
            uid: nix::unistd::geteuid().as_raw(),
            name: "ann".to_owned(),
            home: home.to_owned(),
            config: home.join(".config"),
        }
    }

    fn write_policy(home: &Path, text: &str) {
        let folder = home.join(".config/sjail");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("policy.toml"), text).unwrap();
        for path in [
            folder.clone(),
            home.join(".config"),
            folder.join("policy.toml"),
        ] {
            let mode = if path.is_dir() { 0o700 } else { 0o600 };
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
    }

    #[test]
    fn a_changed_policy_is_read_and_a_broken_one_keeps_the_former() {
        let home = tempfile::tempdir().unwrap();
        write_policy(home.path(), "[commands]\ndeny = [\"make\"]\n");
        let policies = Policies::new(account(home.path())).unwrap();
        let load = || policies.load(home.path(), &[]).ok().unwrap();
        let first = load();
        assert_eq!(first.loaded.policy.forbid.len(), 1);
        assert!(Arc::ptr_eq(&first, &load()));
        write_policy(home.path(), "[commands]\ndeny = [\"make\", \"cc\"]\n");
        let second = load();
        assert_eq!(second.loaded.policy.forbid.len(), 2);
        assert_ne!(first.hash, second.hash);
        write_policy(home.path(), "[commands\n");
        let broken = load();
        assert_eq!(broken.loaded.policy.forbid.len(), 2);
        assert_eq!(broken.problems.len(), 1);
        write_policy(home.path(), "[commands]\ndeny = [\"make\"]\n");
        assert_eq!(load().hash, first.hash);
    }

    #[test]
    fn nothing_starts_with_a_policy_that_cannot_be_read() {
        let home = tempfile::tempdir().unwrap();
        write_policy(home.path(), "[nonsense]\n");
        assert!(matches!(
            Policies::new(account(home.path())),
            Err(Error::Policy(_))
        ));
    }

    #[test]
    fn a_locked_key_refuses_the_option() {
        let home = tempfile::tempdir().unwrap();
        write_policy(home.path(), "[lock]\nkeys = [\"network.mode\"]\n");
        let policies = Policies::new(account(home.path())).unwrap();
        assert!(matches!(
            policies.load(home.path(), &["--net=host".into()]),
            Err(NoPolicy::CommandLine(config::Error::Locked { .. }))
        ));
        assert!(matches!(
            policies.load(home.path(), &["--no-broker".into()]),
            Err(NoPolicy::CommandLine(_))
        ));
    }
}
