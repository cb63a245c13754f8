//! The small language of flag lines and roles: `"-o --output = write : dangerous 'Why'"`.

/// A flag line, taken apart.
pub struct FlagLine {
    pub spellings: Vec<String>,
    pub value: &'static str,
    pub role: String,
    pub effect: Effect,
}

/// What follows the colon: risk, kind, modifiers and phrase.
#[derive(Default)]
pub struct Effect {
    pub risk: Option<String>,
    pub kind: String,
    pub modifiers: Vec<&'static str>,
    pub says: String,
}

const MODIFIERS: &[(&str, &str)] = &[
    ("recursive", "RECURSIVE"),
    ("force", "FORCE"),
    ("edits", "EDITS"),
    ("target", "TARGET"),
    ("reads", "READS"),
    ("info", "INFO"),
    ("decodes", "DECODES"),
    ("stdin", "STDIN"),
    ("calm", "CALM"),
    ("upload", "UPLOAD"),
    ("global", "GLOBAL"),
];

/// Takes `line` apart; the error says what is wrong with it.
pub fn parse(line: &str) -> Result<FlagLine, String> {
    let (left, right) = match line.split_once(" : ") {
        Some((left, right)) => (left, right),
        None => (line, ""),
    };
    let mut spellings = Vec::new();
    let mut value = "None";
    let mut role = "data".to_owned();
    let mut words = left.split_whitespace();
    while let Some(word) = words.next() {
        match word {
            "=" | "?=" => {
                value = if word == "=" { "Required" } else { "Optional" };
                if let Some(given) = words.next() {
                    role = given.to_owned();
                }
                if let Some(rest) = words.next() {
                    return Err(format!(
                        "flag line `{line}`: unexpected `{rest}` after the role"
                    ));
                }
            }
            spelling => spellings.push(spelling.to_owned()),
        }
    }
    if spellings.is_empty() {
        return Err(format!("flag line `{line}` names no flag"));
    }
    Ok(FlagLine {
        spellings,
        value,
        role: self::role(&role)?,
        effect: effect(right).map_err(|e| format!("flag line `{line}`: {e}"))?,
    })
}

fn effect(text: &str) -> Result<Effect, String> {
    let mut effect = Effect {
        kind: kind("none")?,
        ..Effect::default()
    };
    let (words, phrase) = match text.split_once('\'') {
        Some((words, phrase)) => (
            words,
            phrase
                .strip_suffix('\'')
                .ok_or("the phrase lacks its closing quote")?,
        ),
        None => (text, ""),
    };
    effect.says = phrase.to_owned();
    for word in words.split_whitespace() {
        if let Ok(risk) = risk(word) {
            effect.risk = Some(risk);
        } else if let Ok(kind) = kind(word) {
            effect.kind = kind;
        } else if let Some((_, name)) = MODIFIERS.iter().find(|(typed, _)| *typed == word) {
            effect.modifiers.push(name);
        } else {
            return Err(format!(
                "`{word}` is neither a risk, a kind of effect nor a modifier"
            ));
        }
    }
    Ok(effect)
}

/// The Rust expression of a risk's name.
pub fn risk(name: &str) -> Result<String, String> {
    match name {
        "safe" => Ok("Risk::Safe".into()),
        "normal" => Ok("Risk::Normal".into()),
        "dangerous" => Ok("Risk::Dangerous".into()),
        "critical" => Ok("Risk::Critical".into()),
        other => Err(format!(
            "`{other}` is no risk (safe, normal, dangerous, critical)"
        )),
    }
}

/// The Rust expression of a kind of effect.
pub fn kind(name: &str) -> Result<String, String> {
    let variant = match name {
        "none" => "None",
        "network" => "Network",
        "privilege" => "Privilege",
        "persistence" => "Persistence",
        "system" => "SystemChange",
        "publishes" => "Publishes",
        "kills" => "Kills",
        "discards" => "Discards",
        "runs" => "Runs",
        "opaque" => "Opaque",
        "writes" => "Writes",
        "deletes" => "Deletes",
        other => return Err(format!("`{other}` is no kind of effect")),
    };
    Ok(format!("Kind::{variant}"))
}

/// The Rust expression of a role.
pub fn role(name: &str) -> Result<String, String> {
    if let Some(language) = name.strip_prefix("code:") {
        return Ok(format!("Role::Code({})", self::language(language)?));
    }
    let variant = match name {
        "data" => "Data",
        "read" => "Read",
        "write" => "Write",
        "make" => "Make",
        "append" => "Append",
        "delete" => "Delete",
        "move" => "Move",
        "chmod" => "Attributes",
        "dir" => "Directory",
        "host" => "Host",
        "remote" => "Remote",
        "command" => "Command",
        "shell" => "Shell",
        "program" => "Program",
        "script" => "Script",
        "env" => "Environment",
        "mount" => "Mount",
        "gitconfig" => "GitConfig",
        "package" => "Package",
        "registry" => "Registry",
        "definition" => "Definition",
        "upload" => "Upload",
        "send" => "Send",
        "opaque" => "Opaque",
        "pid" => "Pid",
        other => return Err(format!("`{other}` is no role")),
    };
    Ok(format!("Role::{variant}"))
}

/// The Rust expression of a language.
pub fn language(name: &str) -> Result<String, String> {
    let variant = match name {
        "shell" => "Shell",
        "python" => "Python",
        "perl" => "Perl",
        "ruby" => "Ruby",
        "javascript" => "JavaScript",
        "php" => "Php",
        "lua" => "Lua",
        "awk" => "Awk",
        "sed" => "Sed",
        "sql" => "Sql",
        "vim" => "Vim",
        "r" => "R",
        "powershell" => "PowerShell",
        "other" => "Other",
        other => return Err(format!("`{other}` is no language")),
    };
    Ok(format!("Language::{variant}"))
}
