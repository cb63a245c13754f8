//! No user namespaces: refused with cause and cure, or, where the caller allows less, held
//! by Landlock and filters alone, with what is missing said by name.

use std::fs;
use std::io::{self, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sjail_tests::attack::files::CANARY;
use sjail_tests::attack::{HELD, OUT};
use sjail_tests::{Call, Output, Scene, Stop, Test, Verdict, tests, wait};

use crate::desk::Desk;

pub fn suite() -> Vec<Test> {
    tests![
        refused_unless_allowed,
        each_errno_has_its_cause_and_cure,
        the_setting_is_named,
        what_is_missing_is_said,
        the_record_carries_it,
        what_cannot_be_held_is_refused,
        the_workspace_is_there_and_nothing_else,
        home_and_tmp_are_the_runs_own,
        protected_names_stay_closed,
        a_protected_name_that_appears_is_taken_away,
        hidden_names_stay_hidden,
        no_socket_leads_out,
        modes_of_what_can_be_read_stay,
        other_processes_are_out_of_reach,
        queues_and_shared_memory_are_refused,
        daemons_go_with_it,
        a_killed_supervisor_leaves_nothing,
        a_killed_first_process_leaves_nothing,
        a_first_process_killed_from_outside_leaves_nothing,
        time_is_up_for_everybody,
        processes_are_counted,
        the_terminal_is_its_own,
        streams_and_exit_codes_pass,
    ]
}

/// The same call where new namespaces are refused with this errno: what a container's
/// filter does.
pub fn refusing(call: Call, errno: i32) -> Call {
    // SAFETY: the closure makes system calls on memory of its own and nothing else.
    unsafe { call.before_exec(move || forbid(&[libc::SYS_clone3, libc::SYS_unshare], errno)) }
}

/// Has these calls answered with this errno from here on; at most four of them.
pub fn forbid(calls: &[libc::c_long], errno: i32) -> io::Result<()> {
    let step = |code: u32, jt, jf, k| libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    let load = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    let equal = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let answer = libc::BPF_RET | libc::BPF_K;
    // No allocation: this runs between fork and exec.
    let mut code = [step(answer, 0, 0, libc::SECCOMP_RET_ALLOW); 7];
    code[0] = step(load, 0, 0, 0);
    let count = calls.len().min(4);
    for (index, call) in calls.iter().take(count).enumerate() {
        let to_refusal = (count - index) as u8;
        code[index + 1] = step(equal, to_refusal, 0, *call as u32);
    }
    code[count + 2] = step(answer, 0, 0, libc::SECCOMP_RET_ERRNO | errno as u32);
    let program = libc::sock_fprog {
        len: (count + 3) as u16,
        filter: code.as_mut_ptr(),
    };
    // SAFETY: the program and its instructions outlive the calls.
    let done = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        libc::prctl(
            libc::PR_SET_SECCOMP,
            libc::SECCOMP_MODE_FILTER,
            &raw const program,
        )
    };
    match done {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// `sjail run --allow-degraded WORDS…` where there are no user namespaces.
fn bare<const N: usize>(scene: &Scene, words: [&str; N]) -> Call {
    refusing(scene.run(["--allow-degraded"]).args(words), libc::EPERM)
}

/// The attacker in such a jail.
fn attack<const N: usize>(scene: &Scene, words: [&str; N]) -> Verdict<Output> {
    scene.attacker()?;
    bare(scene, ["--quiet", "--", "./attacker"])
        .args(words)
        .output()
}

/// It gets there outside and is held inside.
fn held<const N: usize>(scene: &Scene, words: [&str; N]) -> Verdict {
    attack(scene, words)?.exits(HELD)?;
    free(scene, words)
}

fn free<const N: usize>(scene: &Scene, words: [&str; N]) -> Verdict {
    let control = scene.host(scene.attacker()?).args(words).output()?;
    match control.code() {
        Some(OUT) => Ok(()),
        _ => Err(Stop::failed(format!("the control was held: {control}"))),
    }
}

fn ensure(holds: bool, what: &str) -> Verdict {
    match holds {
        true => Ok(()),
        false => Err(Stop::failed(what.to_string())),
    }
}

fn refused_unless_allowed(scene: &Scene) -> Verdict {
    let run = refusing(scene.run(["--", "touch", "ran"]), libc::EPERM).output()?;
    run.exits(125)?
        .stderr_has("a filter forbids them")?
        .stderr_has("The way out")?
        .stderr_has("--allow-degraded")?;
    ensure(!scene.workspace().join("ran").exists(), "it ran")
}

fn each_errno_has_its_cause_and_cure(scene: &Scene) -> Verdict {
    for (errno, why, fix) in [
        (libc::EACCES, "AppArmor", "sjail doctor"),
        (libc::ENOSPC, "user.max_user_namespaces", "sysctl -w"),
        (libc::EINVAL, "built without", "CONFIG_USER_NS"),
        (libc::ENOSYS, "clone3", "Linux 5.12"),
    ] {
        let run = refusing(scene.run(["--", "true"]), errno).output()?;
        run.exits(125)?.stderr_has(why)?.stderr_has(fix)?;
    }
    Ok(())
}

/// Not a filter, but the kernel's own limit, in a namespace so that the host keeps its.
fn the_setting_is_named(scene: &Scene) -> Verdict {
    scene.needs(&["unshare"])?;
    let spend = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$0\" \"$@\"";
    let run = scene
        .host("unshare")
        .args(["-Ur", "sh", "-c", spend])
        .args([scene.program("sjail")])
        .args([
            "run",
            "--no-broker",
            "--allow-degraded",
            "--",
            "echo",
            "ran",
        ])
        .output()?;
    run.succeeds()?
        .stdout_is("ran\n")?
        .stderr_has("user.max_user_namespaces=0")?;
    Ok(())
}

fn what_is_missing_is_said(scene: &Scene) -> Verdict {
    let run = bare(scene, ["--", "true"]).output()?;
    let said = [
        "user namespaces are not used: a filter forbids them",
        "no private view of processes",
        "no private file system",
        "every socket is refused",
        "killed at the same moment",
    ];
    run.succeeds()?;
    for part in said {
        run.stderr_has(part)?;
    }
    let result = bare(scene, ["--json", "--quiet", "--", "true"])
        .output()?
        .json()?;
    let degraded = result["isolation"]["degraded"].to_string();
    for part in said {
        ensure(degraded.contains(part), part)?;
    }
    let layers = result["isolation"]["layers"].to_string();
    ensure(!layers.contains("namespace"), "a namespace is claimed")?;
    ensure(layers.contains("Landlock"), "Landlock is not claimed")
}

fn the_record_carries_it(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    // The broker itself is started where nothing is refused.
    desk.sjail(["run", "--", "true"])?.succeeds()?;
    let call = scene.sjail(["run", "--allow-degraded", "--json", "--", "true"]);
    let run = refusing(call, libc::EPERM).output()?;
    let result = run.succeeds()?.json()?;
    let id = result["id"].as_str().unwrap_or_default();
    wait::until_true("the record says what was not enforced", || {
        desk.sjail(["audit", "show", id, "--json"])
            .is_ok_and(|shown| shown.stdout.contains("user namespaces are not used"))
    })
}

fn what_cannot_be_held_is_refused(scene: &Scene) -> Verdict {
    scene.file("a", "")?;
    let elsewhere = format!("{}:/elsewhere:ro", scene.workspace().display());
    for (words, named) in [
        (["--net", "filtered"], "--net filtered"),
        (["--dry-run", "--quiet"], "--dry-run"),
        (["--bind", &elsewhere], "/elsewhere"),
    ] {
        let run = bare(scene, words).args(["--", "touch", "ran"]).output()?;
        run.exits(125)?.stderr_has(named)?;
        ensure(!scene.workspace().join("ran").exists(), "it ran")?;
    }
    Ok(())
}

fn the_workspace_is_there_and_nothing_else(scene: &Scene) -> Verdict {
    scene.file("old", "old")?;
    let secret = scene.home_file(".ssh/id_test", CANARY)?;
    let outside = scene.outside_file("file", "untouched")?;
    let (secret, outside) = (secret.display().to_string(), outside.display().to_string());
    let work = "cat old; echo new > new; mkdir d; mv new d/new; ln -s d/new link; cat link; rm old";
    bare(scene, ["--quiet", "--", "sh", "-c", work])
        .output()?
        .succeeds()?
        .stdout_is("oldnew\n")?;
    held(scene, ["read", &secret])?;
    held(scene, ["write-open", &outside])?;
    attack(scene, ["cut-short", &outside])?.exits(HELD)?;
    attack(scene, ["take-away", &outside])?.exits(HELD)?;
    attack(scene, ["rename", &outside, "stolen"])?.exits(HELD)?;
    attack(scene, ["second-name", &outside, "linked"])?.exits(HELD)?;
    ensure(fs::read(&outside)? == b"untouched", "it was changed")
}

fn home_and_tmp_are_the_runs_own(scene: &Scene) -> Verdict {
    let line = "echo x > \"$TMPDIR/a\" && echo y > ~/b && cat \"$TMPDIR/a\" ~/b && echo \"$HOME\"; echo z > /tmp/sjail-fallback-z";
    let run = bare(scene, ["--quiet", "--", "sh", "-c", line]).output()?;
    run.stdout_has("x\ny\n")?
        .stderr_has("/tmp/sjail-fallback-z")?;
    ensure(!fs::exists("/tmp/sjail-fallback-z")?, "/tmp was written")?;
    let home = run.stdout.lines().last().unwrap_or_default();
    ensure(home.ends_with("/home"), home)?;
    ensure(!fs::exists(home)?, "the room is left")
}

/// A repository: known names can be read and not changed in any way; what lies beside
/// them can be changed, but nothing made there; folders without them are free.
fn protected_names_stay_closed(scene: &Scene) -> Verdict {
    let config = scene.file(".git/config", "[core]\n\tbare = false\n")?;
    scene.file(".git/HEAD", "ref: refs/heads/main\n")?;
    scene.file(".git/hooks/pre-commit", "#!/bin/sh\n")?;
    scene.file(".git/objects/x", "")?;
    scene.file(".git/refs/heads/x", "")?;
    scene.file("beside", "old")?;
    scene.file("src/file", "")?;
    scene.attacker()?;
    let before = fs::read(&config)?;
    for words in [
        ["write-open", ".git/config", ""],
        ["cut-short", ".git/config", ""],
        ["take-away", ".git/config", ""],
        ["rename-away", ".git", ""],
        ["second-name", ".git/config", "src/link"],
        ["write-open", ".git/hooks/pre-commit", ""],
        ["create", ".git/hooks/post-commit", ""],
        ["create", ".envrc", ""],
        ["mkdir", ".vscode", ""],
    ] {
        let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
        bare(scene, ["--quiet", "--", "./attacker"])
            .args(&words)
            .output()?
            .exits(HELD)?;
    }
    ensure(fs::read(&config)? == before, "the configuration changed")?;
    let work = "cat .git/config > /dev/null && echo new > beside && echo new > src/new && mv src/new src/newer && echo o > .git/objects/o";
    scene.file("line", work)?;
    let run = bare(scene, ["--", "sh", "line"]).output()?;
    run.succeeds()?
        .stderr_has("no name can be made, removed or renamed")?;
    ensure(scene.read("beside")? == "new\n", "beside was not written")?;
    free(scene, ["write-open", ".git/config"])
}

fn a_protected_name_that_appears_is_taken_away(scene: &Scene) -> Verdict {
    let line = "echo touch evil > .envrc; mkdir .vscode; echo done";
    scene.file("line", line)?;
    let run = bare(scene, ["--", "sh", "line"]).output()?;
    run.succeeds()?.stdout_is("done\n")?.stderr_has(".envrc")?;
    ensure(!scene.workspace().join(".envrc").exists(), ".envrc stayed")?;
    ensure(
        !scene.workspace().join(".vscode").exists(),
        ".vscode stayed",
    )
}

fn hidden_names_stay_hidden(scene: &Scene) -> Verdict {
    scene.file(".env", CANARY)?;
    scene.file("keys/id", CANARY)?;
    scene.file("other", "plain")?;
    scene.attacker()?;
    for name in [".env", "keys/id"] {
        let run = bare(scene, ["--quiet", "--hide", ".env", "--hide", "keys"])
            .args(["--", "./attacker", "read", name])
            .output()?;
        run.exits(HELD)?.lacks(CANARY)?;
    }
    bare(scene, ["--quiet", "--hide", ".env", "--", "cat", "other"])
        .output()?
        .succeeds()?
        .stdout_is("plain")?;
    free(scene, ["read", ".env"])
}

/// Greets whoever connects, for as long as the test lives.
fn greet<S: Write>(accept: impl Fn() -> io::Result<S> + Send + 'static) {
    std::thread::spawn(move || {
        while let Ok(mut stream) = accept() {
            let _ = stream.write_all(CANARY.as_bytes());
        }
    });
}

fn no_socket_leads_out(scene: &Scene) -> Verdict {
    let path = scene.outside().join("s");
    let unix = UnixListener::bind(&path)?;
    greet(move || unix.accept().map(|(stream, _)| stream));
    let path = path.display().to_string();
    held(scene, ["connect-unix", &path])?;
    let tcp = TcpListener::bind("127.0.0.1:0")?;
    let address = tcp.local_addr()?.to_string();
    greet(move || tcp.accept().map(|(stream, _)| stream));
    held(scene, ["connect-tcp", &address])?;
    attack(scene, ["socket", "packet"])?.exits(HELD)?;
    // With the host's network TCP goes, Unix sockets do not.
    let run = |words: [&str; 2]| {
        bare(scene, ["--quiet", "--net", "host", "--", "./attacker"])
            .args(words)
            .output()
    };
    run(["connect-tcp", &address])?.exits(OUT)?;
    run(["connect-unix", &path])?.exits(HELD)?;
    Ok(())
}

/// Landlock does not look at modes: the second filter does.
fn modes_of_what_can_be_read_stay(scene: &Scene) -> Verdict {
    let outside = scene.outside_file("file", "")?;
    fs::set_permissions(&outside, fs::Permissions::from_mode(0o600))?;
    let path = outside.display().to_string();
    let script = scene.script("try", &format!("chmod 666 {path} || touch -d @0 {path}\n"))?;
    let script = script.display().to_string();
    let run = bare(scene, ["--quiet", "--", "sh", &script]).output()?;
    ensure(run.code() != Some(0), "it was let through")?;
    let mode = || fs::metadata(&outside).map(|meta| meta.permissions().mode() & 0o777);
    ensure(mode()? == 0o600, "the mode changed")?;
    scene.host("sh").args([&script]).output()?.succeeds()?;
    ensure(mode()? == 0o666, "the control did not change the mode")
}

fn other_processes_are_out_of_reach(scene: &Scene) -> Verdict {
    let mut victim = scene
        .host(scene.attacker()?)
        .args(["sleep", "1000"])
        .env("SECRET", CANARY)
        .start()?;
    let pid = victim.pid().to_string();
    let environ = format!("/proc/{pid}/environ");
    held(scene, ["read", &environ])?;
    attack(scene, ["ptrace", &pid])?.exits(HELD)?;
    let result = bare(scene, ["--json", "--quiet", "--", "true"])
        .output()?
        .json()?;
    let open = result["isolation"]["degraded"]
        .to_string()
        .contains("signals to your other processes");
    if !open {
        attack(scene, ["kill", &pid])?.exits(HELD)?;
        ensure(!victim.ended(), "the other process was killed")?;
    }
    victim.signal(Signal::SIGKILL)?;
    victim.finish()?;
    Ok(())
}

fn queues_and_shared_memory_are_refused(scene: &Scene) -> Verdict {
    scene.needs(&["ipcmk"])?;
    let run = bare(scene, ["--quiet", "--", "ipcmk", "-M", "4096"]).output()?;
    ensure(run.code() != Some(0), "shared memory was made")?;
    let run = bare(scene, ["--quiet", "--", "ipcmk", "-Q"]).output()?;
    ensure(run.code() != Some(0), "a queue was made")
}

/// How many processes carry this word.
fn living(word: &str) -> usize {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| fs::read(entry.path().join("cmdline")).ok())
        .filter(|line| line.windows(word.len()).any(|part| part == word.as_bytes()))
        .count()
}

/// A word that no other process carries, and a script that leaves daemons with it.
fn daemons(scene: &Scene) -> Verdict<(String, String)> {
    let word = scene
        .scratch()
        .file_name()
        .map(|name| format!("marked-{}", name.display()))
        .unwrap_or_default();
    let script = format!(
        "for i in 1 2 3; do setsid sh -c 'trap \"\" HUP TERM INT; : {word}; while :; do sleep 1000; done' > /dev/null 2>&1 < /dev/null & done\n\
         while [ \"$(grep -lz '{word}' /proc/[0-9]*/cmdline 2> /dev/null | wc -l)\" -lt 3 ]; do sleep 0.01; done\n"
    );
    Ok((word, script))
}

fn daemons_go_with_it(scene: &Scene) -> Verdict {
    let (word, script) = daemons(scene)?;
    scene.file("leave", format!("{script}echo left\n"))?;
    let run = bare(scene, ["--quiet", "--", "sh", "leave"]).output()?;
    run.succeeds()?.stdout_is("left\n")?;
    ensure(living(&word) == 0, "a daemon outlived the run")
}

fn a_killed_supervisor_leaves_nothing(scene: &Scene) -> Verdict {
    let (word, script) = daemons(scene)?;
    scene.file("leave", format!("{script}echo ready\nexec sleep 1000\n"))?;
    let mut run = bare(scene, ["--quiet", "--", "sh", "leave"]).start()?;
    assert_eq!(run.line()?, "ready\n");
    ensure(living(&word) == 3, "the daemons are not there")?;
    run.signal(Signal::SIGKILL)?;
    wait::until_true("everybody is gone", || living(&word) == 0)?;
    run.finish()?;
    // The next start clears the room away.
    bare(scene, ["--quiet", "--", "true"])
        .output()?
        .succeeds()?;
    let sandboxes = scene.home().join(".local/state/sjail/sandboxes");
    for sandbox in fs::read_dir(sandboxes)?.flatten() {
        for entry in fs::read_dir(sandbox.path())?.flatten() {
            let name = entry.file_name();
            ensure(
                !name.as_encoded_bytes().ends_with(b"-room"),
                "a room is left",
            )?;
        }
    }
    Ok(())
}

/// Whether the command may signal the jail's first process depends on the kernel; that
/// nobody stays does not.
fn a_killed_first_process_leaves_nothing(scene: &Scene) -> Verdict {
    let (word, script) = daemons(scene)?;
    scene.file("leave", format!("{script}kill -9 $PPID\necho survived\n"))?;
    let run = bare(scene, ["--", "sh", "leave"]).output()?;
    match run.stderr.contains("signals to your other processes") {
        true => run.exits(125)?,
        false => run.succeeds()?.stdout_is("survived\n")?,
    };
    ensure(living(&word) == 0, "a daemon outlived the run")
}

/// Killed from outside, where nothing refuses it: the supervisor ends the rest.
fn a_first_process_killed_from_outside_leaves_nothing(scene: &Scene) -> Verdict {
    let (word, script) = daemons(scene)?;
    scene.file("leave", format!("{script}echo ready\nexec sleep 1000\n"))?;
    let mut run = bare(scene, ["--quiet", "--", "sh", "leave"]).start()?;
    assert_eq!(run.line()?, "ready\n");
    ensure(living(&word) == 3, "the daemons are not there")?;
    kill(child_of(run.pid())?, Signal::SIGKILL)?;
    run.finish()?.exits(125)?;
    ensure(living(&word) == 0, "a daemon outlived the run")
}

/// The one child of a process.
fn child_of(parent: Pid) -> Verdict<Pid> {
    let is_child = |pid: &i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let fields = stat.rsplit(')').next().unwrap_or_default();
        fields.split_whitespace().nth(1) == Some(parent.to_string().as_str())
    };
    fs::read_dir("/proc")?
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .find(is_child)
        .map(Pid::from_raw)
        .ok_or_else(|| Stop::failed("there is no first process"))
}

