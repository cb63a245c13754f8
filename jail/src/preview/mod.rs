//! Previews: the command really runs, on layers over the host's files, and nothing of the
//! host changes. What it did can be looked at, and then kept or dropped.
//!
//! - [`layer`] is one writable place; [`fallback`] a copy, where overlays cannot be had.
//! - [`walk`] compares a layer with the host, [`entry`] is what it finds, [`record`] where
//!   it is written down; [`store`] finds it again.
//! - [`renames`] finds what only has another name, [`holes`] puts right what the kernel's
//!   own copying has made larger.
//! - [`show`] and [`diff`] tell people.
//! - [`commit`] applies the list, as a whole or not at all: [`planner`] turns it into
//!   steps, [`journal`] holds them, [`ground`] does them and takes them back, [`room`] is
//!   where they are staged.
//! - [`edges`] tells where a preview is not like a run for real; [`lookout`] sees folders
//!   that could not be renamed.
//! - [`reach`] opens what is the caller's own, whatever its permissions say.

pub mod auto_exec;
pub mod commit;
pub mod diff;
pub mod edges;
pub mod entry;
mod error;
pub mod fallback;
pub mod ground;
pub mod holes;
pub mod journal;
pub mod layer;
pub mod look;
pub mod lookout;
pub mod names;
pub mod planner;
pub mod reach;
pub mod record;
pub mod renames;
pub mod room;
pub mod show;
pub mod store;
pub mod tracked;
pub mod walk;

use std::collections::BTreeSet;
use std::ffi::{CStr, OsStr};
use std::fs::{self, DirBuilder};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use sjail_policy::bytes::ByteString;
use sjail_policy::plan::Plan;

use crate::beneath::Beneath;
use crate::layout::{Lasting, Overlay, Place, Root, What, path};
use crate::protect::finding::Finding;
use crate::protect::judge::Court;
use crate::protect::quarantine::Quarantine;
use crate::sys::file::FileId;
use crate::sys::mount::READ_ONLY;
use crate::tick;
use edges::Obstacle;
use entry::Entry;
pub use error::Error;
use fallback::Stop;
use layer::{Fate, Home, Layer, Means};
use names::Guarded;
use record::{Held, Record, State, Totals, Verdict};
use tracked::Tracked;
use walk::Walk;

fn show_path(path: &Path) -> String {
    sjail_policy::show::inert(path.as_os_str().as_encoded_bytes())
}

/// A preview that is being made.
#[derive(Debug)]
pub struct Preview {
    held: Held,
    sandbox: PathBuf,
    id: String,
    means: Means,
    layers: Vec<Layer>,
    /// The coarse clock when it began: what the host changes afterwards is not older.
    started: (i64, i64),
    notes: Vec<String>,
    /// What is mounted on the host.
    mounts: Vec<PathBuf>,
}

/// A preview that was made.
#[derive(Debug)]
pub struct Made {
    /// Its folder.
    pub path: PathBuf,
    /// What is written down of it.
    pub record: Record,
    /// What was kept out of a new repository's configuration.
    pub findings: Vec<Finding>,
}

