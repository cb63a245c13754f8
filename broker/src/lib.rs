//! The broker: owns decisions, the approval queue and the audit log.
//!
//! Everything that is kept goes through one thread ([`writer`]) into one database
//! ([`store`]); [`audit`] is the log in it.
#![forbid(unsafe_code)]

pub mod audit;
pub mod binding;
pub mod error;
pub mod id;
pub mod paths;
pub mod peer;
pub mod process;
pub mod queue;
pub mod redact;
pub mod store;
pub mod writer;
