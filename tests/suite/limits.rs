//! What a jail may use up: bombs of every kind end in the bomber, and it is said why.

use std::fs;

use nix::sys::signal::Signal;
use sjail_tests::{Identity, Scene, Test, Verdict, ensure, leftovers::Snapshot, tests, wait};

use crate::desk::Desk;

pub fn suite() -> Vec<Test> {
    let mut all = tests![
        memory_of_one_process,
        memory_of_many_processes,
        memory_in_private_folders,
        memory_without_a_mapping,
        processes_are_refused_beyond_the_limit,
        threads_count,
        processor_time,
        a_limit_that_nobody_holds_is_refused,
        a_limit_that_was_met_is_named,
        time_is_up,
        time_is_up_for_who_ignores_it,
        time_is_up_for_what_was_left_in_the_background,
        output_beyond_the_limit_ends_the_run,
        captured_output_is_cut,
        captured_output_keeps_the_error,
        captured_bytes_are_not_lost,
        the_private_tmp_is_sized,
        descriptors_are_capped,
        no_core_file,
        nothing_inside_raises_a_limit,
        the_callers_lower_limits_stay,
        the_result_says_who_holds_what,
        systemd_gives_a_login_session_a_group,
        the_status_descriptor_gets_the_result,
        the_supervisor_stays_small,
        an_idle_jail_does_not_spin,
        a_gigabyte_passes_through,
    ];
    all.push(Test::new("a_fork_bomb_is_held", a_fork_bomb_is_held).alone());
    all.push(Test::new("a_fork_bomb_without_a_group", a_fork_bomb_without_a_group).alone());
    all.push(Test::new("nothing_is_left", nothing_is_left).alone());
    all
}

/// As a script: on the command line it would be recognised and blocked.
const BOMB: &str = "b() { b | b & }; b; sleep 100";

/// Python that takes so many megabytes and says so.
fn hog(megabytes: u32) -> String {
    format!(
        "x = bytearray({megabytes} << 20); print('held', flush=True); import time; time.sleep(100)"
    )
}

fn memory_of_one_process(scene: &Scene) -> Verdict {
    scene.needs(&["python3"])?;
    let run = scene
        .run(["--memory", "100M", "--", "python3", "-c", &hog(400)])
        .output()?;
    // The kernel kills it (a control group) or refuses it the memory (a resource limit).
    assert_ne!(run.code(), Some(0));
    assert!(!run.stdout.contains("held"), "{run}");
    assert!(
        run.stderr.contains("out of memory") || run.stderr.contains("MemoryError"),
        "{run}"
    );
    let small = scene.run([
        "--memory",
        "100M",
        "--",
        "python3",
        "-c",
        "x = bytearray(20 << 20)",
    ]);
    small.output()?.succeeds()?;
    Ok(())
}

fn memory_of_many_processes(scene: &Scene) -> Verdict {
    scene.needs(&["python3"])?;
    let four = format!(
        "for i in 1 2 3 4; do python3 -c \"{}\" & done; wait",
        hog(60)
    );
    let run = scene
        .run([
            "--memory",
            "150M",
            "--timeout",
            "10s",
            "--",
            "sh",
            "-c",
            &four,
        ])
        .output()?;
    if scene.identity() == Identity::User || run.code() == Some(137) {
        run.exits(137)?.stderr_has("out of memory")?;
    } else {
        // The kernel killed only as many as it had to; the rest ran into the timeout.
        run.exits(124)?;
    }
    Ok(())
}

fn memory_in_private_folders(scene: &Scene) -> Verdict {
    let fill = "head -c 300M /dev/zero > /tmp/a; echo filled; sleep 60";
    let run = scene
        .run([
            "--memory",
            "100M",
            "--tmp-size",
            "1G",
            "--timeout",
            "60s",
            "--",
            "sh",
            "-c",
            fill,
        ])
        .output()?;
    assert!(!matches!(run.code(), Some(0 | 124)), "{run}");
    run.stderr_has("out of memory")?;
    Ok(())
}

