//! Writes the static tables as Rust source.

use std::fmt::Write;

use crate::flagline;
use crate::schema::{File, Names, Spec};

type Result<T> = std::result::Result<T, String>;

/// The source text of all tables.
pub fn tables(file: &File) -> Result<String> {
    let mut out = String::new();
    programs(file, &mut out)?;
    variables(file, &mut out)?;
    places(file, &mut out)?;
    code(file, &mut out)?;
    git_keys(file, &mut out)?;
    verbs(file, &mut out)?;
    Ok(out)
}

fn programs(file: &File, out: &mut String) -> Result<()> {
    let mut index: Vec<(&str, usize)> = Vec::new();
    out.push_str("pub(crate) static PROGRAMS: &[Spec] = &[\n");
    for (number, program) in file.program.iter().enumerate() {
        let first = program.name.iter().next().unwrap_or("?").to_owned();
        let at = |e: String| format!("{}: program `{first}`: {e}", program.origin);
        if program.spec.reason.is_empty() {
            return Err(at("`reason` is missing".into()));
        }
        out.push_str(&spec(&program.spec, 0).map_err(at)?);
        out.push_str(",\n");
        index.extend(program.name.iter().map(|name| (name, number)));
    }
    out.push_str("];\n");
    index.sort_unstable();
    line(
        out,
        &format!("pub(crate) static NAMES: &[(&str, usize)] = &{index:?};"),
    );
    Ok(())
}

fn spec(spec: &Spec, depth: usize) -> Result<String> {
    if let Some(key) = spec
        .unknown_keys
        .keys()
        .find(|key| depth == 0 || *key != "name")
    {
        return Err(format!("`{key}` is no key of an entry"));
    }
    let mut flags = String::new();
    for text in &spec.flags {
        let flag = flagline::parse(text)?;
        let modifiers = bits(&flag.effect.modifiers);
        line(
            &mut flags,
            &format!(
                "Flag {{ spellings: &{:?}, takes: Takes::{}, role: {}, risk: {}, kind: {}, says: {:?}, modifiers: {modifiers} }},",
                flag.spellings,
                flag.value,
                flag.role,
                option(flag.effect.risk.as_deref()),
                flag.effect.kind,
                flag.effect.says,
            ),
        );
    }
    let mut args = String::new();
    for text in &spec.args {
        let (name, count) = match text.strip_suffix('*') {
            Some(name) => (name, "Many"),
            None => match text.strip_suffix('?') {
                Some(name) => (name, "Optional"),
                None => (text.as_str(), "One"),
            },
        };
        let role = flagline::role(name)?;
        line(
            &mut args,
            &format!("Positional {{ role: {role}, count: Count::{count} }},"),
        );
    }
    let subs = subs(spec, depth)?;
    let risk = flagline::risk(spec.risk.as_deref().unwrap_or("normal"))?;
    let kind = flagline::kind(spec.effect.as_deref().unwrap_or("none"))?;
    let style = choice(
        spec.style.as_deref(),
        "gnu",
        &[
            ("gnu", "Style::Gnu"),
            ("posix", "Style::Posix"),
            ("long", "Style::Long"),
            ("bundle", "Style::Bundle"),
            ("operands", "Style::Operands"),
            ("none", "Style::None"),
        ],
    )?;
    let unknown = choice(
        spec.unknown.as_deref(),
        "normal",
        &[
            ("harmless", "Unknown::Harmless"),
            ("normal", "Unknown::Normal"),
            ("dangerous", "Unknown::Dangerous"),
        ],
    )?;
    let input = match spec.input.as_deref() {
        None | Some("none") => "Input::Ignored".to_owned(),
        Some("data") => "Input::Data".to_owned(),
        Some(code) => match code.strip_prefix("code:") {
            Some(language) => format!("Input::Code({})", flagline::language(language)?),
            None => return Err(format!("`{code}` is no kind of input")),
        },
    };
    let output = choice(
        spec.output.as_deref(),
        "own",
        &[
            ("own", "Output::Own"),
            ("same", "Output::Same"),
            ("network", "Output::Network"),
            ("files", "Output::Files"),
            ("decoded", "Output::Decoded"),
        ],
    )?;
    let handler = match spec.handler.as_deref() {
        None => "Handler::None".to_owned(),
        Some(name) => format!("Handler::{}", camel(name)),
    };
    let bare = match spec.bare.as_deref() {
        Some(name) => Some(flagline::risk(name)?),
        None => None,
    };
    let bare = option(bare.as_deref());
    Ok(format!(
        "Spec {{ reason: {:?}, risk: {risk}, kind: {kind}, says: {:?}, style: {style}, unknown: {unknown}, \
         flags: &[{flags}], args: &[{args}], input: {input}, output: {output}, handler: {handler}, \
         subs: &[{subs}], bare: {bare}, inherit: {}, verbs: {} }}",
        spec.reason,
        spec.says,
        spec.inherit.unwrap_or(true),
        spec.verbs.unwrap_or(!subs.is_empty()),
    ))
}

