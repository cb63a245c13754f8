//! Words on standard error. Nobody may be able to hear them (a full disk, a closed pipe):
//! that is no reason to end, and `eprintln!` would.

use std::io::Write;

/// Says one thing, if anybody can hear it.
pub fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "sjail-broker: {text}");
}
