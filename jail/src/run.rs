//! `sjail run`: from what was typed to the exit status.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::Signal;
use nix::time::{ClockId, clock_gettime};
use sjail_policy::bytes::ByteString;
use sjail_policy::config::Loaded;
use sjail_policy::decide::{Action, Asking, Decision, Place as Where};
use sjail_policy::git_command;
use sjail_policy::plan::{
    Access, CacheSource, Degraded, Desk as Asks, Grant, Missing, NetworkMode, Plan,
};
use sjail_policy::risk::Risk;
use sjail_policy::wire::request::Refusal;
use sjail_policy::wire::request::{Elsewhere, Outcome as Told, Place};

use crate::bare::{self, Ground};
use crate::caller::{self, Account, State};
use crate::cleanup::{self, Leftover, Note, RunFolder};
use crate::cli::RunArgs;
use crate::client::Desk;
use crate::degraded;
use crate::degraded::cause::{self, Cause};
use crate::degraded::room::Room;
use crate::denials::{self, Recorder};
use crate::error::Error;
use crate::evidence::{self, Said, Source};
use crate::inside;
use crate::judge::{Judge, Typed};
use crate::layout::{self, Asked, Host, Layout, NetworkSpace, Observation, Release};
use crate::limits::scope::Scope;
use crate::limits::{Limits, Moved, Wanted};
use crate::net::Filtered;
use crate::net::publish::Door;
use crate::net::ssh::Lent;
use crate::observe::{self, Filters};
use crate::outcome::Outcome;
use crate::output::Captured;
use crate::outside::Outside;
use crate::permission::{self, Answered, Gate, Permission, Wish};
use crate::preview::Preview;
use crate::preview::auto_exec::{self, Looked};
use crate::preview::edges;
use crate::preview::lookout::Lookout;
use crate::preview::store::Store;
use crate::protect::{self, Hold, Protection, record};
use crate::report::{Report, say};
use crate::request;
use crate::result::{self, RunId, RunResult};
use crate::sentence;
use crate::signals::Signals;
use crate::sources;
use crate::spawn;
use crate::stdio::{self, Output};
use crate::step::Step;
use crate::supervise::{self, Guard, Watch};
use crate::sys;
use crate::sys::vanguard::{Network, Vanguard};
use crate::trace::Tracer;

/// Runs the command and gives what became of it, for a caller who says it in its own form.
pub fn told(args: &RunArgs) -> Result<RunResult, Error> {
    let mut report = Report::new(args)?;
    let attempted = attempt(args, &mut report);
    Ok(report.told(attempted))
}

/// Runs the command, says what there is to say, and gives the exit status.
pub fn run(args: &RunArgs) -> u8 {
    let mut report = match Report::new(args) {
        Ok(report) => report,
        Err(error) => {
            say(&error.to_string());
            return error.exit().code();
        }
    };
    match attempt(args, &mut report) {
        Ok(outcome) => report.ended(outcome),
        Err(error) => report.failed(&error),
    }
}

fn attempt(args: &RunArgs, report: &mut Report) -> Result<Outcome, Error> {
    sys::process::survive_file_size_limit().map_err(Error::Signals)?;
    let account = caller::become_user(args.user.as_deref())?;
    if account.uid == 0 {
        report
            .note("the command runs as root inside the jail; --user NAME runs it as somebody else");
    }
    let desk = Desk::of(args, &account);
    let ahead = match desk.is_inside() {
        true => None,
        false => ahead(args),
    };
    if args.no_broker {
        return alone(args, account, ahead, report);
    }
    let wish = request::wish(args, &account)?;
    if desk.is_inside() {
        no_other_jail(&wish)?;
    }
    let inquiry = permission::submit(&desk, wish, report)?;
    let is_own = args.user.is_none() && args.approval.is_none() && !desk.is_inside();
    let source = match is_own {
        true => Source::Command {
            args,
            state: State::of(&account).path().to_owned(),
        },
        false => Source::Nothing,
    };
    match inquiry.answer(report, &source)? {
        Answered::Here(permission) => {
            permitted(args, account, *permission, desk.is_inside(), ahead, report)
        }
        Answered::Elsewhere(told) => Ok(ran_elsewhere(args, told, report)),
    }
}