fn memory_without_a_mapping(scene: &Scene) -> Verdict {
    scene.needs(&["python3"])?;
    let hide = "import os, time\nf = os.memfd_create('x')\nfor i in range(300): os.write(f, bytes(1 << 20))\nprint('hidden', flush=True)\ntime.sleep(60)";
    let run = scene
        .run([
            "--memory",
            "100M",
            "--timeout",
            "60s",
            "--",
            "python3",
            "-c",
            hide,
        ])
        .output()?;
    run.exits(137)?.stderr_has("out of memory")?;
    Ok(())
}

fn processes_are_refused_beyond_the_limit(scene: &Scene) -> Verdict {
    scene.needs(&["python3"])?;
    let fork = "import os, time\nn = 0\ntry:\n  for i in range(100):\n    if os.fork() == 0: time.sleep(100)\n    n += 1\nexcept OSError: pass\nprint(n)\nraise SystemExit(9)";
    let run = scene
        .run(["--pids", "30", "--", "python3", "-c", fork])
        .output()?;
    let made: u32 = run.stdout.trim().parse().unwrap_or(u32::MAX);
    assert!(made < 30, "{run}");
    run.exits(9)?;
    Ok(())
}

fn threads_count(scene: &Scene) -> Verdict {
    scene.needs(&["python3"])?;
    let threads = "import threading, time\nn = 0\ntry:\n  for i in range(100):\n    threading.Thread(target=time.sleep, args=(5,), daemon=True).start()\n    n += 1\nexcept RuntimeError: pass\nprint(n)";
    let run = scene
        .run(["--pids", "30", "--", "python3", "-c", threads])
        .output()?;
    let made: u32 = run.stdout.trim().parse().unwrap_or(u32::MAX);
    assert!(made < 30, "{run}");
    Ok(())
}

/// Ends by itself, as root and as a user, with the default limits.
fn a_fork_bomb_is_held(scene: &Scene) -> Verdict {
    scene.needs(&["bash"])?;
    // Once before: folders that sjail makes for good.
    scene.run(["--", "true"]).output()?.succeeds()?;
    let script = scene.file("bomb.sh", BOMB)?;
    let script = script.display().to_string();
    let before = Snapshot::take(scene);
    let run = scene
        .run(["--timeout", "4s", "--", "bash", &script])
        .output()?;
    assert!(matches!(run.code(), Some(124 | 137)), "{run}");
    before.nothing_new(scene)
}

/// Where no group can be had, root's is ended before the machine has no number left for
/// anybody's process.
fn a_fork_bomb_without_a_group(scene: &Scene) -> Verdict {
    scene.needs(&["bash", "unshare"])?;
    if scene.identity() == Identity::User {
        return scene.skip("an ordinary user's processes are counted without a group");
    }
    let script = scene.file("bomb.sh", BOMB)?;
    let hidden = "mount -t tmpfs none /sys/fs/cgroup && exec \"$@\"";
    let run = scene
        .host("unshare")
        .args(["--mount", "sh", "-c", hidden, "sh"])
        .args([scene.program("sjail")])
        .args(["run", "--no-broker", "--timeout", "60s", "--", "bash"])
        .args([script])
        .output()?;
    assert_eq!(run.code(), Some(137), "{run}");
    let found: u64 = run
        .stderr
        .lines()
        .find_map(|line| line.strip_prefix("sjail: too many processes: "))
        .and_then(|line| line.split(' ').next()?.parse().ok())
        .unwrap_or(u64::MAX);
    assert!(found < 5_000, "{run}");
    Ok(())
}

