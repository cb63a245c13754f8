//! Values as policy files and options write them, each read into its type.

use super::error::{nearest, quoted};
use super::key::{Key, LockPattern};
use super::setting::Setting;
use super::tools;
use crate::bytes::ByteString;
use crate::plan::{Access, Memory, NetworkMode, Unnamed, Variable};
use crate::rule::Rule;
use crate::size::Size;

/// A rule as an element of one of the four lists; where it is to permit something, it must be
/// able to.
pub(super) fn rule_setting(key: Key, rule: Rule) -> Result<Setting, String> {
    let strict = matches!(key, Key::CommandsAllow | Key::ElevatedPatterns);
    if let (true, Rule::Command(pattern)) = (strict, &rule)
        && let Some(why) = pattern.never_strict()
    {
        return Err(format!(
            "the pattern `{}` can match nothing: {why}",
            quoted(pattern.text())
        ));
    }
    Ok(match key {
        Key::CommandsAllow => Setting::CommandsAllow(rule),
        Key::CommandsAsk => Setting::CommandsAsk(rule),
        Key::CommandsDeny => Setting::CommandsDeny(rule),
        _ => match rule {
            Rule::Command(_) => Setting::ElevatedPattern(rule),
            Rule::Path(_) => return Err("only commands can be elevated".to_owned()),
        },
    })
}

pub(super) fn shown(error: impl std::fmt::Display) -> String {
    quoted(&error.to_string())
}

pub(super) fn access_named(word: &str) -> Option<Access> {
    match word {
        "none" => Some(Access::None),
        "ro" => Some(Access::Ro),
        "rw" => Some(Access::Rw),
        _ => None,
    }
}

pub(super) fn network_named(word: &str) -> Option<NetworkMode> {
    match word {
        "none" => Some(NetworkMode::None),
        "filtered" => Some(NetworkMode::Filtered),
        "host" => Some(NetworkMode::Host),
        _ => None,
    }
}

pub(super) fn unnamed_named(word: &str) -> Option<Unnamed> {
    match word {
        "refuse" => Some(Unnamed::Refuse),
        "allow" => Some(Unnamed::Allow),
        _ => None,
    }
}

pub(super) fn memory(text: &str) -> Result<Memory, String> {
    if text.contains('%') {
        let share: crate::size::Percent = text.parse().map_err(shown)?;
        if share.value() > 100 {
            return Err(format!("`{}` is more than the machine has", quoted(text)));
        }
        return Ok(Memory::OfMachine(share));
    }
    size(text).map(Memory::Bytes)
}

pub(super) fn size(text: &str) -> Result<Size, String> {
    text.parse().map_err(shown)
}

pub(super) fn variable_pattern(text: &str) -> Result<ByteString, String> {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'*';
    match !text.is_empty() && text.bytes().all(fits) {
        true if text.bytes().all(|b| b == b'*') => {
            Err("`*` would pass everything, secrets included: name the variables".to_owned())
        }
        true => Ok(ByteString::from(text)),
        false => Err(format!(
            "`{}` is not the name of a variable: letters, digits, _ and * are",
            quoted(text)
        )),
    }
}

pub(super) fn variable(name: &[u8], value: &[u8]) -> Result<Variable, String> {
    if name.is_empty() || name.contains(&b'=') || name.contains(&0) || value.contains(&0) {
        return Err(format!(
            "`{}` cannot be the name of a variable",
            crate::show::inert(name)
        ));
    }
    Ok(Variable {
        name: ByteString::from(name),
        value: ByteString::from(value),
    })
}

pub(super) fn protected_name(text: &str) -> Result<String, String> {
    let name = text.trim().trim_end_matches('/');
    let name = name.strip_prefix("./").unwrap_or(name);
    let bad = name.is_empty()
        || name.starts_with(['/', '~'])
        || name.split('/').any(|part| {
            part.is_empty() || part == "." || part == ".." || (part.contains('*') && part != "*")
        });
    if bad || name.contains('\0') {
        return Err(format!(
            "`{}` is not a name inside the workspace: write .name or folder/name, with * for one whole name",
            quoted(text)
        ));
    }
    Ok(name.to_owned())
}

/// A tool's or a group's name. Agents have tools that are not known here: such a name is
/// taken as it is, unless it looks like a slip of the pen for one that is known.
pub fn tool(text: &str) -> Result<String, String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.:/".contains(&byte);
    let hint = nearest(text, tools::names());
    if tools::is_known(text)
        || (hint.is_none()
            && !text.starts_with("group:")
            && (1..=128).contains(&text.len())
            && text.bytes().all(plain))
    {
        return Ok(text.to_owned());
    }
    let hint = hint.map_or_else(String::new, |name| format!(", did you mean `{name}`?"));
    Err(format!("unknown tool `{}`{hint}", quoted(text)))
}

pub(super) fn lock(text: &str) -> Result<LockPattern, String> {
    LockPattern::parse(text).ok_or_else(|| {
        let hint = nearest(text, Key::all().map(Key::name))
            .map_or_else(String::new, |name| format!(", did you mean `{name}`?"));
        format!("unknown key `{}`{hint}", quoted(text))
    })
}
