//! Real clients, none of which is told of a proxy: each reaches what is allowed, and says
//! quickly and clearly that the rest is not there.

use std::path::PathBuf;
use std::process::Command;

use sjail_tests::{Scene, Stop, Test, Verdict};

pub fn tests() -> Vec<Test> {
    Vec::new()
}

/// A certificate for the names of the tests, its own authority, and its key.
pub fn certificate(scene: &Scene) -> Verdict<(PathBuf, PathBuf)> {
    let (cert, key) = (
        scene.workspace().join("cert.pem"),
        scene.outside().join("key.pem"),
    );
    let names = "subjectAltName=DNS:www.test,DNS:api.test,DNS:evil.test,DNS:reg.test,DNS:git.test";
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt"])
        .args(["ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"])
        .args(["-subj", "/CN=www.test", "-addext", names, "-keyout"])
        .arg(&key)
        .arg("-out")
        .arg(&cert)
        .output()?;
    match made.status.success() {
        true => Ok((cert, key)),
        false => Err(Stop::failed(format!(
            "openssl: {}",
            String::from_utf8_lossy(&made.stderr)
        ))),
    }
}
