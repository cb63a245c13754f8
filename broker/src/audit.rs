//! The audit log: what was asked, decided, run and answered, in an order that
//! cannot be changed quietly.
//!
//! [`record`] says what a record is and what its hash covers, [`ledger`] appends,
//! [`key`] and [`head`] sign how far the log goes, [`mirror`] tells that to the
//! system's own log, [`verify`] checks all of it. [`query`] and [`stats`] read,
//! [`export`] hands out, [`prune`] removes what is old.

pub mod export;
pub mod head;
pub mod key;
pub mod ledger;
pub mod mirror;
pub mod prune;
pub mod query;
pub mod record;
pub mod row;
pub mod stats;
pub mod tally;
pub mod verify;
