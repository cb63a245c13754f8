//! The vocabulary that `sjail` and `sjail-broker` share: what a command line does
//! ([`shell`], `classify`), what its owner wants (`config`), what follows from the
//! two (`decide`) and what the jail must then enforce (`plan`).
//!
//! Pure: no input or output of its own, no unsafe code.
#![forbid(unsafe_code)]

pub mod access;
pub mod bytes;
pub mod check;
pub mod classify;
mod command;
pub mod config;
pub mod decide;
pub mod duration;
pub mod effect;
pub mod explain;
pub mod failure;
pub mod git_command;
pub mod git_config;
pub mod git_keys;
pub mod host;
pub mod import;
pub mod language;
pub mod need;
pub mod only;
pub mod plan;
pub mod policy_test;
pub mod profile;
pub mod protect;
pub mod publish;
pub mod redact;
pub mod risk;
pub mod rule;
pub mod shell;
pub mod show;
pub mod size;
pub mod ssh_key;
pub mod usage;
pub mod wire;
