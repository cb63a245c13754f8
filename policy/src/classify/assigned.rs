//! Which variables a script may assign, found without running it.

use crate::shell::ast::{Command, CommandKind, Script};
use crate::shell::walk;
use crate::shell::word::{Assignment, AssignmentMode, Part, PartKind, Word};

/// Builtins whose arguments are names of variables.
const ASSIGNING: &[&[u8]] = &[
    b"read",
    b"export",
    b"declare",
    b"typeset",
    b"local",
    b"readonly",
    b"mapfile",
    b"readarray",
    b"getopts",
    b"unset",
    b"let",
    b"printf",
];

/// The names, with repetitions.
pub(crate) fn assigned(script: &Script) -> Vec<Vec<u8>> {
    let mut names = Vec::new();
    visit(script, &mut names);
    names
}

fn visit(script: &Script, names: &mut Vec<Vec<u8>>) {
    let commands = script
        .lists
        .iter()
        .flat_map(|list| list.pipelines())
        .flat_map(|pipeline| pipeline.commands.iter());
    for command in commands {
        visit_command(command, names);
    }
}

fn visit_command(command: &Command, names: &mut Vec<Vec<u8>>) {
    match &command.kind {
        CommandKind::Simple(simple) => {
            names.extend(simple.assignments.iter().map(|one| one.name.clone()));
            let assigns = simple
                .words
                .first()
                .and_then(|word| word.literal())
                .is_some_and(|name| ASSIGNING.contains(&name.as_slice()));
            if assigns {
                for word in &simple.words[1..] {
                    if let Some(PartKind::Plain(text) | PartKind::Quoted(text)) =
                        word.parts.first().map(|part| &part.kind)
                    {
                        let name: Vec<u8> = text
                            .iter()
                            .copied()
                            .take_while(|b| b.is_ascii_alphanumeric() || *b == b'_')
                            .collect();
                        if !name.is_empty() {
                            names.push(name);
                        }
                    }
                }
            }
        }
        CommandKind::Group(script) => visit(script, names),
        CommandKind::If(choice) => {
            for (condition, body) in &choice.branches {
                visit(condition, names);
                visit(body, names);
            }
            if let Some(otherwise) = &choice.otherwise {
                visit(otherwise, names);
            }
        }
        CommandKind::While(repeat) => {
            visit(&repeat.condition, names);
            visit(&repeat.body, names);
        }
        CommandKind::For(each) => {
            names.push(each.variable.clone());
            visit(&each.body, names);
        }
        CommandKind::ArithmeticFor(each) => visit(&each.body, names),
        CommandKind::Case(case) => {
            for arm in &case.arms {
                visit(&arm.body, names);
            }
        }
        // A copy of the shell, or nothing that assigns.
        CommandKind::Subshell(_)
        | CommandKind::Function(_)
        | CommandKind::Coprocess(_)
        | CommandKind::Arithmetic(_)
        | CommandKind::Test(_)
        | CommandKind::Opaque(_) => {}
    }
}

/// The names that a command may assign, with repetitions.
pub(crate) fn assigned_by(command: &Command) -> Vec<Vec<u8>> {
    let mut names = Vec::new();
    visit_command(command, &mut names);
    names
}

/// The variables that a function's body may declare as its own; `None` if that may be any.
pub(crate) fn declared_own(body: &Command) -> Option<Vec<Vec<u8>>> {
    let mut names = Some(Vec::new());
    walk::each_in_command(body, &mut |node| {
        if let walk::Node::Command(command) = node
            && let CommandKind::Simple(simple) = &command.kind
            && let Some(known) = &mut names
        {
            match own_names(&simple.words) {
                Some(more) => known.extend(more),
                None => names = None,
            }
        }
    });
    names
}

fn own_names(words: &[Word]) -> Option<Vec<Vec<u8>>> {
    let Some((first, rest)) = words.split_first() else {
        return Some(Vec::new());
    };
    match first.literal()?.as_slice() {
        b"local" | b"declare" | b"typeset" => rest.iter().map(leading_name).collect(),
        b"eval" | b"." | b"source" | b"builtin" | b"command" => None,
        _ => Some(Vec::new()),
    }
}