impl Preview {
    /// Makes the preview's own folder in the sandbox's.
    pub fn begin(sandbox: &Path, id: &str) -> Result<Preview, Error> {
        let previews = sandbox.join("previews");
        let failed = |source| Error::Make {
            path: previews.clone(),
            source,
        };
        // Locked before it has its name: a sweeper must never find it unlocked.
        let (hidden, path) = (previews.join(format!(".{id}")), previews.join(id));
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&hidden)
            .map_err(failed)?;
        let held = Held::lock(&hidden).map_err(failed)?;
        let held = held.ok_or_else(|| failed(io::Error::other("it is in use")))?;
        fs::rename(&hidden, &path).map_err(failed)?;
        Ok(Preview {
            held: held.moved(fs::canonicalize(&path).map_err(failed)?),
            sandbox: sandbox.to_owned(),
            id: id.to_owned(),
            means: Means::Overlay,
            layers: Vec::new(),
            started: tick::next(),
            notes: Vec::new(),
            mounts: edges::mounts(),
        })
    }

    /// Goes on with copies: overlays cannot be had.
    pub fn fall_back(&mut self, why: &str) {
        for number in 0..self.layers.len() {
            Home::of(self.held.path(), number).remove();
        }
        self.layers.clear();
        self.notes.clear();
        self.means = Means::Copy;
        self.notes.push(format!(
            "the preview ran on a copy of the writable places, for an overlay could not be had: {why}"
        ));
    }

    /// Whether it runs on overlays.
    pub fn is_overlay(&self) -> bool {
        self.means == Means::Overlay
    }

    /// Puts a layer in place of each writable mount. `cache` is the sandbox's own.
    pub fn lay(&mut self, root: &mut Root, cache: Option<&Path>) -> Result<(), Error> {
        for mount in &mut root.mounts {
            let What::Host(place) = &mount.what else {
                continue;
            };
            if mount.attributes & READ_ONLY != 0 {
                continue;
            }
            let host = PathBuf::from(OsStr::from_bytes(place.path.to_bytes()));
            let id = place.id;
            let dest = Path::new("/").join(OsStr::from_bytes(mount.dest.to_bytes()));
            let fate = if cache.is_some_and(|cache| host.starts_with(cache)) {
                Fate::Dropped
            } else {
                Fate::Kept
            };
            mount.what = self
                .layer(&host, id, &dest, fate)
                .map_err(|source| match source {
                    Failed::Io(source) => Error::Make {
                        path: self.held.path().to_owned(),
                        source,
                    },
                    Failed::TooLarge(why) => Error::TooLarge {
                        path: host.clone(),
                        why,
                    },
                })?;
        }
        if self.layers.iter().any(|layer| layer.means == Means::Copy) {
            // The copies were made now: what is older was not touched by the command.
            self.started = tick::next();
        }
        Ok(())
    }

    fn layer(
        &mut self,
        host: &Path,
        id: Option<FileId>,
        dest: &Path,
        fate: Fate,
    ) -> Result<What, Failed> {
        let home = Home::of(self.held.path(), self.layers.len());
        let folder = fs::symlink_metadata(host)?.is_dir();
        home.make(host)?;
        let layer = |host: &Path, means| Layer {
            host: host.into(),
            seen_at: dest.into(),
            means,
            fate,
            only: None,
            time: None,
        };
        if !folder {
            let name = host.file_name().unwrap_or_default();
            let parent = host.parent().unwrap_or(Path::new("/"));
            fs::create_dir(home.upper())?;
            let from = Beneath::open(parent)?;
            fallback::copy(
                &from,
                name.as_ref(),
                &home.open()?,
                name.as_ref(),
                &mut || {},
            )?;
            let copy = home.upper().join(name);
            self.layers.push(Layer {
                only: Some(name.into()),
                ..layer(parent, Means::Copy)
            });
            return shown(&copy);
        }
        let obstacle = match (self.means, fate) {
            (Means::Overlay, Fate::Kept) => Obstacle::at(host, &self.mounts),
            _ => None,
        };
        let from = Beneath::open(host)?;
        if self.means == Means::Copy || obstacle.is_some() {
            match (fallback::copy_tree(&from, &home.open()?), &obstacle) {
                (Ok(()), _) => {
                    self.notes.extend(obstacle.map(|why| why.copied(host)));
                    self.layers.push(layer(host, Means::Copy));
                    return shown(&home.upper());
                }
                // Better an overlay that cannot do everything than no preview.
                (Err(Stop::TooLarge(_)), Some(why @ Obstacle::Owner)) => {
                    self.notes.push(why.stays(host));
                    home.remove();
                    home.make(host)?;
                }
                (Err(Stop::TooLarge(why)), _) => return Err(Failed::TooLarge(why)),
                (Err(Stop::Io(error)), _) => return Err(Failed::Io(error)),
            }
        }
        let top = Path::new("");
        fallback::like(&from, top, &home.open()?, top)?;
        self.layers.push(layer(host, Means::Overlay));
        Ok(What::Overlay(Box::new(Overlay {
            lower: Place {
                path: c_string(host)?,
                id,
            },
            upper: c_string(&home.upper())?,
            work: c_string(&home.work())?,
            lasting: Lasting::WhenKept,
        })))
    }

    /// Whether a path inside lies on a layer.
    pub fn covers(&self, inside: &CStr) -> bool {
        let inside = Path::new(OsStr::from_bytes(inside.to_bytes()));
        self.layers
            .iter()
            .any(|layer| inside.starts_with(layer.seen_at.as_path()))
    }

    /// The command was not run: nothing is kept.
    pub fn abandon(self) {
        store::remove(&self.held);
    }

    /// Compares every layer with the host and writes down what is found.
    /// `tried` are the names that the command tried to change.
    pub fn finish(self, plan: &Plan, run: Ran, tried: &BTreeSet<PathBuf>) -> Result<Made, Error> {
        let Compared {
            totals,
            findings,
            notes,
        } = reach::over_own_files(|| self.compare(plan, tried).map_err(Error::Look))?;
        let (time, nanos) = record::present();
        let mut record = Record {
            id: self.id.clone(),
            command: run.command,
            argv: plan.command.argv.clone(),
            cwd: plan.command.cwd.clone(),
            workspace: plan.workspace.path.clone(),
            time,
            nanos,
            exit_code: run.exit_code,
            state: State::Pending,
            committed: None,
            began: None,
            own: Vec::new(),
            layers: self.layers,
            totals,
            verdict: run.verdict,
            notes: self.notes,
        };
        record.notes.extend(notes);
        record.notes.extend(run.notes);
        self.held.write(&record).map_err(Error::Look)?;
        Ok(Made {
            path: self.held.path().to_owned(),
            record,
            findings,
        })
    }

    fn compare(&self, plan: &Plan, tried: &BTreeSet<PathBuf>) -> io::Result<Compared> {
        let (mut totals, mut findings) = (Totals::default(), Vec::new());
        let mut notes = Vec::new();
        let quarantine = Quarantine::new(&self.sandbox, &self.id);
        let court = Court {
            workspace: plan.workspace.path.as_path(),
            depth: plan.filesystem.protect.depth,
            quarantine: &quarantine,
        };
        let mut out = self.held.entries_writer()?;
        let workspace = plan.workspace.path.as_path();
        let mut tracked = Tracked::of(workspace);
        let mut outside = 0;
        for (number, layer) in self.layers.iter().enumerate() {
            let home = Home::of(self.held.path(), number);
            if layer.fate == Fate::Dropped {
                home.remove();
                continue;
            }
            home.drop_scratch();
            let (upper, lower) = (home.open()?, Beneath::open(layer.host.as_path())?);
            if layer.means == Means::Overlay {
                let seen_at = layer.seen_at.as_path();
                notes.extend(edges::not_renamed(tried, seen_at, &upper, &lower));
            }
            let guarded = Guarded::of(plan);
            let mounts = edges::below(&self.mounts, layer.host.as_path());
            let mut list = renames::List::new(&mut out, &mut totals, &upper, &lower, layer.means);
            let mut sink = |entry: Entry| {
                let full = lower.path().join(entry.path.as_path());
                if let Some(tracked) = &mut tracked {
                    tracked.add(&full, &entry);
                }
                outside += u64::from(entry.is_shown() && !full.starts_with(workspace));
                list.add(entry)
            };
            let mut judge = |config: &Path| {
                if let Err(error) = court.config(config, b"", &mut findings) {
                    findings.push(Finding::noted(config, error.to_string()));
                }
            };
            Walk {
                layer: number,
                upper: &upper,
                lower: &lower,
                means: layer.means,
                only: layer.only.as_ref().map(ByteString::as_path),
                guarded: &guarded,
                mounts: &mounts,
                started: self.started,
                judge: &mut judge,
                sink: &mut sink,
            }
            .run()?;
            list.finish()?;
        }
        out.flush()?;
        totals.tracked = tracked.and_then(|tracked| tracked.count());
        totals.outside = outside;
        Ok(Compared {
            totals,
            findings,
            notes,
        })
    }
}

/// What a comparison with the host has found.
struct Compared {
    totals: Totals,
    findings: Vec<Finding>,
    notes: Vec<String>,
}

/// What is known of the run itself.
#[derive(Debug, Default)]
pub struct Ran {
    /// The command, as a person would type it.
    pub command: String,
    /// What it exited with.
    pub exit_code: u8,
    /// What the policy says to running it for real.
    pub verdict: Verdict,
    /// What else there is to say.
    pub notes: Vec<String>,
}

/// Why a layer cannot be made.
enum Failed {
    Io(io::Error),
    TooLarge(String),
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Failed {
        Failed::Io(error)
    }
}

fn shown(path: &Path) -> Result<What, Failed> {
    let stat = nix::sys::stat::lstat(path).map_err(io::Error::from)?;
    Ok(What::Host(Place {
        path: c_string(path)?,
        id: Some(FileId::from(&stat)),
    }))
}

fn c_string(path: &Path) -> io::Result<std::ffi::CString> {
    path::c_string(path).map_err(io::Error::other)
}
