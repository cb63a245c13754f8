//! The terminal of the person who called: typing into it, finding it by name.

use sjail_tests::attack::files::CANARY;
use sjail_tests::{Scene, Stop, Test, Verdict, ensure};

pub fn tests() -> Vec<Test> {
    let mut tests = Vec::new();
    for (name, words) in [
        ("b12_tiocsti", &["tiocsti", "plain"][..]),
        ("b12_tiocsti_with_high_bits", &["tiocsti", "high"]),
        ("b12_tiocsti_with_all_high_bits", &["tiocsti", "sign"]),
        ("b12_tiocsti_on_dev_tty", &["tiocsti", "tty"]),
        ("b12_tiocsti_on_standard_output", &["tiocsti", "stdout"]),
        ("b12_tioclinux", &["tioclinux", "plain"]),
        ("b12_tioclinux_with_high_bits", &["tioclinux", "high"]),
    ] {
        tests.push(Test::new(name, move |scene| at_a_terminal(scene, words)));
    }
    tests.push(Test::new(
        "b12_callers_terminal_behind_redirections",
        terminal_of_the_session,
    ));
    tests.push(Test::new(
        "b12_settings_of_the_callers_terminal",
        settings_of_the_terminal,
    ));
    tests.push(Test::new(
        "b12_callers_terminal_by_its_name",
        terminal_by_name,
    ));
    tests
}

/// Held at the jail's own terminal; without the jail it works, where the kernel
/// still offers it at all.
fn at_a_terminal(scene: &Scene, words: &[&str]) -> Verdict {
    let attacker = scene.attacker()?;
    let mut terminal = scene.run(["--"]).args([&attacker]).args(words).terminal()?;
    let status = terminal.finish()?;
    let screen = terminal.screen();
    if screen.contains("OUT ")
        || !(screen.contains("HELD") || status.code() == Some(128 + libc::SIGSYS))
    {
        return Err(Stop::failed(format!(
            "expected to be held ({status}): {screen:?}"
        )));
    }
    let mut bare = scene
        .host(&attacker)
        .args(words)
        .env("ATTACKER_CONTROL", "1")
        .terminal()?;
    bare.finish()?;
    let screen = bare.screen();
    if screen.contains("OUT ") || screen.contains("ABSENT") {
        Ok(())
    } else {
        Err(Stop::failed(format!("the check is hollow: {screen:?}")))
    }
}

/// None of the command's streams is the caller's terminal, but its session has one, which
/// every process of the session finds at `/dev/tty`.
fn terminal_of_the_session(scene: &Scene) -> Verdict {
    let sjail = scene.program("sjail");
    let at_terminal = |jail: &str| -> Verdict<String> {
        let write = format!("{jail} sh -c 'echo {CANARY} >/dev/tty' </dev/null >/dev/null 2>&1");
        let mut terminal = scene.host("sh").args(["-c", &write]).terminal()?;
        terminal.finish()?;
        Ok(terminal.screen())
    };
    let screen = at_terminal(&format!("{} run --no-broker --", sjail.display()))?;
    if screen.contains(CANARY) {
        return Err(Stop::failed(format!("the jail wrote to it: {screen:?}")));
    }
    let screen = at_terminal("")?;
    match screen.contains(CANARY) {
        true => Ok(()),
        false => Err(Stop::failed(format!("the check is hollow: {screen:?}"))),
    }
}

/// Only standard input is the caller's terminal, and what a command sets there stays when it
/// has ended: without an echo, a person types blindly.
fn settings_of_the_terminal(scene: &Scene) -> Verdict {
    scene.needs(&["stty"])?;
    let sjail = scene.program("sjail");
    let after = |jail: &str, tried: &str| -> Verdict<String> {
        let set = format!("{jail} sh -c 'stty -echo && echo >{tried}' >/dev/null 2>&1; stty -a");
        let mut terminal = scene.host("sh").args(["-c", &set]).terminal()?;
        terminal.finish()?;
        scene.read(tried)?;
        Ok(terminal.screen())
    };
    let screen = after(&format!("{} run --no-broker --", sjail.display()), "held")?;
    ensure(
        screen.contains(" echo ") && !screen.contains("-echo "),
        || format!("the jail has set it: {screen:?}"),
    )?;
    let screen = after("", "control")?;
    ensure(screen.contains("-echo "), || {
        format!("the check is hollow: {screen:?}")
    })
}

/// The caller's terminal is a file below `/dev/pts`; the jail has another one.
/// What is written to that name inside must not show outside.
fn terminal_by_name(scene: &Scene) -> Verdict {
    let line = format!(
        "for t in /dev/pts/[0-9]*; do [ $t -ef /proc/self/fd/1 ] || echo {CANARY}-$t >$t; done"
    );
    let other = scene.host("cat").terminal()?;
    let output = scene.run(["--", "sh", "-c", &line]).output()?;
    let mut other = other;
    other.send("\x04")?;
    other.finish()?;
    if other.screen().contains(CANARY) {
        return Err(Stop::failed(format!(
            "the jail wrote to the caller's terminal, {output}"
        )));
    }
    // The same line on the host reaches it.
    let mut reached = scene.host("cat").terminal()?;
    scene.host("sh").args(["-c", &line]).output()?;
    reached.expect(CANARY)?;
    reached.send("\x04")?;
    reached.finish()?;
    Ok(())
}
