//! Turns the commented data in `seccomp/` into Rust tables: reading TOML at start-up
//! would cost more than the rest of the set-up.

use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Syscalls {
    allow: Vec<Group>,
    check: Vec<Group>,
    refuse: Vec<Group>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    reason: String,
    names: Vec<String>,
    only: Option<String>,
    rule: Option<String>,
    errno: Option<String>,
}

/// The texts of the table, in one string: as pointers each would have to be relocated when
/// the program starts, and its page copied.
#[derive(Default)]
struct Texts {
    all: String,
}

impl Texts {
    /// The expression that stands for a text.
    fn text(&mut self, text: &str) -> String {
        let at = self.all.find(text).unwrap_or_else(|| {
            self.all.push_str(text);
            self.all.len() - text.len()
        });
        format!("Text({at}, {})", text.len())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let source = "seccomp/syscalls.toml";
    println!("cargo::rerun-if-changed={source}");
    println!("cargo::rerun-if-changed=build.rs");
    let syscalls: Syscalls = toml::from_str(&fs::read_to_string(source)?)?;

    let mut seen = std::collections::BTreeSet::new();
    let mut texts = Texts::default();
    let mut rust = String::from(
        "/// Every call that the filter knows, with its verdict and the reason for it.\n",
    );
    rust.push_str("pub const TABLE: &[Entry] = &[\n");
    for (groups, kind) in [
        (&syscalls.allow, "allow"),
        (&syscalls.check, "check"),
        (&syscalls.refuse, "refuse"),
    ] {
        for group in groups {
            let verdict = match (kind, &group.rule, &group.errno) {
                ("allow", None, None) => "Verdict::Allow".to_owned(),
                ("check", Some(rule), None) => format!("Verdict::Check(Rule::{rule})"),
                ("refuse", None, Some(errno)) => {
                    format!("Verdict::Refuse(libc::{errno} as u16)")
                }
                _ => return Err(format!("{source}: {kind} {:?} mixes keys", group.names).into()),
            };
            for name in &group.names {
                if !seen.insert(name) {
                    return Err(format!("{source}: {name} stands there twice").into());
                }
                if let Some(only) = &group.only {
                    writeln!(rust, "    #[cfg(target_arch = {only:?})]")?;
                }
                let (known, reason) = (texts.text(name), texts.text(&group.reason));
                writeln!(
                    rust,
                    "    Entry {{ name: {known}, number: libc::SYS_{name}, verdict: {verdict}, reason: {reason} }},",
                )?;
            }
        }
    }
    writeln!(rust, "];\n\nstatic TEXTS: &str = {:?};", texts.all)?;
    let target = env::var("OUT_DIR")?;
    fs::write(Path::new(&target).join("syscalls.rs"), rust)?;
    Ok(())
}
