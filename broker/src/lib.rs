//! The broker: owns decisions, the approval queue and the audit log.
//!
//! The walk of a submission: [`server`] takes the connection and looks at the peer,
//! [`requests`] reads the call, [`submit`] has it judged ([`judge`]), asked about
//! ([`queue`]) and recorded ([`writer`], [`audit`]), and lets it run. [`control`] is
//! the owner's side of it.
#![forbid(unsafe_code)]

pub mod account;
pub mod activation;
pub mod audit;
pub mod binding;
pub mod cli;
pub mod client;
pub mod cmd;
pub mod connection;
pub mod control;
pub mod daemon;
pub mod dbus;
pub mod error;
pub mod glance;
pub mod holders;
pub mod hosts;
pub mod id;
pub mod introspect;
pub mod judge;
pub mod known_as;
pub mod limits;
pub mod mcp;
pub mod notify;
pub mod outcome;
pub mod paths;
pub mod peer;
pub mod policy_log;
pub mod private_file;
pub mod process;
pub mod programs;
pub mod proposal;
pub mod queue;
pub mod readers;
pub mod refused;
pub mod registries;
pub mod requests;
pub mod say;
pub mod scope;
pub mod server;
pub mod service;
pub mod sources;
pub mod store;
pub mod submit;
pub mod tied;
pub mod unrecorded;
pub mod writer;
