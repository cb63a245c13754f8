//! What `bash -n` and brush-parser say about the texts that our parser reads.
//!
//! Each argument is a file: `.jsonl` with a field `cmd` a line, or one text (a fuzzer's
//! corpus). Where bash accepts a text and ours does not, ours is too timid; where ours
//! accepts it and bash does not, ours is generous, which is harmless. brush runs in a
//! thread that may die, because it does.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};

use sjail_policy::shell::{parse, walk};

fn main() {
    let mut tally: BTreeMap<[&str; 3], usize> = BTreeMap::new();
    let verbose = std::env::args().any(|argument| argument == "--verbose");
    for text in texts() {
        let ours = match walk::opaque(&parse(&text)).first() {
            None => "ours reads",
            Some(_) => "ours opaque",
        };
        let bash = if bash_accepts(&text) { "bash accepts" } else { "bash refuses" };
        let brush = brush(&text);
        if verbose && ours == "ours opaque" && bash == "bash accepts" {
            println!("timid: {:?}", String::from_utf8_lossy(&text));
        }
        *tally.entry([ours, bash, brush]).or_default() += 1;
    }
    for (opinions, count) in tally {
        println!("{count:7} {}", opinions.join(", "));
    }
}

fn texts() -> impl Iterator<Item = Vec<u8>> {
    let files = std::env::args().skip(1).filter(|a| a != "--verbose");
    files.flat_map(|file| {
        let bytes = std::fs::read(&file).unwrap_or_else(|error| {
            eprintln!("{file}: {error}");
            Vec::new()
        });
        if !file.ends_with(".jsonl") {
            return vec![bytes];
        }
        let lines = bytes.split(|&byte| byte == b'\n');
        lines
            .filter_map(|line| serde_json::from_slice::<serde_json::Value>(line).ok())
            .filter_map(|row| Some(row.get("cmd")?.as_str()?.as_bytes().to_vec()))
            .collect()
    })
}

fn bash_accepts(text: &[u8]) -> bool {
    let child = Command::new("bash")
        .arg("-n")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else { return false };
    if let Some(mut input) = child.stdin.take() {
        let _ = input.write_all(text);
        let _ = input.write_all(b"\n");
    }
    child.wait_with_output().is_ok_and(|output| {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        output.status.success() && !said.contains("syntax error") && !said.contains("unexpected")
    })
}

fn brush(text: &[u8]) -> &'static str {
    // Known to allocate without end: not worth the machine.
    if text.windows(2).any(|window| window == b"<<") || text.len() > 4096 {
        return "brush not asked";
    }
    let Ok(text) = String::from_utf8(text.to_vec()) else {
        return "brush not asked";
    };
    let thread = std::thread::Builder::new().stack_size(64 << 20).spawn(move || {
        let options = brush_parser::ParserOptions::default();
        let mut parser = brush_parser::Parser::new(std::io::Cursor::new(text), &options);
        parser.parse_program().is_ok()
    });
    match thread.map(|thread| thread.join()) {
        Ok(Ok(true)) => "brush accepts",
        Ok(Ok(false)) => "brush refuses",
        _ => "brush dies",
    }
}
