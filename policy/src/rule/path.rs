//! Patterns for paths: `~/.ssh/**`, `./src/*.rs`, `.env`, `!tests/fixtures/*.pem`.
//!
//! - `/…` is absolute, `~/…` below home, everything else below the workspace.
//! - A single name (`.env`) means that name at any depth of the workspace.
//! - `*` and `?` stay within one name; `**` stands for any number of folders.
//! - A pattern that names a folder covers what is in it; a final `/` or `/**` says the same.
//! - `!` in front takes out again what earlier patterns of the same list took in.

use super::RuleError;
pub use super::glob::Dots;
use super::glob::{How, Spelled, Wanted, could_be, is_wild};
use crate::bytes::ByteString;
use crate::plan::name_matches;

/// A pattern for paths, not yet tied to a home or a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PathPattern {
    text: String,
    sign: Sign,
    base: Base,
    segments: Vec<Segment>,
}

/// Whether a pattern takes in or takes out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sign {
    /// Plain.
    Include,
    /// With `!` in front.
    Exclude,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Base {
    Root,
    Home,
    Workspace,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Segment {
    /// One name, with wildcards or without.
    Name(String),
    /// Any number of names.
    AnyDepth,
}

/// Where `~` and relative paths point.
#[derive(Debug, Clone, Copy)]
pub struct Bases<'a> {
    /// The home folder, absolute.
    pub home: &'a [u8],
    /// The workspace, absolute.
    pub workspace: &'a [u8],
}

/// Whether upper and lower case are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Case {
    /// They are: for patterns that allow.
    Exact,
    /// They are not: for patterns that forbid, since a file system may not either.
    Folded,
}

impl PathPattern {
    /// Reads a pattern; one that could never match anything is refused.
    pub fn parse(text: &str) -> Result<Self, RuleError> {
        let wrong = |why: &'static str| RuleError::Path {
            text: text.to_owned(),
            why,
        };
        let trimmed = text.trim();
        let (sign, body) = match trimmed.strip_prefix('!') {
            Some(body) => (Sign::Exclude, body),
            None => (Sign::Include, trimmed),
        };
        if body.is_empty() {
            return Err(wrong("it is empty"));
        }
        if body.contains('\0') {
            return Err(wrong("no path has a NUL in it"));
        }
        let (base, rest) = if let Some(rest) = body.strip_prefix('/') {
            (Base::Root, rest)
        } else if body == "~" {
            (Base::Home, "")
        } else if let Some(rest) = body.strip_prefix("~/") {
            (Base::Home, rest)
        } else if body.starts_with('~') {
            return Err(wrong(
                "`~` stands for your own home only, write the folder out",
            ));
        } else {
            (Base::Workspace, body)
        };
        let mut segments = Vec::new();
        for name in rest.split('/') {
            match name {
                "" | "." => {}
                ".." => {
                    return Err(wrong(
                        "`..` never occurs in a resolved path, write the folder out",
                    ));
                }
                "**" if segments.last() == Some(&Segment::AnyDepth) => {}
                "**" => segments.push(Segment::AnyDepth),
                name if name.contains("**") => {
                    return Err(wrong(
                        "`**` stands for whole folders, put it between slashes",
                    ));
                }
                name => segments.push(Segment::Name(name.to_owned())),
            }
        }
        // `x/**` and `x` cover the same.
        if segments.last() == Some(&Segment::AnyDepth) {
            segments.pop();
        }
        if base == Base::Workspace && !body.contains('/') && segments.len() == 1 {
            segments.insert(0, Segment::AnyDepth);
        }
        Ok(Self {
            text: trimmed.to_owned(),
            sign,
            base,
            segments,
        })
    }

    /// The pattern as written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it takes in or takes out.
    pub fn sign(&self) -> Sign {
        self.sign
    }

    /// Whether an absolute path without `.` and `..` is the pattern's, or lies below what is.
    pub fn covers(&self, path: &[u8], bases: Bases<'_>, case: Case) -> bool {
        self.fits(path, bases, Reading::Names(case))
    }

    /// The same for a path as a line has it, in which the shell may find more than one: one of
    /// those could be the pattern's.
    pub fn could_cover(&self, path: &[u8], bases: Bases<'_>, dots: Dots) -> bool {
        self.fits(path, bases, Reading::Globs(dots))
    }

    /// The same for a pattern by which a tool looks for files, wherever below: `**` stands for
    /// folders. What looks for everything looks for no file in particular.
    pub fn could_be_sought(&self, pattern: &[u8], bases: Bases<'_>) -> bool {
        const DEEPEST: usize = 8;
        let has_any_depth = names(pattern).any(|name| name == b"**");
        (0..=if has_any_depth { DEEPEST } else { 0 }).any(|depth| {
            let mut path = Vec::new();
            for name in names(pattern) {
                let (name, count) = match name {
                    b"**" => (&b"*"[..], depth),
                    name => (name, 1),
                };
                for _ in 0..count {
                    path.push(b'/');
                    path.extend(name);
                }
            }
            self.fits(&path, bases, Reading::Sought)
        })
    }

    fn fits(&self, path: &[u8], bases: Bases<'_>, reading: Reading) -> bool {
        let base: &[u8] = match self.base {
            Base::Root => b"",
            Base::Home => bases.home,
            Base::Workspace => bases.workspace,
        };
        let mut names = names(path);
        for wanted in names_of(base) {
            match names.next() {
                Some(name) if reading.is(wanted, name) => {}
                _ => return false,
            }
        }
        covers(&self.segments, names, reading)
    }

    /// The pattern as an absolute one, for a plan.
    pub fn absolute(&self, bases: Bases<'_>) -> ByteString {
        let mut path: Vec<u8> = match self.base {
            Base::Root => Vec::new(),
            Base::Home => trimmed_base(bases.home),
            Base::Workspace => trimmed_base(bases.workspace),
        };
        for segment in &self.segments {
            path.push(b'/');
            match segment {
                Segment::Name(name) => path.extend_from_slice(name.as_bytes()),
                Segment::AnyDepth => path.extend_from_slice(b"**"),
            }
        }
        if path.is_empty() {
            path.push(b'/');
        }
        ByteString::from(path)
    }
}

