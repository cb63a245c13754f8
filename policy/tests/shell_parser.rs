//! What the parser makes of shell text: commands seen, words folded, gaps admitted.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use sjail_policy::shell::walk::{self, Node};
use sjail_policy::shell::{CommandKind, parse};

/// The constant first words of all simple commands, in the order of the tree, and `?` for others.
fn names(source: &str) -> Vec<String> {
    let mut found = Vec::new();
    walk::each(&parse(source.as_bytes()), &mut |node| match node {
        Node::Command(command) => {
            if let CommandKind::Simple(simple) = &command.kind
                && let Some(word) = simple.words.first()
            {
                let name = word
                    .literal()
                    .map(|n| String::from_utf8_lossy(&n).into_owned());
                found.push(name.unwrap_or_else(|| "?".into()));
            }
        }
        Node::Opaque(opaque) => found.push(format!("<{}>", opaque.reason)),
        _ => {}
    });
    found
}

#[track_caller]
fn sees(source: &str, expected: &[&str]) {
    assert_eq!(names(source), expected, "in {source:?}");
}

#[test]
fn lists_and_pipelines() {
    sees(
        "a; b & c && d || e | f |& g\nh",
        &["a", "b", "c", "d", "e", "f", "g", "h"],
    );
    sees("a &&\n\n b |\n c", &["a", "b", "c"]);
    sees("! a; time -p b; ! ! c; time", &["a", "b", "c"]);
    sees("time -f %e a", &["time"]);
    sees("a # b; c\nd#e f", &["a", "d#e"]);
    sees("", &[]);
    sees("\n\n # only\n", &[]);
}

