//! A yardstick for the parser: every program a script may start and every file its
//! redirections may write, as far as the tree and constant folding tell. What they do
//! not tell is a gap. Real bash must never start or write anything that is in neither.
#![allow(dead_code)]

mod builtin;

use std::collections::{BTreeSet, HashMap, HashSet};

use sjail_policy::shell::fold::{Completeness, Environment, Field, Piece, Value};
use sjail_policy::shell::walk::{self, Node};
use sjail_policy::shell::word::{Arithmetic, Operation, Subscript};
use sjail_policy::shell::{
    Assignment, Command, CommandKind, List, Parameter, Part, PartKind, Pipeline, Reason, Redirect,
    RedirectTarget, Script, Simple, Word, parse, parse_arithmetic,
};

/// What a script may do.
#[derive(Default, Debug)]
pub struct Survey {
    /// Base names of programs.
    pub names: BTreeSet<Vec<u8>>,
    /// Targets of redirections that write.
    pub writes: BTreeSet<Vec<u8>>,
    /// Every literal argument: a program may write a file that it was given.
    pub arguments: BTreeSet<Vec<u8>>,
    /// Why something about the commands is not known.
    pub gaps: Vec<String>,
    /// Whether some argument is not known.
    pub unknown_argument: bool,
    /// Whether it sources a file from elsewhere.
    pub foreign: bool,
    /// Whether the target of some redirection is not known.
    pub unknown_write: bool,
}

/// Surveys a source.
pub fn survey(source: &[u8]) -> Survey {
    let mut surveyor = Surveyor::new();
    surveyor.source(source);
    surveyor.survey
}

pub struct Surveyor {
    pub survey: Survey,
    pub environment: Environment,
    /// How often each variable is assigned, anywhere.
    sites: HashMap<Vec<u8>, usize>,
    /// Variables that some function assigns.
    volatile: HashSet<Vec<u8>>,
    functions: HashSet<Vec<u8>>,
    pub aliases: HashMap<Vec<u8>, Vec<u8>>,
    active_aliases: Vec<Vec<u8>>,
    sources: Vec<Vec<u8>>,
}

impl Surveyor {
    fn new() -> Self {
        Surveyor {
            survey: Survey::default(),
            environment: Environment::default(),
            sites: HashMap::new(),
            volatile: HashSet::new(),
            functions: HashSet::new(),
            aliases: HashMap::new(),
            active_aliases: Vec::new(),
            sources: Vec::new(),
        }
    }

    pub fn gap(&mut self, why: impl Into<String>) {
        self.survey.gaps.push(why.into());
    }

    /// Text that is run as a script in this shell.
    pub fn source(&mut self, source: &[u8]) {
        if self.sources.len() > 8 {
            return self.gap("scripts in scripts, too deep");
        }
        let script = parse(source);
        for (name, count) in assigned(&script) {
            *self.sites.entry(name).or_default() += count;
        }
        walk::each(&script, &mut |node| {
            if let Node::Command(Command {
                kind: CommandKind::Function(function),
                ..
            }) = node
            {
                self.functions.insert(function.name.clone());
                let mut names = HashMap::new();
                walk::each_in_command(&function.body, &mut |node| assigns(node, &mut names));
                self.volatile.extend(names.into_keys());
            }
        });
        self.sources.push(source.to_vec());
        self.script(&script);
        self.sources.pop();
    }

    fn script(&mut self, script: &Script) {
        for list in &script.lists {
            self.list(list);
        }
    }

    fn list(&mut self, list: &List) {
        self.pipeline(&list.first);
        for (_, pipeline) in &list.rest {
            self.perhaps(|s| s.pipeline(pipeline));
        }
    }

    fn pipeline(&mut self, pipeline: &Pipeline) {
        match pipeline.commands.as_slice() {
            [command] => self.command(command),
            commands => {
                for command in commands {
                    self.perhaps(|s| s.command(command));
                }
            }
        }
    }

    /// Something that may run or not, or whose variables may survive it or not.
    pub fn perhaps(&mut self, act: impl FnOnce(&mut Self)) {
        let mark = self.environment.mark();
        act(self);
        let changes = self.environment.undo(mark);
        self.environment.join(&[changes, HashMap::new()]);
    }

    /// Something that may run any number of times.
    fn repeatedly(&mut self, scripts: &[&Script], act: impl FnOnce(&mut Self)) {
        for script in scripts {
            for name in assigned(script).into_keys() {
                let old = self.environment.get(&name).cloned().unwrap_or_default();
                self.environment.set(&name, old.or(&Value::unknown()));
            }
        }
        self.perhaps(act);
    }

