//! Waiting with a deadline, for things that happen soon but not at once.

use std::time::{Duration, Instant};

use crate::{Stop, Verdict};

/// Long enough for a machine under load; reached only when something is wrong.
pub const SOON: Duration = Duration::from_secs(20);

/// Waits until `ready` gives something, or fails after [`SOON`] saying that
/// `what` did not happen.
pub fn until<T>(what: &str, ready: impl FnMut() -> Option<T>) -> Verdict<T> {
    until_within(SOON, what, ready)
}

/// As [`until`], with a deadline of its own.
pub fn until_within<T>(
    limit: Duration,
    what: &str,
    mut ready: impl FnMut() -> Option<T>,
) -> Verdict<T> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(value) = ready() {
            return Ok(value);
        }
        if Instant::now() >= deadline {
            return Err(Stop::failed(format!("{what}: not within {limit:?}")));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// As [`until`], for a condition that carries no value.
pub fn until_true(what: &str, mut holds: impl FnMut() -> bool) -> Verdict {
    until(what, || holds().then_some(()))
}
