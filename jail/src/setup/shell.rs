//! Lines for a shell's start-up file.

use crate::error::Error;

/// A shell that people type into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shell {
    /// GNU Bash
    Bash,
    /// Z shell
    Zsh,
    /// fish
    Fish,
}

/// What is better run in the jail, unless somebody says otherwise.
const TOOLS: &[&str] = &[
    "rm", "dd", "shred", "mkfs", "chmod", "chown", "npm", "npx", "pnpm", "yarn", "pip", "pip3",
    "pipx", "uvx", "bunx",
];
/// What runs text that is piped into it.
const SHELLS: &[&str] = &["sh", "bash", "dash", "zsh"];
/// For the completion.
const VERBS: &str = "run previews diff commit undo discard check explain policy doctor trust quarantine \
                     sandbox session queue allowlist audit code hook mcp init help";

/// Pasted installers, in the ways in which they are written: `curl … | sh`,
/// `sh <(curl …)`, `sh -c "$(curl …)"`, each perhaps with sudo.
const GUARD: &str = r#"  # Text that comes from elsewhere runs in the jail: curl … | sh, sh <(curl …), sh -c "$(curl …)"
  function _sjail_guard {
    local name=$1; shift
    if [ -p "$1" ]; then
      local text=$1; shift
      sjail run -- "$name" -s -- "$@" <"$text"
    elif [ -p /dev/stdin ]; then
      sjail run -- "$name" "$@"
    else
      case "$1 $2" in
        -*c\ *$'\n'*) sjail run -- "$name" "$@" ;;
        *) command "$name" "$@" ;;
      esac
    fi
  }
  function sudo {
    case " @SHELLS@ " in
      *" ${1##*/} "*) if [ -p /dev/stdin ]; then
          echo 'sjail: text is not piped into a shell with more rights; save it, read it, then run it' >&2
          return 77
        fi ;;
    esac
    command sudo "$@"
  }
"#;

/// The same for fish.
const FISH_GUARD: &str = r#"  # Text that comes from elsewhere runs in the jail: curl … | sh, sh (curl … | psub), sh -c (curl …)
  function _sjail_guard
    set -l name $argv[1]; set -e argv[1]
    if test -n "$argv[1]"; and test -p "$argv[1]"
      set -l text $argv[1]; set -e argv[1]
      sjail run -- $name -s -- $argv <$text
    else if command test -p /dev/stdin
      sjail run -- $name $argv
    else if string match -qr '^-.*c$' -- "$argv[1]"; and string match -q '*'\n'*' -- "$argv[2]"
      sjail run -- $name $argv
    else
      command $name $argv
    end
  end
  function sudo
    if contains -- (string replace -r '.*/' '' -- "$argv[1]") @SHELLS@; and command test -p /dev/stdin
      echo 'sjail: text is not piped into a shell with more rights; save it, read it, then run it' >&2
      return 77
    end
    command sudo $argv
  end
"#;

/// The lines. Only a shell that somebody types into reads them; scripts stay as they are.
pub fn lines(shell: Shell, tools: Option<&[String]>) -> Result<String, Error> {
    let tools: Vec<&str> = match tools {
        Some(tools) => tools.iter().map(String::as_str).collect(),
        None => TOOLS.to_vec(),
    };
    for tool in &tools {
        let plain = |c: char| c.is_ascii_alphanumeric() || "_.+-".contains(c);
        if tool.is_empty() || tool.starts_with('-') || !tool.chars().all(plain) {
            return Err(Error::ToolName {
                name: (*tool).to_owned(),
            });
        }
    }
    let mut text = String::from(
        "# Risky tools run in the jail; \\rm (in fish: command rm) reaches the real one.\n",
    );
    match shell {
        Shell::Bash | Shell::Zsh => {
            text.push_str("case $- in *i*)\n");
            for tool in tools {
                text.push_str(&format!("  alias {tool}='sjail run -- {tool}'\n"));
            }
            text.push_str(&GUARD.replace("@SHELLS@", &SHELLS.join(" ")));
            for name in SHELLS {
                text.push_str(&format!(
                    "  function {name} {{ _sjail_guard {name} \"$@\"; }}\n"
                ));
            }
            match shell {
                Shell::Bash => text.push_str(&format!("  complete -W '{VERBS}' sjail\n")),
                _ => text.push_str(&format!(
                    "  (( $+functions[compdef] )) && compdef \"_arguments '1:command:({VERBS})' \
                     '*::arg:_normal'\" sjail\n"
                )),
            }
            text.push_str("esac\n");
        }
        Shell::Fish => {
            text.push_str("if status is-interactive\n");
            for tool in tools {
                text.push_str(&format!(
                    "  function {tool}; sjail run -- {tool} $argv; end\n"
                ));
            }
            text.push_str(&FISH_GUARD.replace("@SHELLS@", &SHELLS.join(" ")));
            for name in SHELLS {
                text.push_str(&format!(
                    "  function {name}; _sjail_guard {name} $argv; end\n"
                ));
            }
            text.push_str(&format!(
                "  complete -c sjail -n __fish_use_subcommand -f -a '{VERBS}'\nend\n"
            ));
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn names_that_would_run_something_are_refused() {
        for bad in ["", "-x", "a b", "rm'; x", "$(x)"] {
            assert!(
                lines(Shell::Bash, Some(&[bad.to_owned()])).is_err(),
                "{bad}"
            );
        }
        let text = lines(Shell::Bash, Some(&["npm".to_owned()])).unwrap();
        assert!(text.contains("alias npm='sjail run -- npm'") && !text.contains("alias rm"));
    }
}
