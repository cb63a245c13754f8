//! A person at a terminal: the jail has its own, and it feels like the one outside.
//!
//! Scripts that are signalled are bash's, not dash's: dash starts programs by vfork, is
//! not stopped while its child is, and forgets a signal that comes at that moment.

use std::fs;
use std::os::unix::process::ExitStatusExt;

use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{LocalFlags, Termios};
use nix::unistd::Pid;
use sjail_tests::{Scene, Stop, Terminal, Test, Verdict, tests, wait};

pub fn suite() -> Vec<Test> {
    tests![
        the_command_has_a_terminal_that_is_not_the_hosts,
        the_host_terminal_cannot_be_reached,
        the_size_follows,
        interrupt_reaches_the_command,
        quit_reaches_the_command,
        interrupt_twice_is_two_interrupts,
        end_of_file_ends_input,
        a_password_is_not_shown,
        stop_and_foreground,
        stop_and_background,
        a_background_job_that_reads_is_stopped,
        in_a_pipeline_the_terminal_is_shared,
        in_a_pipeline_the_command_can_ask,
        a_pager_reads_keys_while_its_input_is_a_pipe,
        an_interrupt_ends_a_pipeline,
        nothing_is_lost_on_the_way_out,
        nothing_is_lost_on_the_way_in,
        restored_after_each_way_to_end,
        hangup_ends_the_command,
        vim_edits_a_file,
        less_pages_and_quits,
        top_runs_and_quits,
        a_screen_inside_tmux,
        job_control_inside,
        stopped_and_continued_again_and_again,
        interrupted_again_and_again,
        interrupted_before_the_command_runs,
    ]
}

/// Flags of a terminal that a shell's user sees: lines, echo, signals.
fn lines_and_echo(settings: &Termios) -> bool {
    settings
        .local_flags
        .contains(LocalFlags::ICANON | LocalFlags::ECHO | LocalFlags::ISIG)
}

/// An interactive shell at a terminal, with a function `j` for `sjail run`.
fn shell(scene: &Scene) -> Verdict<Terminal> {
    scene.needs(&["bash"])?;
    let mut shell = scene
        .host("bash")
        .args(["--norc", "--noprofile", "-i"])
        .env("PS1", "ready> ")
        .env("SJAIL", scene.program("sjail"))
        .terminal()?;
    shell.expect("ready> ")?;
    shell.line("bind 'set enable-bracketed-paste off' 2>/dev/null; j() { \"$SJAIL\" run --no-broker --quiet \"$@\"; }")?;
    shell.expect("ready> ")?;
    Ok(shell)
}

/// The line that the shell runs shows its end by `code=N`.
fn code(shell: &mut Terminal) -> Verdict<String> {
    shell.line("echo code=$?.")?;
    shell.expect("code=$?.")?;
    shell.expect("code=")?;
    shell.expect(".")
}

fn the_command_has_a_terminal_that_is_not_the_hosts(scene: &Scene) -> Verdict {
    let look = "test -t 0 -a -t 1 -a -t 2 && echo all; tty; stty size; stat -Lc fs=%d. /dev/fd/0";
    let mut run = scene.run(["--", "sh", "-c", look]).terminal()?;
    run.expect("all")?;
    run.expect("/dev/pts/0")?;
    run.expect("24 80")?;
    run.expect("fs=")?;
    let inside = run.expect(".")?;
    assert!(run.finish()?.success());
    let host = fs::metadata("/dev/pts")?;
    let host = std::os::unix::fs::MetadataExt::dev(&host).to_string();
    assert_ne!(inside, host, "the terminal is on the host's devpts");
    Ok(())
}

