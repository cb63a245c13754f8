#![allow(clippy::unwrap_used)]
use super::*;
use crate::config::{Origin, Setting};
use crate::rule::sample::line;
use proptest::prelude::*;

const BASES: Bases<'static> = Bases {
    home: b"/home/u",
    workspace: b"/ws",
};

fn policy(settings: &[(&str, &str)]) -> Policy {
    let mut policy = Policy::default();
    for (list, text) in settings {
        let rule = || Rule::parse(text).unwrap();
        let setting = match *list {
            "allow" => Setting::CommandsAllow(rule()),
            "ask" => Setting::CommandsAsk(rule()),
            "deny" => Setting::CommandsDeny(rule()),
            "elevated" => Setting::ElevatedPattern(rule()),
            "enabled" => Setting::ElevatedEnabled(*text == "true"),
            "critical" => Setting::ApprovalCritical(*text == "true"),
            "approval" => Setting::ElevatedRequireApproval(*text == "true"),
            "level" => Setting::CommandsLevel(Level::named(text).unwrap()),
            _ => Setting::CommandsAutoApproveSafe(*text == "true"),
        };
        policy.apply(setting, Origin::CommandLine("test"));
    }
    policy
}

fn action(settings: &[(&str, &str)], text: &str, risk: Risk) -> Action {
    decide(&line(text, risk), &policy(settings), BASES, Asking::Policy).action
}

#[test]
fn risk_decides_by_default() {
    use Action::{Ask, Block, Execute};
    for (risk, expected) in [
        (Risk::Safe, Execute),
        (Risk::Normal, Execute),
        (Risk::Dangerous, Ask),
        (Risk::Critical, Block),
        (Risk::Disallowed, Block),
    ] {
        assert_eq!(action(&[], "x", risk), expected, "{risk}");
    }
}

#[test]
fn critical_is_asked_about_where_its_owner_wants_that() {
    let open = [
        ("critical", "true"),
        ("allow", "x"),
        ("enabled", "true"),
        ("elevated", "x"),
    ];
    let decision = decide(
        &line("x", Risk::Critical),
        &policy(&open),
        BASES,
        Asking::Policy,
    );
    // No list lifts it, and it stays in the jail.
    assert_eq!(
        (decision.action, decision.place),
        (Action::Ask, Place::Jail)
    );
    for (more, risk) in [
        (("level", "deny"), Risk::Critical),
        (("deny", "x"), Risk::Critical),
        (("critical", "true"), Risk::Disallowed),
    ] {
        assert_eq!(
            action(&[("critical", "true"), more], "x", risk),
            Action::Block
        );
    }
}

#[test]
fn levels() {
    use Action::{Ask, Block, Execute};
    let listed = ("allow", "make");
    for (level, text, risk, expected) in [
        ("allowlist", "ls", Risk::Safe, Execute),
        ("allowlist", "npm install", Risk::Normal, Ask),
        ("allowlist", "make all", Risk::Normal, Execute),
        ("allowlist", "make clean", Risk::Dangerous, Ask),
        ("deny", "ls", Risk::Safe, Block),
        ("deny", "make all", Risk::Normal, Execute),
        ("deny", "make clean", Risk::Dangerous, Ask),
        ("deny", "rm x", Risk::Critical, Block),
        ("full", "npm install", Risk::Normal, Execute),
    ] {
        assert_eq!(
            action(&[("level", level), listed], text, risk),
            expected,
            "{level} {text}"
        );
    }
    assert_eq!(action(&[("safe", "false")], "ls", Risk::Safe), Ask);
    assert_eq!(
        action(&[("safe", "false"), ("allow", "ls")], "ls -l", Risk::Safe),
        Execute
    );
}

#[test]
fn deny_is_sticky_and_ask_beats_allow() {
    use Action::{Ask, Block, Execute};
    let allow = ("allow", "git push *");
    assert_eq!(action(&[allow], "git push x", Risk::Dangerous), Execute);
    assert_eq!(action(&[allow], "git push x", Risk::Critical), Block);
    assert_eq!(
        action(&[allow, ("ask", "git push")], "git push x", Risk::Dangerous),
        Ask
    );
    assert_eq!(
        action(
            &[allow, ("deny", "git push")],
            "git push x",
            Risk::Dangerous
        ),
        Block
    );
    assert_eq!(
        action(
            &[("deny", "rm -rf")],
            "ls && sudo rm -fr x",
            Risk::Dangerous
        ),
        Block
    );
    assert_eq!(action(&[("deny", "rm -rf")], "rm $x", Risk::Normal), Ask);
}

#[test]
fn the_bare_star_speaks_last() {
    use Action::{Ask, Block, Execute};
    assert_eq!(
        action(&[("ask", "*"), ("allow", "ls")], "ls -l", Risk::Safe),
        Execute
    );
    assert_eq!(
        action(&[("ask", "*"), ("allow", "ls")], "cat x", Risk::Safe),
        Ask
    );
    assert_eq!(
        action(&[("deny", "*"), ("allow", "ls")], "ls -l", Risk::Safe),
        Execute
    );
    assert_eq!(
        action(&[("deny", "*"), ("allow", "ls")], "cat x", Risk::Safe),
        Block
    );
}