#[test]
fn quotes_are_removed() {
    sees(r#"r''m; r""m; r\m; 'r'"m"; $'\x72m'; "r"$'m'"#, &["rm"; 6]);
    sees("r\\\nm; i\\\nf a; then b; fi", &["rm", "a", "b"]);
    sees("\"$x\"; $x; `a`; $(b)", &["?", "?", "?", "a", "?", "b"]);
    sees("a\rb", &["a\rb"]);
}

#[test]
fn substitutions_are_read() {
    sees(
        "a $(b $(c) `d`) \"$(e \"$(f)\")\"",
        &["a", "b", "c", "d", "e", "f"],
    );
    sees(r"a `b \`c \\\`d\\\`\``", &["a", "b", "c", "d"]);
    sees("a <(b) >(c) x<(d)", &["a", "b", "c", "d"]);
    sees(
        "a ${x:-$(b)} ${y/$(c)/`d`} ${z:$(e):1} ${w[$(f)]}",
        &["a", "b", "c", "d", "e", "f"],
    );
    sees("a $((1 + $(b))) $[ $(c) ]", &["a", "b", "c"]);
    sees("a ${ b; } ${| c; }d", &["a", "b", "c"]);
    sees("a '$(b)' \"\\$(c)\" \\$\\(d\\)", &["a"]);
}

#[test]
fn double_parentheses_are_arithmetic_only_if_bash_thinks_so() {
    sees("((x + $(a)))", &["a"]);
    sees("( ( a ) )", &["a"]);
    sees("((a); (b))", &["a", "b"]);
    sees("((a) )", &["a"]);
    sees("x $((a); (b))", &["x", "a", "b"]);
    sees("for ((i = 0; i < $(a); i++)); do b; done", &["a", "b"]);
}

#[test]
fn compound_commands() {
    sees(
        "if a; then b; elif c; then d; else e; fi",
        &["a", "b", "c", "d", "e"],
    );
    sees(
        "while a; do b; done; until c\ndo d\ndone",
        &["a", "b", "c", "d"],
    );
    sees(
        "for x in $(a) b; do c; done; for x\ndo d; done; for x do e; done",
        &["a", "c", "d", "e"],
    );
    sees("select x in a; { b; }", &["b"]);
    sees("{ a; { b; } }; (c; (d))", &["a", "b", "c", "d"]);
    sees(
        "f() { a; }; function g { b; }; function h() ( c ); i () if d; then e; fi",
        &["a", "b", "c", "d", "e"],
    );
    sees("coproc a b; coproc N { c; }; coproc (d)", &["a", "c", "d"]);
    sees("if (a) then (b) fi", &["a", "b"]);
    sees("echo if then; then_ a", &["echo", "then_"]);
}

#[test]
fn case_arms() {
    sees(
        "case $(a) in x|y) b;; (z) c;& *) d;;& esac) e\nesac",
        &[
            "a",
            "b",
            "c",
            "d",
            "<syntax error: unexpected word or operator>",
        ],
    );
    sees("case x in $(a)) b;; q) c; esac; d", &["a", "b", "c", "d"]);
    sees("a $(case x in y) b;; esac)", &["a", "b"]);
    sees("case x in esac; a", &["a"]);
}

#[test]
fn tests_and_assignments() {
    sees(
        "[[ -n $(a) && x =~ ^(b|c d)$ || ( y < z ) ]] && e",
        &["a", "e"],
    );
    sees("[[ a == @(b|c) ]]; d", &["d"]);
    sees(
        "x=$(a) y+=`b` z[$(c)]=d e=(f $(g) [$(h)]=i) j",
        &["j", "a", "b", "c", "g", "h"],
    );
    sees("declare -a x=(a $(b))", &["declare", "b"]);
    sees("x=1; y=(\n# c\n1 2\n)\nz", &["z"]);
    sees("a[1]=2 b[x y]=3 c", &["c"]);
}

#[test]
fn redirections() {
    sees(">a b 2>&1 <c >|d &>e {f}>g 3<>h <&- i", &["b"]);
    sees("a <<< $(b) >$(c)", &["a", "b", "c"]);
    sees("{ a; } > $(b); (c) 2>/dev/null | d", &["a", "b", "c", "d"]);
    sees("2<(a) b", &["?", "a"]);
}

#[test]
fn here_documents() {
    sees("a <<E; b\n$(c)\n`d`\nE\ne", &["a", "c", "d", "b", "e"]);
    sees("a <<'E'\n$(b)\nE\nc", &["a", "c"]);
    sees("a <<E\\F\n$(b)\nEF\nc", &["a", "c"]);
    sees("a <<-E\n\t$(b)\n\tE\nc", &["a", "b", "c"]);
    sees("a <<X <<Y\n$(b)\nX\n$(c)\nY\nd", &["a", "b", "c", "d"]);
    sees("a $(b <<E\n$(c)\nE\n); d", &["a", "b", "c", "d"]);
    sees("a <<E\nx\\\nE\nb\nE\nc", &["a", "c"]);
    sees("a <<E\n\\\nE\nb", &["a", "b"]);
    sees("a <<E && b\nE\nc", &["a", "b", "c"]);
    sees("if a <<E\nx\nE\nthen b; fi", &["a", "b"]);
    sees("a <<E | b <<F\n1\nE\n2\nF\nc", &["a", "b", "c"]);
}

#[test]
fn errors_keep_what_was_read() {
    sees(
        "a; b\nc 'd",
        &["a", "b", "c", "<unterminated single quote>"],
    );
    sees(
        "a\nfi; b",
        &["a", "<syntax error: unexpected word or operator>"],
    );
    sees("a $(b", &["a", "b", "<unfinished $( … )>"]);
    sees("a; (b", &["a", "b", "<unfinished ( … )>"]);
    sees("if a; then b", &["a", "b", "<unfinished if … fi>"]);
    // Not at the end: what follows was not read.
    sees(
        "if a; then b; done; c",
        &["a", "b", "<unterminated if … fi>"],
    );
    sees("a `b (` c", &["a", "b", "<syntax error: unexpected (>"]);
    sees("a\0b", &["a", "<a NUL byte>"]);
    sees("!(a)", &["a"]);
    sees(
        "a ${(f)x}",
        &["a", "<syntax error: not an expansion that bash knows>"],
    );
}
