//! What an approval is tied to: the files that a command runs, as far as they can be known
//! before it does.

mod flags;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use sjail_policy::classify::{Classification, SimpleCommand};
use sjail_policy::effect::Action;
use sjail_policy::plan::Plan;
use sjail_policy::wire::request::Typed;

/// Programs whose first plain argument is a file of instructions to them.
const INTERPRETERS: [&str; 22] = [
    "sh",
    "bash",
    "dash",
    "zsh",
    "ksh",
    "fish",
    "python",
    "python2",
    "python3",
    "perl",
    "ruby",
    "node",
    "nodejs",
    "deno",
    "bun",
    "php",
    "lua",
    "Rscript",
    "tclsh",
    "osascript",
    "source",
    ".",
];

/// Programs that do what a file of the project says, by its usual names.
const RUNNERS: [(&[&str], &[&str]); 4] = [
    (&["make", "gmake"], &["GNUmakefile", "makefile", "Makefile"]),
    (&["npm", "pnpm", "yarn", "bun"], &["package.json"]),
    (&["just"], &["justfile", ".justfile", "Justfile"]),
    (&["rake"], &["rakefile", "Rakefile"]),
];

/// So many files are bound at most; a line with more is asked about all the same.
const MOST: usize = 32;

/// A project's file is looked for in so many folders, one above the other.
const MOST_ABOVE: usize = 8;

/// What an approval of a line is tied to.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Tied {
    /// The programs and scripts that it starts, as far as they are known.
    pub files: Vec<PathBuf>,
    /// What it starts besides, in sentences: nobody can know which file that is.
    pub open: Vec<String>,
}

impl Tied {
    fn add(&mut self, path: Option<PathBuf>) {
        match path {
            Some(path) if self.files.contains(&path) => {}
            Some(_) if self.files.len() >= MOST => self.leave_open("more files than can be tied"),
            Some(path) => self.files.push(path),
            None => {}
        }
    }

    fn leave_open(&mut self, what: &str) {
        if !self.open.iter().any(|known| known == what) {
            self.open.push(what.to_owned());
        }
    }
}

/// The files behind the programs and scripts of a line.
pub fn tied(line: &Classification, plan: &Plan, typed: &Typed) -> Tied {
    let places = Places::of(plan);
    let mut tied = Tied::default();
    if let Typed::Argv(argv) = typed {
        let program = argv.first();
        tied.add(program.and_then(|program| places.program(program.as_os_str())));
    }
    all(line, &places, tied)
}

fn all(line: &Classification, places: &Places<'_>, mut tied: Tied) -> Tied {
    for command in &line.commands {
        // Where a `cd` leads is known or not; what is there is nobody's then.
        let Some(places) = places.after(command) else {
            let name = &command.program.typed;
            tied.leave_open(&format!("`{name}`, in a folder that is not known yet"));
            continue;
        };
        if !command.program.builtin && !command.program.defined_here {
            tied.add(places.program(OsStr::new(&command.program.typed)));
        }
        match instructions(command, &places) {
            Ok(files) => files.into_iter().for_each(|path| tied.add(Some(path))),
            Err(text) => {
                let name = &command.program.name;
                tied.leave_open(&format!("what `{name} {text}` names when it runs"));
            }
        }
        let folder = runners_folder(command, &places);
        let there = Places {
            cwd: &folder,
            path: Vec::new(),
        };
        match flags::named(command, &there) {
            Ok(files) => files.into_iter().for_each(|path| tied.add(Some(path))),
            Err(text) => {
                let name = &command.program.name;
                tied.leave_open(&format!("what `{name} {text}` names when it runs"));
            }
        }
        tied.add(project_file(command, &folder));
        named_by_variables(command, &places).for_each(|path| tied.add(Some(path)));
        for effect in &command.effects {
            if let Action::Runs { program } = &effect.action {
                tied.add(places.file(Path::new(program)));
            }
        }
    }
    tied
}

/// Options of Python that can stand before another one in the same word.
const NO_VALUE: &str = "bBdEhiIOPqsSuvVx?";

