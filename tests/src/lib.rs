//! The ground on which the end-to-end suites stand: real binaries, real kernel.
//!
//! # Writing a suite
//!
//! A suite is a file in `tests/suite/`, listed in `tests/suite/main.rs`, with
//! one public function that returns its tests:
//!
//! ```no_run
//! use sjail_tests::{Scene, Test, Verdict, tests};
//!
//! pub fn suite() -> Vec<Test> {
//!     tests![passes_the_exit_code_on, says_what_is_missing]
//! }
//!
//! fn passes_the_exit_code_on(scene: &Scene) -> Verdict {
//!     scene.run(["--", "sh", "-c", "exit 7"]).output()?.exits(7)?;
//!     Ok(())
//! }
//!
//! fn says_what_is_missing(scene: &Scene) -> Verdict {
//!     if !scene.has("less") {
//!         return scene.skip("less is not installed");
//!     }
//!     scene.run(["--", "no-such-program"]).output()?.exits(127)?.stderr_has("no-such-program")?;
//!     Ok(())
//! }
//! ```
//!
//! - Each test runs in a process of its own, once per [`Identity`] (an ordinary
//!   user, and root where the runner is root), in an empty scratch folder with
//!   its own `HOME` and `XDG_*`; two at a time. `assert!`, `?` and `unwrap` all
//!   mean *failed*; [`Scene::skip`] names a reason and is listed at the end.
//! - [`Test::alone`] for a test that must not share the machine with another,
//!   [`Test::timeout`] for a long one, [`Test::only`] for one identity.
//! - [`Scene::run`] is `sjail run --no-broker …`, [`Scene::sjail`] any command
//!   line of sjail, [`Scene::host`] a program outside the jail. All give a
//!   [`Call`], which ends in an [`Output`], a running [`Running`], or a
//!   [`Terminal`] (a real pty).
//! - [`wait::until`] waits for something to become true, with a deadline.
//!   Nothing asserts how long a thing took.
//! - What a test leaves running is killed and counts as a failure;
//!   [`leftovers::Snapshot`] finds mounts, control groups and temporary files.

pub mod attack;
pub mod bench;
mod binaries;
mod call;
mod case;
pub mod forest;
mod identity;
pub mod leftovers;
mod runner;
mod scene;
mod terminal;
mod toolchain;
pub mod town;
mod tree;
pub mod wait;

pub use binaries::Binaries;
pub use call::{Call, Output, Running};
pub use case::{Outcome, Stop, Test, Verdict, ensure};
pub use identity::Identity;
pub use runner::main;
pub use scene::Scene;
pub use terminal::Terminal;
pub use tree::Tree;