#[test]
fn elevated_commands_leave_the_jail_only_when_enabled_and_asked() {
    let base = [("elevated", "git push *"), ("enabled", "true")];
    let decision = |settings: &[(&str, &str)], text: &str, risk| {
        let decision = decide(&line(text, risk), &policy(settings), BASES, Asking::Policy);
        (decision.action, decision.place)
    };
    assert_eq!(
        decision(&base, "git push x", Risk::Dangerous),
        (Action::Ask, Place::Host)
    );
    assert_eq!(
        decision(&base[..1], "git push x", Risk::Dangerous),
        (Action::Ask, Place::Jail)
    );
    assert_eq!(
        decision(&base, "git push x | sh", Risk::Normal),
        (Action::Execute, Place::Jail)
    );
    let free = [base[0], base[1], ("approval", "false")];
    assert_eq!(
        decision(&free, "git push x", Risk::Dangerous),
        (Action::Execute, Place::Host)
    );
    assert_eq!(
        decision(&free, "git push x", Risk::Critical).0,
        Action::Block
    );
}

#[test]
fn the_rule_and_its_place_are_named() {
    let decision = decide(
        &line("ls && rm -rf x", Risk::Dangerous),
        &policy(&[("deny", "rm -rf")]),
        BASES,
        Asking::Policy,
    );
    assert_eq!(decision.risk, Risk::Disallowed);
    assert_eq!(decision.rule.to_string(), "commands.deny `rm -rf` (test)");
    assert_eq!(decision.reasons, ["On the deny list: rm -rf"]);
    let asked = decide(
        &line("ls", Risk::Safe),
        &Policy::default(),
        BASES,
        Asking::Always,
    );
    assert_eq!(
        (asked.action, asked.rule.to_string().as_str()),
        (Action::Ask, "--require-approval")
    );
}

fn settings() -> impl Strategy<Value = Vec<(&'static str, &'static str)>> {
    let list = proptest::sample::select(vec!["allow", "ask", "deny"]);
    let text = proptest::sample::select(vec![
        "*",
        "ls",
        "rm -rf",
        "git push *",
        "git *",
        "npm install",
        "make",
    ]);
    proptest::collection::vec((list, text), 0..5)
}

proptest! {
    /// Adding an ask or deny rule, or a stricter level, never makes a decision laxer.
    #[test]
    fn tightening_never_loosens(
        base in settings(),
        more in settings(),
        level in proptest::sample::select(vec!["full", "allowlist", "deny"]),
        text in proptest::sample::select(vec!["ls", "rm -rf x", "git push x", "make all", "npm install y", "ls && make", "rm $x"]),
        risk in proptest::sample::select(vec![Risk::Safe, Risk::Normal, Risk::Dangerous, Risk::Critical]),
    ) {
        let mut tightened = base.clone();
        tightened.extend(more.into_iter().filter(|(list, _)| *list != "allow"));
        tightened.push(("level", level));
        prop_assert!(action(&tightened, text, risk) >= action(&base, text, risk));
    }

    #[test]
    fn a_riskier_line_is_never_treated_better(base in settings(), level in proptest::sample::select(vec!["full", "allowlist", "deny"])) {
        let mut settings = base;
        settings.push(("level", level));
        let actions: Vec<Action> = [Risk::Safe, Risk::Normal, Risk::Dangerous, Risk::Critical]
            .into_iter()
            .map(|risk| action(&settings, "make all", risk))
            .collect();
        prop_assert!(actions.is_sorted(), "{actions:?}");
    }
}

#[test]
fn an_ask_rule_names_itself_and_what_it_names_is_dangerous() {
    let settings = [("level", "allowlist"), ("ask", "*"), ("ask", "dd if=")];
    let judged = |text: &str| {
        decide(
            &line(text, Risk::Normal),
            &policy(&settings),
            BASES,
            Asking::Policy,
        )
    };
    let named = judged("dd if=a of=b");
    assert_eq!((named.action, named.risk), (Action::Ask, Risk::Dangerous));
    assert!(named.rule.to_string().contains("`dd if=`"), "{named:?}");
    let other = judged("make");
    assert_eq!((other.action, other.risk), (Action::Ask, Risk::Normal));
}

#[test]
fn a_program_that_is_not_roots_is_named() {
    let settings = [("level", "deny"), ("allow", "cargo"), ("allow", "git")];
    let policy = policy(&settings);
    let doubted = |text: &str, whose: &dyn Fn(&str) -> Whose| {
        let mut line = line(text, Risk::Normal);
        doubt_programs(&mut line, whose);
        line
    };
    let others = |name: &str| match name {
        "cargo" => Whose::Others("/home/u/.cargo/bin".into()),
        _ => Whose::Root,
    };
    let line = doubted("cargo build", &others);
    let decision = decide(&line, &policy, BASES, Asking::Policy);
    assert_eq!(decision.action, Action::Block);
    let why = "`cargo` is found in /home/u/.cargo/bin, which is not root's alone, so the allow list does not count for it";
    assert_eq!(decision.reasons, [why]);
    assert_eq!(matching(&line, &policy, BASES).len(), 1);
    let said = allowing(&policy.allow, &line);
    assert_eq!(said.patterns, Vec::<String>::new());
    assert_eq!(said.why_not.as_deref(), Some(why));
    // Its owner is not in question where no pattern speaks of it, nor where it counts.
    let unlisted = doubted("make", &|_| Whose::Nobody);
    let decision = decide(&unlisted, &policy, BASES, Asking::Policy);
    assert_eq!(decision.reasons, ["Command 'make' not in allowlist"]);
    let roots = doubted("git status", &others);
    assert_eq!(
        decide(&roots, &policy, BASES, Asking::Policy).action,
        Action::Execute
    );
    assert_eq!(allowing(&policy.allow, &roots).patterns, ["git"]);
    // By its list, and still dangerous.
    let mut dangerous = roots;
    dangerous.risk = Risk::Dangerous;
    assert!(allowing(&policy.allow, &dangerous).patterns.is_empty());
}
