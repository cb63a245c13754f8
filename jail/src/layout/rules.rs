//! What Landlock allows, drawn from the tree: nothing that is not there.

use std::path::Path;

use sjail_policy::plan::{CacheSource, Home};

use super::NetworkSpace;
use super::origin::{Kind, Origin};
use super::path::{c_string, within};
use super::tree::Tree;
use crate::error::Error;
use crate::inside;
use crate::landlock::{self, Grant, Rule, Rules, Tcp, Unavailable};

/// The rules for a tree, at the best ABI of this kernel. `agent` is a socket that will be
/// there when they are enforced.
pub fn draw(
    tree: &Tree,
    home: &Home,
    network: NetworkSpace,
    agent: Option<&Path>,
) -> Result<Rules, Error> {
    let abi = landlock::usable_abi()?;
    if network == NetworkSpace::Host && !landlock::has_scopes(abi) {
        return Err(Unavailable::Scopes(abi).into());
    }
    let mut rules = List(Vec::new());
    rules.add(Path::new("/"), Grant::List, Kind::Folder);
    rules.add(Path::new("/etc"), Grant::Read, Kind::Folder);
    rules.add(Path::new("/proc"), Grant::Write, Kind::Folder);
    rules.add(Path::new("/dev"), Grant::Devices, Kind::Folder);
    for path in ["/dev/shm", "/tmp", "/var/tmp"] {
        rules.add(Path::new(path), Grant::Change, Kind::Folder);
    }
    let written = match home.cache_source {
        CacheSource::Closed => Grant::Read,
        _ => Grant::Change,
    };
    let home = home.path.as_path();
    if home != Path::new("/") && !tree.covered(home) {
        rules.add(home, written, Kind::Folder);
    }
    if tree
        .mounts()
        .iter()
        .any(|entry| entry.dest.starts_with(inside::DESK))
    {
        rules.add(Path::new(inside::DESK), Grant::Read, Kind::Folder);
    }
    if let Some(agent) = agent {
        rules.add(agent, Grant::Talk, Kind::File);
    }
    for entry in tree.mounts() {
        if let Origin::Host(seen) = &entry.origin
            && !entry.dest.starts_with("/dev")
        {
            let grant = if entry.dest.starts_with(inside::DESK) {
                Grant::Talk
            } else if entry.is_writable() {
                Grant::Change
            } else {
                Grant::Read
            };
            rules.add(&entry.dest, grant, seen.kind);
        }
    }
    let rules = rules
        .0
        .iter()
        .map(|(path, grant, kind)| {
            Ok(Rule {
                path: c_string(path)?,
                grant: *grant,
                kind: *kind,
            })
        })
        .collect::<Result<_, Error>>()?;
    Ok(Rules {
        abi,
        rules,
        tcp: Tcp::Unhandled,
    })
}

struct List<'a>(Vec<(&'a Path, Grant, Kind)>);

impl<'a> List<'a> {
    /// Adds a rule unless one above says as much already.
    fn add(&mut self, path: &'a Path, grant: Grant, kind: Kind) {
        let said = self
            .0
            .iter()
            .any(|(above, theirs, _)| within(path, above) && theirs.includes(grant));
        if !said {
            self.0.push((path, grant, kind));
        }
    }
}
