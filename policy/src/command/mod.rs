//! Commands: what is known of programs, and how their arguments are read.

pub(crate) mod knowledge;
