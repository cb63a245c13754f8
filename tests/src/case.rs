//! A test, and what can become of it.

use std::fmt::Display;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Identity, Scene};

/// How long a test may take before it and all it started are killed. Generous:
/// two slow cores shared with a build must not turn it red.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A named test, run once per identity.
pub struct Test {
    /// `suite::name`; the suite is put before it when suites are gathered.
    pub name: String,
    /// After this it is killed with everything it started, and has failed.
    pub timeout: Duration,
    /// The one identity it is for, or all.
    pub only: Option<Identity>,
    /// Whether no other test may run beside it.
    pub alone: bool,
    /// The megabytes of the small disk that it has to itself, if it has one.
    pub disk: Option<u64>,
    pub(crate) run: Box<dyn Fn(&Scene) -> Verdict + Send + Sync>,
}

impl Test {
    /// A test from its name and what it does.
    pub fn new(
        name: impl Into<String>,
        run: impl Fn(&Scene) -> Verdict + Send + Sync + 'static,
    ) -> Test {
        Test {
            name: name.into(),
            timeout: TIMEOUT,
            only: None,
            alone: false,
            disk: None,
            run: Box::new(run),
        }
    }

    /// Gives it another timeout than the usual two minutes.
    pub fn timeout(mut self, seconds: u64) -> Test {
        self.timeout = Duration::from_secs(seconds);
        self
    }

    /// Runs it for one identity only.
    pub fn only(mut self, identity: Identity) -> Test {
        self.only = Some(identity);
        self
    }

    /// Gives it a small disk of its own ([`Scene::disk`]).
    pub fn disk(mut self, megabytes: u64) -> Test {
        self.disk = Some(megabytes);
        self
    }

    /// Runs it while no other test is running (whole-machine observations).
    pub fn alone(mut self) -> Test {
        self.alone = true;
        self
    }
}

/// A list of tests from functions; each is named as its function is.
#[macro_export]
macro_rules! tests {
    ($($name:ident),* $(,)?) => {
        vec![$($crate::Test::new(stringify!($name), $name)),*]
    };
}

/// What a test function returns: `?` on any error means *failed*.
pub type Verdict<T = ()> = Result<T, Stop>;

/// Why a test ended early.
#[derive(Debug)]
pub enum Stop {
    /// Something was not as promised.
    Failed(String),
    /// The machine lacks what the test needs.
    Skipped(String),
}

impl Stop {
    /// A failure with a message.
    pub fn failed(message: impl Into<String>) -> Stop {
        Stop::Failed(message.into())
    }
}

impl<E: std::error::Error> From<E> for Stop {
    fn from(error: E) -> Stop {
        Stop::Failed(format!("{error} ({error:?})"))
    }
}

/// Fails unless the condition holds; the message is made only when needed.
pub fn ensure<M: Display>(holds: bool, message: impl FnOnce() -> M) -> Verdict {
    if holds {
        Ok(())
    } else {
        Err(Stop::Failed(message().to_string()))
    }
}

/// What became of one test as one identity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// All as promised.
    Passed,
    /// With what was seen.
    Failed(String),
    /// With what the machine lacks.
    Skipped(String),
}

impl From<Verdict> for Outcome {
    fn from(verdict: Verdict) -> Outcome {
        match verdict {
            Ok(()) => Outcome::Passed,
            Err(Stop::Failed(message)) => Outcome::Failed(message),
            Err(Stop::Skipped(reason)) => Outcome::Skipped(reason),
        }
    }
}
