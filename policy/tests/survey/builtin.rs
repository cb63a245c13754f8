//! Builtins and wrappers that run, set or redefine something.

use sjail_policy::shell::fold::{Field, Value};
use sjail_policy::shell::{Command, RedirectOperator, RedirectTarget};

use super::{Surveyor, base, identifiers, program};

/// Builtins that assign the variables they name.
pub const ASSIGNS: [&[u8]; 16] = [
    b"read",
    b"declare",
    b"typeset",
    b"local",
    b"export",
    b"readonly",
    b"printf",
    b"mapfile",
    b"readarray",
    b"getopts",
    b"unset",
    b"let",
    b"wait",
    b"set",
    b"eval",
    b"shift",
];

/// Programs that run the program named by their arguments.
const WRAPPERS: [&[u8]; 26] = [
    b"command",
    b"builtin",
    b"exec",
    b"env",
    b"nohup",
    b"timeout",
    b"nice",
    b"setsid",
    b"stdbuf",
    b"xargs",
    b"sudo",
    b"doas",
    b"time",
    b"ionice",
    b"flock",
    b"chroot",
    b"unshare",
    b"watch",
    b"parallel",
    b"busybox",
    b"script",
    b"jobs",
    b"strace",
    b"ltrace",
    b"taskset",
    b"chrt",
];

const SHELLS: [&[u8]; 8] = [
    b"sh", b"bash", b"dash", b"zsh", b"ksh", b"mksh", b"rbash", b"ash",
];

impl Surveyor {
    pub fn builtin(&mut self, name: &[u8], arguments: &[Field], command: &Command, own: bool) {
        let mut name = name;
        if ASSIGNS.contains(&name) || own || matches!(name, b"test" | b"[" | b"[[" | b"set") {
            for argument in arguments.iter().filter_map(Field::literal) {
                let argument = argument.to_vec();
                self.evaluated(&argument);
            }
        }
        if ASSIGNS.contains(&name) {
            self.assigning(arguments);
        }
        if name == b"-" {
            name = b"bash";
        }
        match name {
            b"eval" => {
                let Some(texts) = literals(arguments) else {
                    return self.gap("eval of text that is not known");
                };
                let text = texts.join(&b' ');
                self.source(&text);
            }
            b"source" | b"." => {
                self.survey.foreign = true;
                self.sourced(arguments);
            }
            b"trap" => match operands(arguments).first().map(|field| field.literal()) {
                Some(Some(text)) => {
                    let text = text.to_vec();
                    self.perhaps(|s| s.source(&text));
                }
                Some(None) => self.gap("trap of text that is not known"),
                None => {}
            },
            b"alias" => {
                for argument in arguments {
                    let Some(text) = argument.literal() else {
                        self.gap("an alias that is not known");
                        continue;
                    };
                    if let Some(equals) = text.iter().position(|&b| b == b'=') {
                        let (alias, value) = text.split_at(equals);
                        let value = value[1..].to_vec();
                        if RESERVED.contains(&alias) {
                            self.gap("an alias for a reserved word");
                        }
                        self.aliases.insert(alias.to_vec(), value.clone());
                        self.perhaps(|s| s.source(&value));
                    }
                }
            }
            b"hash" | b"enable" | b"complete" | b"compgen" | b"bind" | b"fc"
                if arguments.iter().any(|a| a.prefix().starts_with(b"-")) =>
            {
                self.gap("a builtin that redefines commands or runs them later");
            }
            b"mapfile" | b"readarray"
                if arguments.iter().any(|a| a.prefix().starts_with(b"-C")) =>
            {
                for text in arguments.iter().filter_map(Field::literal) {
                    let text = text.to_vec();
                    self.perhaps(|s| s.source(&text));
                }
            }
            b"find" => self.find(arguments, command),
            b"awk" | b"gawk" | b"mawk" | b"sed" => {
                let runs = |text: &[u8]| match name {
                    b"sed" => sed_runs(text),
                    _ => text.contains(&b'|') || text.windows(6).any(|w| w == b"system"),
                };
                if arguments.iter().any(|a| a.literal().is_none_or(runs)) {
                    self.gap("a filter's script that may run commands");
                }
            }
            _ if SHELLS.contains(&name) => self.shell(arguments, command),
            _ if WRAPPERS.contains(&name) => self.wrapper(name, arguments, command),
            _ => {}
        }
    }

