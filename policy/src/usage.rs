//! Wrong usage, in a sentence: what the reader of the command line says, in the tone of
//! everything else.

use crate::show::inert;

/// Puts the reader's words about wrong usage into ours: what is wrong and what may have
/// been meant, then how it is used. Inert.
///
/// ```
/// let said = "error: unexpected argument '--bogus' found\n\nUsage: sjail mcp [OPTIONS]\n\n\
///             For more information, try '--help'.\n";
/// assert_eq!(
///     sjail_policy::usage::sentence(said),
///     "unexpected argument '--bogus' found\nusage: sjail mcp [OPTIONS]; --help says more"
/// );
/// ```
pub fn sentence(said: &str) -> String {
    let mut what: Vec<String> = Vec::new();
    let mut usage: Vec<String> = Vec::new();
    for line in said.lines() {
        let line = inert(line.trim().as_bytes());
        if let Some(form) = line.strip_prefix("Usage: ") {
            usage.push(form.to_owned());
        } else if line.is_empty() || line.starts_with("For more information") {
            continue;
        } else if !usage.is_empty() {
            usage.push(line);
        } else {
            what.push(line.strip_prefix("error: ").unwrap_or(&line).to_owned());
        }
    }
    let what = what.join(" ").replace(" tip: ", "; tip: ");
    match usage.is_empty() {
        true => what,
        false => format!(
            "{what}\nusage: {}; --help says more",
            usage.join("\n       ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tips_and_several_forms_are_kept() {
        let said = "error: unrecognized subcommand 'polcy'\n\n  tip: a similar subcommand exists: 'policy'\n\nUsage: sjail init <COMMAND>\n\nFor more information, try '--help'.\n";
        assert_eq!(
            sentence(said),
            "unrecognized subcommand 'polcy'; tip: a similar subcommand exists: 'policy'\nusage: sjail init <COMMAND>; --help says more"
        );
        let said =
            "error: x\n\nUsage: sjail run [OPTIONS] -- PROGRAM\n       sjail run -c 'LINE'\n";
        assert_eq!(
            sentence(said),
            "x\nusage: sjail run [OPTIONS] -- PROGRAM\n       sjail run -c 'LINE'; --help says more"
        );
        assert!(!sentence("error: unexpected argument '\u{1b}[31m' found").contains('\u{1b}'));
    }
}