fn time_is_up_for_everybody(scene: &Scene) -> Verdict {
    let (word, script) = daemons(scene)?;
    scene.file(
        "leave",
        format!("{script}trap '' TERM\nwhile :; do sleep 1; done\n"),
    )?;
    let run = bare(scene, ["--quiet", "--timeout", "1s", "--", "sh", "leave"]).output()?;
    run.exits(124)?;
    ensure(living(&word) == 0, "somebody outlived the time")
}

fn processes_are_counted(scene: &Scene) -> Verdict {
    scene.file(
        "many",
        "for i in $(seq 60); do sleep 1000 & done\nsleep 1000\n",
    )?;
    let run = bare(scene, ["--pids", "20", "--", "sh", "many"]).output()?;
    ensure(run.code() != Some(0), "nobody counted")?;
    run.stderr_has("processes")?;
    Ok(())
}

fn the_terminal_is_its_own(scene: &Scene) -> Verdict {
    let line = "test -t 0 && test -t 1 && tty && echo hello > /dev/tty && echo fine";
    let mut terminal = bare(scene, ["--quiet", "--", "sh", "-c", line]).terminal()?;
    terminal.expect("/dev/pts/")?;
    terminal.expect("hello")?;
    terminal.expect("fine")?;
    Ok(())
}

fn streams_and_exit_codes_pass(scene: &Scene) -> Verdict {
    let run = bare(
        scene,
        ["--quiet", "--", "sh", "-c", "cat; echo e >&2; exit 7"],
    )
    .input("in")
    .output()?;
    run.exits(7)?.stdout_is("in")?;
    ensure(run.stderr == "e\n", &run.stderr)?;
    bare(scene, ["--quiet", "--", "sh", "-c", "kill -9 $$"])
        .output()?
        .exits(137)?;
    bare(scene, ["--quiet", "--", "no-such-program"])
        .output()?
        .exits(127)?;
    Ok(())
}
