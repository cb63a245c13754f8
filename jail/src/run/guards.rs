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
use crate::trace::Tracer;

/// Whoever else looks on while the command runs.
pub(super) struct Guards<'a> {
    /// Who makes the namespaces meanwhile.
    pub(super) ahead: Option<Vanguard>,
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
    pub(super) fn list<'b>(&'b mut self) -> Vec<&'b mut dyn Guard>
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