fn the_host_terminal_cannot_be_reached(scene: &Scene) -> Verdict {
    // /dev/tty is the jail's own; nothing among the descriptors points outside.
    let look =
        "ls -l /proc/self/fd | sed -n 's/.*-> //p' | sort -u; echo hello > /dev/tty; echo end.";
    let mut run = scene.run(["--", "sh", "-c", look]).terminal()?;
    let shown = run.expect("end.")?;
    run.finish()?;
    assert!(shown.contains("hello"), "{shown}");
    for line in shown.lines().filter(|line| line.contains("/dev/pts")) {
        assert_eq!(line.trim(), "/dev/pts/0", "{shown}");
    }
    Ok(())
}

/// Says `ready`, and then what each signal of one kind brings. A shell will not do: it
/// may forget a signal that comes while the trap for the one before is running.
fn python(signal: &str, on_signal: &str) -> String {
    format!(
        "import os, signal, time\nn = 0\ndef told(*_):\n    global n\n    n += 1\n    {on_signal}\nsignal.signal(signal.{signal}, told)\nos.write(1, b'ready\\n')\nwhile True: time.sleep(0.05)\n"
    )
}

fn the_size_follows(scene: &Scene) -> Verdict {
    scene.needs(&["python3"])?;
    let say =
        "size = os.get_terminal_size(0); os.write(1, b'%d %d\\n' % (size.lines, size.columns))";
    scene.file("size.py", python("SIGWINCH", say))?;
    let mut run = scene.run(["--", "python3", "size.py"]).terminal()?;
    run.expect("ready")?;
    run.resize(40, 120)?;
    run.expect("40 120")?;
    run.resize(10, 33)?;
    run.expect("10 33")?;
    run.send("\x03")?;
    assert_eq!(run.finish()?.code(), Some(130));
    Ok(())
}

fn interrupt_reaches_the_command(scene: &Scene) -> Verdict {
    let script = "trap 'echo caught; exit 7' INT; echo ready; while :; do sleep 0.05; done";
    let mut run = scene.run(["--", "bash", "-c", script]).terminal()?;
    run.expect("ready")?;
    run.send("\x03")?;
    run.expect("caught")?;
    assert_eq!(run.finish()?.code(), Some(7));
    let mut run = scene
        .run(["--", "bash", "-c", "echo ready; exec sleep 100"])
        .terminal()?;
    run.expect("ready")?;
    run.send("\x03")?;
    assert_eq!(run.finish()?.code(), Some(130));
    Ok(())
}

fn quit_reaches_the_command(scene: &Scene) -> Verdict {
    let mut run = scene
        .run(["--", "sh", "-c", "echo ready; exec sleep 100"])
        .terminal()?;
    run.expect("ready")?;
    run.send("\x1c")?;
    assert_eq!(run.finish()?.code(), Some(131));
    Ok(())
}

fn interrupt_twice_is_two_interrupts(scene: &Scene) -> Verdict {
    scene.needs(&["python3"])?;
    let say = "os.write(1, b'int-%d\\n' % n); n < 2 or os._exit(3)";
    scene.file("twice.py", python("SIGINT", say))?;
    let mut run = scene.run(["--", "python3", "twice.py"]).terminal()?;
    run.expect("ready")?;
    run.send("\x03")?;
    run.expect("int-1")?;
    run.send("\x03")?;
    run.expect("int-2")?;
    assert_eq!(run.finish()?.code(), Some(3));
    Ok(())
}

fn end_of_file_ends_input(scene: &Scene) -> Verdict {
    let mut run = scene.run(["--", "wc", "-l"]).terminal()?;
    run.line("one")?;
    run.line("two")?;
    run.send("\x04")?;
    run.expect("2")?;
    assert!(run.finish()?.success());
    Ok(())
}

fn a_password_is_not_shown(scene: &Scene) -> Verdict {
    scene.needs(&["python3"])?;
    let ask = "import getpass; print('length', len(getpass.getpass()))";
    let mut run = scene.run(["--", "python3", "-c", ask]).terminal()?;
    run.expect("Password:")?;
    run.line("s3cret")?;
    run.expect("length 6")?;
    assert!(run.finish()?.success());
    assert!(!run.screen().contains("s3cret"), "{}", run.screen());
    Ok(())
}

