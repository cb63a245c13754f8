//! Requests that a person answers. The store is the truth, every change is made by
//! the one writing thread, and what is said in the log is said in the same
//! transaction: an approval cannot be used twice, whatever crashes when.

pub mod allowlist;
pub mod answer;
pub mod body;
pub mod narrow;
pub mod permit;
pub mod question;
pub mod request;
pub mod session;

pub use body::{Body, Redacted, Subject};
pub use question::{Asked, New};
pub use request::Stored;

#[cfg(test)]
mod tests;
