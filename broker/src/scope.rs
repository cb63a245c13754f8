//! A control group for whoever runs a command, from the user's systemd.
//!
//! A login session's processes stand in a group of root's: nobody but systemd may move
//! them to where limits can be set. It is asked for a scope of the caller's own, with the
//! right to divide it; the caller then stands in it, makes the jail's group there, and has
//! the jail born in that. systemd clears the scope away when its last process has ended,
//! however that came.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use nix::libc::pid_t;
use sjail_policy::wire::request::{Group, Grouped};
use tokio::time::timeout;

use crate::dbus::{Body, Bus, Message, Method};
use crate::error::{Error, Result};
use crate::id;
use crate::peer::Home;
use crate::server::Visit;
use crate::service::Failure;

/// systemd may take so long.
const PATIENCE: Duration = Duration::from_secs(10);
/// systemd's name on a bus.
const SYSTEMD: &str = "org.freedesktop.systemd1";
/// The object that starts units.
const MANAGER: &str = "/org/freedesktop/systemd1";

/// Answers [`sjail_policy::wire::request::GROUP`]: only for the very process that asks, and
/// only where that is one of this account's own, outside any jail.
pub async fn answer(visit: &mut Visit, wanted: Group) -> std::result::Result<(), Failure> {
    if !id::is_run(&wanted.run) && !id::is_request(&wanted.run) {
        return Err(Error::Parameter("run is no name of a run".to_owned()).into());
    }
    let peer = &visit.peer;
    if peer.home != Home::Host || peer.uid != visit.service.uid {
        let why = "a group for limits is only for processes of this account, outside any jail";
        return Err(Error::Refused(why.to_owned()).into());
    }
    let Some(id) = peer.id.filter(|_| peer.is_alive()) else {
        return Err(Error::Scope("whoever asks is gone".to_owned()).into());
    };
    let unit = format!("sjail-{}.scope", wanted.run);
    let started = start(&unit, id.pid, peer.uid);
    timeout(PATIENCE, started)
        .await
        .map_err(|_| Error::Scope("it does not answer".to_owned()))??;
    if !stands_in(id.pid, &unit) {
        let why = format!("it says {unit} is there, but nobody was moved into it");
        return Err(Error::Scope(why).into());
    }
    visit.connection.reply(&Grouped { unit }).await?;
    Ok(())
}

/// Whether a process is in the unit, as the kernel has it.
fn stands_in(pid: pid_t, unit: &str) -> bool {
    fs::read_to_string(format!("/proc/{pid}/cgroup")).is_ok_and(|groups| {
        groups
            .lines()
            .any(|line| line.starts_with("0::") && line.ends_with(&format!("/{unit}")))
    })
}

/// Where systemd can be spoken to.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Way {
    /// Over the session's bus.
    Bus(PathBuf),
    /// Straight, where there is no bus.
    Straight(PathBuf),
}

/// The ways there are, the best first. A variable may point elsewhere than to the account's
/// own folder; that is looked at too.
fn ways(uid: u32) -> Vec<Way> {
    let named = std::env::var("DBUS_SESSION_BUS_ADDRESS").unwrap_or_default();
    let named = named
        .split([';', ','])
        .find_map(|part| part.strip_prefix("unix:path="))
        .map(PathBuf::from);
    let folders = [
        std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from),
        Some(PathBuf::from(format!("/run/user/{uid}"))),
    ];
    let folders: Vec<PathBuf> = folders.into_iter().flatten().collect();
    named
        .into_iter()
        .chain(folders.iter().map(|folder| folder.join("bus")))
        .map(Way::Bus)
        .chain(
            folders
                .iter()
                .map(|folder| Way::Straight(folder.join("systemd/private"))),
        )
        .collect()
}