    fn command(&mut self, command: &Command) {
        match &command.kind {
            CommandKind::Simple(simple) => self.simple(simple, command),
            CommandKind::Subshell(script) => self.perhaps(|s| s.script(script)),
            CommandKind::Group(script) => self.script(script),
            CommandKind::If(command) => self.branches(command),
            CommandKind::While(command) => {
                self.repeatedly(&[&command.condition, &command.body], |s| {
                    s.script(&command.condition);
                    s.script(&command.body);
                });
            }
            CommandKind::For(command) => {
                let words = command.words.as_deref().unwrap_or_default();
                self.words(words);
                let value = self.one_of(command.words.as_deref());
                self.repeatedly(&[&command.body], |s| {
                    s.set(&command.variable, value);
                    s.script(&command.body);
                });
            }
            CommandKind::ArithmeticFor(command) => {
                self.arithmetic(&command.header);
                self.repeatedly(&[&command.body], |s| s.script(&command.body));
            }
            CommandKind::Case(command) => {
                self.word(&command.subject);
                for arm in &command.arms {
                    self.words(&arm.patterns);
                    self.perhaps(|s| s.script(&arm.body));
                }
            }
            CommandKind::Function(function) => {
                let names: Vec<_> = self.sites.clone().into_iter().collect();
                self.perhaps(|s| {
                    for (name, _) in names.iter().filter(|(_, count)| *count > 1) {
                        s.environment.set(name, Value::unknown());
                    }
                    s.command(&function.body);
                });
            }
            CommandKind::Coprocess(coprocess) => self.perhaps(|s| s.command(&coprocess.body)),
            CommandKind::Arithmetic(expression) => self.arithmetic(expression),
            CommandKind::Test(test) => {
                for word in &test.words {
                    self.word(word);
                    if let Some(text) = word.literal() {
                        self.evaluated(&text);
                    }
                }
            }
            CommandKind::Opaque(opaque) => self.gap(opaque.reason.to_string()),
        }
        for redirect in &command.redirects {
            self.redirect(redirect);
        }
    }

    fn branches(&mut self, command: &sjail_policy::shell::ast::If) {
        let mut taken = Vec::new();
        for (i, (condition, body)) in command.branches.iter().enumerate() {
            match i {
                0 => self.script(condition),
                _ => self.perhaps(|s| s.script(condition)),
            }
            let mark = self.environment.mark();
            self.script(body);
            taken.push(self.environment.undo(mark));
        }
        let mark = self.environment.mark();
        if let Some(script) = &command.otherwise {
            self.script(script);
        }
        taken.push(self.environment.undo(mark));
        self.environment.join(&taken);
    }

    /// What a loop variable may hold.
    fn one_of(&mut self, words: Option<&[Word]>) -> Value {
        let mut value: Option<Value> = None;
        for field in self.environment.argv(words.unwrap_or_default()).concat() {
            let next = match field.literal() {
                Some(text) => Value::known(text),
                None => Value::unknown(),
            };
            value = Some(match value {
                Some(value) => value.or(&next),
                None => next,
            });
        }
        value.unwrap_or_default()
    }

    pub fn set(&mut self, name: &[u8], mut value: Value) {
        if self.volatile.contains(name) {
            value.completeness = Completeness::Open;
        }
        self.environment.set(name, value);
    }

    fn simple(&mut self, simple: &Simple, command: &Command) {
        if simple.words.is_empty() {
            for assignment in &simple.assignments {
                self.assignment(assignment);
            }
        } else {
            // Only for the command's own time; but a builtin may keep it.
            self.perhaps(|s| {
                for assignment in &simple.assignments {
                    s.assignment(assignment);
                }
            });
        }
        self.words(&simple.words);
        if let Some(first) = simple.words.first()
            && let Some(name) = first.plain()
        {
            self.alias(name, first, command);
        }
        if simple.words.is_empty() {
            return;
        }
        for argv in self.environment.argv(&simple.words) {
            self.run(&argv, command);
        }
    }

