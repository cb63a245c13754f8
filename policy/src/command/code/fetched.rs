//! Files that a source fetches: whoever runs them later in the line runs what the network sends.

use super::carried::texts;
use super::{Look, Means};
use crate::classify::flow::{Flow, Sources};
use crate::classify::given::Given;

/// Longer sources are programs, not lines.
const MAX_SOURCE: usize = 16 * 1024;
/// More statements than this are not looked at.
const MAX_STATEMENTS: usize = 256;

impl Look<'_, '_> {
    /// Remembers the files that a statement fills from the network.
    pub(super) fn fetched(&mut self) {
        let source = self.source.text.as_str();
        let holds = |look: &Self, text: &str, means: Means| {
            look.patterns(means).any(|pattern| text.contains(pattern))
        };
        let fetches = holds(self, source, Means::Fetch);
        let writes = holds(self, source, Means::Network)
            && (holds(self, source, Means::Write) || holds(self, source, Means::Open));
        if source.len() > MAX_SOURCE || !(fetches || writes) {
            return;
        }
        let mut files = Vec::new();
        for statement in source.split(['\n', ';']).take(MAX_STATEMENTS) {
            let fills = fetches && holds(self, statement, Means::Fetch)
                || writes
                    && holds(self, statement, Means::Network)
                    && (holds(self, statement, Means::Write)
                        || holds(self, statement, Means::Open));
            if fills {
                files.extend(
                    texts(statement)
                        .map(|(_, text)| text)
                        .filter(|text| is_file(text)),
                );
            }
        }
        for file in files {
            let given = Given::known(file, self.source.span);
            if let Some(path) = self.judge.target(&given, &self.state.cwd).resolved {
                let files = &mut self.judge.traces.files;
                files.insert(path, Flow::of(Sources::NETWORK));
            }
        }
    }
}

/// Whether a text may be the name of a file, and no address or mode.
fn is_file(text: &str) -> bool {
    let plain = !text.contains(|c: char| c.is_whitespace() || "(){}<>=".contains(c));
    let mode = matches!(
        text,
        "w" | "wb" | "w+" | "a" | "ab" | "r" | "rb" | "x" | "xb"
    );
    plain && !text.is_empty() && !mode && !text.contains("://")
}
