//! A plan made concrete: the C strings, identities and numbers that the child walks.
//!
//! The supervisor does all the looking, deciding and allocating here, before `clone3`;
//! [`crate::child`] then only walks the lists in their order.

mod degraded;
mod etc;
mod etc_image;
mod grants;
mod hide;
mod home;
pub mod kept;
mod look;
pub mod origin;
pub mod path;
pub mod places;
mod program;
mod rules;
mod system;
pub mod tree;

use std::ffi::CString;
use std::path::{Path, PathBuf};

use seccompiler::sock_filter;
use sjail_policy::plan::{Access, Degraded, NetworkMode, Plan, SSH_AGENT, Workspace};
use sjail_policy::wire::REQUEST_SOCKET;

use crate::degraded::Bare;
use crate::error::Error;
use crate::exec::Program;
use crate::inside;
use crate::landlock::Rules;
use crate::limits::rlimits::Rlimits;
use crate::observe::Filters;
use crate::preview::Preview;
use crate::processor::Processors;
use crate::protect::Hold;
use crate::protect::copy::Copy;
use crate::sys::file::FileId;
use crate::sys::mount::READ_ONLY;
use origin::{Kind, Shown};
use tree::Tree;

pub use degraded::{prepare as prepare_degraded, private_home};
pub use grants::{left_out, never_shown};
pub use home::{make_folder, make_folders};

/// Everything the child needs, prepared.
#[derive(Debug)]
pub struct Layout {
    /// Whether the jail has a network of its own.
    pub network: NetworkSpace,
    /// The file tree of the jail.
    pub root: Root,
    /// The name of the machine inside.
    pub host_name: CString,
    /// Where the command starts.
    pub working_folder: Place,
    /// Resource limits of every process inside.
    pub limits: Rlimits,
    /// What Landlock allows; `None` where there is none and the plan goes on without.
    pub rules: Option<Rules>,
    /// What the plan wants and this machine does not have, each in a sentence.
    pub missing: Vec<String>,
    /// What is executed.
    pub program: Program,
    /// Keeps the shown `/etc` from being swept away.
    _image: Option<etc_image::Image>,
    /// Whether somebody looks at its calls.
    pub observation: Observation,
    /// When the command starts.
    pub release: Release,
    /// How many processors it has.
    pub processors: Processors,
    /// Where the ssh agent is to be, if there is one.
    pub ssh_agent: Option<CString>,
    /// What there is instead of namespaces and a root of its own, where there are none.
    pub bare: Option<Bare>,
}

/// When the command of a finished jail starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// As soon as every layer is verified.
    AtOnce,
    /// Not before the supervisor says so.
    WhenTold,
}

/// Whether calls of the command are looked at.
#[derive(Debug)]
pub enum Observation {
    /// They are not.
    None,
    /// `--trace`: those that open, execute, connect or change names, and those that are
    /// refused, wait for the supervisor.
    Calls(Filters),
    /// In a preview: those that change names, by this filter on top of the usual one.
    Renames(Vec<sock_filter>),
}

/// Whose network the jail sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkSpace {
    /// A namespace of its own, loopback only.
    Own,
    /// The same, with ports that are reached from outside.
    Published,
    /// A namespace of its own, in which names lead to the relay.
    Filtered,
    /// The host's.
    Host,
}

/// A path inside the jail and the file that must be found there.
#[derive(Debug)]
pub struct Place {
    /// Absolute, as seen inside.
    pub path: CString,
    /// What the supervisor saw there; `None` on a layer of a preview, whose files have
    /// numbers of their own.
    pub id: Option<FileId>,
}

impl Place {
    /// Whether this is the file that the supervisor saw.
    pub fn is(&self, id: FileId) -> bool {
        self.id.is_none_or(|seen| seen == id)
    }
}

/// The new root: a tmpfs, what is made on it, what is mounted on that. Every path is
/// relative to it. The child goes through the lists in this order, so that while
/// folders and files are made there are no links and no host files below the root yet.
#[derive(Debug)]
pub struct Root {
    /// How much the tmpfs holds, in bytes: `/tmp`, `/var/tmp`, `/dev/shm` and home together.
    pub size: CString,
    /// How many files and folders it holds.
    pub inodes: CString,
    /// Folders, parents first.
    pub folders: Vec<NewFolder>,
    /// Small files with their contents.
    pub files: Vec<NewFile>,
    /// Symbolic links.
    pub links: Vec<NewLink>,
    /// Mounts, by depth.
    pub mounts: Vec<Mount>,
}

/// A folder on the new root.
#[derive(Debug)]
pub struct NewFolder {
    /// Where.
    pub path: CString,
    /// Its permissions.
    pub mode: u32,
}

/// A file on the new root.
#[derive(Debug)]
pub struct NewFile {
    /// Where.
    pub path: CString,
    /// What is in it; empty for a file that something is mounted on.
    pub contents: Vec<u8>,
    /// Its permissions.
    pub mode: u32,
}

