//! From a shell line or an argv to commands, effects, risk and reasons.
//!
//! [`classify`] and [`classify_argv`] are the only doors. They never fail: what cannot be
//! understood is at least [`Risk::Dangerous`], with the reason.

mod context;
mod verdict;

pub use context::Context;
pub use verdict::{Arg, Classification, Opaque, Program, Redirect, RedirectKind, SimpleCommand};

use crate::risk::Risk;

/// What a shell line does, and how risky that is.
pub fn classify(line: &[u8], context: &Context) -> Classification {
    let _ = context;
    Classification::unknown(
        &String::from_utf8_lossy(line),
        Risk::Dangerous,
        "The line was not understood",
    )
}

/// What an argument vector does when it is executed without a shell.
pub fn classify_argv<A: AsRef<[u8]>>(argv: &[A], context: &Context) -> Classification {
    let _ = context;
    let line: Vec<String> = argv
        .iter()
        .map(|arg| String::from_utf8_lossy(arg.as_ref()).into_owned())
        .collect();
    Classification::unknown(
        &line.join(" "),
        Risk::Dangerous,
        "The line was not understood",
    )
}
