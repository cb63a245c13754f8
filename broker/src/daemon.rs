//! The broker's own life: start, serve, tidy, end.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixListener as StdListener;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use sjail_policy::wire::control::RequestStatus;
use tokio::net::UnixListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::account::Account;
use crate::activation::{self, Activation, Listeners};
use crate::audit::ledger::Ledger;
use crate::audit::mirror::Mirror;
use crate::audit::prune;
use crate::audit::record::{Entry, Event};
use crate::binding::Binder;
use crate::error::{Error, Result};
use crate::introspect::Door;
use crate::judge::Judge;
use crate::outcome;
use crate::paths::Places;
use crate::peer::HostNamespaces;
use crate::policy_log::{self, PolicyLog};
use crate::private_file;
use crate::queue::{allowlist, permit, request};
use crate::readers::Readers;
use crate::say::say;
use crate::server;
use crate::service::{Service, now};
use crate::sources::Policies;
use crate::store::Files;
use crate::writer::Writer;

/// How often what has lapsed is swept.
const SWEEP: Duration = Duration::from_secs(5);
/// An outcome that was told is on the disk within this time.
const FOLLOW: Duration = Duration::from_secs(1);
/// How often old records are looked for.
const PRUNE: Duration = Duration::from_secs(3600);

/// How the broker was started.
#[derive(Debug, Clone)]
pub struct Options {
    /// Ends after so long without a connection; zero never ends.
    pub idle: Duration,
    /// Tells whoever waits on standard output that the sockets are there.
    pub announce: bool,
}