fn stop_and_foreground(scene: &Scene) -> Verdict {
    let mut shell = shell(scene)?;
    shell.line("j -- cat")?;
    shell.line("before")?;
    shell.expect("before\r\nbefore\r\n")?;
    shell.send("\x1a")?;
    shell.expect("Stopped")?;
    shell.expect("ready> ")?;
    // The shell's own line editor has the terminal now; a plain program sees it whole.
    shell.line("stty -a | tr ' ' '\\n' | grep -x -e isig -e icanon -e echo | sort | tr '\\n' .")?;
    shell.expect("echo.icanon.isig.")?;
    shell.expect("ready> ")?;
    shell.line("fg")?;
    shell.line("after")?;
    shell.expect("after\r\nafter\r\n")?;
    shell.send("\x1a")?;
    shell.expect("Stopped")?;
    shell.line("fg")?;
    shell.line("again")?;
    shell.expect("again\r\nagain\r\n")?;
    shell.send("\x04")?;
    shell.expect("ready> ")?;
    assert_eq!(code(&mut shell)?, "0");
    leave(shell)
}

fn stop_and_background(scene: &Scene) -> Verdict {
    let mut shell = shell(scene)?;
    // No `sleep`: bash takes a Ctrl-C that meets the very end of a child for the child's own
    // affair, and counts on.
    shell.line("mkfifo quiet")?;
    shell.expect("ready> ")?;
    shell.line("j -- bash -c 'exec 3<> quiet; n=0; while :; do n=$((n+1)); echo $n > count; read -t 0.2 -u 3; done'")?;
    let count = scene.workspace().join("count");
    wait::until_true("it counts", || count.exists())?;
    shell.send("\x1a")?;
    shell.expect("Stopped")?;
    shell.expect("ready> ")?;
    let stopped = scene.read("count")?;
    std::thread::sleep(std::time::Duration::from_millis(600));
    assert_eq!(
        scene.read("count")?,
        stopped,
        "the command goes on while stopped"
    );
    shell.line("bg")?;
    wait::until_true("it counts on in the background", || {
        scene
            .read("count")
            .is_ok_and(|now| !now.is_empty() && now != stopped)
    })?;
    shell.line("echo still-$((1+1))")?;
    shell.expect("still-2")?;
    shell.line("fg")?;
    shell.expect("run --no-broker")?;
    // The shell names the job before it hands the terminal over, and a job that runs is not
    // told: a key that comes in between is the shell's.
    let pid = shell.pid();
    wait::until_true("the job has the terminal", || has_lost_the_terminal(pid))?;
    shell.send("\x03")?;
    shell.expect("ready> ")?;
    assert_eq!(code(&mut shell)?, "130");
    leave(shell)
}

/// Whether the foreground is another group's than this process's own.
fn has_lost_the_terminal(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let fields: Vec<&str> = fields.split_whitespace().collect();
    matches!(fields.as_slice(), [_, _, group, _, _, foreground, ..] if group != foreground)
}

fn a_background_job_that_reads_is_stopped(scene: &Scene) -> Verdict {
    let mut shell = shell(scene)?;
    shell.line("set -b; j -- sh -c 'read x; echo got-$x' &")?;
    shell.expect("Stopped")?;
    shell.line("fg")?;
    shell.line("word")?;
    shell.expect("got-word")?;
    shell.expect("ready> ")?;
    assert_eq!(code(&mut shell)?, "0");
    leave(shell)
}

fn in_a_pipeline_the_terminal_is_shared(scene: &Scene) -> Verdict {
    let mut shell = shell(scene)?;
    // The other end of the pipeline reads the terminal itself, as a pager does.
    shell.line("j -- sh -c 'test -t 0 && ! test -t 1 && test -t 2 && echo as-it-was' | { read y; read x < /dev/tty; echo \"$y and $x\"; }")?;
    std::thread::sleep(std::time::Duration::from_millis(500));
    shell.line("mine")?;
    shell.expect("as-it-was and mine")?;
    shell.expect("ready> ")?;
    leave(shell)
}

