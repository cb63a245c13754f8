//! What happens to a command: its risk says what it is, the policy says what follows.
//!
//! The strictest word wins. A deny rule blocks, and nothing un-blocks; critical is blocked;
//! an ask rule asks even about what is allowed; only then do the level, the allow list and
//! the risk speak. Nothing here opens the jail: `execute` means "in the jail, without asking".

use serde::Serialize;

use crate::classify::{Classification, SimpleCommand};
use crate::config::{Level, Origin, Policy, Sourced};
use crate::effect::{Action as Does, Span, Target};
use crate::risk::Risk;
use crate::rule::{Bases, Case, Lift, Match, Operation, Rule};
use crate::show::inert;

/// What happens to a command; the order is the strictness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// It runs.
    Execute,
    /// A person is asked.
    Ask,
    /// It does not run.
    Block,
}

impl Action {
    /// The word in output.
    pub fn name(self) -> &'static str {
        match self {
            Action::Execute => "execute",
            Action::Ask => "ask",
            Action::Block => "block",
        }
    }

    /// The word that callers of `check` act on.
    pub fn suggested(self) -> &'static str {
        match self {
            Action::Execute => "execute",
            Action::Ask => "queue_for_approval",
            Action::Block => "block",
        }
    }
}

/// Whether the caller wants a person asked whatever the policy says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Asking {
    /// As the policy has it.
    #[default]
    Policy,
    /// In any case.
    Always,
}

/// Where a command runs when it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// In the jail.
    Jail,
    /// On the host: an elevated pattern.
    Host,
}

/// What happens to a command, and by which rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Decision {
    /// What happens.
    pub action: Action,
    /// Where it runs, if it runs.
    pub place: Place,
    /// The risk; `disallowed` where a deny rule speaks.
    pub risk: Risk,
    /// Why it has that risk.
    pub reasons: Vec<String>,
    /// What decided.
    pub rule: DecidedBy,
    /// The parts of the line that the decision is about.
    pub spans: Vec<Span>,
}

/// What decided about a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "by", rename_all = "kebab-case")]
pub enum DecidedBy {
    /// An entry of a list.
    Rule {
        /// The list: `commands.deny`.
        key: &'static str,
        /// The entry.
        pattern: String,
        /// Where it stands.
        origin: Origin,
    },
    /// The risk itself.
    Risk {
        /// The risk.
        risk: Risk,
    },
    /// A single value: `commands.level`.
    Setting {
        /// The key.
        key: &'static str,
        /// Its value.
        value: String,
        /// Where it stands.
        origin: Origin,
    },
    /// What was typed: `--require-approval`.
    Option {
        /// The option.
        option: &'static str,
    },
    /// What the jail shows or protects.
    View {
        /// What it is about the path.
        what: String,
    },
}

impl std::fmt::Display for DecidedBy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DecidedBy::Rule {
                key,
                pattern,
                origin,
            } => {
                write!(f, "{key} `{}` ({origin})", inert(pattern.as_bytes()))
            }
            DecidedBy::Risk { risk } => write!(f, "risk {risk}"),
            DecidedBy::Setting { key, value, origin } => write!(f, "{key} = {value} ({origin})"),
            DecidedBy::Option { option } => f.write_str(option),
            DecidedBy::View { what } => f.write_str(what),
        }
    }
}

/// Decides about a classified line.
pub fn decide(
    line: &Classification,
    policy: &Policy,
    bases: Bases<'_>,
    asking: Asking,
) -> Decision {
    let mut verdict = Verdict::new(line);
    forbid(&mut verdict, line, policy, bases);
    if verdict.action == Action::Block {
        return verdict.done(line);
    }
    if line.risk >= Risk::Critical {
        verdict.critical(line.risk, policy);
        return verdict.done(line);
    }
    let elevated =
        strictest_match(&policy.elevated_patterns, line).filter(|_| policy.elevated.value);
    if elevated.is_some() {
        verdict.place = Place::Host;
    }
    let allowed = on_the_list(&policy.allow, line);
    by_level(&mut verdict, line, policy, allowed, elevated.is_some());
    ask(&mut verdict, line, policy, bases, allowed.is_some());
    if let (Some((rule, _)), true) = (elevated, policy.elevated_approval.value) {
        verdict.raise(Action::Ask, by_rule(ELEVATED, rule));
    }
    if asking == Asking::Always {
        verdict.raise(
            Action::Ask,
            DecidedBy::Option {
                option: "--require-approval",
            },
        );
    }
    verdict.done(line)
}

