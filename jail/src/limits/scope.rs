//! A group from systemd, by way of the broker.
//!
//! Where sjail stands in a group that it may not divide (a login session's belongs to
//! root), the broker asks the user's systemd for a scope and has this very process moved
//! into it. sjail then goes into a corner of the scope, so that the jail's group can be
//! made beside it and the jail be born there.

use std::fs;
use std::path::Path;

use nix::errno::Errno;
use sjail_policy::wire::request::{GROUP, Group, Grouped};

use super::cgroup::{Controller, View};
use crate::client::{Client, Desk};
use crate::error::Error;

/// There where systemd is the machine's first process.
const BOOTED: &str = "/run/systemd/system";
/// Where sjail itself stands, below its scope.
const CORNER: &str = "supervisor";

/// Whoever can ask for a scope, and for which run.
#[derive(Debug, Clone)]
pub struct Scope {
    /// Where the broker is.
    pub desk: Desk,
    /// The run.
    pub run: String,
}

impl Scope {
    /// Has this process moved into a scope of its own, ready to be divided; or says why
    /// not.
    pub fn enter(&self) -> Result<(), String> {
        if !Path::new(BOOTED).exists() {
            return Err("no systemd is there to ask for one".to_owned());
        }
        let wanted = Group {
            run: self.run.clone(),
        };
        let reply = Client::connect(&self.desk)
            .and_then(|mut client| client.call(GROUP, &wanted))
            .map_err(|trouble| Error::from(trouble).to_string())?;
        let grouped: Grouped = serde_json::from_value(reply).map_err(|error| error.to_string())?;
        // What counts is where the kernel has us.
        let place = View::of_self()
            .unified()
            .map(|place| place.folder)
            .filter(|folder| folder.ends_with(&grouped.unit))
            .ok_or_else(|| format!("this process is not in {}", grouped.unit))?;
        let corner = place.join(CORNER);
        fs::create_dir(&corner)
            .and_then(|()| fs::write(corner.join("cgroup.procs"), "0"))
            .map_err(|error| format!("going into {} failed: {error}", corner.display()))?;
        for controller in [Controller::Memory, Controller::Pids, Controller::Cpu] {
            // One that cannot be had is missed where its limit is set.
            let word = format!("+{}", controller.name());
            let switched = fs::write(place.join("cgroup.subtree_control"), word);
            if let Err(error) = switched
                && error.raw_os_error() == Some(Errno::EBUSY as i32)
            {
                return Err(format!("{} cannot be divided: {error}", place.display()));
            }
        }
        Ok(())
    }
}
