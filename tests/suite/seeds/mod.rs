//! The interfaces that agents and their owners already know, spoken word for word: each
//! test is named for what it promises, with the document and the lines that promise it:
//! `secure-sandbox` (and its page in a registry, the same text in other lines),
//! `ac-security-sandbox`, `sandboxing` (OpenClaw's), `code-sandbox`. What they promise in
//! milliseconds is measured by `tests/bench/promises`.

pub mod agent;
mod approved;
mod clients;
mod code;
mod hook;
mod hook_places;
mod hook_settings;
mod mcp;
mod modes;
mod names;
mod official;
mod openclaw;
mod real_agents;
mod sandbox_md;
mod security_config;
mod setup;
mod shells;
mod typescript;

use std::ffi::OsStr;
use std::os::unix::fs::symlink;

use sjail_tests::{Call, Scene, Test, Verdict};

pub fn suite() -> Vec<Test> {
    let mut all = names::tests();
    all.extend(sandbox_md::tests());
    all.extend(mcp::tests());
    all.extend(hook::tests());
    all.extend(approved::tests());
    all.extend(code::tests());
    all.extend(setup::tests());
    all.extend(hook_settings::tests());
    all.extend(hook_places::tests());
    all.extend(official::tests());
    all.extend(typescript::tests());
    all.extend(openclaw::tests());
    all.extend(security_config::tests());
    all.extend(clients::tests());
    all.extend(shells::tests());
    all.extend(modes::tests());
    all.extend(agent::tests());
    all.extend(real_agents::tests());
    all
}

/// `sandbox-…`, by a link to sjail.
fn link<S: AsRef<OsStr>>(
    scene: &Scene,
    name: &str,
    words: impl IntoIterator<Item = S>,
) -> Verdict<Call> {
    let link = scene.outside().join(name);
    if !link.exists() {
        symlink(scene.program("sjail"), &link)?;
    }
    Ok(scene.host(link).args(words))
}