/// Runs the broker until it is told to stop or nobody needs it.
pub fn serve(options: &Options) -> Result<()> {
    nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o077));
    let places = Places::prepare()?;
    let listeners = match activation::activate(&places)? {
        Activation::Ready(listeners) => listeners,
        Activation::Elsewhere => {
            announce(options);
            return Ok(());
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(4)
        .enable_all()
        .build()
        .map_err(Error::file("start threads for", "the broker"))?;
    let (service, thread) = prepare(places)?;
    let result = runtime.block_on(work(&service, &listeners, options));
    // First nobody is sent here any more, then the last record is written.
    listeners.put_away();
    let stopped = runtime.block_on(
        service
            .writer
            .write(|ledger| ledger.append(Entry::new(Event::Stop))),
    );
    drop(service);
    runtime.shutdown_timeout(Duration::from_secs(2));
    let _ = thread.join();
    result.and(stopped.map(|_| ()))
}

/// Opens the store and puts the service together.
fn prepare(places: Places) -> Result<(Arc<Service>, JoinHandle<()>)> {
    let policies = Policies::new(Account::own())?;
    let files = Files::new(&places.state);
    let host = HostNamespaces::own()
        .ok_or_else(|| Error::Refused("/proc is not mounted, or is another's".to_owned()))?;
    let mut ledger = Ledger::open(&files, Mirror::of_system())?;
    let salt = private_file::load_or_create_secret(&files.salt())?;
    let owners = policies.owners();
    let (patterns, registries) = ledger.transaction(|ledger| {
        let detail = serde_json::json!({
            "version": env!("CARGO_PKG_VERSION"),
            "pid": std::process::id(),
            "account": policies.account().name,
            "policy": policy_log::described(&owners),
        });
        let mut entry = Entry::new(Event::Start).detail(&detail);
        entry.policy = Some(owners.hash.to_string());
        ledger.append(entry)?;
        ledger.checkpoint()?;
        let registries = permit::registries(ledger.connection(), now())?;
        Ok((allowlist::patterns(ledger.connection())?, registries))
    })?;
    let judge = Judge::new(policies, &patterns);
    judge.registries.replace(registries);
    let (writer, thread) = Writer::start(ledger)?;
    let service = Service::new(
        places,
        writer,
        Readers::new(files.database()),
        judge,
        Binder::new(salt),
        host,
        PolicyLog::new(owners.hash),
    );
    Ok((Arc::new(service), thread))
}

async fn work(service: &Arc<Service>, listeners: &Listeners, options: &Options) -> Result<()> {
    let request = listener(&listeners.request)?;
    let control = listener(&listeners.control)?;
    outcome::collect_spool(&service.writer, &service.places.spool(), service.uid).await?;
    service.writer.write(outcome::close_lost).await?;
    let doors = [
        tokio::spawn(server::serve(Arc::clone(service), request, Door::Request)),
        tokio::spawn(server::serve(Arc::clone(service), control, Door::Control)),
    ];
    announce(options);
    // Without systemd there is nobody to tell.
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
    let failed = Error::file("listen for", "signals");
    let mut terminated = signal(SignalKind::terminate()).map_err(failed)?;
    let mut interrupted =
        signal(SignalKind::interrupt()).map_err(Error::file("listen for", "signals"))?;
    tokio::select! {
        () = idle(service, options.idle) => {}
        () = sweep(service) => {}
        () = service.writer.follow(FOLLOW) => {}
        () = service.stopped() => {}
        _ = terminated.recv() => {}
        _ = interrupted.recv() => {}
    }
    for door in doors {
        door.abort();
    }
    Ok(())
}

fn listener(listener: &StdListener) -> Result<UnixListener> {
    let act = Error::file;
    let copy = listener.try_clone().map_err(act("copy", "a socket"))?;
    copy.set_nonblocking(true)
        .map_err(act("set up", "a socket"))?;
    UnixListener::from_std(copy).map_err(act("listen on", "a socket"))
}

/// Whoever started us waits for this word; what we say later goes to a file of our
/// own, so that nobody's pipe is held open.
fn announce(options: &Options) {
    if !options.announce {
        return;
    }
    let mut out = std::io::stdout();
    let _ = out.write_all(b"ready\n");
    let _ = out.flush();
    if let Ok(file) = log_file() {
        let _ = nix::unistd::dup2_stdout(&file);
        let _ = nix::unistd::dup2_stderr(&file);
    }
}

/// Where a broker without a terminal says what went wrong.
fn log_file() -> std::io::Result<File> {
    /// A longer one is begun anew.
    const LONGEST: u64 = 1 << 20;
    let path = crate::paths::state_folder().join("broker.log");
    let mut options = File::options();
    options.create(true).mode(0o600);
    let long = std::fs::metadata(&path).is_ok_and(|metadata| metadata.len() > LONGEST);
    if long {
        options.write(true).truncate(true);
    } else {
        options.append(true);
    }
    match options.open(&path) {
        Ok(file) => Ok(file),
        // Somewhere it must go: a closed pipe would end us with the next word.
        Err(_) => File::options().write(true).open("/dev/null"),
    }
}

/// Returns when nobody has been connected for so long.
async fn idle(service: &Arc<Service>, after: Duration) {
    if after.is_zero() {
        return std::future::pending().await;
    }
    let step = (after / 4).max(Duration::from_millis(50));
    let mut quiet = Duration::ZERO;
    loop {
        tokio::time::sleep(step).await;
        quiet = if service.is_busy() {
            Duration::ZERO
        } else {
            quiet + step
        };
        if quiet >= after {
            return;
        }
    }
}

/// Lets lapse what has lapsed, takes in what was spooled, removes what is old.
async fn sweep(service: &Arc<Service>) {
    let mut since_prune = PRUNE;
    loop {
        if let Err(error) = sweep_once(service).await {
            say(&error.to_string());
        }
        if since_prune >= PRUNE {
            since_prune = Duration::ZERO;
            if let Err(error) = prune_old(service).await {
                say(&error.to_string());
            }
        }
        tokio::time::sleep(SWEEP).await;
        since_prune += SWEEP;
    }
}

async fn sweep_once(service: &Arc<Service>) -> Result<()> {
    let (due, lost) = service.readers.read(due).await?;
    if due {
        let lapsed = service
            .writer
            .write(|ledger| {
                permit::sweep(ledger, now())?;
                request::expire(ledger, now())
            })
            .await?;
        for id in lapsed {
            service.tell_status(&id, RequestStatus::Expired);
        }
    }
    outcome::collect_spool(&service.writer, &service.places.spool(), service.uid).await?;
    if lost {
        service.writer.write(outcome::close_lost).await?;
    }
    Ok(())
}

/// Whether anything has lapsed, and whether any run is open: an idle broker writes
/// nothing.
fn due(connection: &rusqlite::Connection) -> Result<(bool, bool)> {
    connection
        .query_row(
            "SELECT EXISTS (SELECT 1 FROM request WHERE status IN ('pending', 'approved') AND expires <= ?1) \
             OR EXISTS (SELECT 1 FROM permit WHERE expires <= ?1 OR remaining = 0), \
             EXISTS (SELECT 1 FROM run)",
            [now()],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .map_err(Error::database("look for what has lapsed"))
}

async fn prune_old(service: &Arc<Service>) -> Result<()> {
    let policies = service.judge.policies();
    let Ok(in_force) = policies.load(&policies.account().home, &[]) else {
        return Ok(());
    };
    let retention = in_force.loaded.policy.retention.value.millis() / 1000;
    let before = now().saturating_sub_unsigned(retention);
    prune::prune(
        &service.writer,
        before.saturating_mul(1_000_000),
        "audit.retention".to_owned(),
    )
    .await?;
    Ok(())
}
