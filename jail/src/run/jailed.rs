//! The jail with everything around it, and what is said of it afterwards.

use std::collections::BTreeSet;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use sjail_policy::plan::{Degraded, Desk as Asks, NetworkMode, Plan};

use super::Files;
use super::confine::{Footing, confine};
use super::guards::Guards;
use super::host::host;
use super::noted::Noted;
use super::protection::{Git, protection};
use crate::caller::{Account, State};
use crate::cleanup::{self, Leftover};
use crate::cli::RunArgs;
use crate::degraded;
use crate::degraded::cause;
use crate::degraded::room::Room;
use crate::denials::{self, Recorder};
use crate::error::Error;
use crate::layout;
use crate::net::Filtered;
use crate::net::publish::Door;
use crate::net::ssh::Lent;
use crate::outcome::{Cause, Outcome};
use crate::outside::Outside;
use crate::permission::{Gate, Permission};
use crate::preview::lookout::Lookout;
use crate::preview::store::Store;
use crate::preview::{Preview, edges};
use crate::protect;
use crate::report::Report;
use crate::step::Step;
use crate::sys::vanguard::Vanguard;
use crate::touched::Survey;
use crate::trace::Tracer;

/// Runs it in the jail.
pub(super) fn jailed(
    args: &RunArgs,
    plan: Plan,
    account: Account,
    ahead: Option<Vanguard>,
    report: &mut Report,
    files: Files,
    permission: Option<&mut Permission>,
) -> Result<Outcome, Error> {
    // This process ends with the run: handing its pieces back one by one is for nobody.
    let mut plan = ManuallyDrop::new(plan);
    let door = Door::open(&plan)?;
    let state = State::of(&account);
    let mut note = Noted::default();
    let bare = match plan.degraded {
        Degraded::Refused => None,
        Degraded::Allowed => cause::find(),
    };
    if let Some(cause) = &bare {
        degraded::possible(&plan, matches!(files, Files::Layers), cause)?;
    }
    let mut preview = match files {
        Files::Layers => Some(preview(&plan, &state, report)?),
        Files::Host => None,
    };
    let git = match (&preview, &bare) {
        (Some(_), _) => Git::OnLayers,
        (None, None) => Git::OnCopy,
        (None, Some(_)) => Git::ReadOnly,
    };
    let protection = protection(&mut plan, &state, report, &mut note, git)?;
    let (protection, closed) = match (protection, preview.is_some()) {
        // New names stay on the layer: nothing has to be watched.
        (Some(protection), true) => (None, protection.holds()),
        (protection, _) => (protection, Vec::new()),
    };
    let room = match &bare {
        Some(_) => Some(room(&mut plan, &account, report, &mut note)?),
        None => None,
    };
    for sentence in layout::left_out(&plan.filesystem.grants) {
        report.note(&sentence);
    }
    if !plan.network.ssh_agent.is_empty() && plan.network.mode != NetworkMode::Filtered {
        report.note("no ssh agent is lent: it goes with a filtered network (--allow-host NAME:22)");
    }
    let mut guards = Guards {
        ahead,
        survey: preview.is_none().then(|| Survey::begin(&plan)),
        protection,
        closed,
        recorder: Recorder::default(),
        // One observer at a time, and without mounts it would see nothing.
        tracer: (args.trace && bare.is_none()).then(|| Tracer::new(&plan)),
        lookout: (!args.trace && preview.is_some()).then(Lookout::default),
        network: Filtered::of(&plan, permission.as_deref().map(Permission::asker)),
        door,
        lent: Lent::of(&plan, &account.home),
        outside: permission
            .as_deref()
            .filter(|_| plan.desk == Asks::Requests && args.user.is_none())
            .map(|permission| Outside::new(permission.asker(), plan.workspace.path.clone())),
        scope: permission.as_deref().map(Permission::scope),
        gate: permission.map(Gate::new),
    };
    let again = account.clone();
    let footing = match (&bare, &room) {
        (Some(cause), Some(room)) => Footing::Bare { cause, room },
        _ => Footing::Namespaces(preview.as_mut()),
    };
    let mut outcome = confine(
        args,
        &plan,
        account,
        report,
        &mut note,
        &mut guards,
        footing,
    );
    if let Some(preview) = &mut preview
        && preview.is_overlay()
        && let Err(Error::Step { failure, .. }) = &outcome
        && failure.step == Step::Overlay
    {
        preview.fall_back(Errno::from_raw(failure.errno).desc());
        // Copies are like any other folder.
        guards.lookout = None;
        let (note, guards) = (&mut note, &mut guards);
        let footing = Footing::Namespaces(Some(preview));
        outcome = confine(args, &plan, again, report, note, guards, footing);
    }
    // Layers are looked at, and kept, when nothing is mounted on them any more.
    let has_layers = preview.is_some()
        || guards
            .protection
            .as_ref()
            .is_some_and(|protection| protection.copy().is_some());
    if let (Ok(outcome), true) = (&mut outcome, has_layers) {
        drop(outcome.remains.take());
    }
    let outcome = match guards.gate.as_mut().and_then(Gate::failure) {
        Some(error) => Err(error),
        None => outcome,
    };
    let network = guards.network.map(Filtered::finish);
    let door = guards.door.map(Door::finish);
    let lent = guards.lent.map(Lent::finish);
    if let Some(outside) = guards.outside {
        outside.finish();
    }
    let all = [network, door, lent];
    let reached = all.into_iter().flatten().flatten().collect();
    let mut kept = Vec::new();
    if let Some(protection) = guards.protection {
        kept = protection.kept();
        report.kept_away(protection.finish());
    }
    if let Some(room) = room
        && !cleanup::remove_tree(room.path())
    {
        note.stay();
    }
    note.done();
    if let Some(preview) = preview {
        let denials = match &outcome {
            Ok(outcome) if guards.tracer.is_none() => {
                denials::explain(&plan, guards.recorder, outcome.last_words())
            }
            _ => guards.tracer.map(Tracer::finish).unwrap_or_default(),
        };
        report.seen_in_preview(denials, reached);
        let mut tried = guards.lookout.map(Lookout::finish).unwrap_or_default();
        // What is held in its place cannot be renamed for real, either.
        let is_held = |path: &PathBuf| guards.closed.iter().any(|(held, _)| held.starts_with(path));
        tried.retain(|path| !is_held(path));
        finish_preview(args, preview, &plan, &outcome, &tried, report)?;
        return outcome;
    }
    report.reached(reached);
    if let (Ok(outcome), Some(survey)) = (&outcome, guards.survey) {
        let mut looked = survey.finish(outcome.duration);
        // What the command could not write was written by the host, or by us for it.
        let is_kept = |path: &Path| kept.iter().any(|kept| kept == path);
        looked.touched.retain(|file| !is_kept(file.path.as_path()));
        report.touched(looked);
    }
    if let Some(tracer) = guards.tracer {
        report.refused(tracer.finish());
    } else if let Ok(outcome) = &outcome
        && outcome.status != 0
        && matches!(outcome.cause, None | Some(Cause::Timeout(_)))
    {
        let said = outcome.last_words();
        report.refused(denials::explain(&plan, guards.recorder, said));
    }
    outcome
}