fn in_a_pipeline_the_command_can_ask(scene: &Scene) -> Verdict {
    let mut shell = shell(scene)?;
    shell.line("j -- sh -c 'echo question >&2; read x; echo \"<$x>\"' | cat")?;
    shell.expect("question\r\n")?;
    shell.line("reply")?;
    shell.expect("<reply>")?;
    shell.expect("ready> ")?;
    leave(shell)
}

fn a_pager_reads_keys_while_its_input_is_a_pipe(scene: &Scene) -> Verdict {
    scene.needs(&["less", "seq"])?;
    let mut shell = shell(scene)?;
    shell.line("export TERM=xterm; seq 1 500 | j -- less")?;
    shell.expect("20")?;
    shell.send("G")?;
    shell.expect("500")?;
    shell.send("q")?;
    shell.expect("ready> ")?;
    assert!(code(&mut shell)? == "0");
    leave(shell)
}

fn an_interrupt_ends_a_pipeline(scene: &Scene) -> Verdict {
    let mut shell = shell(scene)?;
    shell.line("j -- bash -c 'echo begun >&2; sleep 100; echo not-reached' | cat")?;
    shell.expect("| cat\r\n")?;
    shell.expect("begun")?;
    shell.send("\x03")?;
    shell.expect("ready> ")?;
    assert!(!shell.screen().contains("not-reached\r"));
    leave(shell)
}

fn nothing_is_lost_on_the_way_out(scene: &Scene) -> Verdict {
    let mut run = scene.run(["--", "seq", "1", "200000"]).terminal()?;
    assert!(run.finish()?.success());
    let screen = run.screen();
    let mut expected = 1;
    for line in screen.lines() {
        if let Ok(number) = line.trim().parse::<u32>() {
            assert_eq!(number, expected);
            expected += 1;
        }
    }
    assert_eq!(expected, 200_001);
    Ok(())
}

fn nothing_is_lost_on_the_way_in(scene: &Scene) -> Verdict {
    let script = "stty -echo; echo ready; head -n 3000 > typed; echo done";
    let mut run = scene.run(["--", "sh", "-c", script]).terminal()?;
    run.expect("ready")?;
    let mut expected = String::new();
    for number in 0..3000 {
        run.line(&format!("line number {number} of the paste"))?;
        expected.push_str(&format!("line number {number} of the paste\n"));
    }
    run.expect("done")?;
    assert!(run.finish()?.success());
    assert!(
        scene.read("typed")? == expected,
        "the paste arrived changed"
    );
    Ok(())
}

fn restored_after_each_way_to_end(scene: &Scene) -> Verdict {
    let raw = "stty raw -echo; echo ready; ";
    for (options, script, signal) in [
        (vec![], "head -c 1 > /dev/null; exit 3", None),
        (vec![], "head -c 1 > /dev/null; kill -SEGV $$", None),
        (vec!["--timeout", "2s"], "exec sleep 100", None),
        (vec![], "exec sleep 100", Some(Signal::SIGTERM)),
        (vec![], "exec sleep 100", Some(Signal::SIGHUP)),
        (vec![], "exec sleep 100", Some(Signal::SIGINT)),
    ] {
        let script = format!("{raw}{script}");
        let words: Vec<&str> = options
            .iter()
            .copied()
            .chain(["--", "sh", "-c", &script])
            .collect();
        let mut run = scene.run(words).terminal()?;
        let before = run.settings()?;
        run.expect("ready")?;
        assert!(!lines_and_echo(&run.settings()?), "the terminal is not raw");
        match signal {
            Some(signal) => kill(run.pid(), signal)?,
            None => run.send("x")?,
        }
        let status = run.finish()?;
        let after = run.settings()?;
        assert!(before == after, "{script} {signal:?} ({status}): {after:?}");
    }
    Ok(())
}