/// Has systemd start the scope with the process in it, and waits until it has.
async fn start(unit: &str, pid: pid_t, uid: u32) -> Result<()> {
    let mut bus = None;
    for way in ways(uid) {
        let (Way::Bus(socket) | Way::Straight(socket)) = &way;
        if let Ok(connected) = Bus::connect(socket, uid).await {
            bus = Some((connected, way));
            break;
        }
    }
    let Some((mut bus, way)) = bus else {
        return Err(Error::Scope(
            "no systemd of this account is there to be asked".to_owned(),
        ));
    };
    let failed = |error: std::io::Error| Error::Scope(error.to_string());
    let asked = put_question(&mut bus, &way, unit, pid);
    bus.send().await.map_err(failed)?;
    let mut job = None;
    loop {
        let message = bus.next().await.map_err(failed)?;
        if message.reply_to == Some(asked) {
            if let Some(error) = &message.error {
                let why = message.values().text().unwrap_or(error).to_owned();
                return Err(Error::Scope(why));
            }
            job = message.values().text().map(str::to_owned);
        } else if let Some((done, result)) = job_removed(&message)
            && job.as_deref() == Some(done)
        {
            return match result {
                "done" => Ok(()),
                other => Err(Error::Scope(format!("starting {unit}: {other}"))),
            };
        }
    }
}

/// The job and how it ended, if that is what a message tells.
fn job_removed(message: &Message) -> Option<(&str, &str)> {
    if message.member.as_deref() != Some("JobRemoved") {
        return None;
    }
    let mut values = message.values();
    values.u32()?;
    let (job, _unit, result) = (values.text()?, values.text()?, values.text()?);
    Some((job, result))
}

/// Everything in one go: who we are, what we want to hear of, what we want.
fn put_question(bus: &mut Bus, way: &Way, unit: &str, pid: pid_t) -> u32 {
    let destination = match way {
        Way::Bus(_) => {
            let daemon = |member, signature| Method {
                destination: Some("org.freedesktop.DBus"),
                path: "/org/freedesktop/DBus",
                interface: "org.freedesktop.DBus",
                member,
                signature,
            };
            bus.call(daemon("Hello", ""), &Body::default());
            let mut rule = Body::default();
            rule.text(
                "type='signal',interface='org.freedesktop.systemd1.Manager',member='JobRemoved'",
            );
            bus.call(daemon("AddMatch", "s"), &rule);
            Some(SYSTEMD)
        }
        Way::Straight(_) => None,
    };
    let manager = |member, signature| Method {
        destination,
        path: MANAGER,
        interface: "org.freedesktop.systemd1.Manager",
        member,
        signature,
    };
    bus.call(manager("Subscribe", ""), &Body::default());
    let question = manager("StartTransientUnit", "ssa(sv)a(sa(sv))");
    bus.call(question, &scope(unit, pid))
}

/// The scope: the caller's alone to divide, forgotten when it is empty. A delegated one
/// is left alone when the kernel ends something in it for want of memory.
fn scope(unit: &str, pid: pid_t) -> Body {
    let mut body = Body::default();
    body.text(unit).text("fail");
    body.array(8, |properties| {
        let property = |properties: &mut Body, name: &str, kind: &str| {
            properties.align(8).text(name).signature(kind);
        };
        property(properties, "Description", "s");
        properties.text("a command in a jail of sjail");
        property(properties, "PIDs", "au");
        properties.array(4, |pids| {
            pids.u32(pid.unsigned_abs());
        });
        property(properties, "Delegate", "b");
        properties.boolean(true);
        property(properties, "CollectMode", "s");
        properties.text("inactive-or-failed");
    });
    // No other units.
    body.array(8, |_| {});
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_account_s_own_folder_is_always_looked_at() {
        let ways = ways(4711);
        assert!(ways.contains(&Way::Bus("/run/user/4711/bus".into())));
        assert_eq!(
            ways.last(),
            Some(&Way::Straight("/run/user/4711/systemd/private".into()))
        );
    }

    #[test]
    fn a_process_is_in_no_unit_that_is_not_there() {
        let own = pid_t::try_from(std::process::id()).unwrap_or(0);
        assert!(!stands_in(own, "sjail-run_0123456789ab.scope"));
    }
}
