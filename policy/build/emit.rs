//! Writes the static tables as Rust source.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::flagline;
use crate::schema::{File, Names, Spec};

type Result<T> = std::result::Result<T, String>;

/// The source text of all tables. They hold no pointers: a text is a part of one string, a
/// list a part of the array of all of its kind.
/// What other tables have put into the pools goes with them.
pub fn tables(file: &File, mut pools: Pools) -> Result<String> {
    let mut out = String::new();
    programs(file, &mut pools, &mut out)?;
    variables(file, &mut pools, &mut out)?;
    places(file, &mut pools, &mut out)?;
    code(file, &mut pools, &mut out)?;
    git_keys(file, &mut pools, &mut out)?;
    verbs(file, &mut pools, &mut out)?;
    information(&mut pools, &mut out);
    pools.write(&mut out);
    Ok(out)
}

fn programs(file: &File, pools: &mut Pools, out: &mut String) -> Result<()> {
    let mut index: Vec<(&str, usize)> = Vec::new();
    let mut rows = Vec::new();
    for (number, program) in file.program.iter().enumerate() {
        let first = program.name.iter().next().unwrap_or("?").to_owned();
        let at = |e: String| format!("{}: program `{first}`: {e}", program.origin);
        if program.spec.reason.is_empty() {
            return Err(at("`reason` is missing".into()));
        }
        rows.push(spec(&program.spec, 0, pools).map_err(at)?);
        index.extend(program.name.iter().map(|name| (name, number)));
    }
    index.sort_unstable();
    array(out, "PROGRAMS", "Spec", &rows);
    let names: Vec<String> = index
        .iter()
        .map(|(name, number)| format!("({}, {number})", pools.text(name)))
        .collect();
    array(out, "NAMES", "(Text, u16)", &names);
    Ok(())
}

fn spec(spec: &Spec, depth: usize, pools: &mut Pools) -> Result<String> {
    if let Some(key) = spec
        .unknown_keys
        .keys()
        .find(|key| depth == 0 || *key != "name")
    {
        return Err(format!("`{key}` is no key of an entry"));
    }
    let mut flags = Vec::new();
    for text in &spec.flags {
        let flag = flagline::parse(text)?;
        let modifiers = bits(&flag.effect.modifiers);
        flags.push(format!(
            "Flag {{ spellings: {}, takes: Takes::{}, role: {}, risk: {}, kind: {}, says: {}, modifiers: {modifiers} }}",
            pools.words(&flag.spellings),
            flag.value,
            flag.role,
            option(flag.effect.risk.as_deref()),
            flag.effect.kind,
            pools.text(flag.effect.says.as_ref()),
        ));
    }
    let mut args = Vec::new();
    for text in &spec.args {
        let (name, count) = match text.strip_suffix('*') {
            Some(name) => (name, "Many"),
            None => match text.strip_suffix('?') {
                Some(name) => (name, "Optional"),
                None => (text.as_str(), "One"),
            },
        };
        let role = flagline::role(name)?;
        args.push(format!(
            "Positional {{ role: {role}, count: Count::{count} }}"
        ));
    }
    let subs = subs(spec, depth, pools)?;
    let verbs = spec.verbs.unwrap_or(!subs.is_empty());
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
        "Spec {{ reason: {}, risk: {risk}, kind: {kind}, says: {}, style: {style}, unknown: {unknown}, \
         flags: {}, args: {}, input: {input}, output: {output}, handler: {handler}, \
         subs: {}, bare: {bare}, inherit: {}, verbs: {verbs} }}",
        pools.text(&spec.reason),
        pools.text(&spec.says),
        pool(&mut pools.flags, flags),
        pool(&mut pools.args, args),
        pool(&mut pools.subs, subs),
        spec.inherit.unwrap_or(true),
    ))
}