/// Whether an absolute pattern, as [`PathPattern::absolute`] makes them and plans carry
/// them, covers an absolute path.
pub fn absolute_covers(pattern: &[u8], path: &[u8], case: Case) -> bool {
    let segments: Vec<Segment> = names(pattern)
        .map(|name| match name {
            b"**" => Segment::AnyDepth,
            name => Segment::Name(String::from_utf8_lossy(name).into_owned()),
        })
        .collect();
    covers(&segments, names(path), Reading::Names(case))
}

/// How the names in a path are read.
#[derive(Debug, Clone, Copy)]
enum Reading {
    /// As they are.
    Names(Case),
    /// As the shell would: one could stand for others.
    Globs(Dots),
    /// As a tool that looks for files would: what a rule names is spelled out.
    Sought,
}

impl Reading {
    /// Whether a name is this one.
    fn is(self, wanted: &[u8], name: &[u8]) -> bool {
        match self {
            Reading::Names(case) => same(wanted, name, case),
            Reading::Globs(dots) => {
                same(wanted, name, Case::Folded)
                    || could_be(name, Wanted::Exactly(wanted), Spelled::Free, folded(dots))
            }
            Reading::Sought => Reading::Globs(Dots::Hide).is(wanted, name),
        }
    }

    /// Whether a name is one that a pattern wants.
    fn fits(self, wanted: &[u8], name: &[u8], spelled: Spelled) -> bool {
        let pattern = Wanted::Pattern(wanted);
        match self {
            Reading::Names(case) => wildcard(wanted, name, case),
            Reading::Globs(dots) => {
                wildcard(wanted, name, Case::Folded)
                    || could_be(name, pattern, Spelled::WhereWild, folded(dots))
            }
            Reading::Sought if is_wild(name) => {
                could_be(name, pattern, spelled, folded(Dots::Hide))
            }
            Reading::Sought => wildcard(wanted, name, Case::Folded),
        }
    }
}

fn folded(dots: Dots) -> How {
    How {
        case: Case::Folded,
        dots,
    }
}

/// Walks the names once, keeping every place in the pattern that could have been reached.
fn covers<'a>(
    segments: &[Segment],
    names: impl Iterator<Item = &'a [u8]>,
    reading: Reading,
) -> bool {
    // What a rule is about says the last of its names that says anything.
    let told = segments.iter().rposition(|segment| match segment {
        Segment::Name(name) => name.contains(|c| !matches!(c, '*' | '?')),
        Segment::AnyDepth => false,
    });
    let mut reached = vec![false; segments.len() + 1];
    let mark = |reached: &mut Vec<bool>, mut place: usize| {
        loop {
            if let Some(slot) = reached.get_mut(place) {
                *slot = true;
            }
            match segments.get(place) {
                Some(Segment::AnyDepth) => place += 1,
                _ => break,
            }
        }
    };
    mark(&mut reached, 0);
    if reached.last() == Some(&true) {
        return true;
    }
    for name in names {
        let mut next = vec![false; segments.len() + 1];
        for (place, segment) in segments.iter().enumerate() {
            if reached.get(place) != Some(&true) {
                continue;
            }
            match segment {
                Segment::AnyDepth => mark(&mut next, place),
                Segment::Name(wanted) => {
                    let spelled = match told == Some(place) {
                        true => Spelled::Needed,
                        false => Spelled::Free,
                    };
                    if reading.fits(wanted.as_bytes(), name, spelled) {
                        mark(&mut next, place + 1);
                    }
                }
            }
        }
        if next.last() == Some(&true) {
            return true;
        }
        reached = next;
    }
    false
}