    /// `declare x=1`, `read x`, `printf -v x`: every name in sight.
    fn assigning(&mut self, arguments: &[Field]) {
        for argument in arguments {
            let Some(text) = argument.literal() else {
                // `declare "$x"`: what is not literal may set anything with a known prefix.
                for name in identifiers(argument.prefix()) {
                    self.environment.set(name, Value::unknown());
                }
                if argument.prefix().is_empty() {
                    self.environment.forget();
                }
                continue;
            };
            let text = text.to_vec();
            let (names, value) = match text.iter().position(|&b| b == b'=') {
                Some(equals) => (&text[..equals], Value::known(&text[equals + 1..])),
                None => (&text[..], Value::unknown()),
            };
            for name in identifiers(names) {
                if !name.is_empty() {
                    // With -i, -u or -l the value changes; `+=` appends: only a candidate.
                    self.set(name, value.clone().or(&Value::unknown()));
                }
            }
        }
    }

    fn sourced(&mut self, arguments: &[Field]) {
        let path = operands(arguments).first().map(|field| field.literal());
        match path {
            Some(Some(path)) => {
                let known = self.survey.writes.iter().any(|w| base(w) == base(path));
                let device = path.starts_with(b"/dev/") && path != b"/dev/null";
                if known || device || path.starts_with(b"/proc/") {
                    self.gap("sources a file that it wrote");
                }
            }
            Some(None) => self.gap("sources what is not known"),
            None => {}
        }
        self.environment.forget();
    }

    fn shell(&mut self, arguments: &[Field], command: &Command) {
        let mut script = false;
        let mut rest = arguments;
        while let Some((first, after)) = rest.split_first() {
            let Some(text) = first.literal() else {
                return self.gap("a shell with arguments that are not known");
            };
            if !text.starts_with(b"-") && !text.starts_with(b"+") || text == b"-" {
                break;
            }
            rest = after;
            if text == b"--" {
                break;
            }
            script |= text.contains(&b'c') && !text.starts_with(b"--");
            let takes = !text.starts_with(b"--") && text.ends_with(b"o") || text.ends_with(b"O");
            if takes || text == b"--rcfile" || text == b"--init-file" {
                rest = rest.get(1..).unwrap_or_default();
            }
        }
        match (script, rest.first().map(|field| field.literal())) {
            (true, Some(Some(text))) => {
                let text = text.to_vec();
                self.perhaps(|s| {
                    s.environment.forget();
                    s.source(&text);
                });
            }
            (true, Some(None)) => self.gap("a shell with a script that is not known"),
            (true, None) => {}
            (false, Some(Some(path))) if path != b"-" => {
                let wrote = self.survey.writes.iter().any(|w| base(w) == base(path));
                if wrote || path.starts_with(b"/dev/") || path.starts_with(b"/proc/") {
                    self.gap("a shell runs a file that was written here");
                }
            }
            (false, Some(None)) => self.gap("a shell runs a file that is not known"),
            (false, _) => self.shell_from_input(command),
        }
    }

    fn shell_from_input(&mut self, command: &Command) {
        for redirect in command.redirects.iter().rev() {
            let word = match (&redirect.target, redirect.operator) {
                (RedirectTarget::Document(word), _) => word,
                (RedirectTarget::Word(word), RedirectOperator::HereString) => word,
                _ => continue,
            };
            if let Some(text) = self.environment.value(word).literal() {
                let text = text.to_vec();
                return self.perhaps(|s| {
                    s.environment.forget();
                    s.source(&text);
                });
            }
        }
        self.gap("a shell reads its input");
    }

