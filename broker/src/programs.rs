//! The files that a command runs, as far as they can be known before it does: what
//! an approval is tied to.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};
use sjail_policy::classify::{Classification, SimpleCommand};
use sjail_policy::effect::Action;
use sjail_policy::need::Found;
use sjail_policy::plan::{Plan, Variable};
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

/// So many files are bound at most; a line with more is asked about all the same.
const MOST: usize = 32;

/// The files behind the programs and scripts of a line.
pub fn files(line: &Classification, plan: &Plan, typed: &Typed) -> Vec<PathBuf> {
    let places = Places::of(plan);
    let mut found = Vec::new();
    let mut add = |path: Option<PathBuf>| {
        if let Some(path) = path
            && !found.contains(&path)
            && found.len() < MOST
        {
            found.push(path);
        }
    };
    if let Typed::Argv(argv) = typed {
        add(argv
            .first()
            .and_then(|program| places.program(program.as_os_str())));
    }
    for command in &line.commands {
        // Where a `cd` leads is known or not; what is there is nobody's then.
        let Some(places) = places.after(command) else {
            continue;
        };
        if !command.program.builtin && !command.program.defined_here {
            add(places.program(OsStr::new(&command.program.typed)));
        }
        add(script(command, &places));
        for effect in &command.effects {
            if let Action::Runs { program } = &effect.action {
                add(places.file(Path::new(program)));
            }
        }
    }
    found
}

/// Where the caller looks for programs.
pub fn search_path(env: &[Variable]) -> &OsStr {
    env.iter()
        .find(|variable| variable.name.as_bytes() == b"PATH")
        .map(|variable| variable.value.as_os_str())
        .unwrap_or_default()
}

/// Whether the first program of that name along a search path is root's, in folders of
/// root's: then it is what its name says.
pub fn is_trusted(path: &OsStr, name: &str) -> bool {
    let found = std::env::split_paths(path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(|file| {
            fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.mode() & 0o111 != 0)
        });
    found.is_some_and(|file| is_roots(&file))
}

/// The file that links lead to, and every folder above it, are root's and closed to
/// others.
fn is_roots(file: &Path) -> bool {
    let Ok(real) = fs::canonicalize(file) else {
        return false;
    };
    let roots = |path: &Path| {
        fs::symlink_metadata(path)
            .ok()
            .filter(|meta| meta.uid() == 0)
    };
    real.ancestors()
        .all(|path| roots(path).is_some_and(|meta| meta.mode() & 0o022 == 0))
        && file
            .parent()
            .is_some_and(|folder| folder.ancestors().all(|path| roots(path).is_some()))
}

/// What is at a path, as far as this account may use it.
pub fn look(path: &[u8]) -> Option<Found> {
    let real = fs::canonicalize(OsStr::from_bytes(path)).ok()?;
    let may = |flag| access(&real, flag).is_ok();
    Some(Found {
        readable: may(AccessFlags::R_OK),
        writable: may(AccessFlags::W_OK),
        real: real.into(),
    })
}

/// The script that an interpreter is given.
fn script(command: &SimpleCommand, places: &Places<'_>) -> Option<PathBuf> {
    if !INTERPRETERS.contains(&command.program.name.as_str()) {
        return None;
    }
    let argument = command
        .argv
        .iter()
        .skip(1)
        .find(|argument| !argument.text.starts_with('-'))?;
    places.file(Path::new(&argument.text))
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

    fn file(&self, path: &Path) -> Option<PathBuf> {
        let path = self.cwd.join(path);
        path.is_file().then_some(path)
    }
}