fn wildcard(pattern: &[u8], name: &[u8], case: Case) -> bool {
    if !pattern.contains(&b'*') && !pattern.contains(&b'?') {
        return same(pattern, name, case);
    }
    let fold = |bytes: &[u8]| match case {
        Case::Exact => bytes.to_vec(),
        Case::Folded => bytes.to_ascii_lowercase(),
    };
    let (pattern, name) = (fold(pattern), fold(name));
    if !pattern.contains(&b'?') {
        return name_matches(&pattern, &name);
    }
    question_matches(&pattern, &name)
}

/// `*` and `?` within one name; `?` stands for one character, not one byte.
fn question_matches(pattern: &[u8], name: &[u8]) -> bool {
    let step = |bytes: &[u8], at: usize| {
        let mut end = at + 1;
        while bytes.get(end).is_some_and(|byte| byte & 0xc0 == 0x80) {
            end += 1;
        }
        end
    };
    let (mut p, mut n) = (0, 0);
    let mut retry = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                retry = Some((p + 1, n));
                p += 1;
                continue;
            }
            Some(b'?') => {
                p += 1;
                n = step(name, n);
                continue;
            }
            Some(byte) if name.get(n) == Some(byte) => {
                p += 1;
                n += 1;
                continue;
            }
            _ => {}
        }
        let Some((after, from)) = retry else {
            return false;
        };
        p = after;
        n = step(name, from);
        retry = Some((after, n));
    }
    pattern.iter().skip(p).all(|byte| *byte == b'*')
}

fn same(a: &[u8], b: &[u8], case: Case) -> bool {
    match case {
        Case::Exact => a == b,
        Case::Folded => a.eq_ignore_ascii_case(b),
    }
}

fn names(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/')
        .filter(|name| !name.is_empty() && *name != b".")
}

fn names_of(base: &[u8]) -> impl Iterator<Item = &[u8]> {
    names(base)
}

