//! Redirections: which files they open, and what flows through them.

use std::rc::Rc;

use super::flow::{Flow, Sources};
use super::given::Given;
use super::judge::{Call, Judge};
use super::state::State;
use super::verdict::{Redirect, RedirectKind};
use crate::effect::Place;
use crate::shell::ast::Descriptor;
use crate::shell::word::{Direction, PartKind};
use crate::shell::{self, RedirectOperator, RedirectTarget};

/// What the redirections of a command do to its input and output.
pub(crate) struct Io {
    pub redirects: Vec<Redirect>,
    pub stdin: Rc<Flow>,
    /// Whether input or output is a raw network connection.
    pub connected: bool,
    /// The file that gets its output.
    pub output: Option<String>,
    pub appends: bool,
}

/// More redirections than this of one command are not judged one by one.
const MAX_REDIRECTIONS: usize = 256;

impl Judge<'_> {
    pub(crate) fn redirections(
        &mut self,
        redirects: &[shell::Redirect],
        state: &mut State,
        around: &Call,
    ) -> Io {
        let mut io = Io {
            redirects: Vec::new(),
            stdin: Rc::clone(&around.stdin),
            connected: false,
            output: None,
            appends: false,
        };
        if redirects.len() > MAX_REDIRECTIONS {
            self.opaque("Too many redirections to judge", around.span);
        }
        for redirect in redirects.iter().take(MAX_REDIRECTIONS) {
            self.redirection(redirect, state, around, &mut io);
        }
        io
    }

    fn redirection(
        &mut self,
        redirect: &shell::Redirect,
        state: &mut State,
        around: &Call,
        io: &mut Io,
    ) {
        use RedirectOperator as Op;
        let word = match &redirect.target {
            RedirectTarget::Word(word) | RedirectTarget::Document(word) => word,
        };
        if feeds_a_process(word) {
            // What the command prints becomes the process's input; it is not known yet.
            let fed = Call {
                stdin: Flow::of(Sources::PROGRAM.with(Sources::UNKNOWN)).into(),
                ..around.clone()
            };
            self.expand(&word.parts, state, &fed);
        } else {
            self.expand(&word.parts, state, around);
        }
        let given = self.one(word, state);
        let span = self.span(redirect.span);
        let (kind, default) = match redirect.operator {
            Op::Read => (RedirectKind::Read, 0),
            Op::Write | Op::Clobber | Op::WriteBoth => (RedirectKind::Write, 1),
            Op::Append | Op::AppendBoth => (RedirectKind::Append, 1),
            Op::ReadWrite => (RedirectKind::ReadWrite, 0),
            Op::DuplicateInput => (RedirectKind::Duplicate, 0),
            Op::DuplicateOutput if is_descriptor(&given) => (RedirectKind::Duplicate, 1),
            Op::DuplicateOutput => (RedirectKind::Write, 1),
            Op::HereDocument | Op::HereString => (RedirectKind::Here, 0),
        };
        let descriptor = match &redirect.descriptor {
            None => default.to_string(),
            Some(Descriptor::Number(number)) => number.to_string(),
            Some(Descriptor::Variable(name)) => String::from_utf8_lossy(name).into_owned(),
        };
        let mut target = None;
        match kind {
            RedirectKind::Here => {
                let mut flow = Flow {
                    text: Some(given.text.clone()),
                    from: given.from,
                    ..Flow::default()
                };
                if redirect.operator == Op::HereString
                    && let Some(text) = &mut flow.text
                {
                    text.push('\n');
                }
                self.gives(descriptor, flow, io);
            }
            RedirectKind::Duplicate => {
                let source = given.text.trim_end_matches('-').trim_start_matches('$');
                let source = source.trim_start_matches('{').trim_end_matches('}');
                if state.network_descriptors.contains(source) {
                    io.connected = true;
                    if descriptor == "0" {
                        io.stdin = Flow::of(Sources::NETWORK).into();
                    }
                    state.network_descriptors.insert(descriptor);
                } else if redirect.operator == Op::DuplicateInput
                    && !matches!(source, "" | "0" | "1" | "2")
                {
                    let known = match coprocess(word) {
                        Some(name) => self.traces.coprocesses.get(name).cloned(),
                        None => self.traces.descriptors.get(source).cloned(),
                    };
                    let flow = known.unwrap_or_else(|| Flow::of(Sources::UNKNOWN));
                    self.gives(descriptor, flow, io);
                }
            }
            RedirectKind::Read
            | RedirectKind::Write
            | RedirectKind::Append
            | RedirectKind::ReadWrite => {
                if is_connection(&given.text) {
                    if matches!(descriptor.as_str(), "0" | "1" | "2") {
                        io.connected = true;
                    }
                    if matches!(kind, RedirectKind::Read | RedirectKind::ReadWrite)
                        && descriptor == "0"
                    {
                        io.stdin = Flow::of(Sources::NETWORK).into();
                    }
                    state.network_descriptors.insert(descriptor.clone());
                } else if matches!(kind, RedirectKind::Read | RedirectKind::ReadWrite) {
                    let flow = self.content(&given, &state.cwd);
                    self.gives(descriptor.clone(), flow, io);
                }
                let place = self.target(&given, &state.cwd);
                if matches!(kind, RedirectKind::Write | RedirectKind::Append)
                    && matches!(descriptor.as_str(), "1")
                    && place.place != Place::Sink
                {
                    io.output = place.resolved.clone();
                    io.appends = kind == RedirectKind::Append;
                } else if descriptor == "1"
                    && place.place == Place::Sink
                    && given.text == "/dev/null"
                {
                    io.output = Some("/dev/null".to_owned());
                }
                target = Some(place);
            }
        }
        io.redirects.push(Redirect { kind, target, span });
    }

    /// A descriptor gives something to read from now on.
    fn gives(&mut self, descriptor: String, flow: Flow, io: &mut Io) {
        if descriptor == "0" {
            io.stdin = flow.into();
        } else {
            self.traces.descriptors.insert(descriptor, flow);
        }
    }

    /// Hands a command's output to the file it goes to.
    pub(crate) fn deliver(
        &mut self,
        flow: Flow,
        output: Option<String>,
        appends: bool,
        call: &Call,
    ) -> Flow {
        let Some(path) = output else {
            return flow;
        };
        self.runs_later(&path, &flow, call);
        if flow.from.has(Sources::ENDLESS) && path != "/dev/null" {
            self.fills(call);
        }
        if self.traces.fifos.contains(&path) {
            let strange = Sources::FOREIGN.with(Sources::HIDDEN);
            self.traces.feeds_fifo |= flow.from.has(strange);
        }
        if path != "/dev/null" {
            let flow = match self.traces.files.remove(&path) {
                Some(before) if appends => before.and(&flow),
                // What it held before is not known.
                _ if appends => flow.unsure(),
                _ => flow,
            };
            self.traces.files.insert(path, flow);
        }
        Flow::literal("")
    }
}

/// bash's way to open a connection as if it were a file.
pub(crate) fn is_connection(path: &str) -> bool {
    path.starts_with("/dev/tcp/") || path.starts_with("/dev/udp/")
}

/// The array whose element a word is: `${COPROC[0]}` is what a coprocess prints.
fn coprocess(word: &shell::Word) -> Option<&[u8]> {
    let mut parts = word.parts.as_slice();
    if let [part] = parts
        && let PartKind::Double(inner, _) = &part.kind
    {
        parts = inner;
    }
    match &parts.first()?.kind {
        PartKind::Parameter(parameter) if parameter.subscript.is_some() => Some(&parameter.name),
        _ => None,
    }
}

/// `> >(command)`
pub(super) fn feeds_a_process(word: &shell::Word) -> bool {
    matches!(
        word.parts.as_slice(),
        [part] if matches!(part.kind, PartKind::Process(_, Direction::Write))
    )
}

fn is_descriptor(given: &Given) -> bool {
    let text = given.text.trim_end_matches('-');
    text.bytes().all(|b| b.is_ascii_digit()) || !given.exact
}
