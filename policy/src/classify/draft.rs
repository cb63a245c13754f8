//! A simple command while it is being judged.

use std::borrow::Cow;

use super::installs::Install;
use super::verdict::{Program, SimpleCommand};
use crate::command::knowledge::Kind;
use crate::effect::{Action, Effect, Span};
use crate::risk::Risk;

/// Effects and risk of one simple command, growing.
#[derive(Debug)]
pub(crate) struct Draft {
    pub program: Program,
    pub effects: Vec<Effect>,
    /// The package manager it is, when it fetches.
    pub install: Option<Install>,
    /// The risk that no effect stands for: an unknown program, an unlisted option.
    pub floor: Risk,
    /// The reason for the floor.
    pub notes: Vec<(Risk, Cow<'static, str>)>,
}

impl Draft {
    pub(crate) fn new(program: Program) -> Draft {
        Draft {
            program,
            effects: Vec::new(),
            install: None,
            floor: Risk::Safe,
            notes: Vec::new(),
        }
    }

    /// At least this risk, without a reason of its own.
    pub(crate) fn raise(&mut self, risk: Risk) {
        self.floor = self.floor.max(risk);
    }

    /// At least this risk, for this reason.
    pub(crate) fn note(&mut self, risk: Risk, says: impl Into<Cow<'static, str>>) {
        self.raise(risk);
        self.notes.push((risk, says.into()));
    }

    /// One more effect.
    pub(crate) fn effect(
        &mut self,
        action: Action,
        risk: Risk,
        reason: impl Into<Cow<'static, str>>,
        span: Span,
    ) {
        self.effects.push(Effect {
            action,
            risk,
            reason: reason.into(),
            span,
        });
    }

    /// An effect of a kind that carries nothing else.
    pub(crate) fn kind(&mut self, kind: Kind, risk: Risk, says: &'static str, span: Span) {
        let action = match kind {
            Kind::None => {
                if says.is_empty() {
                    self.raise(risk);
                } else {
                    self.note(risk, says);
                }
                return;
            }
            Kind::Network => Action::Network { host: None },
            Kind::Privilege => Action::Privilege,
            Kind::Persistence => Action::Persistence,
            Kind::SystemChange | Kind::Writes => Action::SystemChange,
            Kind::Publishes => Action::Publishes,
            Kind::Kills => Action::Kills,
            Kind::Discards | Kind::Deletes => Action::Discards,
            Kind::Runs => Action::Runs {
                program: self.program.name.clone(),
            },
            Kind::Opaque => Action::Opaque,
        };
        self.effect(action, risk.max(Risk::Normal), says, span);
    }

    /// A dry run: whatever was found is not done.
    pub(crate) fn calm(&mut self) {
        self.effects.retain(|effect| {
            !matches!(
                effect.action,
                Action::Writes(_) | Action::Deletes { .. } | Action::Discards
            )
        });
        for effect in &mut self.effects {
            effect.risk = effect.risk.min(Risk::Normal);
        }
        self.floor = self.floor.min(Risk::Normal);
        self.notes.retain(|(risk, _)| *risk <= Risk::Normal);
    }

    /// The strictest of all.
    pub(crate) fn risk(&self) -> Risk {
        self.effects
            .iter()
            .map(|effect| effect.risk)
            .fold(self.floor, Risk::max)
    }

    /// Every reason with its risk, in the order found.
    fn reasons(&self) -> Vec<(Risk, &str)> {
        let effects = self
            .effects
            .iter()
            .filter(|effect| !effect.reason.is_empty())
            .map(|effect| (effect.risk, effect.reason.as_ref()));
        let notes = self.notes.iter().map(|(risk, says)| (*risk, says.as_ref()));
        effects.chain(notes).collect()
    }

    /// Writes risk and reasons into the finished command.
    pub(crate) fn finish(self, command: &mut SimpleCommand) {
        command.risk = self.risk();
        command.reasons = gravest_first(self.reasons());
        command.program = self.program;
        command.effects = self.effects;
        command.install = self.install;
    }
}

/// Each phrase once, the gravest first, otherwise in the order found.
pub(crate) fn gravest_first(mut reasons: Vec<(Risk, &str)>) -> Vec<String> {
    reasons.sort_by_key(|reason| std::cmp::Reverse(reason.0));
    let mut out: Vec<String> = Vec::new();
    for (_, phrase) in reasons {
        if !out.iter().any(|known| known == phrase) {
            out.push(phrase.to_owned());
        }
    }
    out
}