fn trimmed_base(base: &[u8]) -> Vec<u8> {
    let end = base
        .iter()
        .rposition(|byte| *byte != b'/')
        .map_or(0, |at| at + 1);
    base.get(..end).unwrap_or_default().to_vec()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    const BASES: Bases<'static> = Bases {
        home: b"/home/u",
        workspace: b"/home/u/ws",
    };

    fn covers(pattern: &str, path: &str) -> bool {
        PathPattern::parse(pattern)
            .unwrap()
            .covers(path.as_bytes(), BASES, Case::Exact)
    }

    #[test]
    fn what_the_shell_could_find() {
        let could = |pattern: &str, path: &str| {
            let pattern = PathPattern::parse(pattern).unwrap();
            pattern.could_cover(path.as_bytes(), BASES, Dots::Hide)
        };
        for (pattern, path, expected) in [
            (".env", "/home/u/ws/.en*", true),
            (".env", "/home/u/ws/.e?v", true),
            (".env", "/home/u/ws/a/.[ef]nv", true),
            (".env", "/home/u/ws/.*", true),
            (".env", "/home/u/ws/a*/.env", true),
            // The shell finds no hidden name for these.
            (".env", "/home/u/ws/*", false),
            (".env", "/home/u/ws/?env", false),
            (".env", "/home/u/ws/.x*", false),
            ("./secret/**", "/home/u/ws/sec*/a", true),
            ("./secret/**", "/home/u/ws/*", true),
            ("./secret/**", "/home/u/ws/src/*", false),
            ("~/.ssh/id_rsa", "/home/u/.ssh/*", true),
            ("~/.ssh/id_rsa", "/home/*/.ssh/id_rsa", true),
            // Both have wildcards.
            ("*.pem", "/home/u/ws/a*", false),
            ("*.pem", "/home/u/ws/a*.pem", true),
            ("*.pem", "/home/u/ws/a*.pe?", true),
            (".env", "/home/u/ws/.[[:alpha:]]nv", true),
            (".env", "/home/u/ws/@(.env|x)", true),
        ] {
            assert_eq!(could(pattern, path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn what_a_tool_could_look_for() {
        let could = |pattern: &str, path: &str| {
            let pattern = PathPattern::parse(pattern).unwrap();
            pattern.could_be_sought(path.as_bytes(), BASES)
        };
        for (pattern, path, expected) in [
            (".env", "/home/u/ws/.e*", true),
            (".env", "/home/u/ws/**/.env", true),
            (".env", "/home/u/ws/**/.[a-e]nv", true),
            (".env", "/home/u/ws/**/*", false),
            ("./secret/**", "/home/u/ws/sec*/**/*.txt", true),
            ("./secret/**", "/home/u/ws/**/*.rs", false),
            ("./secret/*", "/home/u/ws/**/*.rs", false),
            ("./a/b/key", "/home/u/ws/**/key", true),
            ("./a/b/key", "/home/u/ws/**/k*", true),
            ("*.pem", "/home/u/ws/**/*.{pem,key}", false),
            ("*.pem", "/home/u/ws/**/*.p?m", true),
            ("*.pem", "/home/u/ws/**/*.rs", false),
            ("~/.ssh/**", "/home/u/.s*/id_*", true),
            ("~/.ssh/**", "/home/u/ws/**/*.c", false),
        ] {
            assert_eq!(could(pattern, path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn patterns() {
        for (pattern, path, expected) in [
            ("~/.ssh/**", "/home/u/.ssh/id_rsa", true),
            ("~/.ssh/**", "/home/u/.ssh", true),
            ("~/.aws/", "/home/u/.aws/credentials", true),
            ("~/.ssh/**", "/home/u/.sshx", false),
            ("/etc/**", "/etc/passwd", true),
            ("/etc", "/etc/ssh/x", true),
            ("/etc", "/etcetera", false),
            ("./**", "/home/u/ws/a/b", true),
            ("./**", "/home/u/other", false),
            (".", "/home/u/ws/a", true),
            (".env", "/home/u/ws/.env", true),
            (".env", "/home/u/ws/a/b/.env", true),
            (".env", "/home/u/.env", false),
            ("./.env", "/home/u/ws/a/.env", false),
            ("*.pem", "/home/u/ws/keys/x.pem", true),
            ("src/*.rs", "/home/u/ws/src/a.rs", true),
            ("src/*.rs", "/home/u/ws/src/b/a.rs", false),
            ("src/**/*.rs", "/home/u/ws/src/b/c/a.rs", true),
            ("src/**/*.rs", "/home/u/ws/src/a.rs", true),
            ("/a/?.txt", "/a/é.txt", true),
            ("/a/*?.txt", "/a/.txt", false),
            ("/", "/anything", true),
            ("~", "/home/u/x", true),
            ("**", "/home/u/ws/x", true),
            ("[id].tsx", "/home/u/ws/app/[id].tsx", true),
        ] {
            assert_eq!(covers(pattern, path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn case_is_folded_only_where_it_forbids() {
        let pattern = PathPattern::parse(".claude/*.JSON").unwrap();
        let path = b"/home/u/ws/.cLauDe/settings.json";
        assert!(pattern.covers(path, BASES, Case::Folded));
        assert!(!pattern.covers(path, BASES, Case::Exact));
    }

    #[test]
    fn what_can_match_nothing_is_refused() {
        for bad in ["", "!", "  ", "~bob/x", "a/../b", "a**b", "a\0b"] {
            assert!(PathPattern::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn absolute_forms() {
        for (pattern, absolute) in [
            ("~/.ssh/**", "/home/u/.ssh"),
            (".env", "/home/u/ws/**/.env"),
            ("./x/", "/home/u/ws/x"),
            ("/", "/"),
            ("/etc/**/key", "/etc/**/key"),
        ] {
            assert_eq!(
                PathPattern::parse(pattern).unwrap().absolute(BASES),
                ByteString::from(absolute),
                "{pattern}"
            );
        }
    }

    proptest! {
        #[test]
        fn the_absolute_form_covers_the_same(
            pattern in "(~/|/|\\./)?([a-c*?]{1,3}|\\*\\*)(/([a-c*?]{1,3}|\\*\\*)){0,3}/?",
            path in "/(home/u/)?(ws/)?([a-c]{1,3}/){0,4}[a-c]{1,3}",
        ) {
            if let Ok(parsed) = PathPattern::parse(&pattern) {
                let direct = parsed.covers(path.as_bytes(), BASES, Case::Exact);
                let absolute = parsed.absolute(BASES);
                prop_assert_eq!(direct, absolute_covers(absolute.as_bytes(), path.as_bytes(), Case::Exact));
            }
        }

        #[test]
        fn a_folder_covers_what_is_in_it(pattern in "[a-c*/.~]{1,10}", path in "(/[a-c]{1,3}){1,5}", below in "[a-c]{1,3}") {
            if let Ok(parsed) = PathPattern::parse(&pattern) {
                let inside = format!("{path}/{below}");
                if parsed.covers(path.as_bytes(), BASES, Case::Exact) {
                    prop_assert!(parsed.covers(inside.as_bytes(), BASES, Case::Exact));
                }
            }
        }

        #[test]
        fn never_panics(pattern in ".{0,20}", path in proptest::collection::vec(any::<u8>(), 0..30)) {
            if let Ok(parsed) = PathPattern::parse(&pattern) {
                let _ = parsed.covers(&path, BASES, Case::Folded);
            }
        }
    }
}