/// Makes the private home and temporary folder of a jail without namespaces.
pub(super) fn room(
    plan: &mut Plan,
    account: &Account,
    report: &Report,
    note: &mut Noted,
) -> Result<Room, Error> {
    let sandbox = State::of(account).sandbox(plan.workspace.path.as_path());
    let path = sandbox.join(format!("sjail-{}-room", report.id()));
    note.add(report.id(), Leftover::Folder(path.clone()))
        .map_err(protect::Error::from)?;
    let cache = host(account.clone(), plan, report)?.cache;
    let room = Room::make(path, plan, cache.as_deref())?;
    room.lead_into(&mut plan.command.env);
    Ok(room)
}

/// Makes room for a preview, and drops those that have expired.
pub(super) fn preview(plan: &Plan, state: &State, report: &Report) -> Result<Preview, Error> {
    Store::new(state.path()).sweep();
    let sandbox = state.sandbox(plan.workspace.path.as_path());
    Ok(Preview::begin(&sandbox, report.id().as_str())?)
}

/// Looks at what the command did, writes it down and says it.
pub(super) fn finish_preview(
    args: &RunArgs,
    preview: Preview,
    plan: &Plan,
    outcome: &Result<Outcome, Error>,
    tried: &BTreeSet<PathBuf>,
    report: &mut Report,
) -> Result<(), Error> {
    let Ok(outcome) = outcome else {
        preview.abandon();
        return Ok(());
    };
    let mut ran = report.ran(outcome);
    if preview.is_overlay() {
        ran.notes.extend(edges::met_an_owner(outcome.last_words()));
    }
    let made = preview.finish(plan, ran, tried)?;
    report.previewed(made, args.diff);
    Ok(())
}
