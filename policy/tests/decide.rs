//! Lines as people and agents type them, against rules as people write them: classifier, rules
//! and decision together.
#![allow(clippy::unwrap_used)]

use sjail_policy::classify::{Context, classify, classify_argv};
use sjail_policy::config::{Format, Loaded, Sources, Trust, WorkspaceFile, load};
use sjail_policy::decide::{Action, Asking, Decision, Place, decide};
use sjail_policy::risk::Risk;
use sjail_policy::rule::Bases;

const BASES: Bases<'static> = Bases {
    home: b"/home/user",
    workspace: b"/home/user/project",
};

fn loaded(text: &str, format: Format) -> Loaded {
    let file = WorkspaceFile {
        path: "/p".into(),
        text: text.as_bytes().to_vec(),
        format,
        trust: Trust::Pinned,
    };
    load(&Sources {
        workspace: vec![file],
        ..Sources::default()
    })
    .unwrap()
}

fn decided(policy: &Loaded, line: &str) -> Decision {
    let classification = classify(line.as_bytes(), &Context::default());
    decide(&classification, &policy.policy, BASES, Asking::Policy)
}

#[test]
fn deny_rules_see_through_what_hides_a_command() {
    let policy = loaded(
        "[commands]\ndeny = [\"rm -rf\", \"curl http://\", \"git push --force\", \"nc -l\", \"Read(~/.ssh/**)\", \"Write(/usr/**)\"]\n",
        Format::Toml,
    );
    for line in [
        "rm -rf x",
        "rm --recursive --force x",
        "rm -r --forc x",
        "r\\m -fr x",
        "'rm' -vfr x",
        "/bin/rm -rf x",
        "x=rm; $x -rf y",
        "sudo -u bob rm -rf x",
        "env A=1 rm -rf x",
        "nohup nice -n 5 rm -rf x &",
        "find . -name x -exec rm -rf {} +",
        "ls | xargs -n1 rm -rf",
        "bash -c 'cd x && rm -rf y'",
        "if true; then (rm -rf x); fi",
        "echo $(rm -rf x)",
        "curl -sS -o x http://example.org/y",
        "curl \"http://$host/y\"",
        "git -C sub push origin --force",
        "git push -f",
        "nc -lvp 4444",
        "cat ~/.ssh/id_rsa",
        "cat < ~/.ssh/id_rsa",
        "cat ~/.ss*/id_rsa",
        "cat ~/.[st]sh/id_*",
        "echo x > /us?/y",
        "cp x /usr/bin/y",
        "echo x > /usr/lib/y",
    ] {
        let decision = decided(&policy, line);
        assert_eq!(
            (decision.action, decision.risk),
            (Action::Block, Risk::Disallowed),
            "{line}: {}",
            decision.rule
        );
    }
    for line in [
        "echo 'rm -rf x'",
        "git commit -m 'rm -rf x; git push --force'",
        "grep 'curl http://' README.md",
        "rm x",
        "ls -rf",
        "git push --force-with-lease",
        "curl https://example.org",
        "cat src/main.rs",
    ] {
        assert_ne!(decided(&policy, line).action, Action::Block, "{line}");
    }
}

#[test]
fn allow_rules_mean_one_plain_command() {
    let policy = loaded(
        "[commands]\nlevel = \"allowlist\"\nallow = [\"cargo build *\", \"git push origin *\", \"make\", \"npm install *\"]\n",
        Format::Toml,
    );
    for line in [
        "cargo build",
        "cargo build --release",
        "git push origin main",
        "make all",
        "ls -la",
        "npm install express 2>&1",
    ] {
        let decision = decided(&policy, line);
        assert_eq!(
            decision.action,
            Action::Execute,
            "{line}: {}",
            decision.rule
        );
    }
    for line in [
        "cargo build && touch x",
        "cargo build; rm x",
        "cargo build > log",
        "cargo build $(touch x)",
        "RUSTC_WRAPPER=./x cargo build",
        "sudo cargo build",
        "env cargo build",
        "./cargo build",
        "cargo -v build",
        "git push origin main | tee x",
        "git push evil main",
        "make all | sh",
        "make() { touch x; }; make all",
        "alias make=touch; make x",
        "cargo build \"$x\"",
        "cargo build *",
    ] {
        assert_ne!(decided(&policy, line).action, Action::Execute, "{line}");
    }
}

#[test]
fn a_line_of_listed_commands_is_listed() {
    let policy = loaded(
        "[commands]\nlevel = \"deny\"\nallow = [\"npm\", \"git\", \"cat\", \"grep\", \"rm\", \"python3\"]\n",
        Format::Toml,
    );
    for (line, action) in [
        ("npm install && npm test", Action::Execute),
        ("cat file.txt | grep error", Action::Execute),
        ("git add . && git commit -m 'msg'", Action::Execute),
        ("git fetch; git status || cat x", Action::Execute),
        // On the list, and dangerous all the same.
        ("git status && rm -rf x", Action::Ask),
        ("git status && touch x", Action::Block),
        ("git status && env npm test", Action::Block),
        ("cat x | python3", Action::Block),
        ("git add $(cat x)", Action::Block),
        ("git() { touch x; }; git add .", Action::Block),
        ("git status && cat x > y", Action::Block),
    ] {
        let decision = decided(&policy, line);
        assert_eq!(decision.action, action, "{line}: {}", decision.rule);
    }
}