/// The files that an interpreter is told to obey; `Err` with the words that name one which
/// cannot be known. An option that is followed by its value may be taken for one that is
/// not: then a file too many is tied, never one too few.
fn instructions(command: &SimpleCommand, places: &Places<'_>) -> Result<Vec<PathBuf>, String> {
    let name = command.program.name.as_str();
    if !INTERPRETERS.contains(&name) {
        return Ok(Vec::new());
    }
    let is_python = name.starts_with("python");
    let mut files = Vec::new();
    let mut words = command.argv.iter().skip(1);
    let mut is_value = false;
    while let Some(word) = words.next() {
        let text = word.text.as_str();
        if let Some(option) = text.strip_prefix('-').filter(|option| !option.is_empty()) {
            let cluster = option.trim_start_matches(|letter| NO_VALUE.contains(letter));
            match cluster.strip_prefix('m').filter(|_| is_python) {
                Some("") => {
                    let module = words.next().map(|word| word.text.as_str());
                    files.extend(module.and_then(|module| places.module(module)));
                    return Ok(files);
                }
                Some(module) if !option.starts_with('-') => {
                    files.extend(places.module(module));
                    return Ok(files);
                }
                _ => {}
            }
            // The line itself says what to do, with modules that are found by name.
            if ["c", "e"].contains(&option) {
                return Ok(files);
            }
            let brings = ["M", "r"].iter().any(|flag| option.starts_with(flag));
            if brings && ["perl", "ruby"].contains(&name) {
                return Err(text.to_owned());
            }
            is_value = true;
            continue;
        }
        if word.glob || !word.exact {
            return Err(text.to_owned());
        }
        let script = places.script(Path::new(text));
        let found = script.is_some();
        files.extend(script);
        match (found, is_value) {
            (true, false) => return Ok(files),
            // A folder that says nothing of what is run in it.
            (false, false) if places.cwd.join(text).exists() => return Err(text.to_owned()),
            (false, false) => return Ok(files),
            (_, true) => is_value = false,
        }
    }
    let passes = |wrapper: &String| ["xargs", "parallel"].contains(&wrapper.as_str());
    match files.is_empty() && command.wrappers.iter().any(passes) {
        true => Err("…".to_owned()),
        false => Ok(files),
    }
}

/// The files that a runner of a project's tasks has by default, if it is one.
fn project_files(command: &SimpleCommand) -> Option<&'static [&'static str]> {
    let name = command.program.name.as_str();
    let runs = |(programs, _): &&(&[&str], &[&str])| programs.contains(&name);
    RUNNERS.iter().find(runs).map(|(_, names)| *names)
}

/// Where a program is at work: a runner can be told to go elsewhere first.
fn runners_folder(command: &SimpleCommand, places: &Places<'_>) -> PathBuf {
    let mut folder = places.cwd.to_owned();
    if project_files(command).is_none() {
        return folder;
    }
    let mut words = command.argv.iter().skip(1).map(|word| word.text.as_str());
    while let Some(word) = words.next() {
        let joined = ["--directory=", "--prefix=", "--cwd=", "--dir=", "-C"]
            .iter()
            .find_map(|option| word.strip_prefix(option))
            .filter(|folder| !folder.is_empty());
        let apart = || match word {
            "-C" | "--directory" | "--prefix" | "--cwd" | "--dir" => words.next(),
            _ => None,
        };
        // Each one counts from the one before.
        if let Some(next) = joined.or_else(apart) {
            folder.push(next);
        }
    }
    folder
}

/// The file of the project that a runner of its tasks obeys: in its folder, or above.
fn project_file(command: &SimpleCommand, folder: &Path) -> Option<PathBuf> {
    let names = project_files(command)?;
    let mut above = folder.ancestors().take(MOST_ABOVE);
    above.find_map(|folder| {
        let mut files = names.iter().map(|name| folder.join(name));
        files.find(|file| file.is_file())
    })
}

/// Files that a variable before the command names: `BASH_ENV=x`, `LD_PRELOAD=./x.so`.
fn named_by_variables<'a>(
    command: &'a SimpleCommand,
    places: &'a Places<'_>,
) -> impl Iterator<Item = PathBuf> + 'a {
    let values = command.assignments.iter().filter_map(|arg| {
        let (_, value) = arg.text.split_once('=')?;
        Some(value)
    });
    values
        .flat_map(|value| value.split([':', ' ', '=', ',']))
        .filter(|word| !word.is_empty())
        .filter_map(|word| places.file(Path::new(word)))
}

struct Places<'a> {
    cwd: &'a Path,
    path: Vec<&'a Path>,
}

/// The value of an assignment before a command.
fn assigned<'a>(command: &'a SimpleCommand, name: &str) -> Option<&'a str> {
    let texts = command
        .assignments
        .iter()
        .rev()
        .map(|arg| arg.text.as_str());
    texts
        .filter_map(|text| text.split_once('='))
        .find_map(|(own, value)| (own == name).then_some(value))
}

