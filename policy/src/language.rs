//! The languages that program texts are run in: one entry each.

/// A language.
#[derive(Debug, PartialEq, Eq)]
pub struct Language {
    /// What it is called.
    pub name: &'static str,
    /// The same, as people write it.
    pub title: &'static str,
    /// What else it is called.
    pub aliases: &'static [&'static str],
    /// Its interpreter, by the names under which it may be installed.
    pub programs: &'static [&'static str],
    /// The interpreter's words; the program text comes over standard input.
    pub words: &'static [&'static str],
    /// Where an interpreter's complaint says what went wrong.
    pub complaint: Complaint,
}

/// Where an interpreter's complaint says what went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Complaint {
    /// In its last line.
    LastLine,
}

/// Every language; to add one, add its entry.
pub const LANGUAGES: &[Language] = &[
    Language {
        name: "python",
        title: "Python",
        aliases: &["py", "python3"],
        programs: &["python3", "python"],
        words: &["-S", "-c", include_str!("../languages/start.py")],
        complaint: Complaint::LastLine,
    },
    Language {
        name: "javascript",
        title: "JavaScript",
        aliases: &["js", "node"],
        programs: &["node", "nodejs"],
        // A context of its own inside node, itself inside the jail.
        words: &[
            "--disallow-code-generation-from-strings",
            "-e",
            include_str!("../languages/context.js"),
        ],
        complaint: Complaint::LastLine,
    },
    Language {
        name: "bash",
        title: "Bash",
        aliases: &["sh", "shell"],
        programs: &["bash"],
        words: &["-s"],
        complaint: Complaint::LastLine,
    },
];

impl Language {
    /// The language of that name.
    pub fn named(name: &str) -> Option<&'static Language> {
        LANGUAGES
            .iter()
            .find(|language| language.name == name || language.aliases.contains(&name))
    }

    /// Reads a flag's value.
    pub fn parse(name: &str) -> Result<&'static Language, String> {
        Language::named(name).ok_or_else(|| {
            let names: Vec<&str> = Language::names().collect();
            format!("there are {}", names.join(", "))
        })
    }

    /// What they are called, in order.
    pub fn names() -> impl Iterator<Item = &'static str> {
        LANGUAGES.iter().map(|language| language.name)
    }

    /// What an interpreter's complaint comes down to.
    pub fn error(&self, stderr: &str) -> Option<String> {
        match self.complaint {
            Complaint::LastLine => stderr
                .lines()
                .rev()
                .map(str::trim_end)
                .find(|line| !line.is_empty())
                .map(str::to_owned),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn languages_go_by_any_of_their_names() {
        assert_eq!(Language::named("js").unwrap().name, "javascript");
        // code-sandbox 134-136: either name of it.
        assert_eq!(
            Language::named("python").unwrap().programs,
            ["python3", "python"]
        );
        assert!(Language::parse("cobol").unwrap_err().contains("python"));
        let error = Language::named("python")
            .unwrap()
            .error("Traceback:\n  x\nE: y\n\n");
        assert_eq!(error.as_deref(), Some("E: y"));
    }
}
