//! What is known of text that moves through a line: pipes, variables, files, substitutions.

/// Where text comes from, and what it says when that is provable.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Flow {
    /// The text itself, when it is the same in every run.
    pub text: Option<String>,
    /// Where it comes from.
    pub from: Sources,
}

impl Flow {
    /// Text that stands in the line.
    pub(crate) fn literal(text: impl Into<String>) -> Flow {
        Flow {
            text: Some(text.into()),
            from: Sources::NONE,
        }
    }

    /// Text of which only the origin is known.
    pub(crate) fn of(from: Sources) -> Flow {
        Flow { text: None, from }
    }

    /// Both together, one behind the other.
    pub(crate) fn and(mut self, other: &Flow) -> Flow {
        self.text = match (self.text.take(), &other.text) {
            (Some(one), Some(two)) if one.len() + two.len() <= MAX_TEXT => Some(one + two),
            _ => {
                self.from = self.from.with(Sources::PROGRAM);
                None
            }
        };
        self.from = self.from.with(other.from);
        self
    }

    /// Its text without the line ends a substitution drops.
    pub(crate) fn substituted(&self) -> Option<&str> {
        self.text.as_deref().map(|text| text.trim_end_matches('\n'))
    }
}

/// Longer texts are not followed.
pub(crate) const MAX_TEXT: usize = 64 * 1024;

/// A set of origins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Sources(u8);

impl Sources {
    /// Nothing but what the line itself says.
    pub(crate) const NONE: Sources = Sources(0);
    /// The network.
    pub(crate) const NETWORK: Sources = Sources(1);
    /// A decoder.
    pub(crate) const DECODED: Sources = Sources(2);
    /// A file on this machine.
    pub(crate) const FILE: Sources = Sources(4);
    /// A program on this machine.
    pub(crate) const PROGRAM: Sources = Sources(8);
    /// Keys, passwords, tokens.
    pub(crate) const SECRET: Sources = Sources(16);
    /// A named pipe.
    pub(crate) const FIFO: Sources = Sources(32);
    /// Nobody knows.
    pub(crate) const UNKNOWN: Sources = Sources(64);

    pub(crate) const fn with(self, other: Sources) -> Sources {
        Sources(self.0 | other.0)
    }

    pub(crate) const fn has(self, other: Sources) -> bool {
        self.0 & other.0 != 0
    }
}