fn hangup_ends_the_command(scene: &Scene) -> Verdict {
    let script = "trap 'echo hup > hup; exit 1' HUP; echo ready; while :; do sleep 0.05; done";
    let mut run = scene.run(["--", "bash", "-c", script]).terminal()?;
    run.expect("ready")?;
    let pid = run.pid();
    let hup = scene.workspace().join("hup");
    drop(run);
    wait::until_true("the command is told", || hup.exists())?;
    // A child of ours that nobody waited for: a zombie counts as ended.
    wait::until_true("sjail ends", || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.is_empty() || stat.contains(") Z ")
    })
}

fn vim_edits_a_file(scene: &Scene) -> Verdict {
    scene.needs(&["vim"])?;
    let mut run = scene
        .run(["--", "vim", "-N", "-u", "NONE", "-n", "text"])
        .env("TERM", "xterm")
        .terminal()?;
    run.expect("~")?;
    run.send("ihello from vim\x1b")?;
    run.send(":wq\r")?;
    assert!(run.finish()?.success(), "{}", run.screen());
    assert_eq!(scene.read("text")?, "hello from vim\n");
    Ok(())
}

fn less_pages_and_quits(scene: &Scene) -> Verdict {
    scene.needs(&["less"])?;
    let lines: String = (1..=500).map(|n| format!("line {n}\n")).collect();
    scene.file("long", lines)?;
    let mut run = scene
        .run(["--", "less", "long"])
        .env("TERM", "xterm")
        .terminal()?;
    run.expect("line 23")?;
    run.send("G")?;
    run.expect("line 500")?;
    run.send("q")?;
    assert!(run.finish()?.success());
    Ok(())
}

fn top_runs_and_quits(scene: &Scene) -> Verdict {
    scene.needs(&["top"])?;
    let mut run = scene
        .run(["--", "top", "-d", "1"])
        .env("TERM", "xterm")
        .terminal()?;
    run.expect("PID")?;
    run.resize(30, 100)?;
    run.send("q")?;
    assert!(run.finish()?.success());
    Ok(())
}

fn a_screen_inside_tmux(scene: &Scene) -> Verdict {
    scene.needs(&["tmux", "vim"])?;
    let socket = scene.scratch().join("tmux");
    let tmux = |words: &[&str]| {
        scene
            .host("tmux")
            .args(["-f", "/dev/null", "-S"])
            .args([socket.as_os_str()])
            .args(words)
            .without_env("TMUX")
            .env("TERM", "xterm-256color")
            .output()
    };
    let sjail = scene.program("sjail");
    let line = format!(
        "{} run --no-broker --quiet -- vim -N -u NONE -n text; echo over-$?; sleep 60",
        sjail.display()
    );
    tmux(&["new-session", "-d", "-x", "90", "-y", "30", &line])?.succeeds()?;
    let seen = |what: &str| {
        wait::until_true(what, || {
            tmux(&["capture-pane", "-p"]).is_ok_and(|screen| screen.stdout.contains(what))
        })
    };
    let checked = (|| {
        seen("~")?;
        tmux(&["send-keys", "-l", ":set nu"])?.succeeds()?;
        tmux(&["send-keys", "Enter"])?.succeeds()?;
        tmux(&["send-keys", "-l", "iin tmux"])?.succeeds()?;
        seen("1 in tmux")?;
        tmux(&["resize-window", "-x", "60", "-y", "20"])?.succeeds()?;
        tmux(&["send-keys", "Escape"])?.succeeds()?;
        // It hears of the new size in its own time: asked until it has.
        wait::until_true("60x", || {
            tmux(&["send-keys", "-l", ":echo &columns . 'x' . &lines"]).is_ok()
                && tmux(&["send-keys", "Enter"]).is_ok()
                && tmux(&["capture-pane", "-p"]).is_ok_and(|screen| screen.stdout.contains("60x"))
        })?;
        tmux(&["send-keys", "-l", ":wq"])?.succeeds()?;
        tmux(&["send-keys", "Enter"])?.succeeds()?;
        seen("over-0")
    })();
    tmux(&["kill-server"])?;
    checked.map_err(|stop| match stop {
        Stop::Failed(message) => Stop::failed(message),
        skipped => skipped,
    })?;
    assert_eq!(scene.read("text")?, "in tmux\n");
    Ok(())
}