/// Passes on what a command said that has run outside the jail that we are in.
fn ran_elsewhere(args: &RunArgs, told: Elsewhere, report: &mut Report) -> Outcome {
    report.ran_elsewhere(&told.id);
    let captured = |bytes: ByteString| Captured {
        bytes: bytes.into_bytes(),
        truncated: told.truncated,
    };
    let (stdout, stderr) = (captured(told.stdout), captured(told.stderr));
    let output = match args.json {
        true => result::Output {
            stdout: Some(stdout),
            stderr: Some(stderr),
        },
        false => {
            // A reader that has gone away is no reason to end differently.
            let _ = std::io::stdout().write_all(&stdout.bytes);
            let _ = std::io::stdout().flush();
            let _ = std::io::stderr().write_all(&stderr.bytes);
            if told.truncated {
                report.note("there was more output than is handed in");
            }
            result::Output::default()
        }
    };
    Outcome {
        status: i32::from(told.code) << 8,
        cause: None,
        output,
        tail: Vec::new(),
        duration: Duration::from_millis(told.duration_ms),
        usage: result::Usage::default(),
    }
}

/// Has the namespaces made while the policy is read and the broker asked, where that is
/// likely to be of use. What stands in the way is said when they are needed.
fn ahead(args: &RunArgs) -> Option<Vanguard> {
    if args.allow_degraded {
        return None;
    }
    let network = match args.net.as_ref().is_some_and(|mode| mode == "host") {
        true => Network::Host,
        false => Network::Own,
    };
    spawn::ahead(network).ok()
}

/// In an agent's jail no other jail can be made: whoever asks for one is told.
fn no_other_jail(wish: &Wish) -> Result<(), Error> {
    let asked = wish
        .options
        .iter()
        .map(|option| String::from_utf8_lossy(option.as_bytes()))
        .find(|option| !inside::is_harmless(option));
    match asked {
        None => Ok(()),
        Some(option) => Err(Error::NoOtherJail {
            option: option.split('=').next().unwrap_or_default().to_owned(),
        }),
    }
}

/// Decides here and now, by the same policy: nobody is asked, nothing is recorded.
fn alone(
    args: &RunArgs,
    account: Account,
    ahead: Option<Vanguard>,
    report: &mut Report,
) -> Result<Outcome, Error> {
    let request = request::read(args, &account)?;
    for notice in &request.loaded.notices {
        report.note(&notice.to_string());
    }
    let mut plan = request.plan;
    let files = match request.loaded.policy.dry_run.value {
        true => Files::Layers,
        false => Files::Host,
    };
    if files == Files::Layers && args.net.is_none() {
        plan.network.mode = NetworkMode::None;
    }
    let decision = judged(args, &account, &plan, request.loaded);
    report.judged(&decision);
    let unrecorded = "without the broker: nothing of this run is recorded";
    match (decision.action, decision.place) {
        (Action::Execute, Where::Jail) => {
            report.note(unrecorded);
            jailed(args, plan, account, ahead, report, files, None)
        }
        // Nobody needs to be asked, for nothing of the host changes.
        (Action::Execute | Action::Ask, _)
            if files == Files::Layers && decision.risk < Risk::Critical =>
        {
            report.note(unrecorded);
            jailed(args, plan, account, ahead, report, files, None)
        }
        (Action::Block, _) => Err(refused(report, &decision, "blocked by policy")),
        // Somebody must be asked, or it runs on the host: both are the broker's business.
        _ => Err(refused(
            report,
            &decision,
            "this needs an approval, which --no-broker cannot ask for",
        )),
    }
}

