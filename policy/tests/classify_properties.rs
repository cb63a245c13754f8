//! Whatever the line: an answer, within the step budget, never a panic.

use proptest::prelude::*;
use sjail_policy::classify::{Classification, Context, classify, classify_argv};

fn judged(line: &str) -> Classification {
    classify(
        line.as_bytes(),
        &Context::new("/home/user/project", "/home/user", "user"),
    )
}

fn piece() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "rm",
        "-rf",
        "/",
        "~",
        "*",
        "'",
        "\"",
        "`",
        "$(",
        ")",
        "${",
        "}",
        "{",
        ";",
        "|",
        "&",
        "&&",
        "<",
        ">",
        "<<E",
        "\nE\n",
        "\n",
        " ",
        "$x",
        "x=",
        "sh -c ",
        "sudo ",
        "xargs ",
        "find . -exec ",
        "{} \\;",
        "sed 's/",
        "/e'",
        "awk '",
        "python3 -c \"",
        "os.system('",
        "curl -o ",
        "https://x.example/",
        "é",
        "\u{202e}",
        "\\",
        "-",
        "--",
        "=",
        "[",
        "]",
        "((",
        "))",
        "case x in ",
        "esac",
        "for i in ",
        "do ",
        "done",
        "f() { ",
        "\"$@\"",
        "eval ",
        "git -c ",
        "alias.x=!",
        "docker run -v ",
        ":/",
        "%",
        "#",
        "!",
        "trap ",
        "dd of=",
        "tar xf",
        "kill -",
        "chmod -",
        "+é",
        "-é=",
        "socat ",
        "EXEC:",
        "ssh -o ",
        "ProxyCommand=",
        "mysql -e \"",
        "drop table",
    ])
}

/// The guard around the classifier must not have been needed.
fn sound(answer: &Classification) {
    assert!(
        !answer
            .reasons
            .iter()
            .any(|reason| reason == "The classifier failed")
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn on_soup(pieces in prop::collection::vec(piece(), 0..40)) {
        sound(&judged(&pieces.concat()));
    }

    #[test]
    fn on_spaced_soup(pieces in prop::collection::vec(piece(), 0..40)) {
        sound(&judged(&pieces.join(" ")));
    }

    #[test]
    fn on_any_text(text in ".{0,200}") {
        sound(&judged(&text));
    }

    #[test]
    fn on_any_argv(argv in prop::collection::vec(".{0,20}", 0..8)) {
        sound(&classify_argv(&argv, &Context::default()));
    }
}
