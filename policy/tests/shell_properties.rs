//! What holds for every input: no panic, spans that fit, steps that grow no faster than
//! the input, text that reads the same when it is read again.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use proptest::prelude::*;
use sjail_policy::shell::fold::Environment;
use sjail_policy::shell::walk::{self, Node};
use sjail_policy::shell::{
    CommandKind, MAX_LENGTH, Reason, RedirectTarget, Script, Span, parse, parse_counting,
};

/// Pieces that shells care about, to be thrown together.
const SOUP: [&str; 74] = [
    "a",
    "rm",
    " ",
    " ",
    "\n",
    ";",
    "&",
    "|",
    "&&",
    "||",
    "|&",
    "(",
    ")",
    "((",
    "))",
    "{",
    "}",
    "{ ",
    "; }",
    "$(",
    "`",
    "\\`",
    "$((",
    "${",
    "${x:-",
    "${x/",
    "${#",
    "${ ",
    "${|",
    "$[",
    "]",
    "[",
    "[[ ",
    " ]]",
    "=~",
    "'",
    "\"",
    "$'",
    "$\"",
    "\\",
    "\\\n",
    "#",
    " #",
    "<<E",
    "<<-E",
    "<<'E'",
    "\nE\n",
    "E)",
    "<<<",
    "<(",
    ">(",
    ">",
    ">>",
    ">&",
    "&>",
    "2>",
    "{v}>",
    "x=",
    "x+=(",
    "a[",
    "if ",
    "then ",
    "fi",
    "while ",
    "do ",
    "done",
    "for x in ",
    "case x in ",
    "esac",
    ";;",
    "function f ",
    "coproc ",
    "time ",
    "!",
];

fn soup() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(&SOUP[..]), 0..60)
        .prop_map(|pieces| pieces.concat().into_bytes())
}

/// Scripts that every bash accepts.
fn sentence() -> impl Strategy<Value = String> {
    let words = [
        "a",
        "'q; q'",
        "\"d $x\"",
        "$x",
        "${y%%.*}",
        "`a b`",
        "{a,b}",
        "~/x",
        "*.[ch]",
        "\\;",
        "$'\\x41'",
        "$((1 + 2))",
        "<(a)",
        "\"$(a)\"",
        "x#y",
        "--o=v",
        "${#x}",
        "\"${z[@]}\"",
    ];
    prop::sample::select(words.to_vec())
        .prop_map(|word| format!("run {word}"))
        .prop_recursive(5, 40, 3, |inner| {
            let two = (inner.clone(), inner.clone());
            let shapes = [
                "A | B",
                "A && B",
                "A || ! B",
                "A; B",
                "A & B",
                "A\nB",
                "{ A; B; }",
                "( A; B )",
                "if A; then B; fi",
                "if A; then B; else A; fi",
                "while A; do B; done",
                "for x in 1 2; do A; B; done",
                "case x in (a|b) A;; *) B;; esac",
                "f() { A; B; }",
                "C \"$( A; B )\"",
                "C `b` > f 2>&1 | A; B",
                "x=$( A ) y=(1 $( B )) C",
                "[[ -n x && $( A ) ]] && B",
                "C ${x:-$( A; B )}",
                "C <( A; B )",
                "C $(( $( A ) + 1 )); B",
                "{ time A | B; }",
                "coproc { A; }\nB",
                "for ((i = 0; i < 3; i++)); do A; B; done",
                "until A; do B; done",
            ];
            (two, prop::sample::select(shapes.to_vec())).prop_map(|((a, b), shape)| {
                let mut out = String::new();
                for letter in shape.chars() {
                    match letter {
                        'A' => out.push_str(&a),
                        'B' => out.push_str(&b),
                        'C' => out.push_str("run"),
                        letter => out.push(letter),
                    }
                }
                out
            })
        })
}