fn processor_time(scene: &Scene) -> Verdict {
    let busy = [
        "--cpu",
        "30%",
        "--json",
        "--timeout",
        "2s",
        "--",
        "sh",
        "-c",
        "while :; do :; done",
    ];
    let run = scene.run(busy).output()?;
    if run.code() == Some(125) {
        run.stderr_has("--cpu")?;
        return Ok(());
    }
    let result = run.json()?;
    let (cpu, wall) = (
        result["usage"]["cpu_ms"].as_f64(),
        result["duration_ms"].as_f64(),
    );
    assert!(
        cpu.zip(wall).is_some_and(|(cpu, wall)| cpu < wall * 0.6),
        "{result:#}"
    );
    Ok(())
}

fn a_limit_that_nobody_holds_is_refused(scene: &Scene) -> Verdict {
    for (flag, value) in [("--cpu", "50%"), ("--io-read", "1M"), ("--io-write", "1M")] {
        let strict = scene.run([flag, value, "--", "echo", "ran"]).output()?;
        if strict.code() == Some(0) {
            continue; // Held by a control group here.
        }
        strict.exits(125)?.stderr_has(flag)?.lacks("ran")?;
        let lax = ["--allow-degraded", flag, value, "--", "echo", "ran"];
        scene
            .run(lax)
            .output()?
            .succeeds()?
            .stdout_is("ran\n")?
            .stderr_has(flag)?;
    }
    Ok(())
}

fn time_is_up(scene: &Scene) -> Verdict {
    let run = scene
        .run(["--timeout", "300ms", "--", "sleep", "100"])
        .output()?;
    run.exits(124)?
        .stderr_has("timed out")?
        .stderr_has("--timeout")?;
    let polite = "trap 'echo goodbye; exit 0' TERM; while :; do sleep 0.02; done";
    let run = scene
        .run(["--timeout", "500ms", "--", "sh", "-c", polite])
        .output()?;
    run.exits(124)?.stdout_has("goodbye")?;
    Ok(())
}

fn time_is_up_for_who_ignores_it(scene: &Scene) -> Verdict {
    let deaf = "trap '' TERM INT HUP; while :; do sleep 1; done";
    scene
        .run(["--timeout", "300ms", "--", "sh", "-c", deaf])
        .output()?
        .exits(124)?;
    let stopped = "kill -STOP $$";
    scene
        .run(["--timeout", "300ms", "--", "sh", "-c", stopped])
        .output()?
        .exits(124)?;
    Ok(())
}

fn time_is_up_for_what_was_left_in_the_background(scene: &Scene) -> Verdict {
    // The command ends at once; what it left goes with it and holds no pipe open.
    let run = scene
        .run([
            "--",
            "sh",
            "-c",
            "(trap '' HUP TERM; setsid sleep 1000) & echo over",
        ])
        .output()?;
    run.succeeds()?.stdout_is("over\n")?;
    Ok(())
}

fn output_beyond_the_limit_ends_the_run(scene: &Scene) -> Verdict {
    let run = scene.run(["--max-output", "10000", "--", "yes"]).output()?;
    run.exits(137)?
        .stderr_has("too much output")?
        .stderr_has("--max-output")?;
    assert_eq!(run.stdout.len(), 10_000);
    let within = scene.run([
        "--max-output",
        "10000",
        "--",
        "sh",
        "-c",
        "yes | head -c 10000",
    ]);
    assert_eq!(within.output()?.succeeds()?.stdout.len(), 10_000);
    Ok(())
}

fn captured_output_is_cut(scene: &Scene) -> Verdict {
    let bomb = "yes | head -c 50M; echo end >&2";
    let run = scene
        .run(["--json", "--max-output", "1M", "--", "sh", "-c", bomb])
        .output()?;
    run.succeeds()?;
    let result = run.json()?;
    assert_eq!(result["truncated"], true);
    assert_eq!(result["exit_code"], 0);
    assert_eq!(result["status"], "completed");
    let length = result["stdout"].as_str().map_or(0, str::len);
    assert!((800_000..=1 << 20).contains(&length), "{length}");
    assert_eq!(result["stderr"], "end\n");
    Ok(())
}

