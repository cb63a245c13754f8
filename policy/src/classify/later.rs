//! Files that run code later: the commands in a text that goes into one are judged as if they ran
//! now. Which part of a text is a command hangs on what reads the file.

use super::draft::Draft;
use super::flow::Flow;
use super::given::Given;
use super::judge::{Call, Judge};
use super::state::Cwd;
use crate::command;
use crate::command::knowledge::{self, Language};
use crate::effect::Place;

/// More commands than this of one file are not looked at.
const MAX_COMMANDS: usize = 64;

/// What reads a file, and so how a command stands in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reader {
    /// A shell, or what the first line names.
    Script,
    /// cron: five fields or `@reboot`, and in the system's tables a user.
    Cron { names_user: bool },
    /// systemd: `ExecStart=`, with marks before the command.
    Unit,
    /// A desktop: `Exec=`.
    Desktop,
    /// udev: `RUN+="…"`.
    Udev,
    /// inetd: the seventh field; what it starts is tied to a connection.
    Inetd,
    /// xinetd: `server = …` and `server_args = …`.
    Xinetd,
    /// init: the fourth field.
    Inittab,
    /// sshd: `command="…"` before a key.
    Keys,
    /// ssh: settings that name programs.
    Ssh,
    /// git: settings that name programs.
    Git,
    /// Settings of tools, as JSON or in their own way: whatever stands in quotes and looks like one.
    Quoted,
    /// Source of another language.
    Source(Language),
}

impl Judge<'_> {
    /// Text in a file that runs by itself is judged as if it ran now.
    pub(crate) fn runs_later(&mut self, path: &str, flow: &Flow, call: &Call) {
        let Some(text) = flow.seen().filter(|text| !text.is_empty()) else {
            return;
        };
        let given = Given::known(path, call.span);
        let place = self.target(&given, &Cwd::Unknown).place;
        let Some(reader) = reader(path, place) else {
            return;
        };
        self.read_later(text, reader, call);
    }

    /// Lines for cron are judged as if their time had come.
    pub(crate) fn scheduled(&mut self, flow: &Flow, call: &Call) {
        if let Some(text) = flow.seen() {
            self.read_later(text, Reader::Cron { names_user: false }, call);
        }
    }

    /// What a server is told to start for whoever connects is tied to a connection.
    pub(crate) fn served(&mut self, flow: &Flow, call: &Call) {
        if let Some(text) = flow.seen() {
            let reader = match text.contains('{') {
                true => Reader::Xinetd,
                false => Reader::Inetd,
            };
            self.read_later(text, reader, call);
        }
    }

    fn read_later(&mut self, text: &str, reader: Reader, call: &Call) {
        let mut inner = call.with_args(Vec::new(), "start-up file");
        inner.stdin = Default::default();
        if let Reader::Source(language) = reader {
            return self.source_later(text, language, &inner);
        }
        if reader == Reader::Script {
            let language = command::first_line_language(text);
            if language != Language::Shell {
                return self.source_later(text, language, &inner);
            }
            let mut state = self.fresh_state();
            self.text(text, &mut state, &inner, call.span);
            return;
        }
        inner.connected = matches!(reader, Reader::Inetd | Reader::Xinetd);
        for command in commands(text, reader).take(MAX_COMMANDS) {
            let mut state = self.fresh_state();
            self.text(&command, &mut state, &inner, call.span);
        }
    }

    fn source_later(&mut self, text: &str, language: Language, call: &Call) {
        let program = super::verdict::Program::default();
        let index = self.reserve(call, &program);
        let mut draft = Draft::new(program);
        let mut state = self.fresh_state();
        let source = Given::known(text, call.span);
        command::source_text(self, &mut state, call, &mut draft, language, &source);
        self.complete(index, draft);
    }
}