fn check(source: &[u8]) {
    let (script, steps) = parse_counting(source);
    assert!(steps <= 16 * source.len() + 4096, "{steps} steps");
    let fits = |span: Span| {
        assert!(span.start <= span.end, "{span:?}");
        assert!(span.end as usize <= source.len(), "{span:?}");
    };
    for list in &script.lists {
        fits(list.span);
        for pipeline in list.pipelines() {
            fits(pipeline.span);
            assert_eq!(pipeline.pipes.len() + 1, pipeline.commands.len());
        }
    }
    let environment = Environment::default();
    walk::each(&script, &mut |node| match node {
        Node::Command(command) => {
            fits(command.span);
            if let CommandKind::Simple(simple) = &command.kind {
                environment.argv(&simple.words);
            }
        }
        Node::Redirect(redirect) => fits(redirect.span),
        Node::Word(word) => fits(word.span),
        Node::Part(part) => fits(part.span),
        Node::Opaque(opaque) => fits(opaque.span),
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn any_bytes_are_read(source in prop::collection::vec(any::<u8>(), 0..200)) {
        check(&source);
    }

    #[test]
    fn any_shell_soup_is_read(source in soup()) {
        check(&source);
    }

    #[test]
    fn soup_reads_the_same_again(source in soup()) {
        reads_the_same_again(&source)?;
    }

    #[test]
    fn sentences_are_read_whole_and_the_same_again(source in sentence()) {
        let script = parse(source.as_bytes());
        prop_assert!(walk::opaque(&script).is_empty(), "{source}: {:?}", walk::opaque(&script));
        let mut names = 0;
        walk::each(&script, &mut |node| if let Node::Command(command) = node
            && let CommandKind::Simple(simple) = &command.kind
            && simple.words.first().and_then(|word| word.plain()) == Some(b"run") {
                names += 1;
            });
        prop_assert_eq!(names, source.matches("run").count(), "{}", source);
        reads_the_same_again(source.as_bytes())?;
    }

    #[test]
    fn quoted_text_is_itself(text in prop::collection::vec(1..=255u8, 0..40)) {
        let mut source = b"x '".to_vec();
        for &byte in &text {
            match byte {
                b'\'' => source.extend_from_slice(b"'\\''"),
                _ => source.push(byte),
            }
        }
        source.push(b'\'');
        prop_assert_eq!(second_word(&source), Some(text));
    }

    #[test]
    fn escaped_text_is_itself(text in prop::collection::vec(1..=255u8, 1..40)) {
        let escapes: String = text.iter().map(|byte| format!("\\x{byte:02x}")).collect();
        prop_assert_eq!(second_word(format!("x $'{escapes}'").as_bytes()), Some(text));
    }
}

/// Each list's own text reads as that list.
fn reads_the_same_again(source: &[u8]) -> Result<(), TestCaseError> {
    let script = parse(source);
    if !is_self_contained(&script) {
        return Ok(());
    }
    for list in &script.lists {
        let text = list.span.of(source);
        let again = parse(text);
        let one = without_spans(&format!("{:?}", (&list.first, &list.rest)));
        let other = again.lists.first().map(|list| (&list.first, &list.rest));
        let other = other.map(|list| without_spans(&format!("{list:?}")));
        prop_assert_eq!(Some(one), other, "{:?}", String::from_utf8_lossy(text));
    }
    Ok(())
}

fn second_word(source: &[u8]) -> Option<Vec<u8>> {
    let script = parse(source);
    match &script.lists.first()?.first.commands.first()?.kind {
        CommandKind::Simple(simple) => simple.words.get(1)?.literal(),
        _ => None,
    }
}

/// Whether no part of the meaning lies outside the lists' own text.
fn is_self_contained(script: &Script) -> bool {
    let mut plain = true;
    walk::each(script, &mut |node| match node {
        Node::Opaque(_) => plain = false,
        Node::Redirect(redirect) => {
            plain &= !matches!(redirect.target, RedirectTarget::Document(_));
        }
        _ => {}
    });
    plain
}

fn without_spans(debug: &str) -> String {
    let mut out = String::new();
    let mut rest = debug;
    while let Some(at) = rest.find("Span {") {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        rest = &rest[rest.find('}').map_or(rest.len(), |end| end + 1)..];
    }
    out + rest
}

/// Makes an input of about this length.
type Make = fn(usize) -> String;

/// Inputs that make careless parsers slow, for a length.
fn hostile() -> Vec<(&'static str, Make)> {
    vec![
        ("pipes", |n| "a|".repeat(n / 2) + "a"),
        ("parentheses", |n| "(".repeat(n)),
        ("double parentheses", |n| "((a) ".repeat(n / 5)),
        ("balanced parentheses", |n| {
            "(".repeat(n / 2) + &")".repeat(n / 2)
        }),
        ("dollar parentheses", |n| "$(".repeat(n / 2)),
        ("dollar double parentheses", |n| "$((a) ".repeat(n / 6)),
        ("braces", |n| "${x:-".repeat(n / 5)),
        ("brace expansion", |n| {
            "{a,".repeat(n / 3) + &"}".repeat(n / 3)
        }),
        ("backquotes", |n| "`a`".repeat(n / 3)),
        ("backslashes", |n| "\\".repeat(n)),
        ("escaped backquotes", |n| {
            "`".to_string() + &"\\`".repeat(n / 2)
        }),
        ("quotes", |n| "\"'".repeat(n / 2)),
        ("here-documents", |n| "a <<E\nE\n".repeat(n / 8)),
        ("pending here-documents", |n| "<<E ".repeat(n / 4) + "\n"),
        ("nested here-documents", |n| "a <<E\n$(".repeat(n / 8)),
        ("a huge here-document", |n| {
            "a <<E\n".to_string() + &"$x `b`\n".repeat(n / 7)
        }),
        ("tilde", |n| "a=".to_string() + &":~".repeat(n / 2)),
        ("subscripts", |n| "a[".repeat(n / 2)),
        ("array keys", |n| "a=([".repeat(n / 4)),
        ("continuations", |n| "\\\n".repeat(n / 2)),
        ("names", |n| "x".repeat(n) + "=1"),
        ("ifs", |n| "if a; then ".repeat(n / 11)),
        ("cases", |n| "case a in a) ".repeat(n / 13)),
        ("negations", |n| "! ".repeat(n / 2)),
        ("comments", |n| "#\n".repeat(n / 2)),
        ("extended globs", |n| "@(".repeat(n / 2)),
        ("coprocesses", |n| "coproc ".repeat(n / 7)),
        ("functions", |n| "f() ".repeat(n / 4)),
        ("globs", |n| "*[".repeat(n / 2) + "]"),
        ("doubtful quotes", |n| {
            "\"${x:-".to_string() + &"''".repeat(n / 2)
        }),
    ]
}

#[test]
fn steps_grow_with_the_length_and_no_faster() {
    for (name, make) in hostile() {
        let steps = |n| parse_counting(make(n).as_bytes()).1;
        let (small, large) = (steps(8 * 1024), steps(64 * 1024 - 16));
        assert!(
            large <= 10 * small + 4096,
            "{name}: {small} steps, then {large}"
        );
        check(make(64 * 1024 - 16).as_bytes());
    }
}

#[test]
fn what_is_too_long_or_too_deep_says_so() {
    let reasons = |source: &[u8]| -> Vec<Reason> {
        let script = parse(source);
        walk::opaque(&script).iter().map(|o| o.reason).collect()
    };
    assert_eq!(reasons(&b"a ".repeat(MAX_LENGTH)), [Reason::TooLong]);
    assert_eq!(reasons(&b"a;".repeat(4000)), []);
    assert_eq!(reasons(&b"a;".repeat(5000)), [Reason::TooComplex]);
    assert_eq!(reasons("( ".repeat(100).as_bytes()), [Reason::TooDeep]);
    assert_eq!(
        reasons(("(".repeat(60) + "a" + &")".repeat(60)).as_bytes()),
        []
    );
    assert_eq!(reasons("$(".repeat(100).as_bytes()), [Reason::TooDeep]);
    assert_eq!(
        reasons("if a; then ".repeat(100).as_bytes()),
        [Reason::TooDeep]
    );
}
