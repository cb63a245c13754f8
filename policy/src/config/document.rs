//! Policy files in TOML.

use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{At, Error, nearest, quoted};
use super::grant::{Bind, GrantPath};
use super::key::{Key, LockPattern};
use super::origin::{Layer, Origin, Sourced};
use super::setting::{Level, Mode, OnFailure, Preview, Scope, Setting, ToolProfile};
use super::testcase::TestCase;
use super::tools;
use crate::bytes::ByteString;
use crate::duration::Duration;
use crate::plan::{Access, Memory, NetworkMode, Variable};
use crate::profile::Profile;
use crate::rule::{PathPattern, Rule, Sign};
use crate::size::Size;

/// What a file says, each thing with its line.
#[derive(Debug, Default)]
pub struct Document {
    /// Its settings, in the order of the file.
    pub settings: Vec<Sourced<Setting>>,
    /// Its `[[test]]` cases.
    pub tests: Vec<Sourced<TestCase>>,
}

/// Reads a policy file.
pub fn read(layer: Layer, path: &Arc<str>, text: &[u8]) -> Result<Document, Error> {
    let reader = Reader { layer, path, text };
    let source = std::str::from_utf8(text).map_err(|broken| {
        let start = broken.valid_up_to();
        reader.syntax(start..start + 1, "the file is not UTF-8")
    })?;
    let root = DeTable::parse(source)
        .map_err(|error| reader.syntax(error.span().unwrap_or(0..0), error.message()))?;
    let mut document = Document::default();
    for (name, value) in in_order(root.get_ref()) {
        reader.section(name, value, &mut document)?;
    }
    document
        .settings
        .sort_by_key(|setting| match setting.origin {
            Origin::File { line, .. } => line,
            _ => 0,
        });
    Ok(document)
}

/// What is read from where, for messages.
struct Reader<'a> {
    layer: Layer,
    path: &'a Arc<str>,
    text: &'a [u8],
}

type Item<'a, 'i> = &'a Spanned<DeValue<'i>>;

/// Reads one value of a list or a table of single values.
type Read<'r, T> = &'r dyn Fn(&str) -> Result<T, String>;