fn subs(parent: &Spec, depth: usize, pools: &mut Pools) -> Result<Vec<String>> {
    let mut out = Vec::new();
    for sub in &parent.sub {
        let names: Vec<&str> = sub.name.iter().collect();
        let inner = spec(&sub.spec, depth + 1, pools)
            .map_err(|e| format!("sub-command `{}`: {e}", names.join(" ")))?;
        out.push(format!(
            "Sub {{ names: {}, spec: {inner} }}",
            pools.words(&names)
        ));
    }
    refuse_contradictions(parent)?;
    if !parent.safe.is_empty() {
        out.push(short(&parent.safe, "Risk::Safe", "", pools));
    }
    if !parent.normal.is_empty() {
        out.push(short(&parent.normal, "Risk::Normal", "", pools));
    }
    for (risk, table) in [
        ("Risk::Normal", &parent.noted),
        ("Risk::Dangerous", &parent.dangerous),
        ("Risk::Critical", &parent.critical),
    ] {
        for (name, says) in table {
            out.push(short(std::slice::from_ref(name), risk, says, pools));
        }
    }
    Ok(out)
}

/// A sub-command that is called harmless and grave: one of the two would never count.
fn refuse_contradictions(parent: &Spec) -> Result<()> {
    let grave = parent.dangerous.keys().chain(parent.critical.keys());
    let mut harmless = parent.safe.iter().chain(&parent.normal);
    match harmless.find(|name| grave.clone().any(|other| other == *name)) {
        Some(name) => Err(format!("`{name}` is listed as harmless and as grave")),
        None => Ok(()),
    }
}

fn short(names: &[String], risk: &str, says: &str, pools: &mut Pools) -> String {
    let kind = match risk {
        "Risk::Safe" | "Risk::Normal" => "Kind::None",
        _ => "Kind::Discards",
    };
    format!(
        "Sub {{ names: {}, spec: Spec {{ risk: {risk}, kind: {kind}, says: {}, unknown: Unknown::Harmless, ..Spec::PLAIN }} }}",
        pools.words(names),
        pools.text(says),
    )
}

fn variables(file: &File, pools: &mut Pools, out: &mut String) -> Result<()> {
    let mut rows = Vec::new();
    for variable in &file.variable {
        let first = variable.name.iter().next().unwrap_or("?");
        let at = |e: String| format!("variable `{first}`: {e}");
        let risk = flagline::risk(&variable.risk).map_err(at)?;
        let role = flagline::role(variable.role.as_deref().unwrap_or("data")).map_err(at)?;
        for name in variable.name.iter() {
            let row = format!(
                "Variable {{ name: {}, risk: {risk}, role: {role}, says: {}, reason: {} }}",
                pools.text(name),
                pools.text(&variable.says),
                pools.text(&variable.reason),
            );
            rows.push((name.to_owned(), row));
        }
    }
    rows.sort();
    let rows: Vec<String> = rows.into_iter().map(|(_, row)| row).collect();
    array(out, "VARIABLES", "Variable", &rows);
    Ok(())
}

fn places(file: &File, pools: &mut Pools, out: &mut String) -> Result<()> {
    let mut rows = Vec::new();
    for place in &file.place {
        let kind = choice(
            Some(&place.kind),
            "",
            &[
                ("startup", "Place::Startup"),
                ("programs", "Place::Programs"),
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
            rows.push(format!("({}, {kind})", pools.text(path)));
        }
    }
    array(out, "PLACES", "(Text, Place)", &rows);
    Ok(())
}

fn code(file: &File, pools: &mut Pools, out: &mut String) -> Result<()> {
    let mut rows = Vec::new();
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
                ("open", "Means::Open"),
                ("write", "Means::Write"),
                ("read", "Means::Read"),
                ("copy", "Means::Copy"),
                ("move", "Means::Move"),
                ("attributes", "Means::Attributes"),
                ("path", "Means::Path"),
                ("home", "Means::Home"),
                ("serves", "Means::Serves"),
                ("receive", "Means::Receive"),
                ("input", "Means::Input"),
                ("fork", "Means::Fork"),
                ("forever", "Means::Forever"),
                ("privilege", "Means::Privilege"),
                ("drop", "Means::Drop"),
                ("statement", "Means::Statement"),
                ("kill", "Means::Kill"),
                ("fetch", "Means::Fetch"),
                ("injects", "Means::Injects"),
                ("environment", "Means::Environment"),
            ],
        )
        .map_err(|e| format!("code `{}`: {e}", code.reason))?;
        let mut languages = Vec::new();
        for language in names(&code.language) {
            languages.push(flagline::language(language)?);
        }
        rows.push(format!(
            "Code {{ languages: {}, means: {means}, text: {} }}",
            pool(&mut pools.languages, languages),
            pools.words(&code.text),
        ));
    }
    array(out, "CODE", "Code", &rows);
    Ok(())
}