impl Decision {
    /// Whether somebody is asked for no other reason than that the command may leave its jail.
    pub fn only_leaves_the_jail(&self) -> bool {
        let is_elevated = matches!(&self.rule, DecidedBy::Rule { key, .. } if *key == ELEVATED);
        self.action == Action::Ask && is_elevated
    }

    /// The same where nothing is jailed: there is nothing that it has to be let out of.
    pub fn without_a_jail(mut self) -> Decision {
        if self.only_leaves_the_jail() {
            self.action = Action::Execute;
            self.rule = DecidedBy::Risk { risk: self.risk };
        }
        self.place = Place::Host;
        self
    }
}

/// The list of what may leave the jail.
const ELEVATED: &str = "elevated.patterns";

/// Every entry of a list that speaks of a line, whichever decides.
pub fn matching(line: &Classification, policy: &Policy, bases: Bases<'_>) -> Vec<DecidedBy> {
    let generous = [
        ("commands.deny", &policy.forbid),
        ("commands.ask", &policy.ask),
    ];
    let strict = [
        ("commands.allow", &policy.allow),
        (ELEVATED, &policy.elevated_patterns),
    ];
    let mut found = Vec::new();
    for (key, rules) in generous {
        let speaks = |rule: &&Sourced<Rule>| meets(&rule.value, line, bases) != Match::No;
        found.extend(rules.iter().filter(speaks).map(|rule| by_rule(key, rule)));
    }
    for (key, rules) in strict {
        let speaks = |rule: &&Sourced<Rule>| match &rule.value {
            Rule::Command(pattern) => pattern.strict(line).is_some(),
            Rule::Path(_) => false,
        };
        found.extend(rules.iter().filter(speaks).map(|rule| by_rule(key, rule)));
    }
    found
}

/// Takes the trust from programs whose bare name leads elsewhere than to a trusted folder: the
/// classifier cannot look, so whoever can does it before [`decide`]. `is_trusted` says whether
/// the first program of that name along `PATH` is root's own.
pub fn doubt_programs(line: &mut Classification, is_trusted: &dyn Fn(&str) -> bool) {
    for command in &mut line.commands {
        let program = &mut command.program;
        if program.trusted && !program.builtin && !program.typed.contains('/') {
            program.trusted = is_trusted(&program.typed);
        }
    }
}

/// A decision in the making: it can only become stricter.
struct Verdict {
    action: Action,
    place: Place,
    risk: Risk,
    reasons: Vec<String>,
    rule: Option<DecidedBy>,
    spans: Vec<Span>,
}

impl Verdict {
    fn new(line: &Classification) -> Self {
        Self {
            action: Action::Execute,
            place: Place::Jail,
            risk: line.risk,
            reasons: Vec::new(),
            rule: None,
            spans: Vec::new(),
        }
    }

    fn raise(&mut self, action: Action, rule: DecidedBy) {
        if action > self.action {
            self.action = action;
            self.rule = Some(rule);
        }
    }

    /// No list lifts this, and it never runs outside: it is blocked, or a person is asked each
    /// time where the owner wants to be.
    fn critical(&mut self, risk: Risk, policy: &Policy) {
        let asks = policy.critical.value && policy.level.value != Level::Deny;
        let (action, rule) = match asks && risk == Risk::Critical {
            true => {
                let setting = DecidedBy::Setting {
                    key: "approval.critical",
                    value: "true".to_owned(),
                    origin: policy.critical.origin.clone(),
                };
                (Action::Ask, setting)
            }
            false => (Action::Block, DecidedBy::Risk { risk }),
        };
        self.raise(action, rule);
    }

