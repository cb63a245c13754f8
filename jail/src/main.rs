//! `sjail`: runs a command so that it can do only what its owner said it may.
//!
//! The walk of `sjail run`: [`layout`] makes the plan concrete, [`spawn`] clones pid 1
//! into new namespaces, [`supervise`] waits, relays and watches; [`channel`] carries the
//! few words between the two.
#![allow(dead_code)]

mod channel;
mod cleanup;
mod error;
mod exit;
mod layout;
mod limits;
mod outcome;
mod output;
mod result;
mod signals;
mod spawn;
mod stdio;
mod step;
mod supervise;
mod sys;
mod terminal;

fn main() {}
