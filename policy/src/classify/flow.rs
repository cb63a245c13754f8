//! What is known of text that moves through a line: pipes, variables, files, substitutions.

/// Where text comes from, and what it says when that is provable.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Flow {
    /// The text itself, when it is the same in every run.
    pub text: Option<String>,
    /// Where it comes from.
    pub from: Sources,
    /// What of it is known when the rest is not, line by line: that it holds these lines, not
    /// that it holds no others.
    pub partly: Option<String>,
}

impl Flow {
    /// Text that stands in the line.
    pub(crate) fn literal(text: impl Into<String>) -> Flow {
        Flow {
            text: Some(text.into()),
            ..Flow::default()
        }
    }

    /// Text of which only the origin is known.
    pub(crate) fn of(from: Sources) -> Flow {
        Flow {
            from,
            ..Flow::default()
        }
    }

    /// What of it is known, all or a part.
    pub(crate) fn seen(&self) -> Option<&str> {
        self.text.as_deref().or(self.partly.as_deref())
    }

    /// The same text where something may have been left out or put in between.
    pub(crate) fn unsure(mut self) -> Flow {
        if let Some(text) = self.text.take() {
            self.partly = Some(text);
        }
        self
    }

    /// Both together, one behind the other.
    pub(crate) fn and(mut self, other: &Flow) -> Flow {
        // A name with anything beside it is another name.
        let empty = |flow: &Flow| flow.text.as_deref() == Some("");
        let alone = empty(&self) || empty(other);
        self.text = match (self.text.take(), &other.text) {
            (Some(one), Some(two)) if one.len() + two.len() <= MAX_TEXT => Some(one + two),
            (one, two) => {
                self.from = self.from.with(Sources::PROGRAM);
                self.partly = beside(
                    one.or(self.partly.take()),
                    two.as_ref().or(other.partly.as_ref()),
                );
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

/// What is known of two texts, one behind the other.
fn beside(one: Option<String>, two: Option<&String>) -> Option<String> {
    let two = two.map_or("", String::as_str);
    match one {
        Some(mut one) if one.len() + two.len() < MAX_TEXT => {
            if !two.is_empty() {
                one.push('\n');
                one.push_str(two);
            }
            Some(one)
        }
        Some(one) => Some(one),
        None => (!two.is_empty()).then(|| two.to_owned()),
    }
}

/// Longer texts are not followed.
pub(crate) const MAX_TEXT: usize = 64 * 1024;

/// A set of origins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Sources(u16);

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
    /// Each line backwards: twice is as it was.
    pub(crate) const REVERSED: Sources = Sources(256);
    /// What a service on another machine keeps for us: an object of a bucket, a record of a name
    /// server, an entry of a cluster. Ordinary as data, a stranger's words when a shell runs it.
    pub(crate) const REMOTE: Sources = Sources(512);
    /// Text without an end.
    pub(crate) const ENDLESS: Sources = Sources(1024);
    /// Text that nobody could read where it came from.
    pub(crate) const HIDDEN: Sources = Sources::DECODED.with(Sources::REVERSED);
    /// Text of another machine.
    pub(crate) const FOREIGN: Sources = Sources::NETWORK.with(Sources::REMOTE);

    pub(crate) const fn with(self, other: Sources) -> Sources {
        Sources(self.0 | other.0)
    }

    pub(crate) const fn without(self, other: Sources) -> Sources {
        Sources(self.0 & !other.0)
    }

    pub(crate) const fn only(self, others: Sources) -> Sources {
        Sources(self.0 & others.0)
    }

    pub(crate) const fn has(self, other: Sources) -> bool {
        self.0 & other.0 != 0
    }
}