fn captured_output_keeps_the_error(scene: &Scene) -> Verdict {
    let run = scene
        .run(["--json", "--", "sh", "-c", "echo out; echo err >&2; exit 3"])
        .output()?;
    let result = run.exits(3)?.json()?;
    assert_eq!(result["stdout"], "out\n");
    assert_eq!(result["stderr"], "err\n");
    assert_eq!(result["exit_code"], 3);
    assert_eq!(result["truncated"], false);
    assert!(
        result["id"]
            .as_str()
            .is_some_and(|id| id.starts_with("run_")),
        "{result:#}"
    );
    let killed = scene
        .run(["--json", "--", "sh", "-c", "kill -9 $$"])
        .output()?
        .json()?;
    assert_eq!(
        (&killed["signal"], &killed["exit_code"]),
        (&9.into(), &137.into())
    );
    assert_eq!(killed["status"], "signaled");
    let slow = scene
        .run(["--json", "--timeout", "200ms", "--", "sleep", "9"])
        .output()?;
    let slow = slow.exits(124)?.json()?;
    assert_eq!(slow["status"], "timed_out");
    assert!(
        slow["reason"]
            .as_str()
            .is_some_and(|why| why.contains("timed out"))
    );
    Ok(())
}

fn captured_bytes_are_not_lost(scene: &Scene) -> Verdict {
    let run = scene
        .run(["--json", "--", "printf", "a\\377b"])
        .output()?
        .json()?;
    assert_eq!(run["stdout"], "a\u{fffd}b");
    assert_eq!(run["stdout_base64"], "Yf9i");
    Ok(())
}

fn the_private_tmp_is_sized(scene: &Scene) -> Verdict {
    let fill = "head -c 40M /dev/zero > /tmp/a && echo fits; head -c 40M /dev/zero > /var/tmp/b && echo fits";
    let run = scene
        .run(["--tmp-size", "8M", "--", "sh", "-c", fill])
        .output()?;
    run.lacks("fits")?.stderr_has("No space left")?;
    let run = scene.run([
        "--tmp-size",
        "100M",
        "--",
        "sh",
        "-c",
        "head -c 40M /dev/zero > /tmp/a",
    ]);
    run.output()?.succeeds()?;
    Ok(())
}

fn descriptors_are_capped(scene: &Scene) -> Verdict {
    scene.needs(&["python3"])?;
    let bomb = "import os, resource\nhard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]\nresource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))\nn = 0\ntry:\n  while True: os.dup(0); n += 1\nexcept OSError: print(n)";
    let run = scene.run(["--", "python3", "-c", bomb]).output()?;
    let opened: u32 = run.succeeds()?.stdout.trim().parse()?;
    assert!(opened <= 65_536, "{opened}");
    Ok(())
}

fn no_core_file(scene: &Scene) -> Verdict {
    let crash = "ulimit -c; ulimit -c unlimited 2>/dev/null; kill -SEGV $$";
    let run = scene.run(["--", "bash", "-c", crash]).output()?;
    run.exits(139)?.stdout_is("0\n")?;
    assert_eq!(fs::read_dir(scene.workspace())?.count(), 0);
    Ok(())
}

fn nothing_inside_raises_a_limit(scene: &Scene) -> Verdict {
    scene.needs(&["python3"])?;
    let raise = "import resource as r\nfor what in (r.RLIMIT_NOFILE, r.RLIMIT_CORE, r.RLIMIT_NPROC):\n  try:\n    r.setrlimit(what, (r.RLIM_INFINITY, r.RLIM_INFINITY)); print('raised', what)\n  except (OSError, ValueError): pass";
    let run = scene.run(["--", "python3", "-c", raise]).output()?;
    run.succeeds()?.stdout_is("")?;
    Ok(())
}

