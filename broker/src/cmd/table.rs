//! Columns for people to read; nothing in them can act on a terminal.

use sjail_policy::language::LANGUAGES;
use sjail_policy::show;

/// So much of a command stands in a table; the rest is counted, and shown by `show`.
const COMMAND: usize = 120;

/// Lines up cells; the last column takes what it needs.
pub fn lines(header: &[&str], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = header.iter().map(|cell| cell.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let header: Vec<String> = header.iter().map(|cell| (*cell).to_owned()).collect();
    let mut out = String::new();
    for row in std::iter::once(&header).chain(rows) {
        let mut line = String::new();
        for (width, cell) in widths.iter().zip(row) {
            line.push_str(cell);
            let padding = width.saturating_sub(cell.chars().count()) + 2;
            line.extend(std::iter::repeat_n(' ', padding));
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// A command on one line, inert; what is left out is said.
pub fn command(text: &str) -> String {
    show::clipped(text.as_bytes(), COMMAND)
}

/// A run of `sjail code` as it was typed, with the first line of its text: its own words are
/// sjail's, and the same every time.
pub fn code(program: &str, text: &str) -> Option<String> {
    let program = program.rsplit('/').next()?;
    let language = LANGUAGES
        .iter()
        .find(|language| language.programs.contains(&program))?;
    let first = text.lines().find(|line| !line.trim().is_empty());
    let first = first.unwrap_or_default().trim();
    Some(format!("sjail code --language {}: {first}", language.name))
}

/// Any other text, inert and whole.
pub fn text(text: &str) -> String {
    show::inert(text.as_bytes())
}

/// How long ago, or how long until: `3m`, `2h`, `5d`.
pub fn span(seconds: i64) -> String {
    let seconds = seconds.unsigned_abs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// A time in the local zone: `2026-02-25 10:31:07`.
pub fn local(seconds: i64) -> String {
    use chrono::TimeZone;
    match chrono::Local.timestamp_opt(seconds, 0).single() {
        Some(time) => time.format("%Y-%m-%d %H:%M:%S").to_string(),
        None => seconds.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_texts_are_told_apart() {
        assert_eq!(
            code("/usr/bin/python3", "\n  print(1)\nprint(2)\n").as_deref(),
            Some("sjail code --language python: print(1)")
        );
        assert_eq!(code("/usr/bin/make", "x"), None);
    }

    #[test]
    fn columns_line_up_and_stay_inert() {
        let rows = vec![
            vec!["a".to_owned(), text("x\u{1b}[2J")],
            vec!["long".to_owned(), "y".to_owned()],
        ];
        assert_eq!(
            lines(&["ID", "COMMAND"], &rows),
            "ID    COMMAND\na     x\\x1b[2J\nlong  y\n"
        );
        assert_eq!(span(59), "59s");
        assert_eq!(span(-7200), "2h");
    }
}