impl Reader<'_> {
    fn section(
        &self,
        name: &Spanned<impl AsRef<str>>,
        value: Item<'_, '_>,
        into: &mut Document,
    ) -> Result<(), Error> {
        let table = name.get_ref().as_ref();
        if table == "test" {
            return self.tests(value, into);
        }
        if !Key::all().any(|key| key.table() == table) {
            let known = Key::all().map(Key::table).chain(["test"]);
            // A key at the top whose table was forgotten: say where it belongs.
            let homes = Key::all()
                .map(Key::name)
                .filter(|full| full.split_once('.').is_some_and(|(_, own)| own == table));
            let suggestion = nearest(table, known).or_else(|| homes.map(str::to_owned).next());
            let what = if value.get_ref().is_table() {
                "table"
            } else {
                "key"
            };
            return Err(Error::Unknown {
                at: self.at(name.span()),
                what,
                name: quoted(table),
                suggestion,
            });
        }
        let DeValue::Table(keys) = value.get_ref() else {
            return Err(self.wrong(
                table,
                value,
                "this is a table: write its keys below it in brackets".to_owned(),
            ));
        };
        for (key, value) in in_order(keys) {
            let own = key.get_ref();
            let full = format!("{table}.{own}");
            let regex_list = full
                .strip_suffix("_regex")
                .and_then(Key::named)
                .filter(|key| is_rule_list(*key));
            match (Key::named(&full), regex_list) {
                (Some(key), _) => self.key(key, value, into)?,
                (None, Some(key)) => self.rules(key, value, &Rule::regex, into)?,
                (None, None) => {
                    let known = Key::all().filter(|key| key.table() == table);
                    let own_names = known
                        .filter_map(|key| key.name().split_once('.'))
                        .map(|(_, own)| own);
                    return Err(Error::Unknown {
                        at: self.at(key.span()),
                        what: "key",
                        name: quoted(&full),
                        suggestion: nearest(own, own_names).map(|own| format!("{table}.{own}")),
                    });
                }
            }
        }
        Ok(())
    }

    /// One key with its value. The one place that says which type each key has.
    fn key(&self, key: Key, value: Item<'_, '_>, into: &mut Document) -> Result<(), Error> {
        use Setting as S;
        let setting = match key {
            Key::SandboxMode => S::SandboxMode(self.word(key, value, Mode::WORDS, Mode::named)?),
            Key::SandboxScope => {
                S::SandboxScope(self.word(key, value, Scope::WORDS, Scope::named)?)
            }
            Key::SandboxWorkspace => {
                S::SandboxWorkspace(self.word(key, value, &["none", "ro", "rw"], access_named)?)
            }
            Key::SandboxProfile => {
                let names: Vec<&str> = Profile::all().iter().map(|profile| profile.name).collect();
                S::SandboxProfile(self.word(key, value, &names, Profile::named)?)
            }
            Key::SandboxBroker => S::SandboxBroker(self.boolean(key, value)?),
            Key::SandboxAllowDegraded => S::SandboxAllowDegraded(self.boolean(key, value)?),
            Key::FilesystemRead => {
                return self.list(key, value, into, &|text| {
                    GrantPath::parse(text).map(S::FilesystemRead)
                });
            }
            Key::FilesystemWrite => {
                return self.list(key, value, into, &|text| {
                    GrantPath::parse(text).map(S::FilesystemWrite)
                });
            }
            Key::FilesystemDeny => return self.patterns(key, value, into),
            Key::FilesystemBinds => {
                return self.list(key, value, into, &|text| {
                    Bind::parse(text.as_bytes()).map(S::FilesystemBind)
                });
            }
            Key::FilesystemProtect => {
                return self.list(key, value, into, &|text| {
                    protected_name(text).map(S::FilesystemProtect)
                });
            }
            Key::NetworkMode => S::NetworkMode(self.word(
                key,
                value,
                &["none", "filtered", "host"],
                network_named,
            )?),
            Key::NetworkAllow => {
                return self.list(key, value, into, &|text| {
                    text.parse().map(S::NetworkAllow).map_err(shown)
                });
            }
            Key::NetworkDeny => {
                return self.list(key, value, into, &|text| {
                    text.parse().map(S::NetworkDeny).map_err(shown)
                });
            }
            Key::NetworkAsk => S::NetworkAsk(self.boolean(key, value)?),
            Key::LimitsMemory => S::LimitsMemory(self.amount(key, value, &memory)?),
            Key::LimitsCpu => {
                S::LimitsCpu(self.amount(key, value, &|text| text.parse().map_err(shown))?)
            }
            Key::LimitsPids => S::LimitsPids(self.count(key, value)?),
            Key::LimitsIoRead => S::LimitsIoRead(
                self.amount(key, value, &|text| Size::parse_rate(text).map_err(shown))?,
            ),
            Key::LimitsIoWrite => S::LimitsIoWrite(
                self.amount(key, value, &|text| Size::parse_rate(text).map_err(shown))?,
            ),
            Key::LimitsTimeout => S::LimitsTimeout(self.duration(key, value)?),
            Key::LimitsOutput => S::LimitsOutput(self.amount(key, value, &size)?),
            Key::LimitsTmp => S::LimitsTmp(self.amount(key, value, &size)?),
            Key::EnvironmentPass => {
                return self.list(key, value, into, &|text| {
                    variable_pattern(text).map(S::EnvironmentPass)
                });
            }
            Key::EnvironmentSet => return self.variables(key, value, into),
            Key::CommandsLevel => {
                S::CommandsLevel(self.word(key, value, Level::WORDS, Level::named)?)
            }
            Key::CommandsAllow | Key::CommandsAsk | Key::CommandsDeny | Key::ElevatedPatterns => {
                return self.rules(key, value, &Rule::parse, into);
            }
            Key::CommandsAutoApproveSafe => S::CommandsAutoApproveSafe(self.boolean(key, value)?),
            Key::CommandsDryRun => S::CommandsDryRun(self.boolean(key, value)?),
            Key::ElevatedEnabled => S::ElevatedEnabled(self.boolean(key, value)?),
            Key::ElevatedRequireApproval => S::ElevatedRequireApproval(self.boolean(key, value)?),
            Key::ApprovalWait => S::ApprovalWait(self.duration(key, value)?),
            Key::ApprovalTtl => S::ApprovalTtl(self.duration(key, value)?),
            Key::ApprovalPreview => {
                S::ApprovalPreview(self.word(key, value, Preview::WORDS, Preview::named)?)
            }
            Key::ApprovalQueueLimit => S::ApprovalQueueLimit(self.count(key, value)?),
            Key::ApprovalInline => S::ApprovalInline(self.boolean(key, value)?),
            Key::ApprovalOnAsk => S::ApprovalOnAsk(self.program(key, value)?),
            Key::AuditRetention => S::AuditRetention(self.duration(key, value)?),
            Key::AuditOutput => S::AuditOutput(self.amount(key, value, &size)?),
            Key::AuditOnFailure => {
                S::AuditOnFailure(self.word(key, value, OnFailure::WORDS, OnFailure::named)?)
            }
            Key::ToolsProfile => {
                S::ToolsProfile(self.word(key, value, ToolProfile::WORDS, ToolProfile::named)?)
            }
            Key::ToolsAllow => {
                return self.list(key, value, into, &|text| tool(text).map(S::ToolsAllow));
            }
            Key::ToolsDeny => {
                return self.list(key, value, into, &|text| tool(text).map(S::ToolsDeny));
            }
            Key::LockKeys => return self.list(key, value, into, &|text| lock(text).map(S::Lock)),
        };
        self.push(setting, value, into);
        Ok(())
    }

    fn push(&self, setting: Setting, value: Item<'_, '_>, into: &mut Document) {
        let origin = self.origin(value.span());
        into.settings.push(Sourced::new(setting, origin));
    }

    fn word<T>(
        &self,
        key: Key,
        value: Item<'_, '_>,
        words: &[&str],
        named: impl Fn(&str) -> Option<T>,
    ) -> Result<T, Error> {
        let text = self.text(key.name(), value)?;
        named(text).ok_or_else(|| match nearest(text, words.iter().copied()) {
            Some(suggestion) => Error::Unknown {
                at: self.at(value.span()),
                what: "value",
                name: quoted(text),
                suggestion: Some(suggestion),
            },
            None => self.wrong(
                key.name(),
                value,
                format!("`{}` is none of {}", quoted(text), words.join(", ")),
            ),
        })
    }

    fn text<'v>(&self, key: &str, value: &'v Spanned<DeValue<'_>>) -> Result<&'v str, Error> {
        value.get_ref().as_str().ok_or_else(|| {
            self.wrong(
                key,
                value,
                format!("{} where a text in quotes is wanted", kind(value)),
            )
        })
    }

    fn boolean(&self, key: Key, value: Item<'_, '_>) -> Result<bool, Error> {
        value.get_ref().as_bool().ok_or_else(|| {
            self.wrong(
                key.name(),
                value,
                format!("{} where true or false is wanted", kind(value)),
            )
        })
    }

    fn count(&self, key: Key, value: Item<'_, '_>) -> Result<u32, Error> {
        let number = value
            .get_ref()
            .as_integer()
            .filter(|number| number.radix() == 10);
        number
            .and_then(|number| number.as_str().parse().ok())
            .filter(|number| *number > 0)
            .ok_or_else(|| {
                self.wrong(
                    key.name(),
                    value,
                    "a whole number from 1 is wanted, without quotes".to_owned(),
                )
            })
    }

    fn amount<T>(&self, key: Key, value: Item<'_, '_>, read: Read<'_, T>) -> Result<T, Error> {
        let text = match value.get_ref() {
            // A bare number is bytes.
            DeValue::Integer(number) if number.radix() == 10 => number.as_str(),
            _ => self.text(key.name(), value)?,
        };
        read(text).map_err(|why| self.wrong(key.name(), value, why))
    }

    fn duration(&self, key: Key, value: Item<'_, '_>) -> Result<Duration, Error> {
        self.amount(key, value, &|text| text.parse().map_err(shown))
    }

    fn items<'v, 'i>(
        &self,
        key: &str,
        value: &'v Spanned<DeValue<'i>>,
    ) -> Result<&'v [Spanned<DeValue<'i>>], Error> {
        match value.get_ref() {
            DeValue::Array(items) => Ok(items),
            _ => Err(self.wrong(
                key,
                value,
                format!("{} where a list in brackets is wanted", kind(value)),
            )),
        }
    }

    fn list(
        &self,
        key: Key,
        value: Item<'_, '_>,
        into: &mut Document,
        read: Read<'_, Setting>,
    ) -> Result<(), Error> {
        for item in self.items(key.name(), value)? {
            let text = self.text(key.name(), item)?;
            let setting = read(text).map_err(|why| self.wrong(key.name(), item, why))?;
            self.push(setting, item, into);
        }
        Ok(())
    }

    fn patterns(&self, key: Key, value: Item<'_, '_>, into: &mut Document) -> Result<(), Error> {
        let mut included = false;
        for item in self.items(key.name(), value)? {
            let text = self.text(key.name(), item)?;
            let pattern = PathPattern::parse(text)
                .map_err(|error| self.wrong(key.name(), item, error.to_string()))?;
            if pattern.sign() == Sign::Exclude && !included {
                let why = format!(
                    "the pattern `{}` can match nothing: there is nothing before it to take it out of",
                    quoted(text)
                );
                return Err(self.wrong(key.name(), item, why));
            }
            included = true;
            self.push(Setting::FilesystemDeny(pattern), item, into);
        }
        Ok(())
    }

    fn rules(
        &self,
        key: Key,
        value: Item<'_, '_>,
        read: &dyn Fn(&str) -> Result<Rule, crate::rule::RuleError>,
        into: &mut Document,
    ) -> Result<(), Error> {
        self.list(key, value, into, &|text| {
            let rule = read(text).map_err(shown)?;
            rule_setting(key, rule)
        })
    }

    fn variables(&self, key: Key, value: Item<'_, '_>, into: &mut Document) -> Result<(), Error> {
        let DeValue::Table(variables) = value.get_ref() else {
            return Err(self.wrong(
                key.name(),
                value,
                "a table is wanted: set = { NAME = \"value\" }".to_owned(),
            ));
        };
        for (name, value) in in_order(variables) {
            let text = self.text(key.name(), value)?;
            let setting = variable(name.get_ref().as_bytes(), text.as_bytes())
                .map_err(|why| self.wrong(key.name(), value, why))?;
            self.push(Setting::EnvironmentSet(setting), value, into);
        }
        Ok(())
    }

    fn program(&self, key: Key, value: Item<'_, '_>) -> Result<Vec<String>, Error> {
        let mut words = Vec::new();
        for item in self.items(key.name(), value)? {
            words.push(self.text(key.name(), item)?.to_owned());
        }
        match words.first() {
            Some(program) if !program.starts_with('/') && program.contains('/') => Err(self.wrong(
                key.name(),
                value,
                "name the program alone, or by its absolute path".to_owned(),
            )),
            _ => Ok(words),
        }
    }

    fn tests(&self, value: Item<'_, '_>, into: &mut Document) -> Result<(), Error> {
        let DeValue::Array(cases) = value.get_ref() else {
            return Err(self.wrong(
                "test",
                value,
                "write each case under [[test]], in double brackets".to_owned(),
            ));
        };
        for case in cases.iter() {
            let DeValue::Table(keys) = case.get_ref() else {
                return Err(self.wrong("test", case, "write each case under [[test]]".to_owned()));
            };
            let mut fields = Vec::new();
            for (name, value) in in_order(keys) {
                if !TestCase::KEYS.contains(&name.get_ref().as_ref()) {
                    return Err(Error::Unknown {
                        at: self.at(name.span()),
                        what: "key",
                        name: quoted(&format!("test.{}", name.get_ref())),
                        suggestion: nearest(name.get_ref(), TestCase::KEYS.iter().copied()),
                    });
                }
                fields.push((
                    name.get_ref().to_string(),
                    self.text("test", value)?.to_owned(),
                ));
            }
            let read = TestCase::read(&fields).map_err(|why| self.wrong("test", case, why))?;
            into.tests
                .push(Sourced::new(read, self.origin(case.span())));
        }
        Ok(())
    }

    fn origin(&self, span: std::ops::Range<usize>) -> Origin {
        Origin::line(self.layer, self.path, self.at(span).line)
    }

    fn at(&self, span: std::ops::Range<usize>) -> At {
        At::new(self.path, self.text, span)
    }

    fn wrong(&self, key: &str, value: Item<'_, '_>, why: String) -> Error {
        Error::Value {
            at: self.at(value.span()),
            key: key.to_owned(),
            why,
        }
    }

    fn syntax(&self, span: std::ops::Range<usize>, why: &str) -> Error {
        Error::Syntax {
            at: self.at(span),
            why: quoted(why),
        }
    }
}