fn the_callers_lower_limits_stay(scene: &Scene) -> Verdict {
    let mut call = scene
        .host("sh")
        .args(["-c", "ulimit -n 200; exec \"$@\"", "sh"]);
    call = call.args([scene.program("sjail")]);
    let run = call
        .args([
            "run",
            "--no-broker",
            "--quiet",
            "--",
            "sh",
            "-c",
            "ulimit -Hn",
        ])
        .output()?;
    run.succeeds()?.stdout_is("200\n")?;
    Ok(())
}

fn the_result_says_who_holds_what(scene: &Scene) -> Verdict {
    let result = scene.run(["--json", "--", "true"]).output()?.json()?;
    let limits = &result["isolation"]["limits"];
    assert_eq!(limits["memory"]["by"], "watchdog", "{result:#}");
    assert_eq!(limits["pids"]["limit"], 512, "{result:#}");
    let by_pids: &[&str] = match scene.identity() {
        Identity::User => &["rlimit"],
        // Resource limits do not count root's; a group does, where there is one to be had.
        Identity::Root if fs::exists("/sys/fs/cgroup/pids")? => &["cgroup-v1"],
        Identity::Root => &["cgroup-v2", "watchdog"],
    };
    let held = limits["pids"]["by"].as_str().unwrap_or_default();
    assert!(by_pids.contains(&held), "{result:#}");
    let asked = scene
        .run(["--json", "--memory", "300M", "--", "true"])
        .output()?
        .json()?;
    let held = &asked["isolation"]["limits"]["memory"];
    assert_eq!(held["limit"], 300 << 20);
    assert!(
        ["watchdog", "cgroup-v1", "cgroup-v2"].contains(&held["by"].as_str().unwrap_or("")),
        "{asked:#}"
    );
    Ok(())
}

/// From wherever the tests were started: a group can be made there, or systemd gives one.
fn systemd_gives_a_login_session_a_group(scene: &Scene) -> Verdict {
    let uid = nix::unistd::getuid();
    let manager = format!("/run/user/{uid}/systemd/private");
    if !fs::exists("/run/systemd/system")? || !fs::exists(manager)? {
        return scene.skip("no systemd runs for this account");
    }
    let desk = Desk::at(scene);
    let run = desk.sjail([
        "run", "--json", "--memory", "96M", "--pids", "64", "--cpu", "50%", "--", "true",
    ])?;
    let result = run.succeeds()?.json()?;
    for limit in ["memory", "pids", "cpu"] {
        let held = &result["isolation"]["limits"][limit]["by"];
        assert_eq!(held, "cgroup-v2", "{limit}: {result:#}");
    }
    scene.needs(&["python3"])?;
    let run = desk.sjail(["run", "--memory", "96M", "--", "python3", "-c", &hog(400)])?;
    run.stderr_has("out of memory")?.lacks("held")?;
    // systemd clears away what is empty.
    let none_left = || {
        let units = scene
            .host("systemctl")
            .env("XDG_RUNTIME_DIR", format!("/run/user/{uid}"))
            .args(["--user", "list-units", "--all", "--plain", "sjail-run_*"])
            .output();
        units.is_ok_and(|units| !units.stdout.contains(".scope"))
    };
    wait::until_true("no scope is left", none_left)
}

fn the_status_descriptor_gets_the_result(scene: &Scene) -> Verdict {
    let mut call = scene
        .host("sh")
        .args(["-c", "exec 7> status; exec \"$@\"", "sh"]);
    call = call.args([scene.program("sjail")]);
    let words = [
        "run",
        "--no-broker",
        "--status-fd",
        "7",
        "--",
        "sh",
        "-c",
        "echo streams; exit 4",
    ];
    call.args(words)
        .output()?
        .exits(4)?
        .stdout_is("streams\n")?;
    let result: serde_json::Value = serde_json::from_str(&scene.read("status")?)?;
    assert_eq!(result["exit_code"], 4);
    assert_eq!(result["stdout"], serde_json::Value::Null);
    Ok(())
}

