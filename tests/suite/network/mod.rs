//! `--net filtered`: who is reached, who is not, and what is said about it. Every server
//! is the test's own, in a world of its own (see `sjail_tests::town`).

mod ask;
mod clients;
mod hostile;
mod installs;
mod load;
mod matrix;
mod peers;
mod proxy;
mod publish;
mod record;
mod registries;
mod requests;
mod ssh;

use sjail_tests::town::{Town, WEB, WEB6};
use sjail_tests::{Call, Output, Scene, Stop, Test, Verdict};

pub fn suite() -> Vec<Test> {
    let mut tests = matrix::tests();
    tests.extend(load::tests());
    tests.extend(requests::tests());
    tests.extend(publish::tests());
    tests.extend(proxy::tests());
    tests.extend(record::tests());
    tests.extend(clients::tests());
    tests.extend(registries::tests());
    tests.extend(installs::tests());
    tests.extend(ask::tests());
    tests.extend(ssh::tests());
    tests.extend(hostile::tests());
    tests.extend(peers::tests());
    tests
}

/// What takes long.
pub fn long() -> Vec<Test> {
    load::long()
}

/// The names that most tests need.
const NAMES: [(&str, &str); 5] = [
    ("www.test", WEB),
    ("www.test", WEB6),
    ("api.test", WEB),
    ("evil.test", WEB),
    ("home.test", "127.0.0.1"),
];

/// The world with a web server in it.
fn town(scene: &Scene) -> Verdict<Town> {
    let town = Town::enter(scene, &NAMES)?;
    town.web()?;
    Ok(town)
}

/// `sjail run --no-broker --net filtered OPTIONS -- WORDS`.
fn filtered(scene: &Scene, options: &[&str], words: &[&str]) -> Call {
    scene
        .run(["--net", "filtered"])
        .args(options)
        .args(["--"])
        .args(words)
}

/// A web page, fetched inside.
fn curl(scene: &Scene, options: &[&str], words: &[&str]) -> Verdict<Output> {
    scene.needs(&["curl"])?;
    let mut all = vec!["curl", "-sS", "--max-time", "60"];
    all.extend_from_slice(words);
    filtered(scene, options, &all).output()
}

/// Fails unless the command could not reach anything.
fn is_refused(output: &Output) -> Verdict {
    output.lacks("hello ")?;
    match output.code() {
        Some(0) => Err(Stop::failed(format!("it succeeded, {output}"))),
        _ => Ok(()),
    }
}
