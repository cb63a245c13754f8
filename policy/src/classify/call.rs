//! A command with what surrounds it.

use std::rc::Rc;

use super::flow::Flow;
use super::given::Given;
use super::verdict::Redirect;
use crate::effect::Span;

/// One command about to be judged.
#[derive(Debug, Clone, Default)]
pub(crate) struct Call {
    /// Its words, the program's name first.
    pub args: Vec<Given>,
    /// Assignments before it.
    pub assignments: Vec<Given>,
    /// Its redirections.
    pub redirects: Vec<Redirect>,
    /// What it reads on its standard input.
    pub stdin: Rc<Flow>,
    /// Whether its input or output is a raw network connection.
    pub connected: bool,
    /// What it runs under, outermost first.
    pub wrappers: Vec<String>,
    /// Where it stands.
    pub span: Span,
}

impl Call {
    /// The command behind a wrapper: the words from `first` on.
    pub(crate) fn inner(&self, first: usize, wrapper: &str) -> Call {
        self.with_args(self.args.get(first..).unwrap_or_default().to_vec(), wrapper)
    }

    /// Another command under a wrapper.
    pub(crate) fn with_args(&self, args: Vec<Given>, wrapper: &str) -> Call {
        let mut wrappers = self.wrappers.clone();
        wrappers.push(wrapper.to_owned());
        Call {
            args,
            assignments: Vec::new(),
            redirects: Vec::new(),
            stdin: Rc::clone(&self.stdin),
            connected: self.connected,
            wrappers,
            span: self.span,
        }
    }
}
