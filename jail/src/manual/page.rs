//! Man pages from commands.

use std::io::{self, Write};

use clap::Command;
use clap_mangen::Man;

use crate::cmd::help;

/// What stands below each page.
const SOURCE: &str = concat!("sjail ", env!("CARGO_PKG_VERSION"));

/// `sjail(1)`: what there is, and where to read on.
pub fn overview(tree: &Command, out: &mut impl Write) -> io::Result<()> {
    let man = Man::new(tree.clone())
        .section("1")
        .source(SOURCE)
        .manual("sjail");
    man.render_title(out)?;
    man.render_name_section(out)?;
    writeln!(
        out,
        ".SH SYNOPSIS\n\\fBsjail run\\fR [\\fIOPTIONS\\fR] \\fB\\-\\-\\fR \\fIPROGRAM\\fR [\\fIARG\\fR]...\n.br\n\
         \\fBsjail run\\fR [\\fIOPTIONS\\fR] \\fB\\-c\\fR \\(aq\\fISHELL LINE\\fR\\(aq\n.br\n\
         \\fBsjail\\fR \\fICOMMAND\\fR \\fB\\-\\-help\\fR"
    )?;
    writeln!(out, ".SH DESCRIPTION\n.nf")?;
    // Its usage stands above.
    let usage = |line: &&str| !line.starts_with("Usage:") && !line.starts_with("       ");
    for line in help::TEXT.lines().filter(usage) {
        writeln!(out, "{}", literal(line))?;
    }
    writeln!(out, ".fi")?;
    files(out)?;
    let pages: Vec<String> = tree
        .get_subcommands()
        .map(|command| format!("sjail\\-{}(1)", command.get_name()))
        .chain([
            "sjail\\-policy(5)".to_owned(),
            "sjail\\-broker(8)".to_owned(),
        ])
        .collect();
    writeln!(out, ".SH SEE ALSO\n{}", pages.join(", "))
}

/// One page for a command and the verbs below it.
pub fn of_command(command: &Command, others: &[String], out: &mut impl Write) -> io::Result<()> {
    let name = command.get_name().to_owned();
    let page = command
        .clone()
        .disable_help_subcommand(true)
        .disable_help_flag(true)
        .disable_version_flag(true)
        .display_name(format!("sjail-{name}"))
        .bin_name(format!("sjail {name}"));
    let man = Man::new(page.clone())
        .title(format!("sjail-{name}"))
        .section("1")
        .source(SOURCE)
        .manual("sjail");
    man.render_title(out)?;
    man.render_name_section(out)?;
    synopsis(&page, &format!("sjail {name}"), out)?;
    man.render_description_section(out)?;
    if page.get_arguments().any(|argument| !argument.is_hide_set()) {
        man.render_options_section(out)?;
    }
    verbs(&page, &format!("sjail {name}"), out)?;
    if name == "run" {
        exit_codes(out)?;
    }
    let pages: Vec<String> = others
        .iter()
        .filter(|other| **other != name)
        .map(|other| format!("sjail\\-{other}(1)"))
        .collect();
    writeln!(
        out,
        ".SH SEE ALSO\nsjail(1), {}, sjail\\-policy(5)",
        pages.join(", ")
    )
}

/// `sjail-broker(8)`.
pub fn broker(command: &Command, out: &mut impl Write) -> io::Result<()> {
    let page = command.clone().disable_help_subcommand(true);
    let man = Man::new(page.clone())
        .section("8")
        .source(SOURCE)
        .manual("sjail");
    man.render_title(out)?;
    man.render_name_section(out)?;
    synopsis(&page, "sjail-broker", out)?;
    writeln!(
        out,
        ".SH DESCRIPTION\nThe broker owns every decision and every record: it judges what is submitted, keeps \
         what waits for a person, signs the audit log. There is one for each account. systemd starts it at the first \
         connection (the user units \\fBsjail\\-broker.socket\\fR and \\fBsjail\\-broker.service\\fR); where there is no systemd, \
         \\fBsjail\\fR starts it. It ends by itself when nobody needs it, and nothing is lost when it is killed.\n.PP\n\
         It listens on two sockets: requests come in by one, and answers by the other, which no jail can reach. \
         Both speak Varlink: \\fBvarlinkctl introspect unix:$XDG_RUNTIME_DIR/sjail/request.sock\\fR."
    )?;
    verbs(&page, "sjail-broker", out)?;
    files(out)?;
    writeln!(
        out,
        ".SH SEE ALSO\nsjail(1), sjail\\-queue(1), sjail\\-audit(1), sjail\\-policy(5)"
    )
}

