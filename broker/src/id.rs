//! Names for requests, runs and grants.

use crate::error::{Error, Result};

/// Digits and letters without those that are easily mistaken (i, l, o, u).
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// A request's name, short enough to be typed: `cmd_7f3k2p`. Whoever keeps it makes
/// sure that there is no other.
pub fn request() -> Result<String> {
    random("cmd_", 6)
}

/// Whether a name has the form of a request's.
pub fn is_request(name: &str) -> bool {
    name.strip_prefix("cmd_").is_some_and(|letters| {
        (1..=RUN_LETTERS).contains(&letters.len())
            && letters.bytes().all(|byte| ALPHABET.contains(&byte))
    })
}

/// A run's name; long enough to be the only one without looking.
pub fn run() -> Result<String> {
    random(RUN, RUN_LETTERS)
}

/// How the name of a run begins, and how many letters follow.
const RUN: &str = "run_";
const RUN_LETTERS: usize = 12;

/// Whether a caller's own name for a run has the form of one.
pub fn is_run(name: &str) -> bool {
    name.strip_prefix(RUN).is_some_and(|letters| {
        letters.len() == RUN_LETTERS && letters.bytes().all(|byte| ALPHABET.contains(&byte))
    })
}

/// A standing permission's name.
pub fn grant() -> Result<String> {
    random("grant_", 6)
}

/// What proves that an outcome comes from whoever was let run.
pub fn token() -> Result<String> {
    random("", 26)
}

fn random(prefix: &str, length: usize) -> Result<String> {
    let mut bytes = vec![0; length];
    getrandom::fill(&mut bytes).map_err(Error::Random)?;
    let letters = bytes
        .iter()
        .map(|byte| char::from(ALPHABET[usize::from(byte & 31)]));
    Ok(prefix.chars().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn names_look_alike_and_differ() {
        let id = request().unwrap();
        assert!(id.starts_with("cmd_") && id.len() == 10, "{id}");
        assert_ne!(run().unwrap(), run().unwrap());
        assert_eq!(token().unwrap().len(), 26);
        assert!(is_run(&run().unwrap()));
        assert!(!is_run("run_") && !is_run("run_0123456789aI") && !is_run(&id));
    }
}
