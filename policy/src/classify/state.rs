//! What a line has done so far, as far as later parts of it depend on it.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::flow::{Flow, Sources};
use super::given::Given;
use crate::effect::Span;
use crate::shell::Command;
use crate::shell::fold::{Environment, Value};

/// The working directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cwd {
    /// Absolute and normalised.
    Known(String),
    /// It hangs on something that is only known when it runs.
    Unknown,
}

impl Cwd {
    /// The path, when it is known.
    pub(crate) fn path(&self) -> Option<&str> {
        match self {
            Cwd::Known(path) => Some(path),
            Cwd::Unknown => None,
        }
    }
}

/// The memory of one shell.
#[derive(Debug)]
pub(crate) struct State {
    /// Where it stands.
    pub cwd: Cwd,
    /// Its variables.
    pub variables: Environment,
    /// Where the values of its variables come from.
    pub taints: HashMap<Vec<u8>, Sources>,
    /// Its functions, and whether somebody called them.
    pub functions: HashMap<String, Function>,
    /// The functions that the branch or subshell at hand has defined.
    pub defined: Vec<String>,
    /// Its aliases.
    pub aliases: HashMap<String, String>,
    /// The arguments of the function or script that runs.
    pub positional: Option<Rc<Vec<Given>>>,
    /// Descriptors that are tied to the network.
    pub network_descriptors: HashSet<String>,
}

/// A function of the line.
#[derive(Debug, Clone)]
pub(crate) struct Function {
    /// What it does.
    pub body: Rc<Command>,
    /// Where the text that defines it stands, if that is not the line itself.
    pub frame: Option<Span>,
    /// Whether it was judged at a call.
    pub called: bool,
    /// Whether a call surely means it: not unset, not defined where it may not have been, and
    /// no program of that name known.
    pub certain: bool,
}

/// What the line has left behind outside its shells: files it wrote, pipes it made.
#[derive(Debug, Default)]
pub(crate) struct Traces {
    /// What it wrote into files, by resolved path.
    pub files: HashMap<String, Flow>,
    /// Named pipes it made.
    pub fifos: HashSet<String>,
    /// What its descriptors beyond the first three give to read.
    pub descriptors: HashMap<String, Flow>,
    /// What its coprocesses print, by their names.
    pub coprocesses: HashMap<Vec<u8>, Flow>,
    /// Whether what another machine sends, or a decoder prints, goes into a named pipe.
    pub feeds_fifo: bool,
}

impl State {
    /// The arguments of the script or function are no longer known.
    pub(crate) fn forget_arguments(&mut self) {
        for number in 1..10 {
            self.variables
                .set(number.to_string().as_bytes(), Value::unknown());
        }
        self.positional = None;
    }

    /// A shell that this one starts: it keeps nothing but the connections.
    pub(crate) fn below(&self, cwd: Cwd) -> State {
        State {
            network_descriptors: self.network_descriptors.clone(),
            ..State::new(cwd)
        }
    }

    /// A fresh shell in a folder.
    pub(crate) fn new(cwd: Cwd) -> State {
        State {
            cwd,
            variables: Environment::default(),
            taints: HashMap::new(),
            functions: HashMap::new(),
            defined: Vec::new(),
            aliases: HashMap::new(),
            positional: None,
            network_descriptors: HashSet::new(),
        }
    }
}