/// The entries of a table as they stand in the file.
fn in_order<'t, 'i>(
    table: &'t DeTable<'i>,
) -> Vec<(
    &'t Spanned<std::borrow::Cow<'i, str>>,
    &'t Spanned<DeValue<'i>>,
)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(name, _)| name.span().start);
    entries
}

fn is_rule_list(key: Key) -> bool {
    matches!(
        key,
        Key::CommandsAllow | Key::CommandsAsk | Key::CommandsDeny | Key::ElevatedPatterns
    )
}

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

fn kind(value: Item<'_, '_>) -> &'static str {
    match value.get_ref() {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

fn shown(error: impl std::fmt::Display) -> String {
    quoted(&error.to_string())
}

fn access_named(word: &str) -> Option<Access> {
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

fn size(text: &str) -> Result<Size, String> {
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

fn protected_name(text: &str) -> Result<String, String> {
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

fn tool(text: &str) -> Result<String, String> {
    if tools::is_known(text) {
        return Ok(text.to_owned());
    }
    let hint = nearest(text, tools::names())
        .map_or_else(String::new, |name| format!(", did you mean `{name}`?"));
    Err(format!("unknown tool `{}`{hint}", quoted(text)))
}

fn lock(text: &str) -> Result<LockPattern, String> {
    LockPattern::parse(text).ok_or_else(|| {
        let hint = nearest(text, Key::all().map(Key::name))
            .map_or_else(String::new, |name| format!(", did you mean `{name}`?"));
        format!("unknown key `{}`{hint}", quoted(text))
    })
}