fn the_supervisor_stays_small(scene: &Scene) -> Verdict {
    if fs::metadata(scene.program("sjail"))?.len() > 8 << 20 {
        return scene.skip("this sjail is not built for release");
    }
    let mut run = scene
        .run(["--", "sh", "-c", "echo up; exec sleep 100"])
        .start()?;
    run.line()?;
    std::thread::sleep(std::time::Duration::from_millis(300));
    let rollup = fs::read_to_string(format!("/proc/{}/smaps_rollup", run.pid()))?;
    let pss: u64 = rollup
        .lines()
        .find_map(|line| line.strip_prefix("Pss:"))
        .and_then(|rest| rest.trim().trim_end_matches(" kB").parse().ok())
        .unwrap_or(u64::MAX);
    println!("supervisor PSS: {pss} kB");
    assert!(pss <= 1536, "{pss} kB");
    run.signal(Signal::SIGTERM)?;
    run.finish()?.exits(143)?;
    Ok(())
}

fn an_idle_jail_does_not_spin(scene: &Scene) -> Verdict {
    let mut run = scene
        .run(["--", "sh", "-c", "echo up; exec sleep 100"])
        .start()?;
    run.line()?;
    let ticks = || -> Verdict<u64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", run.pid()))?;
        let after_name = stat.rsplit(") ").next().unwrap_or("").to_owned();
        let fields: Vec<u64> = after_name
            .split(' ')
            .filter_map(|field| field.parse().ok())
            .collect();
        // utime and stime; the state letter is not a number.
        Ok(fields.get(10).unwrap_or(&0) + fields.get(11).unwrap_or(&0))
    };
    let before = ticks()?;
    std::thread::sleep(std::time::Duration::from_secs(3));
    let used = ticks()? - before;
    assert!(used <= 3, "{used} clock ticks in three idle seconds");
    run.signal(Signal::SIGTERM)?;
    run.finish()?;
    Ok(())
}

fn a_gigabyte_passes_through(scene: &Scene) -> Verdict {
    let sjail = scene.program("sjail");
    let line = format!(
        "head -c 1G /dev/zero | {} run --no-broker --quiet -- cat | wc -c",
        sjail.display()
    );
    scene
        .host("sh")
        .args(["-c", &line])
        .output()?
        .succeeds()?
        .stdout_is("1073741824\n")?;
    Ok(())
}

fn nothing_is_left(scene: &Scene) -> Verdict {
    // Make the run folder first: it stays.
    scene
        .run(["--memory", "200M", "--", "true"])
        .output()?
        .succeeds()?;
    let before = Snapshot::take(scene);
    for words in [
        vec!["--memory", "200M", "--pids", "50", "--", "true"],
        vec![
            "--memory",
            "200M",
            "--timeout",
            "200ms",
            "--",
            "sleep",
            "100",
        ],
        vec!["--memory", "200M", "--", "no-such-program"],
        vec!["--pids", "40", "--", "sh", "-c", "sleep 100 & exit 1"],
        vec!["--max-output", "10", "--memory", "100M", "--", "yes"],
    ] {
        scene.run(words).output()?;
    }
    let mut run = scene
        .run([
            "--memory",
            "200M",
            "--",
            "sh",
            "-c",
            "echo up; exec sleep 100",
        ])
        .start()?;
    run.line()?;
    run.signal(Signal::SIGTERM)?;
    run.finish()?.exits(143)?;
    wait::until_true("it settles", || before.nothing_new(scene).is_ok())
}

/// A command that fails at a limit by itself is told which one it was.
fn a_limit_that_was_met_is_named(scene: &Scene) -> Verdict {
    let fill = "head -c 3000000 /dev/zero > /tmp/full";
    let run = scene.run(["--json", "--quiet", "--tmp-size", "1M"]);
    let output = run.args(["--", "sh", "-c", fill]).output()?;
    let denials = output.json()?["denials"].to_string();
    let named = denials.contains("\"limit\"") && denials.contains("--tmp-size");
    ensure(named, || format!("{denials}, {output}"))
}
