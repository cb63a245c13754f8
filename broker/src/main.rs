//! `sjail-broker`: owns decisions, the approval queue and the audit log.
#![forbid(unsafe_code)]

fn main() {}
