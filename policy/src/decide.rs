//! What happens to a command: its risk says what it is, the policy says what follows.
//!
//! The strictest word wins. A deny rule blocks, and nothing un-blocks; critical is blocked;
//! an ask rule asks even about what is allowed; only then do the level, the allow list and
//! the risk speak. Nothing here opens the jail: `execute` means "in the jail, without asking".

mod decision;
mod doubt;
#[cfg(test)]
mod tests;

pub use decision::{Action, Asking, DecidedBy, Decision, Place};
pub use doubt::{Allowing, Whose, allowing, doubt_programs};

use crate::classify::{Classification, SimpleCommand};
use crate::config::{Level, Policy, Sourced};
use crate::effect::{Action as Does, Span, Target};
use crate::risk::Risk;
use crate::rule::{Bases, Dots, Lift, Match, Operation, Rule};
use crate::show::inert;
use doubt::{doubts, without_doubt};

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
    if allowed.is_none() && verdict.action > Action::Execute {
        let doubts = doubts(&policy.allow, line);
        // On the list, but not for the program that is found: that says more.
        if doubts.is_empty() && verdict.action == Action::Block {
            verdict.reasons.extend(unlisted(&policy.allow, line));
        }
        verdict.reasons.extend(doubts);
    }
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

/// Every entry of a list that speaks of a line, whichever decides; also where it does not count
/// for the program that is found.
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
    let undoubted = without_doubt(line);
    let undoubted = undoubted.as_ref().unwrap_or(line);
    for (key, rules) in generous {
        let speaks = |rule: &&Sourced<Rule>| meets(&rule.value, line, bases) != Match::No;
        found.extend(rules.iter().filter(speaks).map(|rule| by_rule(key, rule)));
    }
    for (key, rules) in strict {
        let speaks = |rule: &&Sourced<Rule>| match &rule.value {
            Rule::Command(pattern) => pattern.strict(undoubted).is_some(),
            Rule::Path(_) => false,
        };
        found.extend(rules.iter().filter(speaks).map(|rule| by_rule(key, rule)));
    }
    found
}

/// Whether a place on the allow list is enough for a risk.
fn lifts(lift: Lift, risk: Risk) -> bool {
    match lift {
        Lift::Listed => risk <= Risk::Normal,
        Lift::Approved => risk <= Risk::Dangerous,
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

    /// Its owner has named it: that says more than the level or the risk that would ask, too.
    fn named_dangerous(&mut self, rule: &Sourced<Rule>, span: Span) {
        self.risk = self.risk.max(Risk::Dangerous);
        let by_a_list = matches!(self.rule, Some(DecidedBy::Rule { .. }));
        if self.action == Action::Ask && !by_a_list {
            self.rule = Some(by_rule("commands.ask", rule));
            self.spans.push(span);
        }
        self.reasons.push(match is_regex(&rule.value) {
            true => "Dangerous pattern".to_owned(),
            false => {
                let text = inert(rule.value.text().as_bytes());
                format!("On the ask list: {text}")
            }
        });
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
                verdict.reasons.push(match is_regex(&rule.value) {
                    // In words: the pattern itself stands in the rule.
                    true => "Dangerous pattern".to_owned(),
                    false => format!("On the deny list: {}", inert(rule.value.text().as_bytes())),
                });
                verdict.spans.push(span);
                verdict.raise(Action::Block, by_rule("commands.deny", rule));
                return;
            }
            Match::Perhaps(span) => {
                verdict.risk = verdict.risk.max(Risk::Dangerous);
                verdict.reasons.push(match is_regex(&rule.value) {
                    true => "May be a dangerous pattern".to_owned(),
                    false => format!(
                        "May fall under the deny rule: {}",
                        inert(rule.value.text().as_bytes())
                    ),
                });
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
            if !is_everything(&rule.value) {
                verdict.named_dangerous(rule, span);
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
    if lift.is_some_and(|lift| lifts(lift, line.risk)) {
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
    let entry = |command: &SimpleCommand| entry(rules, command);
    strictest_match(rules, line).or_else(|| {
        let all = line.commands.iter().all(|command| entry(command).is_some());
        let (first, true) = (line.commands.first()?, all && !line.is_opaque()) else {
            return None;
        };
        entry(first).map(|rule| (rule, Lift::Listed))
    })
}

/// The entry of a strict list for one command.
fn entry<'a>(rules: &'a [Sourced<Rule>], command: &SimpleCommand) -> Option<&'a Sourced<Rule>> {
    rules.iter().find(|rule| match &rule.value {
        Rule::Command(pattern) => pattern.strict_command(command).is_some(),
        Rule::Path(_) => false,
    })
}

/// Names the first command of a line that is not on the allow list.
fn unlisted(rules: &[Sourced<Rule>], line: &Classification) -> Option<String> {
    let command = line
        .commands
        .iter()
        .find(|command| entry(rules, command).is_none())?;
    let name = inert(command.program.typed.as_bytes());
    let why = match around(command).filter(|_| entry(rules, &alone(command)).is_some()) {
        Some(what) => format!("Command '{name}' in allowlist, but not {what}"),
        None => format!("Command '{name}' not in allowlist"),
    };
    (!name.is_empty()).then_some(why)
}

/// What is around a command that an allow list would have to name.
fn around(command: &SimpleCommand) -> Option<&'static str> {
    match command {
        command if !command.assignments.is_empty() => Some("with a variable in front"),
        command if !command.wrappers.is_empty() => Some("through another command"),
        command if !command.redirects.is_empty() => Some("with a redirection"),
        command if command.nesting > 0 => Some("inside another command"),
        _ => None,
    }
}

/// The same without what is around it.
fn alone(command: &SimpleCommand) -> SimpleCommand {
    SimpleCommand {
        assignments: Vec::new(),
        wrappers: Vec::new(),
        redirects: Vec::new(),
        nesting: 0,
        ..command.clone()
    }
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
            let dots = dots(line);
            let effects = line.commands.iter().flat_map(|command| &command.effects);
            for effect in effects {
                let touched = touches(&effect.action)
                    .filter(|(operation, _)| rule.concerns(*operation))
                    .and_then(|(_, target)| target.sought());
                // The shell looks for the target of a redirection, too.
                if touched.is_some_and(|path| {
                    let pattern = &rule.pattern;
                    pattern.could_cover(path.as_bytes(), bases, dots)
                }) {
                    return Match::Yes(effect.span);
                }
            }
            Match::No
        }
    }
}

/// Whether a shell of the line is told that wildcards find names with a dot before them, too.
fn dots(line: &Classification) -> Dots {
    const NAMES: [&str; 3] = ["dotglob", "globdots", "glob_dots"];
    let mut words = line.commands.iter().flat_map(|command| &command.argv);
    // One word for it, alone or in a list of a few.
    let tells = |text: &str| {
        let text = text.get(..text.len().min(64)).unwrap_or_default();
        let text = text.to_ascii_lowercase();
        NAMES.iter().any(|name| text.contains(name))
    };
    match words.any(|word| tells(&word.text)) {
        true => Dots::Show,
        false => Dots::Hide,
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

fn is_regex(rule: &Rule) -> bool {
    matches!(rule, Rule::Command(pattern) if pattern.is_regex())
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