/// A symbolic link on the new root.
#[derive(Debug)]
pub struct NewLink {
    /// Where.
    pub path: CString,
    /// What it says.
    pub target: CString,
}

/// One mount.
#[derive(Debug)]
pub struct Mount {
    /// What is mounted.
    pub what: What,
    /// Where, relative to the new root; it exists when its turn comes.
    pub dest: CString,
    /// `MOUNT_ATTR_*` to set.
    pub attributes: u64,
}

/// What a mount shows.
#[derive(Debug)]
pub enum What {
    /// A folder or file of the host with all that is mounted below it.
    Host(Place),
    /// The folder of the new root that is already there, so that it stays writable when
    /// the root becomes read-only; or a part of `/proc`, so that it becomes so itself.
    Itself,
    /// A folder of the host, written to a copy of.
    Overlay(Box<Overlay>),
    /// What is there, with everything mounted below it: a protected name, a folder on the
    /// way to one. Mounted last.
    Held,
    /// An unreadable file.
    MaskFile,
    /// An unreadable folder.
    MaskFolder,
    /// The processes of the jail.
    Proc,
    /// The terminals of the jail.
    Pts,
}

/// The three folders of an overlay.
#[derive(Debug)]
pub struct Overlay {
    /// The host's folder.
    pub lower: Place,
    /// Where changes go.
    pub upper: CString,
    /// The overlay's own scratch.
    pub work: CString,
    /// Whether changes are on the disk when the jail has ended.
    pub lasting: Lasting,
}

/// When what goes to a layer is on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lasting {
    /// When the command says so, and at the end.
    AsUsual,
    /// Not before somebody keeps it and sees to that.
    WhenKept,
}

/// The name of every jail: the host's own is nobody's business.
const HOST_NAME: &str = "sjail";

/// How much the jail's tmpfs holds when the plan does not say: 1 GiB.
const USUAL_TMP: u64 = 1 << 30;

/// What of the caller and the machine goes into a layout.
#[derive(Debug)]
pub struct Host {
    /// The caller's user id, or the one that `--user` names.
    pub uid: u32,
    /// The group id.
    pub gid: u32,
    /// The user's name.
    pub user: String,
    /// The group's name.
    pub group: String,
    /// The login shell.
    pub shell: String,
    /// The home folder.
    pub home: PathBuf,
    /// The sandbox's own cache folder, if the plan wants one.
    pub cache: Option<PathBuf>,
    /// What stands behind home and tmp, where several runs share them.
    pub kept: Option<kept::Kept>,
    /// Where an agent's own folders are kept.
    pub agent: Option<PathBuf>,
    /// What of the broker an agent's jail has.
    pub desk: Option<Asked>,
    /// Where images of `/etc` are kept, if there is a place.
    pub images: Option<PathBuf>,
    /// sjail's own folders (records, policy), out of reach even where home is granted.
    pub own: Vec<PathBuf>,
}