/// The name that a word begins with, if that is written out.
fn leading_name(word: &Word) -> Option<Vec<u8>> {
    let first = word.parts.first()?;
    let (PartKind::Plain(text) | PartKind::Quoted(text)) = &first.kind else {
        return word.literal();
    };
    let name: Vec<u8> = text
        .iter()
        .copied()
        .take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
        .collect();
    // `x""=1`: the name goes on in another part.
    let whole = name.len() < text.len() || word.parts.len() == 1;
    whole.then_some(name)
}

/// `declare -a x=(…)`, `local x=(…)`: the arrays that a command declares, where no option gives
/// their elements another meaning.
pub(crate) fn arrays_declared(words: &[Word]) -> impl Iterator<Item = Assignment> {
    let name = words.first().and_then(Word::literal).unwrap_or_default();
    let declares = matches!(
        name.as_slice(),
        b"declare" | b"local" | b"typeset" | b"readonly" | b"export"
    );
    let followed = declares && words.iter().all(keeps_elements);
    let words = if followed { words } else { &[] };
    words.iter().filter_map(declared)
}

/// No option that numbers, folds or names elements otherwise: `-A`, `-i`, `-n`, `-u`.
fn keeps_elements(word: &Word) -> bool {
    match word.literal() {
        Some(text) => {
            let letters = text.strip_prefix(b"-").or(text.strip_prefix(b"+"));
            letters.is_none_or(|letters| letters.iter().all(|letter| b"argx".contains(letter)))
        }
        None => matches!(word.parts.first(), Some(Part { kind: PartKind::Plain(name), .. })
            if name.contains(&b'=')),
    }
}

fn declared(word: &Word) -> Option<Assignment> {
    let [name, array] = word.parts.as_slice() else {
        return None;
    };
    let (PartKind::Plain(text), PartKind::Array(_)) = (&name.kind, &array.kind) else {
        return None;
    };
    let name = text.strip_suffix(b"=")?;
    let value = Word {
        parts: vec![array.clone()],
        span: word.span,
    };
    (!name.ends_with(b"+")).then(|| Assignment {
        name: name.to_vec(),
        subscript: None,
        mode: AssignmentMode::Set,
        value,
        span: word.span,
    })
}

/// The names of the commands in a script, each once, as far as they are written out.
pub(crate) fn called(script: &Script) -> Vec<Vec<u8>> {
    let mut names = Vec::new();
    walk::each(script, &mut |node| {
        if let walk::Node::Command(command) = node
            && let CommandKind::Simple(simple) = &command.kind
            && let Some(name) = simple.words.first().and_then(|word| word.literal())
        {
            names.push(name);
        }
    });
    names.sort_unstable();
    names.dedup();
    names
}

/// Whether a script may change its own arguments: `shift`, `set`, or something that may stand for
/// them.
pub(crate) fn moves_arguments(script: &Script) -> bool {
    let mut found = false;
    walk::each(script, &mut |node| {
        if let walk::Node::Command(command) = node
            && let CommandKind::Simple(simple) = &command.kind
            && let Some(first) = simple.words.first()
        {
            found |= match first.literal() {
                Some(name) => matches!(
                    name.as_slice(),
                    b"shift" | b"set" | b"eval" | b"." | b"source" | b"command" | b"builtin"
                ),
                None => !is_argument(&first.parts),
            };
        }
    });
    found
}

/// `"$1"`, `$@`: the arguments themselves.
fn is_argument(parts: &[Part]) -> bool {
    match parts {
        [part] => match &part.kind {
            PartKind::Double(inner, _) => is_argument(inner),
            PartKind::Parameter(parameter) => {
                let name = parameter.name.as_slice();
                matches!(name, b"@" | b"*") || name.iter().all(u8::is_ascii_digit)
            }
            _ => false,
        },
        _ => false,
    }
}
