//! Limits, layout, namespaces, jail.

use std::mem::ManuallyDrop;

use nix::sys::signal::Signal;
use sjail_policy::plan::{Desk as Asks, Plan};

use super::guards::Guards;
use super::host::host;
use super::noted::Noted;
use crate::caller::Account;
use crate::cleanup::Leftover;
use crate::cli::RunArgs;
use crate::client::Desk;
use crate::degraded::cause::Cause;
use crate::degraded::room::Room;
use crate::error::Error;
use crate::layout::{self, Asked, Layout, NetworkSpace, Observation, Release};
use crate::limits::{Limits, Moved, Wanted};
use crate::observe::{self, Filters};
use crate::outcome::Outcome;
use crate::permission::Gate;
use crate::preview::Preview;
use crate::report::Report;
use crate::signals::Signals;
use crate::stdio::{self, Given, Output};
use crate::supervise::{self, Guard, Watch};
use crate::sys::vanguard::{Network, Vanguard};
use crate::{degraded, landlock, sentence, sources, spawn};

/// What the jail stands on.
pub(super) enum Footing<'a> {
    /// Namespaces of its own, perhaps with the layers of a preview.
    Namespaces(Option<&'a mut Preview>),
    /// The host's, for want of others.
    Bare {
        /// Why there are none.
        cause: &'a Cause,
        /// Its home and temporary folder.
        room: &'a Room,
    },
}

/// Limits, layout, jail; what is noted of them is gone when this is over.
pub(super) fn confine(
    args: &RunArgs,
    plan: &Plan,
    account: Account,
    report: &mut Report,
    note: &mut Noted,
    guards: &mut Guards<'_>,
    footing: Footing<'_>,
) -> Result<Outcome, Error> {
    let host_account = account.clone();
    let mut host = host(account, plan, report)?;
    if plan.desk == Asks::Requests {
        match guards.gate.is_some() {
            true => {
                host.desk = Some(Asked {
                    socket: Desk::of(args, &host_account).request_socket(),
                    policy: sources::for_inside(&host_account)?,
                });
            }
            false => report.note("without the broker there is nobody to ask from inside"),
        }
    }
    let mut limits = Limits::prepare(
        &Wanted::of(&plan.limits),
        report.id().as_str(),
        &mut |folder| note.add(report.id(), Leftover::Group(folder.to_owned())),
        guards.scope.as_ref(),
    );
    if limits.moved() == Moved::IntoScope {
        // From where it stands the group is out of its reach; another starts from here.
        guards.ahead = guards
            .ahead
            .take()
            .and_then(|ahead| spawn::ahead(ahead.network()).ok());
    }
    if !limits.unheld().is_empty() {
        report.unheld(plan, limits.unheld())?;
    }
    let (held, copy) = match &guards.protection {
        Some(protection) => (protection.holds(), protection.copy()),
        None => (guards.closed.clone(), None),
    };
    let mut layout = match footing {
        Footing::Namespaces(preview) => {
            layout::prepare(plan, &host, limits.rlimits(), &held, copy, preview)?
        }
        Footing::Bare { cause, room } => {
            limits.without_namespace();
            let mut layout = layout::prepare_degraded(plan, &host, limits.rlimits(), &held, room)?;
            if let Some(bare) = &layout.bare {
                layout.missing = degraded::shortfalls(bare, cause, plan);
            }
            if args.trace {
                layout
                    .missing
                    .push("--trace shows nothing: it looks at the jail's mounts".to_owned());
            }
            layout
        }
    };
    if guards.tracer.is_some() {
        layout.observation = Observation::Calls(Filters::new());
    } else if guards.lookout.is_some() {
        layout.observation = Observation::Renames(observe::renames());
    }
    if let Some(network) = &mut guards.network {
        network.held_by(layout.rules.as_ref().map(|rules| rules.abi));
    }
    if let Some(door) = &mut guards.door {
        for note in door.notes() {
            report.note(&note);
        }
        door.held_by(layout.rules.as_ref().map(|rules| rules.abi));
    }
    if let Some(lent) = &mut guards.lent {
        for note in lent.notes() {
            report.note(&note);
        }
        lent.held_by(layout.rules.as_ref().map(|rules| rules.abi));
    }
    // A jail that is built a second time may find the gate open.
    if guards.gate.as_ref().is_some_and(Gate::is_closed) {
        layout.release = Release::WhenTold;
    }
    layout.missing.extend(
        layout
            .rules
            .as_ref()
            .and_then(|rules| landlock::lowered(rules.abi)),
    );
    layout.processors = args.processors;
    report.prepared(&layout, &limits);
    // This process ends with the run: handing its pieces back one by one is for nobody.
    let layout = ManuallyDrop::new(layout);
    let vanguard = match layout.bare {
        Some(_) => None,
        None => Some(vanguard(guards.ahead.take(), layout.network)?),
    };
    let outcome = spawn_and_watch(args, plan, &layout, &limits, vanguard, guards.list());
    if limits.remove().is_err() {
        note.stay();
    }
    outcome.map_err(|error| match error {
        Error::SetUp(failure) => Error::Step {
            sentence: sentence::of(&failure, &layout),
            failure,
        },
        other => other,
    })
}

/// The one that has gone ahead, if it makes the namespaces that are wanted; else another.
pub(super) fn vanguard(ahead: Option<Vanguard>, network: NetworkSpace) -> Result<Vanguard, Error> {
    let wanted = match network {
        NetworkSpace::Own | NetworkSpace::Published | NetworkSpace::Filtered => Network::Own,
        NetworkSpace::Host => Network::Host,
    };
    match ahead.filter(|ahead| ahead.network() == wanted) {
        Some(vanguard) => Ok(vanguard),
        None => spawn::ahead(wanted),
    }
}

pub(super) fn spawn_and_watch<'a>(
    args: &RunArgs,
    plan: &Plan,
    layout: &Layout,
    limits: &'a Limits,
    vanguard: Option<Vanguard>,
    guards: Vec<&'a mut dyn Guard>,
) -> Result<Outcome, Error> {
    let signals = Signals::block().map_err(Error::Signals)?;
    let limit = plan.limits.output.map(|size| size.bytes());
    let output = if args.json {
        Output::Keep {
            limit: limit.unwrap_or(stdio::KEPT_BY_DEFAULT),
        }
    } else {
        Output::Stream {
            limit,
            recorded: args.record_output,
            heard: args.agent.is_some(),
        }
    };
    stdio::check()?;
    let (streams, held) = stdio::prepare(output).map_err(Error::Terminal)?;
    let given = Given::by(&streams);
    let mut mask = signals.mask_before();
    // Blocked for the watch on protected names alone.
    mask.remove(Signal::SIGIO);
    // What we are told to end with must end the command, too, even where whoever started us
    // keeps it from itself.
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        mask.remove(signal);
    }
    let jail = spawn::spawn(layout, &streams, limits.clone_into(), mask, vanguard)?;
    layout.processors.tie(jail.pid).map_err(Error::Processor)?;
    // The command's ends of the pipes are the command's alone now.
    drop(streams);
    let watch = Watch {
        signals,
        stdio: held,
        limits,
        timeout: plan.limits.timeout.map(|time| time.to_std()),
        guards,
    };
    let outcome = supervise::run(jail, watch);
    given.put_back();
    outcome
}