/// What the policy says to the command, in process.
fn judged(args: &RunArgs, account: &Account, plan: &Plan, loaded: Loaded) -> Decision {
    let typed = match &args.line {
        Some(line) => Typed::Line(line.clone()),
        None => Typed::Argv(args.command.clone()),
    };
    let cwd = plan.command.cwd.as_path();
    let judge = Judge::of(account, loaded, cwd, plan.workspace.path.as_path());
    judge.judge(&typed, &judge.context, Asking::Policy).1
}

fn refused(report: &Report, decision: &Decision, why: &str) -> Error {
    let reasons = decision.reasons.join(", ");
    Error::Blocked(Box::new(Refusal {
        id: report.id().as_str().to_owned(),
        risk: decision.risk,
        reasons: decision.reasons.clone(),
        rule: decision.rule.to_string(),
        message: if reasons.is_empty() {
            format!("{why}: {}", decision.rule)
        } else {
            format!("{why}: {} ({reasons})", decision.rule)
        },
    }))
}

/// Runs it as the broker says, and tells the broker how it went.
fn permitted(
    args: &RunArgs,
    account: Account,
    permission: Permission,
    inside: bool,
    ahead: Option<Vanguard>,
    report: &mut Report,
) -> Result<Outcome, Error> {
    let mut permission = permission;
    report.decided(permission.run());
    for notice in &permission.run().notices {
        report.note(notice);
    }
    let plan = permission.plan();
    let files = permission.files();
    let state = State::of(&account);
    let said = match args.json {
        true => Said::Kept,
        false => Said::Aloud,
    };
    let result = match (permission.apply(), permission.place()) {
        (Some(_), _) if inside => Err(Error::HostFromInside),
        (Some(kept), _) => evidence::apply(&kept, &mut permission, state.path(), said, report),
        (None, Place::Jail) if inside && files == Files::Layers => Err(Error::NoOtherJail {
            option: "commands.dry_run".to_owned(),
        }),
        (None, Place::Host) if inside => Err(Error::HostFromInside),
        (None, Place::Jail) if inside => {
            bare::run(args, &plan, Ground::AgentsJail, &mut permission, report)
        }
        (None, Place::Jail) => {
            let permission = Some(&mut permission);
            jailed(args, plan, account, ahead, report, files, permission)
        }
        (None, Place::Host) => {
            drop(ahead);
            bare::run(args, &plan, Ground::Host, &mut permission, report)
        }
    };
    let told = match &result {
        Ok(outcome) => Told {
            detail: report.detail(),
            ..outcome.told(report.isolation())
        },
        Err(error) => Told {
            status: "failed".to_owned(),
            exit: Some(i32::from(error.exit().code())),
            detail: serde_json::json!({ "error": error.to_string() }),
            ..Told::default()
        },
    };
    if let Err(error) = permission.tell(told) {
        report.note(&format!("how it ended is not recorded: {error}"));
    }
    result
}

/// On what a command runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Files {
    /// On the host's files, as far as the jail shows them.
    Host,
    /// On layers over them: a preview.
    Layers,
}

