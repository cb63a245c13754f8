//! A word as a program gets it, as far as that is known.

use super::flow::{Flow, Sources};
use super::verdict::Arg;
use crate::effect::Span;

/// One argument.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Given {
    /// Its text; unknown parts stand as `$name` or `$(…)`.
    pub text: String,
    /// Whether `text` is exactly what the program gets.
    pub exact: bool,
    /// Whether it holds active wildcards.
    pub glob: bool,
    /// Its text as the shell looks for it, where patterns with alternatives are in it.
    pub sought: Option<String>,
    /// Whether it may become no argument, or several.
    pub many: bool,
    /// Where its unknown parts come from.
    pub from: Sources,
    /// What a reader of this file name gets, for process substitutions.
    pub content: Option<Box<Flow>>,
    /// Where it stands.
    pub span: Span,
}

impl Given {
    /// A word that is wholly known.
    pub(crate) fn known(text: impl Into<String>, span: Span) -> Given {
        Given {
            text: text.into(),
            exact: true,
            span,
            ..Given::default()
        }
    }

    /// A name that a wildcard found in the working folder before: it stands for itself. Elsewhere
    /// are the programs that everybody has: `/bin/r?`.
    pub(crate) fn found(&mut self, folder: Option<&str>) {
        let within = folder.is_some_and(|folder| folder.len() > 1 && self.text.starts_with(folder));
        if self.glob && (within || !self.text.starts_with(['/', '.', '~'])) {
            self.exact = true;
            self.glob = false;
        }
    }

    /// A word of which nothing is known.
    pub(crate) fn unknown(span: Span) -> Given {
        Given {
            text: "$?".to_owned(),
            from: Sources::UNKNOWN,
            many: true,
            span,
            ..Given::default()
        }
    }

    /// The same word with other text, for a part of it.
    pub(crate) fn part(&self, text: &str) -> Given {
        Given {
            text: text.to_owned(),
            exact: self.exact,
            glob: self.glob,
            sought: None,
            many: self.many,
            from: self.from,
            content: None,
            span: self.span,
        }
    }

    /// Its text, when it is wholly known.
    pub(crate) fn literal(&self) -> Option<&str> {
        self.exact.then_some(self.text.as_str())
    }

    /// Whether it could turn out to be an option.
    pub(crate) fn may_be_option(&self) -> bool {
        !self.exact && self.text.starts_with('$')
    }

    /// What flows out of it when its text is used as text.
    pub(crate) fn flow(&self) -> Flow {
        Flow {
            text: self.literal().map(str::to_owned),
            from: self.from,
            // A pattern stands for what it finds.
            partly: self.glob.then(|| self.text.clone()),
        }
    }

    /// As it is told to others.
    pub(crate) fn to_arg(&self) -> Arg {
        Arg {
            text: self.text.clone(),
            exact: self.exact,
            glob: self.glob,
            span: self.span,
        }
    }
}