fn subs(parent: &Spec, depth: usize) -> Result<String> {
    let mut out = String::new();
    for sub in &parent.sub {
        let names: Vec<&str> = sub.name.iter().collect();
        let inner = spec(&sub.spec, depth + 1)
            .map_err(|e| format!("sub-command `{}`: {e}", names.join(" ")))?;
        line(
            &mut out,
            &format!("Sub {{ names: &{names:?}, spec: {inner} }},"),
        );
    }
    if !parent.safe.is_empty() {
        line(&mut out, &short(&parent.safe, "Risk::Safe", ""));
    }
    if !parent.normal.is_empty() {
        line(&mut out, &short(&parent.normal, "Risk::Normal", ""));
    }
    for (risk, table) in [
        ("Risk::Normal", &parent.noted),
        ("Risk::Dangerous", &parent.dangerous),
        ("Risk::Critical", &parent.critical),
    ] {
        for (name, says) in table {
            line(&mut out, &short(std::slice::from_ref(name), risk, says));
        }
    }
    Ok(out)
}

fn short(names: &[String], risk: &str, says: &str) -> String {
    let kind = match risk {
        "Risk::Safe" | "Risk::Normal" => "Kind::None",
        _ => "Kind::Discards",
    };
    format!(
        "Sub {{ names: &{names:?}, spec: Spec {{ risk: {risk}, kind: {kind}, says: {says:?}, unknown: Unknown::Harmless, ..Spec::PLAIN }} }},"
    )
}

fn variables(file: &File, out: &mut String) -> Result<()> {
    let mut rows = Vec::new();
    for variable in &file.variable {
        let first = variable.name.iter().next().unwrap_or("?");
        let at = |e: String| format!("variable `{first}`: {e}");
        let risk = flagline::risk(&variable.risk).map_err(at)?;
        let role = flagline::role(variable.role.as_deref().unwrap_or("data")).map_err(at)?;
        for name in variable.name.iter() {
            rows.push(format!(
                "Variable {{ name: {name:?}, risk: {risk}, role: {role}, says: {:?}, reason: {:?} }},",
                variable.says, variable.reason
            ));
        }
    }
    rows.sort();
    line(
        out,
        &format!(
            "pub(crate) static VARIABLES: &[Variable] = &[{}];",
            rows.join("\n")
        ),
    );
    Ok(())
}

fn places(file: &File, out: &mut String) -> Result<()> {
    out.push_str("pub(crate) static PLACES: &[(&str, Place)] = &[\n");
    for place in &file.place {
        let kind = choice(
            Some(&place.kind),
            "",
            &[
                ("startup", "Place::Startup"),
                ("secret", "Place::Secret"),
                ("system", "Place::System"),
                ("system-itself", "Place::SystemItself"),
                ("protected", "Place::Protected"),
                ("temp", "Place::Temp"),
                ("device", "Place::Device"),
                ("sink", "Place::Sink"),
                ("home-itself", "Place::HomeItself"),
                ("elsewhere", "Place::Elsewhere"),
            ],
        )
        .map_err(|e| format!("place `{}`: {e}", place.reason))?;
        for path in &place.paths {
            line(out, &format!("({path:?}, {kind}),"));
        }
    }
    out.push_str("];\n");
    Ok(())
}