    fn assignment(&mut self, assignment: &Assignment) {
        if let Some(subscript) = &assignment.subscript {
            self.word(subscript);
            if let Some(text) = subscript.literal() {
                self.evaluated(&text);
            }
        }
        self.word(&assignment.value);
        if [&b"BASH_ALIASES"[..], b"BASH_CMDS"].contains(&assignment.name.as_slice()) {
            self.gap("changes what a command's name means");
        }
        self.environment.assign(assignment);
        if let Some(value) = self.environment.get(&assignment.name).cloned() {
            for pieces in &value.alternatives {
                if let [Piece::Text(text)] = pieces.as_slice() {
                    self.evaluated(text);
                    if assignment.name.starts_with(b"PS") {
                        self.expanded(text);
                    }
                    if assignment.name.ends_with(b"ENV") || assignment.name == b"PROMPT_COMMAND" {
                        self.expanded(text);
                        self.perhaps(|s| s.source(text));
                    }
                }
            }
            self.set(&assignment.name, value);
        }
    }

    /// Text that may come to be an arithmetic expression or a subscripted name.
    pub fn evaluated(&mut self, text: &[u8]) {
        let Some(bracket) = text.iter().position(|&b| b == b'[') else {
            return;
        };
        let rest = &text[bracket..];
        if rest.contains(&b'`') || rest.windows(2).any(|w| w == b"$(") {
            self.expanded(text);
        }
    }

    /// Text that is expanded like a here-document.
    fn expanded(&mut self, text: &[u8]) {
        let expression = parse_arithmetic(text);
        self.perhaps(|s| s.arithmetic(&expression));
    }

    fn words(&mut self, words: &[Word]) {
        for word in words {
            self.word(word);
        }
    }

    /// The substitutions inside a word.
    fn word(&mut self, word: &Word) {
        self.parts(&word.parts);
    }

    fn arithmetic(&mut self, expression: &Arithmetic) {
        self.parts(&expression.parts);
        for part in &expression.parts {
            if let PartKind::Plain(text) = &part.kind {
                for name in identifiers(text) {
                    self.environment.set(name, Value::unknown());
                }
            }
        }
    }

    fn parts(&mut self, parts: &[Part]) {
        for part in parts {
            match &part.kind {
                PartKind::Double(inner, _) => self.parts(inner),
                PartKind::Parameter(parameter) => self.parameter(parameter),
                PartKind::Command(script, _) | PartKind::Process(script, _) => {
                    self.perhaps(|s| s.script(script));
                }
                PartKind::Arithmetic(expression) => self.arithmetic(expression),
                PartKind::ExtendedGlob(_, words) | PartKind::Braces(words) => self.words(words),
                PartKind::Array(elements) => {
                    for element in elements {
                        if let Some(key) = &element.key {
                            self.word(key);
                            self.evaluated(&key.literal().unwrap_or_default());
                        }
                        self.word(&element.value);
                        self.evaluated(&element.value.literal().unwrap_or_default());
                    }
                }
                PartKind::Opaque(opaque) => self.gap(opaque.reason.to_string()),
                _ => {}
            }
        }
    }

    fn parameter(&mut self, parameter: &Parameter) {
        if let Some(Subscript::Index(word)) = &parameter.subscript {
            self.word(word);
        }
        match &parameter.operation {
            Operation::Assign(word) => {
                self.word(word);
                if let Some(text) = word.literal() {
                    self.evaluated(&text);
                }
                let old = self.environment.get(&parameter.name).cloned();
                let value = old.unwrap_or_default().or(&self.environment.value(word));
                self.set(&parameter.name, value.or(&Value::unknown()));
            }
            Operation::Default(word)
            | Operation::Require(word)
            | Operation::Alternative(word)
            | Operation::Trim(word)
            | Operation::Case(word) => {
                self.word(word);
                self.evaluated(&word.literal().unwrap_or_default());
            }
            Operation::Replace(pattern, replacement) => {
                self.word(pattern);
                if let Some(word) = replacement {
                    self.word(word);
                }
            }
            Operation::Substring(expression) => self.arithmetic(expression),
            Operation::Transform(b'P') => self.gap("a value expanded like a prompt"),
            _ => {}
        }
    }

    fn redirect(&mut self, redirect: &Redirect) {
        let word = match &redirect.target {
            RedirectTarget::Document(word) => return self.word(word),
            RedirectTarget::Word(word) => word,
        };
        self.word(word);
        if !redirect.operator.writes() {
            return;
        }
        for argv in self.environment.argv(std::slice::from_ref(word)) {
            for field in argv {
                match path(&field) {
                    Some(text) => {
                        self.survey.writes.insert(text);
                    }
                    None => self.survey.unknown_write = true,
                }
            }
        }
    }

