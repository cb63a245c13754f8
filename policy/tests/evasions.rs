//! Tables of command lines: grave commands in disguise (`evasions.txt`, with the least risk that
//! must be found), and what agents, people and attackers type (`everyday_and_grave.txt`, with the
//! level that is right).

#![allow(clippy::expect_used, clippy::panic)]

use sjail_policy::classify::{Context, classify};
use sjail_policy::risk::Risk;

/// The bytes that a row's line stands for.
fn bytes(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        rest = &rest[letter.len_utf8()..];
        match letter {
            '⏎' => out.push(b'\n'),
            '⇥' => out.push(b'\t'),
            '␍' => out.push(b'\r'),
            '␀' => out.push(0),
            '⟨' => {
                let (number, behind) = rest.split_once('⟩').expect("a character's number");
                let number = u32::from_str_radix(number, 16).expect("a hexadecimal number");
                let letter = char::from_u32(number).expect("a character");
                out.extend(letter.to_string().into_bytes());
                rest = behind;
            }
            _ => out.extend(letter.to_string().into_bytes()),
        }
    }
    out
}

#[test]
fn no_disguise_helps() {
    let context = Context::new("/home/user/project", "/home/user", "user");
    let mut rows = 0;
    let mut missed = Vec::new();
    for row in include_str!("evasions.txt").lines() {
        if row.is_empty() || row.starts_with("# ") || row.starts_with("## ") {
            continue;
        }
        let (level, line) = row.split_once(' ').expect("a level and a line");
        let least = match level {
            "normal" => Risk::Normal,
            "dangerous" => Risk::Dangerous,
            "critical" => Risk::Critical,
            _ => panic!("`{level}` is no level: {row}"),
        };
        rows += 1;
        let found = classify(&bytes(line), &context);
        if found.risk < least {
            missed.push(format!("{line}: {} {:?}", found.risk, found.reasons));
        }
    }
    assert!(rows > 500, "only {rows} rows");
    assert!(
        missed.is_empty(),
        "{} of {rows} missed:\n{}",
        missed.len(),
        missed.join("\n")
    );
}

#[test]
fn what_people_type_is_judged_as_by_hand() {
    let context = Context::new("/home/user/project", "/home/user", "user");
    let mut rows = 0;
    let mut wrong = Vec::new();
    for row in include_str!("everyday_and_grave.txt").lines() {
        if row.is_empty() || row.starts_with("# ") || row.starts_with("## ") {
            continue;
        }
        let (level, line) = row.split_once(' ').expect("a level and a line");
        let right = match level.trim_end_matches(['+', '-']) {
            "safe" => Risk::Safe,
            "normal" => Risk::Normal,
            "dangerous" => Risk::Dangerous,
            "critical" => Risk::Critical,
            _ => panic!("`{level}` is no level: {row}"),
        };
        rows += 1;
        let found = classify(&bytes(line), &context);
        let holds = match level.as_bytes().last() {
            Some(b'+') => found.risk >= right,
            Some(b'-') => found.risk <= right,
            _ => found.risk == right,
        };
        if !holds {
            wrong.push(format!(
                "{level} {line}: {} {:?}",
                found.risk, found.reasons
            ));
        }
    }
    assert!(rows > 400, "only {rows} rows");
    assert!(
        wrong.is_empty(),
        "{} of {rows} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