/// The usage lines, word for word as `--help` has them.
fn synopsis(command: &Command, name: &str, out: &mut impl Write) -> io::Result<()> {
    let usage = command.clone().bin_name(name).render_usage().to_string();
    writeln!(out, ".SH SYNOPSIS\n.nf")?;
    for line in usage.trim_start_matches("Usage:").lines() {
        writeln!(out, "{}", literal(line.trim()))?;
    }
    writeln!(out, ".fi")
}

/// A sub-section for each verb: its usage, what it does, its options.
fn verbs(command: &Command, name: &str, out: &mut impl Write) -> io::Result<()> {
    let shown = |verb: &&Command| verb.get_name() != "help" && !verb.is_hide_set();
    if !command.get_subcommands().any(|verb| shown(&verb)) {
        return Ok(());
    }
    writeln!(out, ".SH COMMANDS")?;
    for verb in command.get_subcommands().filter(shown) {
        let spoken = format!("{name} {}", verb.get_name());
        let usage = verb.clone().bin_name(&spoken).render_usage().to_string();
        writeln!(out, ".SS {}\n.nf", literal(&spoken))?;
        for line in usage.trim_start_matches("Usage:").lines() {
            writeln!(out, "{}", literal(line.trim()))?;
        }
        writeln!(out, ".fi")?;
        if let Some(about) = verb.get_long_about().or(verb.get_about()) {
            writeln!(out, ".PP\n{}", literal(&about.to_string()))?;
        }
        let verb = verb.clone().disable_help_flag(true);
        let mut options = Vec::new();
        if verb.get_arguments().any(|argument| !argument.is_hide_set()) {
            Man::new(verb).render_options_section(&mut options)?;
        }
        for line in String::from_utf8_lossy(&options).lines() {
            if !line.starts_with(".SH OPTIONS") {
                writeln!(out, "{line}")?;
            }
        }
    }
    Ok(())
}

fn exit_codes(out: &mut impl Write) -> io::Result<()> {
    writeln!(out, ".SH EXIT STATUS")?;
    for (code, meaning) in [
        ("its own", "the command ran and ended by itself"),
        ("128+N", "the command ran and was ended by signal N"),
        ("124", "it timed out and was killed"),
        (
            "125",
            "wrong usage, or sjail could not keep its promise; the sentence on standard error says which step, why, and the fix",
        ),
        ("126", "the program cannot be executed"),
        ("127", "there is no such program"),
        ("75", "approval is pending or has expired"),
        (
            "77",
            "blocked by policy, rejected, or the approval is unknown or used up",
        ),
    ] {
        writeln!(out, ".TP\n\\fB{code}\\fR\n{}", literal(meaning))?;
    }
    Ok(())
}

fn files(out: &mut impl Write) -> io::Result<()> {
    writeln!(out, ".SH FILES")?;
    for (path, what) in [
        (
            "/etc/sjail/policy.toml",
            "the machine's policy; may lock keys",
        ),
        ("~/.config/sjail/policy.toml", "the user's policy"),
        (
            "sjail.toml, SANDBOX.md, .claude/security-config.json",
            "a workspace's policy; may only tighten until it is trusted",
        ),
        (
            "~/.local/state/sjail/",
            "audit log, queue, trust, the state of sandboxes, quarantine",
        ),
        ("$XDG_RUNTIME_DIR/sjail/", "the broker's two sockets"),
    ] {
        writeln!(out, ".TP\n\\fI{}\\fR\n{}", literal(path), literal(what))?;
    }
    Ok(())
}

/// Text as roff prints it unchanged.
pub fn literal(text: &str) -> String {
    let escaped = text
        .replace('\\', "\\e")
        .replace('-', "\\-")
        .replace('\'', "\\(aq");
    match escaped.starts_with('.') {
        true => format!("\\&{escaped}"),
        false => escaped,
    }
}