/// Runs it in the jail.
fn jailed(
    args: &RunArgs,
    plan: Plan,
    account: Account,
    ahead: Option<Vanguard>,
    report: &mut Report,
    files: Files,
    permission: Option<&mut Permission>,
) -> Result<Outcome, Error> {
    let mut plan = plan;
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
    let began = Began::now();
    if !plan.network.ssh_agent.is_empty() && plan.network.mode != NetworkMode::Filtered {
        report.note("no ssh agent is lent: it goes with a filtered network (--allow-host NAME:22)");
    }
    let mut guards = Guards {
        ahead,
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
    if let Ok(outcome) = &outcome {
        let mut looked = began.touched(&plan, outcome.duration);
        // What the command could not write was written by the host, or by us for it.
        let is_kept = |path: &Path| kept.iter().any(|kept| kept == path);
        looked.touched.retain(|file| !is_kept(file.path.as_path()));
        report.touched(looked);
    }
    if let Some(tracer) = guards.tracer {
        report.refused(tracer.finish());
    } else if let Ok(outcome) = &outcome
        && outcome.status != 0
        && outcome.cause.is_none()
    {
        let said = outcome.last_words();
        report.refused(denials::explain(&plan, guards.recorder, said));
    }
    outcome
}

/// Makes the private home and temporary folder of a jail without namespaces.
fn room(
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
fn preview(plan: &Plan, state: &State, report: &Report) -> Result<Preview, Error> {
    Store::new(state.path()).sweep();
    let sandbox = state.sandbox(plan.workspace.path.as_path());
    Ok(Preview::begin(&sandbox, report.id().as_str())?)
}

/// Looks at what the command did, writes it down and says it.
fn finish_preview(
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

/// The moment at which a run began, as file systems tell time.
struct Began((i64, i64));

impl Began {
    fn now() -> Began {
        let now = clock_gettime(ClockId::CLOCK_REALTIME_COARSE);
        Began(now.map_or((0, 0), |time| (time.tv_sec(), time.tv_nsec())))
    }

    /// What was touched since in the places that the command may write.
    fn touched(&self, plan: &Plan, took: Duration) -> Looked {
        let workspace = &plan.workspace;
        let granted = plan.filesystem.grants.iter();
        let tops: Vec<&Path> = (workspace.access == Access::Rw)
            .then_some(workspace.path.as_path())
            .into_iter()
            .chain(
                granted
                    .filter(|grant| grant.access == Access::Rw)
                    .map(|grant| grant.source.as_path()),
            )
            .collect();
        auto_exec::touched(&tops, plan.command.cwd.as_path(), self.0, took)
    }
}

/// Whoever else looks on while the command runs.
struct Guards<'a> {
    /// Who makes the namespaces meanwhile.
    ahead: Option<Vanguard>,
    protection: Option<Protection>,
    /// What is closed to the command where nobody watches.
    closed: Vec<(PathBuf, Hold)>,
    recorder: Recorder,
    tracer: Option<Tracer<'a>>,
    /// Who sees what is renamed in a preview.
    lookout: Option<Lookout>,
    network: Option<Filtered<'a>>,
    door: Option<Door>,
    lent: Option<Lent>,
    /// Who runs outside what is asked for inside.
    outside: Option<Outside>,
    /// Who is asked for a group where none can be made.
    scope: Option<Scope>,
    gate: Option<Gate<'a>>,
}

impl<'a> Guards<'a> {
    fn list<'b>(&'b mut self) -> Vec<&'b mut dyn Guard>
    where
        'a: 'b,
    {
        let mut list: Vec<&mut dyn Guard> = vec![&mut self.recorder];
        if let Some(gate) = &mut self.gate {
            list.push(gate);
        }
        if let Some(protection) = &mut self.protection {
            list.push(protection);
        }
        if let Some(tracer) = &mut self.tracer {
            list.push(tracer);
        }
        if let Some(lookout) = &mut self.lookout {
            list.push(lookout);
        }
        if let Some(network) = &mut self.network {
            list.push(network);
        }
        if let Some(door) = &mut self.door {
            list.push(door);
        }
        if let Some(lent) = &mut self.lent {
            list.push(lent);
        }
        if let Some(outside) = &mut self.outside {
            list.push(outside);
        }
        list
    }
}

/// What the jail stands on.
enum Footing<'a> {
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
fn confine(
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
    layout.processors = args.processors;
    report.prepared(&layout, &limits);
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
fn vanguard(ahead: Option<Vanguard>, network: NetworkSpace) -> Result<Vanguard, Error> {
    let wanted = match network {
        NetworkSpace::Own | NetworkSpace::Published | NetworkSpace::Filtered => Network::Own,
        NetworkSpace::Host => Network::Host,
    };
    match ahead.filter(|ahead| ahead.network() == wanted) {
        Some(vanguard) => Ok(vanguard),
        None => spawn::ahead(wanted),
    }
}

fn spawn_and_watch<'a>(
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
        Output::Stream { limit }
    };
    let (streams, held) = stdio::prepare(output).map_err(Error::Terminal)?;
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
    supervise::run(jail, watch)
}

