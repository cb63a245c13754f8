//! Every node of a script, whatever it stands in.

use super::ast::{Command, CommandKind, Opaque, Redirect, RedirectTarget, Script};
use super::word::{Arithmetic, Operation, Parameter, Part, PartKind, Subscript, Word};

/// A node that [`each`] comes by.
#[derive(Clone, Copy, Debug)]
pub enum Node<'a> {
    /// A command, before what is inside it.
    Command(&'a Command),
    /// A redirection, before its target.
    Redirect(&'a Redirect),
    /// A word, before its parts.
    Word(&'a Word),
    /// A part of a word, before what is inside it.
    Part(&'a Part),
    /// Something that could not be read.
    Opaque(&'a Opaque),
}

/// Visits every node in source order, those inside substitutions included.
pub fn each<'a>(script: &'a Script, visit: &mut dyn FnMut(Node<'a>)) {
    for list in &script.lists {
        for command in list.pipelines().flat_map(|pipeline| &pipeline.commands) {
            each_in_command(command, visit);
        }
    }
}

/// Everything opaque in a script.
pub fn opaque(script: &Script) -> Vec<&Opaque> {
    let mut found = Vec::new();
    each(script, &mut |node| {
        if let Node::Opaque(opaque) = node {
            found.push(opaque);
        }
    });
    found
}

/// Visits a command and every node inside it.
pub fn each_in_command<'a>(command: &'a Command, visit: &mut dyn FnMut(Node<'a>)) {
    visit(Node::Command(command));
    match &command.kind {
        CommandKind::Simple(simple) => {
            for assignment in &simple.assignments {
                if let Some(subscript) = &assignment.subscript {
                    each_in_word(subscript, visit);
                }
                each_in_word(&assignment.value, visit);
            }
            words(&simple.words, visit);
        }
        CommandKind::Subshell(script) | CommandKind::Group(script) => each(script, visit),
        CommandKind::If(command) => {
            for (condition, body) in &command.branches {
                each(condition, visit);
                each(body, visit);
            }
            if let Some(script) = &command.otherwise {
                each(script, visit);
            }
        }
        CommandKind::While(command) => {
            each(&command.condition, visit);
            each(&command.body, visit);
        }
        CommandKind::For(command) => {
            words(command.words.as_deref().unwrap_or_default(), visit);
            each(&command.body, visit);
        }
        CommandKind::ArithmeticFor(command) => {
            arithmetic(&command.header, visit);
            each(&command.body, visit);
        }
        CommandKind::Case(command) => {
            each_in_word(&command.subject, visit);
            for arm in &command.arms {
                words(&arm.patterns, visit);
                each(&arm.body, visit);
            }
        }
        CommandKind::Function(function) => each_in_command(&function.body, visit),
        CommandKind::Coprocess(coprocess) => each_in_command(&coprocess.body, visit),
        CommandKind::Arithmetic(expression) => arithmetic(expression, visit),
        CommandKind::Test(test) => words(&test.words, visit),
        CommandKind::Opaque(opaque) => visit(Node::Opaque(opaque)),
    }
    for redirect in &command.redirects {
        visit(Node::Redirect(redirect));
        match &redirect.target {
            RedirectTarget::Word(word) | RedirectTarget::Document(word) => {
                each_in_word(word, visit);
            }
        }
    }
}

fn words<'a>(words: &'a [Word], visit: &mut dyn FnMut(Node<'a>)) {
    for word in words {
        each_in_word(word, visit);
    }
}

/// Visits a word and every node inside it.
pub fn each_in_word<'a>(word: &'a Word, visit: &mut dyn FnMut(Node<'a>)) {
    visit(Node::Word(word));
    parts(&word.parts, visit);
}

fn arithmetic<'a>(expression: &'a Arithmetic, visit: &mut dyn FnMut(Node<'a>)) {
    parts(&expression.parts, visit);
}

/// Visits parts and every node inside them.
pub fn parts<'a>(parts: &'a [Part], visit: &mut dyn FnMut(Node<'a>)) {
    for part in parts {
        visit(Node::Part(part));
        match &part.kind {
            PartKind::Double(inner, _) => self::parts(inner, visit),
            PartKind::Parameter(parameter) => self::parameter(parameter, visit),
            PartKind::Command(script, _) | PartKind::Process(script, _) => each(script, visit),
            PartKind::Arithmetic(expression) => arithmetic(expression, visit),
            PartKind::ExtendedGlob(_, inner) | PartKind::Braces(inner) => words(inner, visit),
            PartKind::Array(elements) => {
                for element in elements {
                    if let Some(key) = &element.key {
                        each_in_word(key, visit);
                    }
                    each_in_word(&element.value, visit);
                }
            }
            PartKind::Opaque(opaque) => visit(Node::Opaque(opaque)),
            PartKind::Plain(_)
            | PartKind::Quoted(_)
            | PartKind::Tilde(_)
            | PartKind::Glob(_)
            | PartKind::Range(_) => {}
        }
    }
}

fn parameter<'a>(parameter: &'a Parameter, visit: &mut dyn FnMut(Node<'a>)) {
    if let Some(Subscript::Index(word)) = &parameter.subscript {
        each_in_word(word, visit);
    }
    match &parameter.operation {
        Operation::Default(word)
        | Operation::Assign(word)
        | Operation::Require(word)
        | Operation::Alternative(word)
        | Operation::Trim(word)
        | Operation::Case(word) => each_in_word(word, visit),
        Operation::Replace(pattern, replacement) => {
            each_in_word(pattern, visit);
            if let Some(word) = replacement {
                each_in_word(word, visit);
            }
        }
        Operation::Substring(expression) => arithmetic(expression, visit),
        Operation::Value | Operation::Length | Operation::Transform(_) | Operation::Names => {}
    }
}
