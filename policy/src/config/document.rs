//! Policy files in TOML.

use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{Error, nearest, quoted};
use super::grant::{Bind, GrantPath};
use super::key::Key;
use super::origin::{Layer, Origin, Sourced};
use super::reader::{Item, Reader};
use super::setting::{Group, Level, Mode, OnFailure, Preview, Scope, Setting, ToolProfile};
use super::testcase::TestCase;
use super::value::{
    access_named, lock, memory, network_named, protected_name, rule_setting, shown, size, tool,
    unnamed_named, variable, variable_pattern,
};
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
    /// What it says that has no meaning here, each a sentence.
    pub remarks: Vec<String>,
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
            Key::NetworkInstalls => S::NetworkInstalls(self.boolean(key, value)?),
            Key::NetworkGroups => return self.groups(key, value, into),
            Key::NetworkPublish => {
                return self.list(key, value, into, &|text| {
                    text.parse().map(S::NetworkPublish).map_err(shown)
                });
            }
            Key::NetworkProxy => S::NetworkProxy(self.boolean(key, value)?),
            Key::NetworkSshAgent => {
                return self.list(key, value, into, &|text| {
                    text.parse().map(S::NetworkSshAgent).map_err(shown)
                });
            }
            Key::NetworkUnnamed => {
                S::NetworkUnnamed(self.word(key, value, &["refuse", "allow"], unnamed_named)?)
            }
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
            Key::ApprovalCritical => S::ApprovalCritical(self.boolean(key, value)?),
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

    /// Each group a list of hosts, or a text with blanks between them.
    fn groups(&self, key: Key, value: Item<'_, '_>, into: &mut Document) -> Result<(), Error> {
        let DeValue::Table(groups) = value.get_ref() else {
            return Err(self.wrong(
                key.name(),
                value,
                "a table is wanted: groups = { work = [\"example.org\"] }".to_owned(),
            ));
        };
        for (name, value) in in_order(groups) {
            let words: Vec<&str> = match value.get_ref() {
                DeValue::String(text) => text.split_ascii_whitespace().collect(),
                _ => self
                    .items(key.name(), value)?
                    .iter()
                    .map(|item| self.text(key.name(), item))
                    .collect::<Result<_, _>>()?,
            };
            let group = words
                .into_iter()
                .map(|word| word.parse().map_err(shown))
                .collect::<Result<_, _>>()
                .and_then(|hosts| Group::new(name.get_ref(), hosts))
                .map_err(|why| self.wrong(key.name(), value, why))?;
            self.push(Setting::NetworkGroup(group), value, into);
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
            _ if runs_a_value(&words) => Err(self.wrong(
                key.name(),
                value,
                "a shell would run what is filled in, and whoever asks writes that: use \"$SJAIL_SUMMARY\", \"$SJAIL_ID\" and \"$SJAIL_RISK\" in its text".to_owned(),
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
/// Whether something that is filled in would be read as a program by one of the words: in its
/// text, or in place of it. Behind a script it is an argument.
fn runs_a_value(words: &[String]) -> bool {
    const READERS: [&str; 14] = [
        "sh", "bash", "dash", "zsh", "fish", "ksh", "busybox", "python", "python3", "perl", "ruby",
        "node", "awk", "ssh",
    ];
    const MARKS: [&str; 3] = ["{summary}", "{id}", "{risk}"];
    let base = |word: &String| word.rsplit('/').next().unwrap_or_default().to_owned();
    let reads = words
        .iter()
        .any(|word| READERS.contains(&base(word).as_str()));
    let afar = words.iter().any(|word| base(word) == "ssh");
    let fits = |at: usize, word: &String| {
        let before = at.checked_sub(1).and_then(|at| words.get(at));
        let is_text = before.is_some_and(|before| before.starts_with('-') && before != "--");
        let alone = MARKS.contains(&word.as_str());
        !MARKS.iter().any(|mark| word.contains(mark)) || alone && !is_text && !afar
    };
    reads && !words.iter().enumerate().all(|(at, word)| fits(at, word))
}
