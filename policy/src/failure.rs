//! What follows when our own code fails with a panic: inside the classifier it is an answer,
//! anywhere else it is the end of the process.
//!
//! Nothing may go on after a panic that was not foreseen: half-done work would be taken for
//! done, and a child between `clone` and `exec` would run its parent's code. So both programs
//! call [`end_process_on_panic`] first, and only what runs in `caught` comes back.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};

#[cfg(not(panic = "unwind"))]
compile_error!(
    "a failure of the classifier must become an answer: build with panic = \"unwind\"; \
     what happens after any other panic is decided by failure::end_process_on_panic"
);

thread_local! {
    /// How many calls of [`caught`] this thread is in.
    static CATCHING: Cell<usize> = const { Cell::new(0) };
}

/// Runs something; `None` when it panicked.
pub(crate) fn caught<T>(run: impl FnOnce() -> T) -> Option<T> {
    CATCHING.set(CATCHING.get() + 1);
    let result = panic::catch_unwind(AssertUnwindSafe(run));
    CATCHING.set(CATCHING.get() - 1);
    result.ok()
}

/// From now on a panic ends the process at once, unless the classifier is at work in that
/// thread: its failures are answers.
pub fn end_process_on_panic() {
    let says = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        says(info);
        if CATCHING.get() == 0 {
            std::process::abort();
        }
    }));
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic)]

    use super::*;

    #[test]
    fn a_panic_is_told_from_an_answer() {
        assert_eq!(caught(|| 7), Some(7));
        assert_eq!(caught(|| -> u8 { panic!("on purpose") }), None);
        // And the next one is looked at again.
        assert_eq!(caught(|| caught(|| 8)), Some(Some(8)));
        assert_eq!(CATCHING.get(), 0);
    }
}