/// What of the broker, and of the policy it goes by, is in an agent's jail.
#[derive(Debug)]
pub struct Asked {
    /// The request socket.
    pub socket: PathBuf,
    /// The owner's policy files, by name.
    pub policy: Vec<(&'static str, Vec<u8>)>,
}

/// Makes a plan concrete on this machine.
///
/// `held` are paths below writable folders, in the order in which they are mounted on
/// themselves: protected names and the ways to them.
pub fn prepare(
    plan: &Plan,
    host: &Host,
    limits: Rlimits,
    held: &[(PathBuf, Hold)],
    copy: Option<&Copy>,
    preview: Option<&mut Preview>,
) -> Result<Layout, Error> {
    let network = match plan.network.mode {
        NetworkMode::None if plan.network.publish.is_empty() => NetworkSpace::Own,
        NetworkMode::None => NetworkSpace::Published,
        NetworkMode::Host => NetworkSpace::Host,
        NetworkMode::Filtered => NetworkSpace::Filtered,
    };
    let mut tree = Tree::default();
    system::lay(&mut tree, &plan.filesystem.system, host.uid)?;
    let image = etc::lay(&mut tree, &plan.filesystem.etc, host, network)?;
    grants::workspace(&mut tree, &plan.workspace)?;
    grants::lay(&mut tree, &plan.workspace, &plan.filesystem.grants)?;
    let kept = host.kept.as_ref();
    home::lay(&mut tree, &plan.home, host.cache.as_deref(), kept)?;
    if network == NetworkSpace::Filtered {
        home::registries(&mut tree, plan.home.path.as_path(), &plan.network)?;
    }
    if let (Some(agent), Some(folder)) = (&plan.home.agent, &host.agent) {
        kept::lay_agent(&mut tree, agent, folder)?;
    }
    if let Some(asked) = &host.desk {
        desk(&mut tree, asked)?;
    }
    other_names(&mut tree, &plan.workspace);
    hide::lay(
        &mut tree,
        &plan.filesystem,
        plan.home.path.as_path(),
        &host.own,
    )?;

    let cwd = plan.command.cwd.as_path();
    let mut working_folder = working_folder(&tree, cwd, plan.home.path.as_path())?;
    let mut program = program::resolve(&tree, &plan.command, cwd)?;
    let mut missing = Vec::new();
    let agent = (network == NetworkSpace::Filtered && !plan.network.ssh_agent.is_empty())
        .then_some(SSH_AGENT);
    let rules = match rules::draw(&tree, &plan.home, network, agent.map(Path::new)) {
        Ok(rules) => Some(rules),
        Err(Error::Landlock(why)) if plan.degraded == Degraded::Allowed => {
            missing.push(format!("Landlock is not enforced: {why}"));
            None
        }
        Err(error) => return Err(error),
    };
    let holds = held
        .iter()
        .map(|(path, hold)| {
            Ok(Mount {
                what: What::Held,
                dest: path::relative(path)?,
                attributes: match hold {
                    Hold::Pin => 0,
                    Hold::ReadOnly => READ_ONLY,
                },
            })
        })
        .collect::<Result<Vec<_>, Error>>()?;
    kept::make_places(&tree)?;
    let size = plan.limits.tmp.map_or(USUAL_TMP, |size| size.bytes());
    let mut root = tree.finish(number(size), number((size / 4096).clamp(4096, 1 << 20)))?;
    if let Some(preview) = preview {
        preview.lay(&mut root, host.cache.as_deref())?;
        // On a layer files have other numbers than on the host.
        let program_places = std::iter::once(&mut program.file)
            .chain(&mut program.scripts)
            .chain(
                program
                    .as_shell_script
                    .as_mut()
                    .map(|script| &mut script.shell),
            );
        for place in program_places.chain([&mut working_folder]) {
            if preview.covers(&place.path) {
                place.id = None;
            }
        }
    }
    root.mounts.extend(holds);
    if let Some(copy) = copy {
        root.mounts.push(Mount {
            what: What::Overlay(Box::new(Overlay {
                lower: Place {
                    path: path::c_string(copy.lower())?,
                    id: None,
                },
                upper: path::c_string(&copy.upper())?,
                work: path::c_string(&copy.work())?,
                lasting: Lasting::AsUsual,
            })),
            dest: path::relative(copy.lower())?,
            attributes: 0,
        });
    }
    Ok(Layout {
        network,
        root,
        host_name: CString::new(HOST_NAME).map_err(|_| Error::NulByte)?,
        working_folder,
        limits,
        rules,
        missing,
        program,
        _image: image,
        observation: Observation::None,
        release: Release::AtOnce,
        processors: Processors::All,
        ssh_agent: agent.map(|place| CString::new(place).unwrap_or_default()),
        bare: None,
    })
}

/// The broker's request socket and nothing else of it: whoever is inside can ask. Beside
/// it the policy, so that hooks inside judge by it.
fn desk(tree: &mut Tree, asked: &Asked) -> Result<(), Error> {
    let socket = &asked.socket;
    let seen = look::through_links(socket).map_err(|errno| Error::Look {
        path: socket.clone(),
        error: errno.into(),
    })?;
    let folder = Path::new(inside::DESK);
    for (name, text) in &asked.policy {
        tree.file(&folder.join(name), text.clone(), 0o444)?;
    }
    let dest = folder.join(REQUEST_SOCKET);
    // Read-only does not keep anybody from connecting, but from changing the file.
    tree.show(seen, &dest, Shown::ReadOnly);
    Ok(())
}

/// The names under which others know a workspace: `/agent` where it can be read,
/// `/workspace` where it can be written. Links, and only where nothing else is there.
fn other_names(tree: &mut Tree, workspace: &Workspace) {
    let name = match workspace.access {
        Access::None => return,
        Access::Ro => Path::new("/agent"),
        Access::Rw => Path::new("/workspace"),
    };
    let taken = tree.link_at(name).is_some()
        || tree
            .mounts()
            .iter()
            .any(|entry| path::within(&entry.dest, name));
    if !taken {
        tree.link(name, workspace.path.as_path());
    }
}

fn number(number: u64) -> CString {
    CString::new(number.to_string()).unwrap_or_default()
}

/// The command starts where the plan says; a jail that does not show that place is refused,
/// for a command that runs elsewhere does something else. Folders of the jail's own are
/// nowhere outside.
fn working_folder(tree: &Tree, cwd: &Path, home: &Path) -> Result<Place, Error> {
    let invisible = || Error::CwdInvisible {
        path: cwd.to_owned(),
    };
    let plain = path::plain(cwd).ok_or_else(invisible)?;
    let Some((_, outside)) = tree.outside(&plain) else {
        let own = [home, Path::new("/tmp")].contains(&cwd);
        return match own && tree.has_folder(&plain) {
            true => Ok(Place {
                path: path::c_string(cwd)?,
                id: None,
            }),
            false => Err(invisible()),
        };
    };
    let (seen, _) = look::at(&outside).ok_or_else(invisible)?;
    Ok(Place {
        path: path::c_string(cwd)?,
        id: Some(seen.id),
    })
}