fn code(file: &File, out: &mut String) -> Result<()> {
    out.push_str("pub(crate) static CODE: &[Code] = &[\n");
    for code in &file.code {
        let means = choice(
            Some(&code.means),
            "",
            &[
                ("shell", "Means::Shell"),
                ("argv", "Means::Argv"),
                ("socket", "Means::Socket"),
                ("network", "Means::Network"),
                ("attach", "Means::Attach"),
                ("decode", "Means::Decode"),
                ("evaluate", "Means::Evaluate"),
                ("delete", "Means::Delete"),
                ("delete-tree", "Means::DeleteTree"),
                ("write", "Means::Write"),
                ("read", "Means::Read"),
                ("privilege", "Means::Privilege"),
                ("drop", "Means::Drop"),
                ("injects", "Means::Injects"),
            ],
        )
        .map_err(|e| format!("code `{}`: {e}", code.reason))?;
        let mut languages = Vec::new();
        for language in names(&code.language) {
            languages.push(flagline::language(language)?);
        }
        line(
            out,
            &format!(
                "Code {{ languages: &[{}], means: {means}, text: &{:?} }},",
                languages.join(", "),
                code.text
            ),
        );
    }
    out.push_str("];\n");
    Ok(())
}

fn git_keys(file: &File, out: &mut String) -> Result<()> {
    out.push_str("pub(crate) static GIT_KEYS: &[GitKey] = &[\n");
    for key in &file.gitkey {
        let role = flagline::role(&key.role)?;
        for name in key.key.iter() {
            line(
                out,
                &format!(
                    "GitKey {{ key: {name:?}, role: {role}, says: {:?} }},",
                    key.says
                ),
            );
        }
    }
    out.push_str("];\n");
    Ok(())
}

fn verbs(file: &File, out: &mut String) -> Result<()> {
    out.push_str("pub(crate) static VERBS: &[Verb] = &[\n");
    for verb in &file.verb {
        let risk = flagline::risk(&verb.risk)?;
        line(
            out,
            &format!(
                "Verb {{ words: &{:?}, risk: {risk}, says: {:?}, everywhere: {} }},",
                verb.words, verb.says, verb.everywhere
            ),
        );
    }
    out.push_str("];\n");
    Ok(())
}

fn names(names: &Names) -> impl Iterator<Item = &str> {
    names.iter()
}

fn choice(given: Option<&str>, default: &str, table: &[(&str, &str)]) -> Result<String> {
    let given = given.unwrap_or(default);
    match table.iter().find(|(name, _)| *name == given) {
        Some((_, expression)) => Ok((*expression).to_owned()),
        None => {
            let known: Vec<&str> = table.iter().map(|(name, _)| *name).collect();
            Err(format!("`{given}` is none of {}", known.join(", ")))
        }
    }
}

fn bits(modifiers: &[&str]) -> String {
    if modifiers.is_empty() {
        return "Modifiers::NONE".into();
    }
    let mut sum = String::from("Modifiers::NONE");
    for modifier in modifiers {
        sum = format!("{sum}.with(Modifiers::{modifier})");
    }
    sum
}

fn option(expression: Option<&str>) -> String {
    match expression {
        Some(expression) => format!("Some({expression})"),
        None => "None".into(),
    }
}

fn camel(name: &str) -> String {
    name.split('-')
        .map(|part| {
            let mut letters = part.chars();
            match letters.next() {
                Some(first) => first.to_uppercase().collect::<String>() + letters.as_str(),
                None => String::new(),
            }
        })
        .collect()
}

fn line(out: &mut String, text: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(out, "{text}");
}
