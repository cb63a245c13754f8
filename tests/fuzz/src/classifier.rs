//! Classification of any bytes ends, never panics, and never falls below what it promises:
//! what could not be known is at least dangerous, and every span lies inside the line.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sjail_policy::classify::{Context, classify, classify_argv};
use sjail_policy::risk::Risk;

fuzz_target!(|line: &[u8]| {
    let context = Context::default();
    let answer = classify(line, &context);
    assert_ne!(answer.reasons, ["The classifier failed"]);
    if answer.is_opaque() {
        assert!(answer.risk >= Risk::Dangerous);
    }
    for command in &answer.commands {
        assert!(command.risk <= answer.risk);
        assert!(command.span.start <= command.span.end && command.span.end <= line.len());
    }
    answer.installs();
    let argv: Vec<&[u8]> = line.split(|&byte| byte == 0x1f).collect();
    let answer = classify_argv(&argv, &context);
    assert_ne!(answer.reasons, ["The classifier failed"]);
});
