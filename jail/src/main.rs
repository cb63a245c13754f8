//! `sjail`: runs a command so that it can do only what its owner said it may.

fn main() {}