/// Where a git command that must write git's configuration writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Git {
    /// On a copy, judged when it has ended.
    OnCopy,
    /// On the layers of a preview.
    OnLayers,
    /// Nowhere: there is nothing to copy on.
    ReadOnly,
}

/// Finds the names in the workspace that must be kept from the command, watches where
/// they could appear, and grants what git needs outside.
fn protection(
    plan: &mut Plan,
    state: &State,
    report: &mut Report,
    note: &mut Noted,
    git: Git,
) -> Result<Option<Protection>, Error> {
    let sandbox = state.sandbox(plan.workspace.path.as_path());
    let records = record::folder(state.path());
    report.kept_away(protect::Report::of(record::sweep(
        &records,
        &plan.filesystem.protect.names,
    )));
    let Some(mut protection) = Protection::prepare(plan, &sandbox, report.id())? else {
        return Ok(None);
    };
    for note in protection.notes() {
        report.note(note);
    }
    for folder in protection.grants() {
        plan.filesystem.grants.push(Grant {
            source: folder.as_path().into(),
            dest: folder.as_path().into(),
            access: Access::Rw,
            missing: Missing::Skip,
        });
    }
    if git == Git::OnLayers {
        if let Some(writer) = git_command::writer(&plan.command.argv) {
            protection.free_for(&writer);
        }
        return Ok(Some(protection));
    }
    if let Some(writer) = git_command::writer(&plan.command.argv)
        && git == Git::OnCopy
    {
        let folder = sandbox.join(format!("sjail-{}", report.id()));
        protection.copy_for(&writer, &folder, &mut || {
            note.add(report.id(), Leftover::Folder(folder.clone()))
        })?;
    }
    protection.start(&records, &sandbox)?;
    Ok(Some(protection))
}

fn host(account: Account, plan: &Plan, report: &Report) -> Result<Host, Error> {
    let state = State::of(&account);
    let kept = match (&plan.sandbox, plan.home.cache_source) {
        (None, _) | (_, CacheSource::Closed) => None,
        (Some(sandbox), _) => Some(state.kept(sandbox)?),
    };
    let cache = match plan.home.cache_source {
        CacheSource::None | CacheSource::Closed | CacheSource::HostReadOnly => None,
        CacheSource::Own if kept.is_some() => None,
        CacheSource::Own => match state.cache(plan.workspace.path.as_path()) {
            Ok(cache) => Some(cache),
            // The caches then live as long as the run.
            Err(error) => {
                report.note(&format!("package caches are not kept: {error}"));
                None
            }
        },
    };
    Ok(Host {
        uid: account.uid,
        gid: account.gid,
        group: account.group_name(),
        cache,
        kept,
        agent: plan
            .home
            .agent
            .as_ref()
            .map(|agent| state.path().join("agents").join(&agent.name)),
        desk: None,
        images: Some(state.path().join("etc")),
        own: vec![state.path().to_owned(), account.config_home().join("sjail")],
        home: account.home,
        user: account.name,
        shell: account.shell,
    })
}

/// What this run might leave behind should it be killed: written down when the first such
/// thing is made, and hence usually never.
#[derive(Default)]
struct Noted {
    note: Option<Note>,
    stays: bool,
}

impl Noted {
    fn add(&mut self, id: &RunId, leftover: Leftover) -> Result<(), crate::cleanup::Error> {
        if self.note.is_none() {
            let folder = RunFolder::open()?;
            folder.sweep();
            self.note = Some(folder.note(id.as_str())?);
        }
        match &mut self.note {
            Some(note) => note.add(&leftover),
            None => Ok(()),
        }
    }

    /// Something could not be removed: the next start tries again.
    fn stay(&mut self) {
        self.stays = true;
    }

    fn done(self) {
        if let (Some(note), false) = (self.note, self.stays) {
            note.done();
        }
    }
}
