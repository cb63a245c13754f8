//! The broker: owns decisions, the approval queue and the audit log.
//!
//! Everything that is kept goes through one thread ([`writer`]) into one database
//! ([`store`]); [`audit`] is the log in it.
#![forbid(unsafe_code)]

pub mod audit;
pub mod error;
pub mod store;
pub mod writer;
