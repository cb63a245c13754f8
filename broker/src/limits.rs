//! How much one peer may ask of us at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use crate::peer::Home;

/// So many connections in all.
const CONNECTIONS: usize = 512;
/// So many of them from one jail.
const CONNECTIONS_PER_JAIL: usize = 32;
/// So many calls a second from one jail, in the long run.
const CALLS_PER_SECOND: f64 = 100.0;
/// So many at once after a pause.
const BURST: f64 = 200.0;

/// Counts connections and calls by where they come from.
#[derive(Debug, Default)]
pub struct Limits {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    connections: usize,
    places: HashMap<Home, Place>,
}

#[derive(Debug)]
struct Place {
    connections: usize,
    tokens: f64,
    filled: Instant,
}

impl Limits {
    /// Lets a connection in, until the guest is dropped.
    pub fn admit(self: &Arc<Limits>, home: Home) -> Option<Guest> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.connections >= CONNECTIONS {
            return None;
        }
        let place = state.places.entry(home).or_insert_with(|| Place {
            connections: 0,
            tokens: BURST,
            filled: Instant::now(),
        });
        if home != Home::Host && place.connections >= CONNECTIONS_PER_JAIL {
            return None;
        }
        place.connections += 1;
        state.connections += 1;
        Some(Guest {
            limits: Arc::clone(self),
            home,
        })
    }
}

/// A connection that was let in.
#[derive(Debug)]
pub struct Guest {
    limits: Arc<Limits>,
    home: Home,
}

impl Guest {
    /// Whether one more call is fine now. The owner's own processes are not held up.
    pub fn may_call(&self) -> bool {
        if self.home == Home::Host {
            return true;
        }
        let mut state = self
            .limits
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let Some(place) = state.places.get_mut(&self.home) else {
            return false;
        };
        let now = Instant::now();
        let elapsed = now.duration_since(place.filled).as_secs_f64();
        place.tokens = (place.tokens + elapsed * CALLS_PER_SECOND).min(BURST);
        place.filled = now;
        if place.tokens < 1.0 {
            return false;
        }
        place.tokens -= 1.0;
        true
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let mut state = self
            .limits
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        state.connections = state.connections.saturating_sub(1);
        let empty = state.places.get_mut(&self.home).is_some_and(|place| {
            place.connections = place.connections.saturating_sub(1);
            // A jail that hangs up and calls again does not get a new burst.
            place.connections == 0 && place.tokens >= BURST
        });
        if empty {
            state.places.remove(&self.home);
        }
        // Jails come and go: forget those that have been quiet.
        if state.places.len() > CONNECTIONS {
            state
                .places
                .retain(|_, place| place.connections > 0 || place.filled.elapsed().as_secs() < 10);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_jail_has_so_many_connections_and_calls_and_the_host_is_not_held_up() {
        let limits = Arc::new(Limits::default());
        let jail = Home::Jail { pid_namespace: 7 };
        let guests: Vec<Guest> = (0..CONNECTIONS_PER_JAIL)
            .map(|_| limits.admit(jail).unwrap())
            .collect();
        assert!(limits.admit(jail).is_none());
        assert!(limits.admit(Home::Jail { pid_namespace: 8 }).is_some());
        let calls = (0..1000).filter(|_| guests[0].may_call()).count();
        assert!((200..300).contains(&calls), "{calls}");
        let host = limits.admit(Home::Host).unwrap();
        assert!((0..10_000).all(|_| host.may_call()));
        drop(guests);
        let again = limits.admit(jail).unwrap();
        assert!((0..200).filter(|_| again.may_call()).count() < 100);
    }
}
