//! What may stand in a knowledge file.

use std::collections::BTreeMap;

use serde::Deserialize;

/// One knowledge file; all of them are merged.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    #[serde(default)]
    pub program: Vec<Program>,
    #[serde(default)]
    pub variable: Vec<Variable>,
    #[serde(default)]
    pub place: Vec<Place>,
    #[serde(default)]
    pub code: Vec<Code>,
    #[serde(default)]
    pub gitkey: Vec<GitKey>,
    #[serde(default)]
    pub verb: Vec<Verb>,
}

/// A program, or several that behave alike.
#[derive(Deserialize)]
pub struct Program {
    pub name: Names,
    #[serde(flatten)]
    pub spec: Spec,
    #[serde(skip)]
    pub origin: String,
}

/// How a program or one of its sub-commands behaves.
#[derive(Deserialize)]
pub struct Spec {
    #[serde(default)]
    pub reason: String,
    pub risk: Option<String>,
    #[serde(default)]
    pub effect: Option<String>,
    #[serde(default)]
    pub says: String,
    pub style: Option<String>,
    pub unknown: Option<String>,
    #[serde(default)]
    pub flags: Vec<String>,
    #[serde(default)]
    pub args: Vec<String>,
    pub input: Option<String>,
    pub output: Option<String>,
    pub handler: Option<String>,
    pub bare: Option<String>,
    pub inherit: Option<bool>,
    pub verbs: Option<bool>,
    #[serde(default)]
    pub safe: Vec<String>,
    #[serde(default)]
    pub normal: Vec<String>,
    #[serde(default)]
    pub noted: BTreeMap<String, String>,
    #[serde(default)]
    pub dangerous: BTreeMap<String, String>,
    #[serde(default)]
    pub critical: BTreeMap<String, String>,
    #[serde(default)]
    pub sub: Vec<Sub>,
    /// Whatever is not a key of the schema lands here and is refused.
    #[serde(flatten)]
    pub unknown_keys: BTreeMap<String, toml::Value>,
}

/// A sub-command.
#[derive(Deserialize)]
pub struct Sub {
    pub name: Names,
    #[serde(flatten)]
    pub spec: Spec,
}

/// `"one"` or `["one", "two"]`.
#[derive(Deserialize)]
#[serde(untagged)]
pub enum Names {
    One(String),
    Many(Vec<String>),
}

impl Names {
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        match self {
            Names::One(name) => std::slice::from_ref(name).iter(),
            Names::Many(names) => names.iter(),
        }
        .map(String::as_str)
    }
}

/// An environment variable that changes what other programs do.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variable {
    pub name: Names,
    pub risk: String,
    #[serde(default)]
    pub role: Option<String>,
    pub says: String,
    pub reason: String,
}

/// Paths of one kind.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    pub kind: String,
    pub paths: Vec<String>,
    pub reason: String,
}

/// Text in a program's source that gives away what it does.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Code {
    pub language: Names,
    pub means: String,
    pub text: Vec<String>,
    pub reason: String,
}

/// A key of git's configuration that names a program, or weakens git.
#[derive(Deserialize)]
#[allow(dead_code)] // the reason is for whoever reads the file
#[serde(deny_unknown_fields)]
pub struct GitKey {
    pub key: Names,
    pub role: String,
    pub says: String,
    pub reason: String,
}

/// A word that means the same as a sub-command of almost every tool.
#[derive(Deserialize)]
#[allow(dead_code)] // the reason is for whoever reads the file
#[serde(deny_unknown_fields)]
pub struct Verb {
    pub words: Vec<String>,
    pub risk: String,
    pub says: String,
    pub reason: String,
    #[serde(default)]
    pub everywhere: bool,
}

impl File {
    pub fn absorb(&mut self, other: File) {
        self.program.extend(other.program);
        self.variable.extend(other.variable);
        self.place.extend(other.place);
        self.code.extend(other.code);
        self.gitkey.extend(other.gitkey);
        self.verb.extend(other.verb);
    }

    pub fn remember_origin(&mut self, origin: &str) {
        for program in &mut self.program {
            program.origin = origin.to_owned();
        }
    }
}