impl<'a> Places<'a> {
    fn of(plan: &'a Plan) -> Places<'a> {
        let path = plan
            .command
            .env
            .iter()
            .find(|variable| variable.name.as_bytes() == b"PATH")
            .map(|variable| variable.value.as_bytes())
            .unwrap_or_default();
        Places {
            cwd: plan.command.cwd.as_path(),
            path: path
                .split(|byte| *byte == b':')
                .map(|folder| Path::new(OsStr::from_bytes(folder)))
                .collect(),
        }
    }

    /// The same for one command of the line: in the folder that it runs in, and with the
    /// search path that it is given before the line's own.
    fn after<'b>(&'b self, command: &'b SimpleCommand) -> Option<Places<'b>>
    where
        'a: 'b,
    {
        let own = assigned(command, "PATH").unwrap_or_default().split(':');
        let own = own.filter(|folder| !folder.is_empty()).map(Path::new);
        let cwd = Path::new(command.folder.as_deref()?);
        Some(Places {
            cwd,
            path: own.chain(self.path.iter().copied()).collect(),
        })
    }

    fn program(&self, name: &OsStr) -> Option<PathBuf> {
        if name.as_bytes().contains(&b'/') {
            return self.file(Path::new(name));
        }
        self.path
            .iter()
            .map(|folder| self.cwd.join(folder).join(name))
            .find(|path| path.is_file())
    }

    /// A script, or the part of a folder that an interpreter starts with.
    fn script(&self, path: &Path) -> Option<PathBuf> {
        self.file(path)
            .or_else(|| self.file(&path.join("__main__.py")))
    }

    /// The file of a module of Python in the working folder; others are the system's.
    fn module(&self, name: &str) -> Option<PathBuf> {
        let path = PathBuf::from(name.replace('.', "/"));
        let usual = [path.with_extension("py"), path.join("__main__.py")];
        usual.iter().find_map(|path| self.file(path))
    }

    fn file(&self, path: &Path) -> Option<PathBuf> {
        let path = self.cwd.join(path);
        path.is_file().then_some(path)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use std::fs;

    use sjail_policy::classify::{Context, classify};

    /// The names of what a line is tied to in a folder with these files, and what is open.
    fn of(line: &str) -> (Vec<String>, Vec<String>) {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir_all(root.join("sub/pkg")).unwrap();
        for name in [
            "Makefile",
            "package.json",
            "a.sh",
            "a.js",
            "sub/pkg/__main__.py",
            "sub/m.py",
        ] {
            fs::write(root.join(name), "x").unwrap();
        }
        let context = Context::new(&root.to_string_lossy(), "/home/u", "u");
        let line = classify(line.as_bytes(), &context);
        let places = Places {
            cwd: root,
            path: Vec::new(),
        };
        let tied = all(&line, &places, Tied::default());
        let root = fs::canonicalize(root).unwrap();
        let name = |path: &PathBuf| {
            let real = fs::canonicalize(path).unwrap();
            real.strip_prefix(&root).unwrap().to_string_lossy().into()
        };
        (tied.files.iter().map(name).collect(), tied.open)
    }

    #[test]
    fn a_runner_is_tied_to_the_file_that_it_obeys() {
        for (line, file) in [
            ("make all", "Makefile"),
            ("make -C sub all", "Makefile"),
            ("cd sub && npm run build", "package.json"),
            ("bash a.sh", "a.sh"),
            ("bash -x ./a.sh", "a.sh"),
            ("cd sub; python3 -m pkg", "sub/pkg/__main__.py"),
            ("cd sub; python3 -m m", "sub/m.py"),
            ("make --directory=sub/pkg -C ../..", "Makefile"),
            ("make -Csub", "Makefile"),
            ("cd sub; python3 -Bm m", "sub/m.py"),
            ("cd sub; python3 -mm", "sub/m.py"),
            ("cd sub; python3 -um m", "sub/m.py"),
            ("cd sub; python3 -X dev -m m", "sub/m.py"),
            ("cd sub; python3 -X dev m.py", "sub/m.py"),
            ("python3 sub/pkg", "sub/pkg/__main__.py"),
            ("bash -o pipefail a.sh", "a.sh"),
            ("BASH_ENV=a.sh bash -c :", "a.sh"),
            ("LD_PRELOAD=./a.sh ls", "a.sh"),
        ] {
            assert_eq!(of(line), (vec![file.to_owned()], Vec::new()), "{line}");
        }
    }

    #[test]
    fn files_that_options_name_are_tied() {
        for (line, file) in [
            ("make -f a.sh all", "a.sh"),
            ("make -fa.sh all", "a.sh"),
            ("make -sf a.sh", "a.sh"),
            ("make --file=a.sh", "a.sh"),
            ("make --makefile a.sh", "a.sh"),
            ("make --makef=a.sh", "a.sh"),
            ("make -C sub -f ../a.sh", "a.sh"),
            ("make -f sub/m.py -f a.sh", "a.sh"),
            ("just --justfile a.sh x", "a.sh"),
            ("awk -f a.sh data", "a.sh"),
            ("sed -nf a.sh data", "a.sh"),
            ("node --require=./a.sh -e 1", "a.sh"),
            ("node -r ./a x.js", "a.js"),
            ("bash --rcfile a.sh -i", "a.sh"),
            ("php -fa.sh", "a.sh"),
            ("vim -S a.sh", "a.sh"),
        ] {
            assert!(
                of(line).0.contains(&file.to_owned()),
                "{line}: {:?}",
                of(line)
            );
        }
        for line in [
            "make -f - all",
            "make -f $X",
            "make -f *.mk",
            "awk -f /dev/stdin x",
        ] {
            assert_eq!(of(line).1.len(), 1, "{line}");
        }
    }

    #[test]
    fn what_is_only_known_later_is_said() {
        for line in [
            "bash *.sh",
            "python3 $X",
            "cd $X && ./run",
            "xargs -a list bash",
            "perl -I. -MThing -e1",
            "node sub",
        ] {
            assert_eq!(of(line).1.len(), 1, "{line}");
        }
        for line in [
            "bash -c 'ls *'",
            "python3 -m http.server",
            "ls *.sh",
            "bash",
        ] {
            assert_eq!(of(line).1.len(), 0, "{line}");
        }
    }
}