/// What reads a file, by its name; `None` for files in which nothing is a command.
fn reader(path: &str, place: Place) -> Option<Reader> {
    let name = path.rsplit('/').next().unwrap_or_default();
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    let below = |folder: &str| path.contains(folder);
    let by_name = match name {
        "crontab" | "anacrontab" if below("/etc/") => Some(Reader::Cron { names_user: true }),
        "inetd.conf" => Some(Reader::Inetd),
        "inittab" => Some(Reader::Inittab),
        "authorized_keys" | "authorized_keys2" => Some(Reader::Keys),
        ".gitconfig" | "config.worktree" => Some(Reader::Git),
        "config" if below("/.git/") || below("/git/") => Some(Reader::Git),
        "config" if below("/.ssh/") => Some(Reader::Ssh),
        ".pythonrc" | "sitecustomize.py" | "usercustomize.py" => {
            Some(Reader::Source(Language::Python))
        }
        ".vimrc" | "init.vim" => Some(Reader::Source(Language::Vim)),
        ".irbrc" | ".pryrc" => Some(Reader::Source(Language::Ruby)),
        _ => None,
    };
    let by_ending = match ending {
        "service" | "timer" | "socket" | "path" | "mount" => Some(Reader::Unit),
        "conf" if below("/systemd/") => Some(Reader::Unit),
        "desktop" => Some(Reader::Desktop),
        "rules" if below("/udev/") => Some(Reader::Udev),
        "py" | "pth" => Some(Reader::Source(Language::Python)),
        "lua" => Some(Reader::Source(Language::Lua)),
        "json" | "conf" | "toml" | "xml" | "plist" => Some(Reader::Quoted),
        _ => None,
    };
    let by_folder = if below("/cron.d/") {
        Some(Reader::Cron { names_user: true })
    } else if below("/spool/cron/") {
        Some(Reader::Cron { names_user: false })
    } else if below("/xinetd.d/") {
        Some(Reader::Xinetd)
    } else if below("/apt.conf.d/") {
        Some(Reader::Quoted)
    } else {
        None
    };
    if place != Place::Workspace
        && let Some(reader) = page(path, ending)
    {
        return Some(reader);
    }
    match place {
        Place::Startup | Place::Protected => Some(
            by_folder
                .or(by_name)
                .or(by_ending)
                .unwrap_or(Reader::Script),
        ),
        // Of the system's other files only those that are surely run.
        Place::System => by_folder.or(match by_name.or(by_ending) {
            Some(Reader::Quoted | Reader::Source(_) | Reader::Git) | None => None,
            found => found,
        }),
        _ => None,
    }
}

/// What a web server runs for whoever asks.
fn page(path: &str, ending: &str) -> Option<Reader> {
    const FOLDERS: &[&str] = &[
        "/www/",
        "/html/",
        "/htdocs/",
        "/public_html/",
        "/webapps/",
        "/wwwroot/",
        "/cgi-bin/",
    ];
    if !FOLDERS.iter().any(|folder| path.contains(folder)) {
        return None;
    }
    match ending {
        "php" | "phtml" | "php5" | "php7" | "phar" | "inc" => Some(Reader::Source(Language::Php)),
        "jsp" | "jspx" | "asp" | "aspx" | "ashx" => Some(Reader::Source(Language::Other)),
        "cgi" | "pl" | "sh" if path.contains("/cgi-bin/") => Some(Reader::Script),
        _ => None,
    }
}

/// The commands of a text, as a shell would be given them.
fn commands(text: &str, reader: Reader) -> Box<dyn Iterator<Item = String> + '_> {
    let lines = text.lines().map(str::trim);
    match reader {
        Reader::Quoted => Box::new(quoted(text).filter(|word| word.contains(' '))),
        Reader::Xinetd => Box::new(std::iter::once(xinetd(text))),
        _ => Box::new(lines.filter_map(move |line| command(line, reader))),
    }
}

/// The command that a line holds.
fn command(line: &str, reader: Reader) -> Option<String> {
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    let setting = || {
        line.split_once('=')
            .map(|(key, value)| (key.trim(), value.trim()))
    };
    let found = match reader {
        Reader::Cron { names_user } => return scheduled(line, names_user),
        Reader::Unit => {
            let (key, value) = setting()?;
            let value = value.trim_start_matches(['@', '-', ':', '+', '!', '|']);
            key.starts_with("Exec").then_some(value)
        }
        Reader::Desktop => {
            let (key, value) = setting()?;
            matches!(key, "Exec" | "TryExec").then_some(value)
        }
        Reader::Udev => return udev(line),
        Reader::Inetd => words_from(line, 6),
        Reader::Inittab => line.splitn(4, ':').nth(3),
        Reader::Keys => return quoted(line.split_once("command=")?.1).next(),
        Reader::Ssh => {
            let (key, value) = line.split_once([' ', '=', '\t'])?;
            const NAMES: &[&str] = &["proxycommand", "localcommand", "knownhostscommand"];
            let key = key.to_ascii_lowercase();
            match value.split_once(" exec ") {
                Some((_, exec)) if key == "match" => Some(exec.trim_matches('"')),
                _ => NAMES.contains(&key.as_str()).then_some(value),
            }
        }
        Reader::Git => {
            let (key, value) = setting()?;
            const NAMES: &[&str] = &[
                "sshcommand",
                "fsmonitor",
                "pager",
                "editor",
                "askpass",
                "helper",
                "clean",
                "smudge",
                "process",
                "textconv",
                "command",
                "driver",
                "program",
                "cmd",
                "packobjectshook",
            ];
            let value = value.trim_matches('"');
            match value.strip_prefix('!') {
                Some(command) => Some(command),
                None => NAMES
                    .contains(&key.to_ascii_lowercase().as_str())
                    .then_some(value),
            }
        }
        Reader::Script | Reader::Source(_) | Reader::Xinetd | Reader::Quoted => Some(line),
    };
    found.map(str::to_owned)
}