fn job_control_inside(scene: &Scene) -> Verdict {
    scene.needs(&["bash"])?;
    let mut run = scene
        .run(["--env", "PS1=inside> ", "--"])
        .args(["bash", "--norc", "--noprofile", "-i"])
        .env("TERM", "dumb")
        .terminal()?;
    run.expect("inside> ")?;
    // The key is the job's when the job runs, and not before: a shell that is just about to
    // start it ignores the signal.
    run.line("sh -c 'echo started-$((40+2)); exec sleep 100'")?;
    run.expect("started-42")?;
    run.send("\x1a")?;
    run.expect("Stopped")?;
    run.expect("inside> ")?;
    // A shell does not leave while a job is stopped: it must be gone, not only signalled.
    run.line("jobs | wc -l; kill -KILL %1; wait %1; echo in-$((20+3))")?;
    run.expect("in-23")?;
    assert!(!run.screen().contains("no job control"), "{}", run.screen());
    run.line("exit 5")?;
    assert_eq!(run.finish()?.code(), Some(5));
    Ok(())
}

/// Each exchange is a race between keys, signals and the words to pid 1.
fn stopped_and_continued_again_and_again(scene: &Scene) -> Verdict {
    let mut shell = shell(scene)?;
    shell.line("set -b; j -- cat")?;
    shell.line("begin")?;
    shell.expect("begin\r\nbegin\r\n")?;
    for round in 0..100 {
        shell.send("\x1a")?;
        shell.expect("Stopped")?;
        shell.expect("ready> ")?;
        if round % 2 == 1 {
            // It reads in the background, and is stopped for that.
            shell.line("bg")?;
            shell.expect("Stopped")?;
        }
        shell.line("fg")?;
        shell.expect("fg\r\n")?;
        shell.expect("run --no-broker")?;
        shell.line(&format!("round-{round}."))?;
        let echoed = format!("round-{round}.\r\n");
        shell.expect(&echoed)?;
        shell.expect(&echoed)?;
    }
    shell.send("\x04")?;
    shell.expect("ready> ")?;
    leave(shell)
}

fn interrupted_again_and_again(scene: &Scene) -> Verdict {
    let mut shell = shell(scene)?;
    for round in 0..30 {
        let tail = if round % 2 == 0 { " | cat" } else { "" };
        shell.line(&format!(
            "j -- bash -c 'echo begun-$((7*6)) >&2; sleep 100; echo not-reached'{tail}"
        ))?;
        shell.expect("begun-42")?;
        shell.send("\x03")?;
        shell.expect("ready> ")?;
    }
    assert!(!shell.screen().contains("not-reached\r\n"));
    leave(shell)
}

/// Whatever the moment, a Ctrl-C ends it.
fn interrupted_before_the_command_runs(scene: &Scene) -> Verdict {
    for round in 0..20 {
        let mut run = scene.run(["--", "sleep", "100"]).terminal()?;
        std::thread::sleep(std::time::Duration::from_millis(round));
        run.send("\x03")?;
        let status = run.finish()?;
        // Before sjail listens, the kernel ends it as it ends every program.
        let ended = status.code() == Some(130) || status.signal() == Some(libc::SIGINT);
        assert!(ended, "{status}: {}", run.screen());
    }
    Ok(())
}

/// Leaves the shell; a stopped job would make it complain.
fn leave(mut shell: Terminal) -> Verdict {
    shell.line("exit 0")?;
    let status = shell.finish()?;
    assert!(status.success(), "{status}: {}", shell.screen());
    Ok(())
}
