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
        // A name with anything beside it is another name.
        let empty = |flow: &Flow| flow.text.as_deref() == Some("");
        let alone = empty(&self) || empty(other);
        self.text = match (self.text.take(), &other.text) {
            (Some(one), Some(two)) if one.len() + two.len() <= MAX_TEXT => Some(one + two),
            _ => {
                self.from = self.from.with(Sources::PROGRAM);
                None
            }
        };
        self.from = self.from.with(other.from);
        if !alone {
            self.from = self.from.without(Sources::SCRATCH);
        }
        self
    }

    /// One or the other: unless they are the same, only where they come from is known.
    pub(crate) fn or(self, other: &Flow) -> Flow {
        if self == *other {
            return self;
        }
        let from = self.from.with(other.from).with(Sources::PROGRAM);
        Flow::of(from.without(Sources::SCRATCH))
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
    /// The name of something temporary that is nobody else's: `$TMPDIR`, what `mktemp` made.
    pub(crate) const SCRATCH: Sources = Sources(128);

    pub(crate) const fn with(self, other: Sources) -> Sources {
        Sources(self.0 | other.0)
    }

    pub(crate) const fn without(self, other: Sources) -> Sources {
        Sources(self.0 & !other.0)
    }

    pub(crate) const fn has(self, other: Sources) -> bool {
        self.0 & other.0 != 0
    }
}