    /// Aliases work line by line and may change the grammar: the command is read again
    /// with the alias in place, and counts both ways.
    fn alias(&mut self, name: &[u8], first: &Word, command: &Command) {
        if self.active_aliases.iter().any(|active| active == name) {
            return;
        }
        let Some(value) = self.aliases.get(name).cloned() else {
            return;
        };
        if value.ends_with(b" ") || value.ends_with(b"\t") || value.contains(&b'\n') {
            return self.gap("an alias that reaches beyond its word");
        }
        let source = self.sources.last().cloned().unwrap_or_default();
        let rest = source
            .get(first.span.end as usize..command.span.end as usize)
            .unwrap_or_default();
        let text = [value.as_slice(), b" ", rest].concat();
        self.active_aliases.push(name.to_vec());
        self.perhaps(|s| s.source(&text));
        self.active_aliases.pop();
    }

    fn run(&mut self, argv: &[Field], command: &Command) {
        let Some((first, arguments)) = argv.split_first() else {
            return;
        };
        let Some(name) = program(first) else {
            let why = Reason::Unknown("a command's name");
            return self.gap(format!("{why}: {:?}", first.pieces));
        };
        for argument in arguments {
            match path(argument) {
                Some(text) => drop(self.survey.arguments.insert(text)),
                None => self.survey.unknown_argument = true,
            }
        }
        let base = base(&name).to_vec();
        let wrote = |path: &[u8]| self.survey.writes.contains(path);
        if wrote(&name) || wrote(&base) {
            self.gap("runs a file that it wrote");
        }
        self.survey.names.insert(base.clone());
        let function = self.functions.contains(&base);
        self.builtin(&base, arguments, command, function);
    }
}

/// The text of a field in which only the environment's own values are unknown.
fn path(field: &Field) -> Option<Vec<u8>> {
    field.literal().map(<[u8]>::to_vec)
}

/// The program a field names: known, or known behind its last slash.
pub fn program(field: &Field) -> Option<Vec<u8>> {
    if let Some(text) = field.literal() {
        return Some(text.to_vec());
    }
    let (last, before) = field.pieces.split_last()?;
    let Piece::Text(text) = last else { return None };
    let given = before
        .iter()
        .all(|piece| matches!(piece, Piece::Text(_) | Piece::Tilde(_) | Piece::Variable(_)));
    let slash = text.iter().rposition(|&b| b == b'/')?;
    given.then(|| text[slash + 1..].to_vec())
}

pub fn base(name: &[u8]) -> &[u8] {
    let slash = name.iter().rposition(|&b| b == b'/');
    match slash {
        Some(slash) if slash + 1 < name.len() => &name[slash + 1..],
        _ => name,
    }
}

/// The variables a script assigns, with the number of places.
fn assigned(script: &Script) -> HashMap<Vec<u8>, usize> {
    let mut names = HashMap::new();
    walk::each(script, &mut |node| assigns(node, &mut names));
    names
}

fn assigns(node: Node, names: &mut HashMap<Vec<u8>, usize>) {
    let mut add = |name: &[u8]| *names.entry(name.to_vec()).or_default() += 1;
    match node {
        Node::Command(command) => match &command.kind {
            CommandKind::Simple(simple) => {
                for assignment in &simple.assignments {
                    add(&assignment.name);
                }
                let first = simple.words.first().and_then(Word::literal);
                if first.is_none_or(|name| builtin::ASSIGNS.contains(&name.as_slice())) {
                    for word in &simple.words {
                        let Some(PartKind::Plain(text) | PartKind::Quoted(text)) =
                            word.parts.first().map(|part| &part.kind)
                        else {
                            continue;
                        };
                        identifiers(text).into_iter().for_each(&mut add);
                    }
                }
            }
            CommandKind::For(command) => add(&command.variable),
            CommandKind::Arithmetic(expression) => {
                for part in &expression.parts {
                    if let PartKind::Plain(text) = &part.kind {
                        identifiers(text).into_iter().for_each(&mut add);
                    }
                }
            }
            _ => {}
        },
        Node::Part(Part {
            kind: PartKind::Parameter(parameter),
            ..
        }) if matches!(parameter.operation, Operation::Assign(_)) => add(&parameter.name),
        _ => {}
    }
}

pub fn identifiers(text: &[u8]) -> Vec<&[u8]> {
    text.split(|b| !b.is_ascii_alphanumeric() && *b != b'_')
        .filter(|name| name.first().is_some_and(|b| !b.is_ascii_digit()))
        .collect()
}