    fn done(mut self, line: &Classification) -> Decision {
        if self.spans.is_empty() {
            self.spans = risky_spans(line);
        }
        for reason in &line.reasons {
            if !self.reasons.contains(reason) {
                self.reasons.push(reason.clone());
            }
        }
        Decision {
            action: self.action,
            place: self.place,
            risk: self.risk,
            reasons: self.reasons,
            rule: self.rule.unwrap_or(DecidedBy::Risk { risk: self.risk }),
            spans: self.spans,
        }
    }
}

fn forbid(verdict: &mut Verdict, line: &Classification, policy: &Policy, bases: Bases<'_>) {
    for rule in &policy.forbid {
        let fallback = is_everything(&rule.value);
        if fallback && on_the_list(&policy.allow, line).is_some() {
            continue;
        }
        match meets(&rule.value, line, bases) {
            Match::No => {}
            Match::Yes(span) => {
                verdict.risk = Risk::Disallowed;
                verdict.reasons.push(format!(
                    "On the deny list: {}",
                    inert(rule.value.text().as_bytes())
                ));
                verdict.spans.push(span);
                verdict.raise(Action::Block, by_rule("commands.deny", rule));
                return;
            }
            Match::Perhaps(span) => {
                verdict.risk = verdict.risk.max(Risk::Dangerous);
                let reason = format!(
                    "May fall under the deny rule: {}",
                    inert(rule.value.text().as_bytes())
                );
                verdict.reasons.push(reason);
                verdict.spans.push(span);
                verdict.raise(Action::Ask, by_rule("commands.deny", rule));
            }
        }
    }
}

fn ask(
    verdict: &mut Verdict,
    line: &Classification,
    policy: &Policy,
    bases: Bases<'_>,
    allowed: bool,
) {
    for rule in &policy.ask {
        if allowed && is_everything(&rule.value) {
            continue;
        }
        if let Match::Yes(span) | Match::Perhaps(span) = meets(&rule.value, line, bases) {
            if verdict.action < Action::Ask {
                verdict.spans.push(span);
            }
            verdict.raise(Action::Ask, by_rule("commands.ask", rule));
        }
    }
}

/// What the level says, given the risk and what the allow list is good for.
fn by_level(
    verdict: &mut Verdict,
    line: &Classification,
    policy: &Policy,
    allowed: Option<(&Sourced<Rule>, Lift)>,
    elevated: bool,
) {
    let lift = match (allowed, elevated) {
        (_, true) => Some(Lift::Approved),
        (Some((_, lift)), false) => Some(lift),
        (None, false) => None,
    };
    let lifted = match lift {
        None => false,
        Some(Lift::Listed) => line.risk <= Risk::Normal,
        Some(Lift::Approved) => line.risk <= Risk::Dangerous,
    };
    if lifted {
        if let (Some((rule, _)), Action::Execute) = (allowed, verdict.action) {
            verdict.rule = Some(by_rule("commands.allow", rule));
        }
        return;
    }
    let level = || DecidedBy::Setting {
        key: "commands.level",
        value: policy.level.value.name().to_owned(),
        origin: policy.level.origin.clone(),
    };
    let safe_runs = line.risk == Risk::Safe && policy.auto_approve_safe.value;
    match policy.level.value {
        // On the list, but this use of it is dangerous: a person decides.
        Level::Deny if lift.is_some() => {
            verdict.raise(Action::Ask, DecidedBy::Risk { risk: line.risk })
        }
        Level::Deny => verdict.raise(Action::Block, level()),
        _ if line.risk >= Risk::Dangerous => {
            verdict.raise(Action::Ask, DecidedBy::Risk { risk: line.risk })
        }
        Level::Allowlist if !safe_runs => verdict.raise(Action::Ask, level()),
        Level::Full if !policy.auto_approve_safe.value => {
            let setting = DecidedBy::Setting {
                key: "commands.auto_approve_safe",
                value: "false".to_owned(),
                origin: policy.auto_approve_safe.origin.clone(),
            };
            verdict.raise(Action::Ask, setting);
        }
        Level::Full | Level::Allowlist => {}
    }
}

