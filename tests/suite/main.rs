//! `e2e`: every suite, by theme. See the documentation of `sjail_tests`.

mod asking;
mod broker;
mod crash;
mod denials;
mod desk;
mod doctor;
mod escape;
mod fallback;
mod grants;
mod kill;
mod limits;
mod misuse;
mod needs;
mod network;
mod outside;
mod policy;
mod preview;
mod protect;
mod run;
mod seeds;
mod tamper;
mod terminal;
mod work;

use sjail_tests::Test;

/// The suites that stand: run whenever none is named.
fn standing() -> Vec<(&'static str, Vec<Test>)> {
    vec![
        ("run", run::suite()),
        ("policy", policy::suite()),
        ("misuse", misuse::suite()),
        ("work", work::suite()),
        ("escape", escape::suite()),
        ("protected", escape::protected::tests()),
        ("neighbours", escape::neighbours::suite()),
        ("repositories", escape::repositories::suite()),
        ("second_names", escape::second_names::suite()),
        ("second_paths", escape::second_paths::suite()),
        ("broker", broker::suite()),
        ("asking", asking::suite()),
        ("needs", needs::suite()),
        ("grants", grants::suite()),
        ("outside", outside::suite()),
        ("tamper", tamper::suite()),
        ("crash", crash::suite()),
        ("protect", protect::suite()),
        ("limits", limits::suite()),
        ("kill", kill::suite()),
        ("fallback", fallback::suite()),
        ("doctor", doctor::suite()),
        ("denials", denials::suite()),
        ("terminal", terminal::suite()),
        ("seeds", seeds::suite()),
        ("network", network::suite()),
        ("preview", preview::suite()),
    ]
}

/// The suites that take long, or wait for a part of sjail: run when named.
fn waiting() -> Vec<(&'static str, Vec<Test>)> {
    vec![
        ("preview-long", preview::long()),
        ("crashes", crash::long()),
        ("network-load", network::long()),
    ]
}

fn main() -> std::process::ExitCode {
    let named = std::env::args().skip(1).any(|word| !word.starts_with("--"));
    let mut suites = standing();
    if named {
        suites.extend(waiting());
    }
    sjail_tests::main(suites, env!("CARGO_BIN_EXE_attacker"))
}