    /// The first operand that can name a program, and everything behind it.
    fn wrapper(&mut self, name: &[u8], arguments: &[Field], command: &Command) {
        let mut found = false;
        if name == b"xargs" {
            self.survey.names.insert(b"echo".to_vec());
        }
        for (i, argument) in arguments.iter().enumerate() {
            let Some(text) = program(argument) else {
                if !argument.prefix().contains(&b'=') && !argument.prefix().starts_with(b"-") {
                    return self.gap("a wrapper whose program is not known");
                }
                continue;
            };
            if text.starts_with(b"-S") || text.starts_with(b"--split-string") {
                return self.gap("env -S");
            }
            if name == b"time" {
                // bash takes an option of `time` for the command.
                self.survey.names.insert(text.clone());
            }
            let option = text.starts_with(b"-") && text != b"-";
            if option || text.contains(&b'=') || is_amount(&text) {
                continue;
            }
            found = true;
            self.survey.names.insert(base(&text).to_vec());
            if name == b"xargs" && (text.contains(&b'{') || SHELLS.contains(&base(&text))) {
                self.gap("xargs runs what it reads");
            }
            if text.contains(&b' ') {
                self.perhaps(|s| s.source(&text));
            }
            let inner = base(&text).to_vec();
            // An option's argument may look like the program: take the next ones, too.
            self.builtin(&inner, &arguments[i + 1..], command, false);
            if WRAPPERS.contains(&inner.as_slice()) {
                return;
            }
        }
        if !found && name == b"busybox" {
            self.gap("busybox without an applet");
        }
    }

    fn find(&mut self, arguments: &[Field], command: &Command) {
        for (i, argument) in arguments.iter().enumerate() {
            match argument.literal() {
                Some(b"-exec" | b"-execdir" | b"-ok" | b"-okdir") => {
                    let rest = &arguments[i + 1..];
                    let Some(name) = rest.first().and_then(program) else {
                        return self.gap("find runs what is not known");
                    };
                    if name.contains(&b'{') {
                        self.gap("find runs what it finds");
                    }
                    let end = rest
                        .iter()
                        .position(|f| matches!(f.literal(), Some(b";" | b"+")))
                        .unwrap_or(rest.len());
                    self.survey.names.insert(base(&name).to_vec());
                    let inner = base(&name).to_vec();
                    self.builtin(&inner, &rest[1..end.max(1)], command, false);
                }
                Some(_) => {}
                None if argument.prefix().is_empty() && i > 0 && !argument.pieces.is_empty() => {}
                None => {}
            }
        }
    }
}

/// Whether a sed script may have an `e` command or flag.
fn sed_runs(text: &[u8]) -> bool {
    !text.starts_with(b"-")
        && text.iter().enumerate().any(|(i, &b)| {
            let before = i.checked_sub(1).and_then(|i| text.get(i));
            let address = before.is_none_or(|b| b.is_ascii_digit() || b"/|,#;{!$ \n".contains(b));
            let end = text.get(i + 1).is_none_or(|b| b" ;}\n".contains(b));
            b == b'e' && address && end
        })
}

const RESERVED: [&[u8]; 19] = [
    b"if",
    b"then",
    b"else",
    b"elif",
    b"fi",
    b"do",
    b"done",
    b"case",
    b"esac",
    b"while",
    b"until",
    b"for",
    b"select",
    b"function",
    b"in",
    b"{",
    b"}",
    b"!",
    b"time",
];

fn is_amount(text: &[u8]) -> bool {
    text.first().is_some_and(u8::is_ascii_digit)
        && text
            .iter()
            .all(|b| b.is_ascii_digit() || b".smhdKMG,:+".contains(b))
}

fn literals(fields: &[Field]) -> Option<Vec<Vec<u8>>> {
    fields
        .iter()
        .map(|field| field.literal().map(<[u8]>::to_vec))
        .collect()
}

fn operands(arguments: &[Field]) -> Vec<&Field> {
    let mut ended = false;
    arguments
        .iter()
        .skip_while(|field| match field.literal() {
            Some(b"--") => !std::mem::replace(&mut ended, true),
            Some(text) => !ended && text.starts_with(b"-") && text.len() > 1,
            None => false,
        })
        .collect()
}