fn git_keys(file: &File, pools: &mut Pools, out: &mut String) -> Result<()> {
    let mut rows = Vec::new();
    for key in &file.gitkey {
        let role = flagline::role(&key.role)?;
        for name in key.key.iter() {
            rows.push(format!(
                "GitKey {{ key: {}, role: {role}, says: {} }}",
                pools.text(name),
                pools.text(&key.says),
            ));
        }
    }
    array(out, "GIT_KEYS", "GitKey", &rows);
    Ok(())
}

fn verbs(file: &File, pools: &mut Pools, out: &mut String) -> Result<()> {
    let mut rows = Vec::new();
    for verb in &file.verb {
        let risk = flagline::risk(&verb.risk)?;
        rows.push(format!(
            "Verb {{ words: {}, risk: {risk}, says: {}, everywhere: {} }}",
            pools.words(&verb.words),
            pools.text(&verb.says),
            verb.everywhere
        ));
    }
    array(out, "VERBS", "Verb", &rows);
    Ok(())
}

/// `--help` and `--version` mean the same to nearly every program.
fn information(pools: &mut Pools, out: &mut String) {
    let spellings = pools.words(&["--help", "--version"]);
    line(
        out,
        &format!(
            "pub(crate) static INFORMATION: Flag = Flag {{ spellings: {spellings}, takes: Takes::Optional, \
             role: Role::Data, risk: None, kind: Kind::None, says: Text::EMPTY, modifiers: Modifiers::INFO }};"
        ),
    );
}

/// What the tables point into.
#[derive(Default)]
pub struct Pools {
    texts: String,
    known: BTreeMap<String, usize>,
    words: Vec<String>,
    flags: Vec<String>,
    args: Vec<String>,
    subs: Vec<String>,
    languages: Vec<String>,
}

impl Pools {
    /// The expression that stands for a text.
    pub fn text(&mut self, text: &str) -> String {
        if text.is_empty() {
            return "Text::EMPTY".into();
        }
        let at = match self.known.get(text) {
            Some(at) => *at,
            None => {
                let at = self.texts.len();
                self.texts.push_str(text);
                self.known.insert(text.to_owned(), at);
                at
            }
        };
        format!("Text::new({at}, {})", text.len())
    }

    /// The expression that stands for a list of words.
    fn words<T: AsRef<str>>(&mut self, words: &[T]) -> String {
        let words = words.iter().map(|word| self.text(word.as_ref())).collect();
        pool(&mut self.words, words)
    }

    fn write(self, out: &mut String) {
        line(
            out,
            &format!("pub(crate) static TEXTS: &str = {:?};", self.texts),
        );
        array(out, "WORDS", "Text", &self.words);
        array(out, "FLAGS", "Flag", &self.flags);
        array(out, "ARGS", "Positional", &self.args);
        array(out, "SUBS", "Sub", &self.subs);
        array(out, "LANGUAGES", "Language", &self.languages);
    }
}

/// Puts a list into the array of its kind; the expression that stands for it.
fn pool(all: &mut Vec<String>, list: Vec<String>) -> String {
    if list.is_empty() {
        return "List::EMPTY".into();
    }
    let (at, length) = (all.len(), list.len());
    all.extend(list);
    format!("List::new({at}, {length})")
}

fn array(out: &mut String, name: &str, kind: &str, rows: &[String]) {
    line(
        out,
        &format!(
            "pub(crate) static {name}: [{kind}; {}] = [\n{}];",
            rows.len(),
            rows.join(",\n")
        ),
    );
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