/// A line of a schedule without its times, and its user.
fn scheduled(line: &str, names_user: bool) -> Option<String> {
    // A setting of the table itself.
    let first = line.split_ascii_whitespace().next()?;
    if first.contains('=') {
        return None;
    }
    let times = if line.starts_with('@') { 1 } else { 5 };
    let command = words_from(line, times)?;
    let user = command.split_ascii_whitespace().next()?;
    // Whoever forgot the user meant the command that stands in its place.
    let command = match names_user && knowledge::program(user).is_none() && !user.contains('/') {
        true => words_from(command, 1)?,
        false => command,
    };
    // The rest of a line behind a bare percent sign is its input.
    let end = command
        .match_indices('%')
        .find(|(at, _)| !command[..*at].ends_with('\\'));
    let (command, input) = command.split_at(end.map_or(command.len(), |(at, _)| at));
    let command = command.replace("\\%", "%");
    Some(match input.strip_prefix('%') {
        Some(input) => format!(
            "{command} <<< '{}'",
            input.replace('\'', "").replace('%', "\n")
        ),
        None => command,
    })
}

/// The rest of a line behind so many words.
fn words_from(line: &str, count: usize) -> Option<&str> {
    let mut rest = line.trim_start();
    for _ in 0..count {
        let end = rest.find(char::is_whitespace)?;
        rest = rest[end..].trim_start();
    }
    (!rest.is_empty()).then_some(rest)
}

/// What a rule for devices starts.
fn udev(line: &str) -> Option<String> {
    let at = ["RUN", "PROGRAM", "IMPORT{program}"]
        .iter()
        .find_map(|key| {
            let (_, rest) = line.split_once(key)?;
            let value = rest.trim_start_matches(|c: char| c != '"');
            (rest.len() - value.len() <= 12).then_some(value)
        })?;
    quoted(at).next()
}

fn xinetd(text: &str) -> String {
    let value = |name: &str| {
        let mut settings = text.lines().filter_map(|line| line.split_once('='));
        settings
            .find_map(|(key, value)| (key.trim() == name).then(|| value.trim()))
            .unwrap_or_default()
    };
    format!("{} {}", value("server"), value("server_args"))
}

/// The texts between double quotes, escapes undone.
fn quoted(text: &str) -> impl Iterator<Item = String> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let start = rest.find('"')? + 1;
        let mut word = String::new();
        let mut letters = rest[start..].char_indices();
        while let Some((at, letter)) = letters.next() {
            match letter {
                '"' => {
                    rest = &rest[start + at + 1..];
                    return Some(word);
                }
                '\\' => match letters.next() {
                    Some((_, 'n')) => word.push('\n'),
                    Some((_, letter)) => word.push(letter),
                    None => break,
                },
                _ => word.push(letter),
            }
        }
        rest = "";
        None
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used)]

    use super::*;

    fn found(text: &str, path: &str, place: Place) -> Vec<String> {
        let reader = reader(path, place).expect("somebody reads it");
        commands(text, reader).collect()
    }

    #[test]
    fn commands_are_found_where_their_reader_looks() {
        for (path, place, text, command) in [
            (
                "/etc/cron.d/x",
                Place::Startup,
                "SHELL=/bin/sh\n# a b\n*/5 * * * * root a b",
                "a b",
            ),
            (
                "/var/spool/cron/me",
                Place::Startup,
                "@reboot a b%in%put",
                "a b <<< 'in\nput'",
            ),
            (
                "/etc/systemd/system/a.service",
                Place::Startup,
                "[Service]\nExecStart=-/bin/a b",
                "/bin/a b",
            ),
            (
                "/home/u/.config/autostart/a.desktop",
                Place::Startup,
                "Name=x\nExec=a b",
                "a b",
            ),
            (
                "/etc/udev/rules.d/9.rules",
                Place::Startup,
                r#"ACTION=="add", RUN+="/bin/sh -c \"a b\"""#,
                "/bin/sh -c \"a b\"",
            ),
            (
                "/etc/inetd.conf",
                Place::System,
                "x stream tcp nowait root /bin/sh sh -i",
                "sh -i",
            ),
            (
                "/etc/xinetd.d/x",
                Place::System,
                "server = /bin/a\nserver_args = b",
                "/bin/a b",
            ),
            ("/etc/inittab", Place::Startup, "x:3:respawn:a b", "a b"),
            (
                "/h/.ssh/authorized_keys",
                Place::Startup,
                r#"command="a b",no-pty ssh-rsa A"#,
                "a b",
            ),
            (
                "/h/.ssh/config",
                Place::Startup,
                "Host x\n ProxyCommand a b",
                "a b",
            ),
            (
                "/p/.git/config",
                Place::Protected,
                "[alias]\n x = !a b",
                "a b",
            ),
            (
                "/p/.claude/settings.json",
                Place::Protected,
                r#"{"command": "a b"}"#,
                "a b",
            ),
        ] {
            assert_eq!(found(text, path, place), [command], "{path}");
        }
    }

    #[test]
    fn other_files_of_the_system_hold_no_commands() {
        for path in [
            "/etc/hosts",
            "/etc/nginx/nginx.conf",
            "/usr/lib/x.py",
            "/etc/fstab",
        ] {
            assert_eq!(reader(path, Place::System), None, "{path}");
        }
        assert_eq!(reader("/home/u/p/a.service", Place::Workspace), None);
    }
}
