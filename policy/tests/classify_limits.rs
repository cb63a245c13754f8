//! Lines that are too long, too deep, broken off or not what they seem.

mod judged;

use judged::{all, at_least, judged};
use sjail_policy::classify::{Context, classify};
use sjail_policy::risk::Risk;

#[test]
fn limits_end_on_the_strict_side() {
    let many = "ls;".repeat(20_000);
    let deep = format!("{}ls{}", "$(".repeat(500), ")".repeat(500));
    let long = format!("echo {}", "x".repeat(70_000));
    let wide = format!("cat {}", "f ".repeat(5_000));
    at_least(Risk::Dangerous, &[&many, &deep, &long, &wide]);
}

#[test]
fn hidden_characters_are_named() {
    let answer = judged("echo safe \u{202e} fr- mr");
    assert_eq!(answer.risk, Risk::Dangerous);
    assert_eq!(answer.reasons, ["Hidden characters"]);
    assert_eq!(judged("echo '✅ done ⚠️'").risk, Risk::Safe);
}

#[test]
fn what_breaks_off_at_the_end_is_asked_about() {
    all(
        Risk::Dangerous,
        &[
            "if [ -d x ]; then ls",
            "for f in *; do echo $f",
            "(ls",
            "echo $(ls",
        ],
    );
    at_least(
        Risk::Dangerous,
        &[
            "if [ -d x ]; then rm -rf x",
            "if true; then ls; done; ls",
            "echo 'rm' 'ls",
            "echo \"$x ls",
            "ls; echo 'ls",
            "echo `ls",
        ],
    );
    at_least(
        Risk::Critical,
        &["while true; do rm -rf /", "echo $(rm -rf /"],
    );
}

#[test]
fn a_value_evaluated_again_and_again_is_not_read_each_time() {
    let value = "x".repeat(20_000);
    let line = format!("x='a[$({value})]'; (( {} ))", "x,".repeat(10_000));
    let answer = judged(&line);
    assert!(answer.risk >= Risk::Dangerous);
    assert!(
        answer
            .reasons
            .contains(&"Too much arithmetic to judge".to_owned()),
        "{:?}",
        answer.reasons
    );
}

#[test]
fn places_are_counted_in_the_bytes_of_the_line() {
    let context = Context::new("/home/user/project", "/home/user", "user");
    let line = b"7\x87 \xe2\x80\x8bls \xff\x02";
    let answer = classify(line, &context);
    assert!(answer.reasons.iter().any(|why| why == "Hidden characters"));
    for command in &answer.commands {
        assert!(command.span.end <= line.len(), "{:?}", command.span);
    }
}

#[test]
fn too_much_of_anything_is_asked_about() {
    at_least(
        Risk::Dangerous,
        &[
            &format!("ls {}", "> a ".repeat(300)),
            &format!("{} ls", "A=b ".repeat(600)),
            &format!("tar c {}", "a ".repeat(1100)),
            &format!("rsync {} b", "a ".repeat(1100)),
        ],
    );
}

#[test]
fn a_line_too_long_to_judge_is_never_harmless() {
    for filler in [
        "ls; ",
        "foo npm npm npm npm npm npm; ",
        "npm npm npm npm npm npm; ",
        "foo 'ls -l'; ",
        "python3 -c 'import os; os.system(\"ls\")'; ",
        "((rm)); ",
        "((     )); ",
    ] {
        let many = 60 * 1024 / filler.len();
        let line = format!("{}rm -rf /", filler.repeat(many));
        let answer = judged(&line);
        assert!(answer.risk >= Risk::Dangerous, "{filler}: {}", answer.risk);
    }
}

#[test]
fn padding_does_not_hide_what_another_shell_runs() {
    let blanks = " ".repeat(5000);
    let words = "a || ".repeat(500);
    at_least(
        Risk::Dangerous,
        &[
            &format!("((rm -rf x{blanks}))"),
            &format!("[[ {words} reboot ]]"),
        ],
    );
}

#[test]
fn of_very_many_words_the_rest_is_said_to_be_unknown() {
    let context = Context::new("/home/user/project", "/home/user", "user");
    let few = format!("frob {}", "a ".repeat(2_000));
    assert_eq!(classify(few.as_bytes(), &context).risk, Risk::Normal);
    let many = format!("frob {}", "a ".repeat(3_000));
    let answer = classify(many.as_bytes(), &context);
    assert_eq!(answer.risk, Risk::Dangerous);
    assert!(answer.is_opaque());
    // Commands inside the words behind are still seen.
    let hidden = format!("{many} $(rm -rf /)");
    assert_eq!(classify(hidden.as_bytes(), &context).risk, Risk::Critical);
}

/// Lines on which it once did.
#[test]
fn the_classifier_does_not_fail() {
    let line = b"awk '{x=\"date\"; \xb4x | getline d}' f";
    let answer = classify(line, &Context::default());
    assert_ne!(answer.reasons, ["The classifier failed"]);
}
