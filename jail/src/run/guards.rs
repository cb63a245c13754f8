//! Whoever else looks on while the command runs.

use std::path::PathBuf;

use crate::denials::Recorder;
use crate::limits::scope::Scope;
use crate::net::Filtered;
use crate::net::publish::Door;
use crate::net::ssh::Lent;
use crate::outside::Outside;
use crate::permission::Gate;
use crate::preview::lookout::Lookout;
use crate::protect::{Hold, Protection};
use crate::supervise::Guard;
use crate::sys::vanguard::Vanguard;
use crate::touched::Survey;
use crate::trace::Tracer;

/// Whoever else looks on while the command runs.
pub(super) struct Guards<'a> {
    /// Who makes the namespaces meanwhile.
    pub(super) ahead: Option<Vanguard>,
    /// Who tells what was touched.
    pub(super) survey: Option<Survey>,
    pub(super) protection: Option<Protection>,
    /// What is closed to the command where nobody watches.
    pub(super) closed: Vec<(PathBuf, Hold)>,
    pub(super) recorder: Recorder,
    pub(super) tracer: Option<Tracer<'a>>,
    /// Who sees what is renamed in a preview.
    pub(super) lookout: Option<Lookout>,
    pub(super) network: Option<Filtered<'a>>,
    pub(super) door: Option<Door>,
    pub(super) lent: Option<Lent>,
    /// Who runs outside what is asked for inside.
    pub(super) outside: Option<Outside>,
    /// Who is asked for a group where none can be made.
    pub(super) scope: Option<Scope>,
    pub(super) gate: Option<Gate<'a>>,
}

impl<'a> Guards<'a> {
    /// In the order in which they hear of things.
    pub(super) fn list<'b>(&'b mut self) -> Vec<&'b mut dyn Guard>
    where
        'a: 'b,
    {
        let mut list: Vec<&mut dyn Guard> = vec![&mut self.recorder];
        list.extend(seen(&mut self.gate));
        list.extend(seen(&mut self.protection));
        list.extend(seen(&mut self.tracer));
        list.extend(seen(&mut self.lookout));
        list.extend(seen(&mut self.network));
        list.extend(seen(&mut self.door));
        list.extend(seen(&mut self.lent));
        list.extend(seen(&mut self.outside));
        list.extend(seen(&mut self.survey));
        list
    }
}

/// One of them, if it is there.
fn seen<G: Guard>(guard: &mut Option<G>) -> Option<&mut dyn Guard> {
    guard.as_mut().map(|guard| guard as &mut dyn Guard)
}
