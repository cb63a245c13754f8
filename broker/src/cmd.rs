//! The verbs of the command line that need the store: what people type as
//! `sjail queue …`, `sjail audit …`, `sjail allowlist …`, `sjail session …`.

pub mod allowlist;
pub mod audit;
pub mod network;
pub mod queue;
pub mod session;
pub mod table;

use std::io::{self, Write};

use sjail_policy::show::inert_json;

use crate::error::{Error, Result};

/// Prints one JSON value on a line.
pub fn print_json(value: &impl serde::Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(value).map_err(|error| Error::Unreadable {
        what: "the result",
        problem: error.to_string(),
    })?;
    print(&format!("{}\n", inert_json(&text)))
}

/// Prints text; whoever reads no further is not an error.
pub fn print(text: &str) -> Result<()> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::file("write to", "standard output")(error))
        }
        _ => Ok(()),
    }
}
