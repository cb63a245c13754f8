//! Files of a project that its tools run: what the line itself wrote into one is run by the tool
//! that reads it. Files that were there before are the project's own.

use super::act::Act;
use super::code;
use super::elsewhere::quoted_texts;
use super::knowledge::Language;
use super::run;
use crate::classify::flow::Flow;
use crate::classify::given::Given;
use crate::effect::Place;

/// More steps than this of one file are not looked at.
const MAX_STEPS: usize = 64;

/// How the steps stand in a file.
#[derive(Clone, Copy)]
enum Steps {
    /// Behind a tab, or other blanks.
    Recipes,
    /// Under `"scripts"`, by their names.
    Scripts,
    /// It is a source.
    Source(Language),
}

/// Tools, the files that they read by themselves, and what these are.
const READ: &[(&[&str], &[&str], Steps)] = &[
    (
        &["make", "gmake", "bmake"],
        &["Makefile", "makefile", "GNUmakefile"],
        Steps::Recipes,
    ),
    (
        &["just"],
        &["justfile", "Justfile", ".justfile"],
        Steps::Recipes,
    ),
    (
        &["npm", "pnpm", "yarn", "bun", "cnpm"],
        &["package.json"],
        Steps::Scripts,
    ),
    (&["composer"], &["composer.json"], Steps::Scripts),
    (
        &["pip", "pip3", "uv", "easy_install"],
        &["setup.py"],
        Steps::Source(Language::Python),
    ),
    (
        &["pytest", "py.test"],
        &["conftest.py"],
        Steps::Source(Language::Python),
    ),
    (&["nox"], &["noxfile.py"], Steps::Source(Language::Python)),
    (
        &["invoke", "inv", "fab"],
        &["tasks.py", "fabfile.py"],
        Steps::Source(Language::Python),
    ),
    (&["scons"], &["SConstruct"], Steps::Source(Language::Python)),
    (&["rake"], &["Rakefile"], Steps::Source(Language::Ruby)),
    (
        &["vagrant"],
        &["Vagrantfile"],
        Steps::Source(Language::Ruby),
    ),
    (
        &["bundle", "bundler"],
        &["Gemfile"],
        Steps::Source(Language::Ruby),
    ),
    (&["cargo"], &["build.rs"], Steps::Source(Language::Other)),
    (
        &["gradle", "gradlew"],
        &["build.gradle", "settings.gradle"],
        Steps::Source(Language::Other),
    ),
    (&["direnv"], &[".envrc"], Steps::Recipes),
];

/// Judges the steps of such files, as far as the line wrote them.
pub(crate) fn steps(act: &mut Act<'_, '_>) {
    if act.judge.traces.files.is_empty() {
        return;
    }
    let name = act.draft.program.name.clone();
    for (tools, files, steps) in READ {
        if !tools.contains(&name.as_str()) {
            continue;
        }
        for file in *files {
            let path = Given::known(*file, act.call.span);
            let written = act.target(&path).resolved;
            let written = written.filter(|path| act.judge.traces.files.contains_key(path));
            let Some(written) = written else {
                continue;
            };
            let length = act.judge.traces.files.get(&written).and_then(Flow::seen);
            let length = length.map_or(0, str::len);
            if length > 0 && act.judge.has_time(length) {
                let flow = act.judge.content(&path, &act.cwd);
                read(act, *steps, flow.seen().unwrap_or_default());
            }
        }
    }
}

fn read(act: &mut Act<'_, '_>, steps: Steps, text: &str) {
    let span = act.call.span;
    match steps {
        Steps::Recipes => {
            let lines = text.lines().filter(|line| line.starts_with(['\t', ' ']));
            for line in lines.take(MAX_STEPS) {
                let line = line.trim().trim_start_matches(['@', '-', '+']);
                let step = Given::known(variables(line), span);
                act.shell_text(&step);
            }
        }
        Steps::Scripts => {
            for step in scripts(act, text) {
                act.shell_text(&Given::known(step, span));
            }
        }
        Steps::Source(language) => code::judge(act, language, &Given::known(text, span)),
    }
}

/// A recipe as its shell gets it: `$(NAME)` is a variable, `$$` a dollar sign.
fn variables(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let behind = &rest[at + 1..];
        let name = behind
            .strip_prefix('(')
            .and_then(|name| name.split_once(')'));
        match name {
            Some((name, after)) if name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') => {
                out.push_str("${");
                out.push_str(name);
                out.push('}');
                rest = after;
            }
            _ => {
                out.push('$');
                rest = behind.strip_prefix('$').unwrap_or(behind);
            }
        }
    }
    out.push_str(rest);
    out
}

/// The scripts that a command starts, with those before and after them.
fn scripts(act: &Act<'_, '_>, text: &str) -> Vec<String> {
    let Some((_, behind)) = text.split_once("\"scripts\"") else {
        return Vec::new();
    };
    let object = behind.split('}').next().unwrap_or_default();
    let texts: Vec<String> = quoted_texts(object).take(MAX_STEPS * 2).collect();
    let words = act.call.args[1..].iter().map(|word| word.text.as_str());
    let asked: Vec<&str> = words
        .filter(|word| !word.starts_with('-'))
        .take(4)
        .collect();
    const ALWAYS: &[&str] = &[
        "run",
        "run-script",
        "test",
        "t",
        "start",
        "stop",
        "exec",
        "x",
    ];
    let installs = asked.first().is_none_or(|first| !ALWAYS.contains(first));
    let wanted = |name: &str| {
        let bare = name.trim_start_matches("pre").trim_start_matches("post");
        let own = matches!(
            bare,
            "install" | "prepare" | "publish" | "pare" | "-install-cmd" | "-update-cmd"
        );
        installs && own || asked.contains(&name) || asked.contains(&bare)
    };
    let pairs = texts.chunks_exact(2).filter(|pair| wanted(&pair[0]));
    pairs.map(|pair| pair[1].clone()).collect()
}

/// A program that the line put where commands are looked for is started by its name alone.
pub(crate) fn put_there(act: &mut Act<'_, '_>) {
    let name = act.call.args[0].text.clone();
    if act.judge.traces.files.is_empty() || name.contains('/') || act.draft.program.builtin {
        return;
    }
    let span = act.call.span;
    let places = [Place::Programs, Place::System];
    let files = act.judge.traces.files.keys();
    let written = files.filter(|path| {
        let (folder, last) = path.rsplit_once('/').unwrap_or_default();
        last == name && (folder.ends_with("/bin") || folder.ends_with("/sbin"))
    });
    let Some(path) = written.min().cloned() else {
        return;
    };
    let given = Given::known(path, act.call.args[0].span);
    if places.contains(&act.target(&given).place) {
        let given = Given { span, ..given };
        run::file(act.judge, act.state, act.call, act.draft, &given, None);
    }
}

#[cfg(test)]
mod tests {
    use super::variables;

    #[test]
    fn variables_of_a_recipe_are_the_shells() {
        assert_eq!(variables("rm -rf $(HOME)/x $$y"), "rm -rf ${HOME}/x $y");
        assert_eq!(variables("a $(shell b) $@ $"), "a $(shell b) $@ $");
    }
}