#[test]
fn a_seed_style_file_is_obeyed() {
    let policy = loaded(
        "# Secure Sandbox Configuration\n## Security Level\nLevel: allowlist\n## Allowed Commands (Auto-execute)\n- ls\n- node --version\n- npm list\n\
         ## Dangerous Patterns (Require Approval)\n- rm -rf\n- dd if=\n- sudo\n- chmod 777\n- *\n\
         ## Disallowed Commands (Block)\n- curl http://\n- wget http://\n- nc -l\n- bash -c\n- eval\n\
         ## Approval Settings\n- Auto-approve safe: true\n- Dry-run by default: false\n- Audit retention: 30 days\n",
        Format::Markdown,
    );
    for (line, expected) in [
        ("ls -la", Action::Execute),
        ("node --version", Action::Execute),
        ("npm list --depth=0", Action::Execute),
        ("npm install express", Action::Ask),
        ("rm -rf node_modules", Action::Ask),
        ("sudo ls", Action::Ask),
        ("chmod 0777 x", Action::Ask),
        ("curl -s http://example.org", Action::Block),
        ("bash -c 'ls'", Action::Block),
        ("eval ls", Action::Block),
        ("nc -lp 1", Action::Block),
    ] {
        let decision = decided(&policy, line);
        assert_eq!(decision.action, expected, "{line}: {}", decision.rule);
    }
}

#[test]
fn regular_expressions_under_their_own_key() {
    let policy = loaded(
        "[commands]\ndeny_regex = ['rm\\s+-rf\\s+/', 'dd\\s+if=']\nask_regex = ['^docker ']\n",
        Format::Toml,
    );
    assert_eq!(
        decided(&policy, "sudo rm   -rf  /tmp/x").action,
        Action::Block
    );
    assert_eq!(
        decided(&policy, "echo 'rm -rf /'").action,
        Action::Block,
        "a regular expression sees words, quoted or not"
    );
    assert_eq!(decided(&policy, "docker ps").action, Action::Ask);
    assert_eq!(decided(&policy, "ls").action, Action::Execute);
}

#[test]
fn elevated_patterns_take_one_plain_command_to_the_host() {
    let policy = loaded(
        "[elevated]\nenabled = true\npatterns = [\"git push *\"]\n",
        Format::Toml,
    );
    let decision = decided(&policy, "git push origin main");
    assert_eq!(
        (decision.action, decision.place),
        (Action::Ask, Place::Host)
    );
    for line in [
        "git push; id",
        "git push $(id)",
        "GIT_SSH_COMMAND=x git push",
        "git -c core.sshCommand=x push",
        "sudo git push",
        "git push > x",
    ] {
        assert_eq!(decided(&policy, line).place, Place::Jail, "{line}");
    }
}

#[test]
fn an_argv_is_judged_like_a_line() {
    let policy = loaded("[commands]\ndeny = [\"rm -rf\"]\n", Format::Toml);
    let classification = classify_argv(&["sh", "-c", "rm -fr x"], &Context::default());
    let decision = decide(&classification, &policy.policy, BASES, Asking::Policy);
    assert_eq!(decision.action, Action::Block);
}

#[test]
fn deny_rules_for_files_meet_what_a_pattern_finds() {
    let policy = loaded(
        "[commands]\ndeny = [\"Read(.env)\", \"Read(*.pem)\"]\n",
        Format::Toml,
    );
    let context = Context {
        cwd: "/home/user/project".into(),
        ..Context::default()
    };
    let action = |line: &str| {
        let classification = classify(line.as_bytes(), &context);
        decide(&classification, &policy.policy, BASES, Asking::Policy).action
    };
    for line in [
        "cat .e*",
        "cat .[e]nv",
        "cat .[[:alpha:]]nv",
        "cat .[![:digit:]]nv",
        "cat @(.env|x)",
        "cat x/@(.env|x)",
        "cat .e?(n)v",
        "bash -O extglob -c 'cat .@(env|x)'",
        "for f in @(.env|x); do cat \"$f\"; done",
        "cat < .e+(n)v",
        "cat *.pe?",
        "cat a*.@(pem|key)",
        "shopt -s dotglob; cat *env",
        "bash -O dotglob -c 'cat *'",
        "setopt GLOB_DOTS; cat ?env",
    ] {
        assert_eq!(action(line), Action::Block, "{line}");
    }
    for line in [
        "cat *",
        "cat a*",
        "ls *.@(js|ts)",
        "cat @(a|b)",
        "rg x src/*.rs",
    ] {
        assert_ne!(action(line), Action::Block, "{line}");
    }
}