/// What the allow list is good for: an entry for the whole line, or one for each of its
/// commands (`git add . && git commit`), which then are listed, each for itself.
fn on_the_list<'a>(
    rules: &'a [Sourced<Rule>],
    line: &Classification,
) -> Option<(&'a Sourced<Rule>, Lift)> {
    let entry = |command: &SimpleCommand| {
        rules.iter().find(|rule| match &rule.value {
            Rule::Command(pattern) => pattern.strict_command(command).is_some(),
            Rule::Path(_) => false,
        })
    };
    strictest_match(rules, line).or_else(|| {
        let all = line.commands.iter().all(|command| entry(command).is_some());
        let (first, true) = (line.commands.first()?, all && !line.is_opaque()) else {
            return None;
        };
        entry(first).map(|rule| (rule, Lift::Listed))
    })
}

/// The entry of a strict list that is good for most.
fn strictest_match<'a>(
    rules: &'a [Sourced<Rule>],
    line: &Classification,
) -> Option<(&'a Sourced<Rule>, Lift)> {
    rules
        .iter()
        .filter_map(|rule| match &rule.value {
            Rule::Command(pattern) => pattern.strict(line).map(|lift| (rule, lift)),
            Rule::Path(_) => None,
        })
        .max_by_key(|(_, lift)| *lift)
}

/// Whether a rule speaks of anything in the line.
fn meets(rule: &Rule, line: &Classification, bases: Bases<'_>) -> Match {
    match rule {
        Rule::Command(pattern) => pattern.generous(line),
        Rule::Path(rule) => {
            let effects = line.commands.iter().flat_map(|command| &command.effects);
            for effect in effects {
                let touched = touches(&effect.action)
                    .filter(|(operation, _)| rule.concerns(*operation))
                    .and_then(|(_, target)| target.resolved.as_deref());
                if touched
                    .is_some_and(|path| rule.pattern.covers(path.as_bytes(), bases, Case::Folded))
                {
                    return Match::Yes(effect.span);
                }
            }
            Match::No
        }
    }
}

fn touches(action: &Does) -> Option<(Operation, &Target)> {
    match action {
        Does::Reads(target) => Some((Operation::Read, target)),
        Does::Writes(target) | Does::Deletes { target, .. } => Some((Operation::Write, target)),
        _ => None,
    }
}

fn is_everything(rule: &Rule) -> bool {
    matches!(rule, Rule::Command(pattern) if pattern.is_everything())
}

fn by_rule(key: &'static str, rule: &Sourced<Rule>) -> DecidedBy {
    DecidedBy::Rule {
        key,
        pattern: rule.value.text(),
        origin: rule.origin.clone(),
    }
}

/// Where in the line its risk comes from; nothing for a harmless line.
fn risky_spans(line: &Classification) -> Vec<Span> {
    let mut spans: Vec<Span> = line.opaque.iter().map(|opaque| opaque.span).collect();
    if line.risk >= Risk::Dangerous {
        let effects = line.commands.iter().flat_map(|command| &command.effects);
        spans.extend(
            effects
                .filter(|effect| effect.risk >= Risk::Dangerous)
                .map(|effect| effect.span),
        );
        if spans.is_empty() {
            let commands = line
                .commands
                .iter()
                .filter(|command| command.risk >= Risk::Dangerous);
            spans.extend(commands.map(|command| command.span));
        }
    }
    spans.sort_unstable();
    spans.dedup();
    spans
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::config::Setting;
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
}
