//! `sjail code`: program texts from elsewhere.

use std::fs;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use sjail_tests::{Output, Scene, Test, Verdict, tests, wait};

use crate::desk::Desk;

pub fn tests() -> Vec<Test> {
    tests![
        python_runs,
        python_answers_as_it_does_outside,
        javascript_runs_in_a_context_of_its_own,
        bash_runs_in_its_temporary_folder,
        errors_are_data,
        code_is_killed_when_its_time_is_up,
        code_output_is_cut_and_says_so,
        code_reaches_nothing,
        code_memory_is_bounded,
        every_language_is_shut_in,
        every_language_is_killed_and_cut,
        what_was_said_before_the_end_comes_out,
        code_sees_the_system_and_changes_nothing,
        code_processes_are_bounded,
        code_has_one_processor_and_cannot_take_more,
        code_ends_with_whoever_asked,
        raw_streams,
        the_usual_bounds_are_those_of_the_document,
        every_language_answers_in_one_shape,
        trouble_is_named,
    ]
}

fn code(scene: &Scene, language: &str, text: &str, words: &[&str]) -> Verdict<Output> {
    scene
        .sjail(["code", "--language", language])
        .args(words)
        .args(["-"])
        .input(text)
        .output()
}

fn result(scene: &Scene, language: &str, text: &str, words: &[&str]) -> Verdict<Value> {
    code(scene, language, text, words)?.json()
}

/// code-sandbox 59-82, 179-191: Python and the result object.
fn python_runs(scene: &Scene) -> Verdict {
    scene.needs(&["python3"])?;
    let _desk = Desk::at(scene);
    let text = "print(\"Hello from Python\")";
    let got = result(scene, "python", text, &["--timeout", "60s"])?;
    assert_eq!(got["output"], "Hello from Python", "{got}");
    for (field, value) in [
        ("success", json!(true)),
        ("stderr", json!("")),
        ("exitCode", json!(0)),
        ("error", Value::Null),
    ] {
        assert_eq!(got[field], value, "{field}: {got}");
    }
    assert!(got["executionTime"].is_u64());
    let text = "\nimport json\ndata = [1, 2, 3, 4, 5]\nresult = sum(data) / len(data)\n\
                print(json.dumps({\"average\": result}))\n  ";
    let got = result(scene, "python", text, &["--timeout", "60s"])?;
    assert_eq!(got["output"], "{\"average\": 3.0}", "{got}");
    Ok(())
}

/// Whatever we spare Python at its start, a text notices nothing of it.
fn python_answers_as_it_does_outside(scene: &Scene) -> Verdict {
    scene.needs(&["python3"])?;
    let _desk = Desk::at(scene);
    for text in [
        "print(1",
        "import sys\nprint(__name__, __file__, sys.argv, sorted(dir()))",
        "def f():\n    1/0\ntry:\n    f()\nexcept Exception as e:\n    raise KeyError('x') from e",
        "print('before')\nexit(3)",
        "quit('bye')",
        "help(len)",
        "import nothing_of_that_name",
        "import json.nothing",
        "import pickle\nclass A: pass\nprint(type(pickle.loads(pickle.dumps(A()))))",
        "import threading\nt = threading.Thread(target=lambda: 1/0, name='t')\nt.start()\nt.join()",
        "import importlib.util, site, sys\nprint(importlib.util.find_spec('pip') is None)",
        "input()",
    ] {
        let inside = code(scene, "python", text, &["--raw"])?;
        let outside = scene.host("python3").args(["-"]).input(text).output()?;
        assert_eq!(inside.code(), outside.code(), "{text}\n{inside}\n{outside}");
        inside.stdout_is(&outside.stdout)?;
        assert_eq!(inside.stderr, outside.stderr, "{text}");
    }
    Ok(())
}

/// code-sandbox 13, 52-57, 127-132, 164-177: JavaScript.
fn javascript_runs_in_a_context_of_its_own(scene: &Scene) -> Verdict {
    scene.needs(&["node"])?;
    let _desk = Desk::at(scene);
    let fibonacci = "\n    function fibonacci(n) {\n      if (n <= 1) return n;\n      \
                     return fibonacci(n-1) + fibonacci(n-2);\n    }\n    fibonacci(10)\n  ";
    let out = "this.constructor.constructor('return typeof process')()";
    let import = "import('fs').catch(e => console.log(\
                  e.constructor.constructor('return typeof process')()))";
    for (text, output) in [
        ("const x = 40 + 2; x", "42"),
        (fibonacci, "55"),
        ("console.log('a', 1, {b: 2}); 'last'", "a 1 {\"b\":2}\nlast"),
        (
            "typeof require + typeof process + typeof Buffer",
            "undefinedundefinedundefined",
        ),
        (
            "[JSON, Math, Array, Object, String, Date, RegExp].length",
            "7",
        ),
        (
            "['fs', 'net', 'child_process', 'module', 'exports', 'global', 'setTimeout', 'fetch']\
             .filter(name => name in globalThis).length",
            "0",
        ),
        (
            "JSON.stringify({ n: Math.max(1, 2), d: new Date(0).toISOString(), r: /a+/.test('caat') })",
            "{\"n\":2,\"d\":\"1970-01-01T00:00:00.000Z\",\"r\":true}",
        ),
    ] {
        let got = result(scene, "javascript", text, &["--timeout", "60s"])?;
        assert_eq!(got["output"], output, "{text}: {got}");
    }
    // Ways that lead out of a careless context.
    for text in [
        out,
        import,
        "console.log.constructor('return typeof process')()",
    ] {
        let got = result(scene, "javascript", text, &["--timeout", "60s"])?;
        assert_ne!(got["output"], "object", "{text}: {got}");
    }
    Ok(())
}

/// code-sandbox 66-71, 140-144, 193-199: Bash.
fn bash_runs_in_its_temporary_folder(scene: &Scene) -> Verdict {
    let _desk = Desk::at(scene);
    let words = ["--timeout", "60s"];
    let got = result(scene, "bash", "echo \"Hello from Bash\"", &words)?;
    assert_eq!(got["output"], "Hello from Bash", "{got}");
    let text = "echo \"User: $USER\"; echo \"PWD: $PWD\"; echo x > here && cat here";
    let got = result(scene, "bash", text, &words)?;
    let output = got["output"].as_str().unwrap_or_default();
    assert!(output.ends_with("\nPWD: /tmp\nx"), "{got}");
    assert!(!std::path::Path::new("/tmp/here").exists());
    Ok(())
}

/// code-sandbox 17-18, 107-111, 232: the bounds when nobody says any.
fn the_usual_bounds_are_those_of_the_document(scene: &Scene) -> Verdict {
    let help = scene.sjail(["code", "--help"]).output()?;
    for (option, bound) in [
        ("--timeout <TIME>", "[default: 30s]"),
        ("--max-output <SIZE>", "[default: 1M]"),
        ("--memory <SIZE>", "[default: 512M]"),
    ] {
        let mut lines = help.stdout.lines();
        let line = lines.find(|line| line.contains(option));
        assert!(line.is_some_and(|line| line.ends_with(bound)), "{help}");
    }
    Ok(())
}

/// code-sandbox 3, 7, 14, 103-123, 221-236: one way in and one shape of answer for all three.
fn every_language_answers_in_one_shape(scene: &Scene) -> Verdict {
    let _desk = Desk::at(scene);
    let all = [
        ("bash", "echo 42; echo said >&2"),
        (
            "python",
            "import sys\nprint(42)\nprint('said', file=sys.stderr)",
        ),
        ("javascript", "console.error('said'); 40 + 2"),
    ];
    for (language, text) in texts(scene, all) {
        let got = result(scene, language, text, &["--timeout", "60s"])?;
        let time = got["executionTime"].as_u64();
        assert!(time.is_some_and(|time| time < 60_000), "{got}");
        let mut rest = got.clone();
        if let Some(fields) = rest.as_object_mut() {
            fields.remove("executionTime");
        }
        let expected = json!({
            "success": true, "output": "42", "stderr": "said\n", "exitCode": 0, "error": null,
            "truncated": false,
        });
        assert_eq!(rest, expected, "{language}");
    }
    Ok(())
}

/// code-sandbox 254-259: what went wrong is in the answer, in words that can be looked up.
fn trouble_is_named(scene: &Scene) -> Verdict {
    let _desk = Desk::at(scene);
    let words = ["--timeout", "60s"];
    for (text, said) in [
        ("echo x > /usr/made", "/usr/made: Read-only file system"),
        ("cat /etc/shadow", "/etc/shadow: "),
        ("no-such-program", "no-such-program: command not found"),
    ] {
        let got = result(scene, "bash", text, &words)?;
        let error = got["error"].as_str().unwrap_or_default();
        assert!(error.contains(said), "{text}: {got}");
        assert_eq!(got["success"], false, "{text}: {got}");
    }
    // Its own folder is writable, whoever it is.
    let got = result(scene, "bash", "echo x > /tmp/made && cat /tmp/made", &words)?;
    assert_eq!(got["output"], "x", "{got}");
    Ok(())
}

/// code-sandbox 22-27, 201-213, 256: errors in the result.
fn errors_are_data(scene: &Scene) -> Verdict {
    let _desk = Desk::at(scene);
    let words = ["--timeout", "60s"];
    let failed = code(scene, "bash", "echo oops >&2; exit 3", &words)?;
    failed.exits(3)?;
    let got = failed.json()?;
    assert_eq!(
        (&got["success"], &got["exitCode"]),
        (&json!(false), &json!(3))
    );
    assert_eq!(
        (&got["error"], &got["stderr"]),
        (&json!("oops"), &json!("oops\n"))
    );
    if scene.has("python3") {
        let got = result(scene, "python", "import nonexistent_module", &words)?;
        assert_eq!(
            got["error"],
            "ModuleNotFoundError: No module named 'nonexistent_module'"
        );
    }
    if scene.has("node") {
        let got = result(scene, "javascript", "null.x", &words)?;
        let error = got["error"].as_str().unwrap_or_default();
        assert!(error.starts_with("TypeError: "), "{got}");
        // Also where nobody waits for it: a promise that fails is no success.
        for (text, error, output) in [
            (
                "Promise.reject(new Error('boom'))",
                json!("Error: boom"),
                "",
            ),
            (
                "async function f() { await null; throw new TypeError('late') }; f(); 5",
                json!("TypeError: late"),
                "5",
            ),
            (
                "Promise.reject(1).catch(() => console.log('caught')); 8",
                json!(null),
                "caught\n8",
            ),
            ("(async () => { await null; return 7 })()", json!(null), "7"),
            ("new Promise(() => {})", json!(null), ""),
        ] {
            let got = result(scene, "javascript", text, &words)?;
            assert_eq!(
                (&got["error"], &got["output"]),
                (&error, &json!(output)),
                "{got}"
            );
            assert_eq!(got["success"], error.is_null(), "{got}");
        }
    }
    // A missing interpreter is a sentence.
    let missing = scene
        .sjail(["code", "--language", "javascript"])
        .env("PATH", scene.outside())
        .input("1")
        .output()?;
    missing.exits(127)?;
    let error = missing.json()?["error"].clone();
    assert_eq!(
        error,
        "JavaScript not found: install node and add it to PATH"
    );
    // code-sandbox 256, in its words.
    let missing = scene
        .sjail(["code", "--language", "python"])
        .env("PATH", scene.outside())
        .input("1")
        .output()?;
    let error = missing.json()?["error"].clone();
    assert_eq!(
        error,
        "Python not found: install python3 and add it to PATH"
    );
    // code-sandbox 110: there a bare number means milliseconds, so that unit is named, too.
    let bare = scene.sjail(["code", "--language=bash", "--timeout=5000", "-"]);
    bare.input("true")
        .output()?
        .exits(125)?
        .stderr_has("`5000` has no unit: write 5000ms, 5000s")?;
    // A language that is not there is data, too.
    let unknown = scene.sjail(["code", "--language", "ruby"]).output()?;
    let unknown = unknown.exits(125)?.json()?;
    assert_eq!(unknown["success"], false, "{unknown}");
    assert_eq!(unknown["truncated"], false, "{unknown}");
    assert_eq!(
        unknown["error"],
        "`ruby` is no language that is known here: there are python, javascript, bash"
    );
    Ok(())
}

/// code-sandbox 18, 24, 157-159: the hard kill.
fn code_is_killed_when_its_time_is_up(scene: &Scene) -> Verdict {
    let _desk = Desk::at(scene);
    let text = "trap '' TERM INT\necho before\nwhile :; do :; done";
    let got = result(scene, "bash", text, &["--timeout", "700ms"])?;
    assert_eq!(got["error"], "timed out after 700 ms", "{got}");
    assert_eq!(
        (&got["success"], &got["exitCode"]),
        (&json!(false), &json!(124))
    );
    Ok(())
}

/// code-sandbox 26, 111, 160, 258: output is cut.
fn code_output_is_cut_and_says_so(scene: &Scene) -> Verdict {
    let _desk = Desk::at(scene);
    let words = ["--timeout", "60s", "--max-output", "1000"];
    let got = result(scene, "bash", "yes | head -c 100000", &words)?;
    let output = got["output"].as_str().unwrap_or_default();
    assert!(output.ends_with("[Output truncated at 1000]"), "{got}");
    assert!(output.len() < 1100);
    Ok(())
}

/// code-sandbox 15-16, 22-23, 155-156: no network, nothing writable; the control is the same text on the host.
fn code_reaches_nothing(scene: &Scene) -> Verdict {
    let _desk = Desk::at(scene);
    scene.file("secret", "seen")?;
    let text = format!(
        "cat {work}/secret; echo x > {work}/made; echo x > ~/made; touch /usr/made; \
         (exec 3<>/dev/tcp/127.0.0.1/9) && echo open; ls {work}; true",
        work = scene.workspace().display()
    );
    let got = result(scene, "bash", &text, &["--timeout", "60s"])?;
    let output = got["output"].as_str().unwrap_or_default();
    assert!(
        !output.contains("seen") && !output.contains("open"),
        "{got}"
    );
    assert!(!scene.workspace().join("made").exists());
    assert!(!scene.home().join("made").exists());
    let control = format!("cat {}/secret", scene.workspace().display());
    scene
        .host("bash")
        .args(["-c", &control])
        .output()?
        .stdout_is("seen")?;
    Ok(())
}

/// code-sandbox 17, 25, 158: memory.
fn code_memory_is_bounded(scene: &Scene) -> Verdict {
    let _desk = Desk::at(scene);
    let text = "x=$(head -c 300000000 /dev/zero | tr '\\0' x); echo ${#x}";
    let words = ["--timeout", "100s", "--memory", "64M"];
    let got = result(scene, "bash", text, &words)?;
    assert_eq!(got["success"], false, "{got}");
    assert_ne!(got["output"], "300000000");
    Ok(())
}

/// A text of each language that is installed.
fn texts<'a>(scene: &Scene, all: [(&'a str, &'a str); 3]) -> Vec<(&'a str, &'a str)> {
    let there = |language: &str| match language {
        "python" => scene.has("python3"),
        "javascript" => scene.has("node"),
        _ => true,
    };
    all.into_iter().filter(|(name, _)| there(name)).collect()
}

/// code-sandbox 22-23, 137, 155-156: no network, no way to the host's files, in any language.
fn every_language_is_shut_in(scene: &Scene) -> Verdict {
    let _desk = Desk::at(scene);
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    let victim = scene.home_file("victim", "whole")?;
    let victim = victim.display();
    let bash = format!(
        "(exec 3<>/dev/tcp/127.0.0.1/{port}) && echo REACHED; cat {victim} && echo REACHED; echo hit > {victim}; true"
    );
    let python = format!(
        "import socket, urllib.request\n\
         def tried(act):\n    try:\n        act()\n        print('REACHED')\n    except Exception as error:\n        print(type(error).__name__)\n\
         tried(lambda: socket.create_connection(('127.0.0.1', {port}), 5))\n\
         tried(lambda: urllib.request.urlopen('http://192.0.2.1/', timeout=5))\n\
         tried(lambda: open('{victim}').read())\n\
         tried(lambda: open('/usr/made', 'w'))\n\
         try:\n    open('{victim}', 'w').write('hit')\nexcept OSError:\n    pass\n"
    );
    let javascript = format!(
        "const tried = [() => require('net').connect({port}), () => require('fs').readFileSync('{victim}'), \
         () => process.exit(0), () => eval('process'), () => new Function('return process')()]\n\
         tried.map(act => {{ try {{ act(); return 'REACHED' }} catch (error) {{ return 'no' }} }}).join()"
    );
    let all = [
        ("bash", bash.as_str()),
        ("python", &python),
        ("javascript", &javascript),
    ];
    for (language, text) in texts(scene, all) {
        let got = result(scene, language, text, &["--timeout", "90s"])?;
        let output = got["output"].as_str().unwrap_or_default();
        assert!(!output.contains("REACHED"), "{language}: {got}");
        assert_eq!(got["success"], true, "{language}: {got}");
    }
    assert_eq!(
        std::fs::read_to_string(scene.home().join("victim"))?,
        "whole"
    );
    // The control: on the host the same text reaches both, and changes the file.
    let control = scene.host("bash").args(["-c", &bash]).output()?;
    assert_eq!(control.stdout.matches("REACHED").count(), 2, "{control}");
    assert_eq!(
        std::fs::read_to_string(scene.home().join("victim"))?,
        "hit\n"
    );
    Ok(())
}

/// Whoever looks for a loop sees how far it came.
fn what_was_said_before_the_end_comes_out(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    let loops = [
        ("bash", "echo progress; while :; do :; done"),
        ("python", "print('progress')\nwhile True: pass"),
        ("javascript", "console.log('progress'); for (;;) {}"),
    ];
    for (language, text) in texts(scene, loops) {
        let words = ["--timeout", "3s"];
        let got = result(scene, language, text, &words)?;
        assert_eq!(got["error"], "timed out after 3000 ms", "{language}: {got}");
        assert_eq!(got["output"], "progress", "{language}: {got}");
        let raw = code(scene, language, text, &["--timeout", "3s", "--raw"])?;
        assert_eq!(raw.stdout, "progress\n", "{language}: {raw}");
    }
    // The log tells them apart by their texts.
    desk.sjail(["audit", "log"])?
        .stdout_has("sjail code --language bash: echo progress; while")?;
    desk.sjail(["audit", "export", "--format", "decisions"])?
        .stdout_has("\"command\":\"sjail code --language bash: echo progress; while")?;
    // Whoever reads no further is no error.
    let sjail = scene.program("sjail");
    let line = format!(
        "{{ sleep 1; {} audit export; echo ended $? >&2; }} | true",
        sjail.display()
    );
    scene
        .host("bash")
        .args(["-c", &line])
        .output()?
        .stderr_has("ended 0")?
        .lacks("Broken pipe")?;
    Ok(())
}

/// code-sandbox 24, 26, 157-160: infinite loops are killed, floods are cut, in any language.
fn every_language_is_killed_and_cut(scene: &Scene) -> Verdict {
    let _desk = Desk::at(scene);
    let loops = [
        ("bash", "while :; do :; done"),
        (
            "python",
            "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: pass",
        ),
        ("javascript", "for (;;) {}"),
    ];
    for (language, text) in texts(scene, loops) {
        let got = result(scene, language, text, &["--timeout", "3s"])?;
        assert_eq!(got["error"], "timed out after 3000 ms", "{language}: {got}");
        assert_eq!(got["success"], false);
    }
    let floods = [
        ("bash", "yes | head -c 3000000"),
        ("python", "print('x' * 3000000)"),
        ("javascript", "'x'.repeat(3000000)"),
    ];
    for (language, text) in texts(scene, floods) {
        let got = result(scene, language, text, &["--timeout", "90s"])?;
        let output = got["output"].as_str().unwrap_or_default();
        // One megabyte unless somebody says otherwise.
        assert!(
            output.ends_with("[Output truncated at 1M]"),
            "{language}: {}",
            output.len()
        );
        assert!(
            (1 << 19..(1 << 20) + 100).contains(&output.len()),
            "{language}"
        );
        assert_eq!(got["truncated"], true);
    }
    Ok(())
}

/// code-sandbox 16, 33, 138: the system is read, nothing of it is written; /tmp is its own.
fn code_sees_the_system_and_changes_nothing(scene: &Scene) -> Verdict {
    let _desk = Desk::at(scene);
    let text = "head -c 4 /usr/bin/env | tail -c 3; echo; cat /etc/passwd >/dev/null && echo read; \
                for place in /usr /etc / /var $HOME; do (echo x > $place/made) 2>/dev/null && echo wrote $place; done; \
                echo x > made && mkdir -p a/b && echo own; exit 0";
    let got = result(scene, "bash", text, &["--timeout", "60s"])?;
    let output = got["output"].as_str().unwrap_or_default();
    assert!(output.starts_with("ELF\nread\n"), "{got}");
    assert!(output.ends_with("own"), "{got}");
    for place in ["/usr", "/etc"] {
        assert!(!output.contains(&format!("wrote {place}\n")), "{got}");
        assert!(!std::path::Path::new(place).join("made").exists());
    }
    assert!(!scene.home().join("made").exists());
    Ok(())
}

/// code-sandbox 17, 25, 158: a fork bomb meets a wall, and nothing of it is left.
fn code_processes_are_bounded(scene: &Scene) -> Verdict {
    scene.needs(&["python3"])?;
    let _desk = Desk::at(scene);
    let text = "import os, time\nstarted = 0\ntry:\n    while started < 3000:\n        \
                if os.fork() == 0:\n            time.sleep(600)\n        started += 1\n\
                except OSError:\n    pass\nprint(started)";
    let got = result(scene, "python", text, &["--timeout", "90s"])?;
    let started = got["output"].as_str().and_then(|text| text.parse().ok());
    // It sees the wall itself, or was ended by whoever keeps watch.
    match started {
        Some(started) => assert!((1..1000).contains(&started), "{got}"),
        None => assert_eq!(got["success"], false, "{got}"),
    }
    Ok(())
}

fn raw_streams(scene: &Scene) -> Verdict {
    let _desk = Desk::at(scene);
    let file = scene.outside_file("program", "echo out; echo err >&2; exit 4")?;
    scene
        .sjail(["code", "--raw", "--language", "bash"])
        .args([file])
        .output()?
        .exits(4)?
        .stdout_is("out\n")?
        .stderr_has("err")?;
    Ok(())
}

/// code-sandbox 16, 24: processor time is bounded, also for a text that would have more.
fn code_has_one_processor_and_cannot_take_more(scene: &Scene) -> Verdict {
    scene.needs(&["python3"])?;
    let desk = Desk::at(scene);
    let text = "import os\nprint(len(os.sched_getaffinity(0)))\ntry:\n    \
                os.sched_setaffinity(0, range(os.cpu_count()))\nexcept OSError as error:\n    \
                print(type(error).__name__)\nprint(len(os.sched_getaffinity(0)))\n";
    let got = result(scene, "python", text, &["--timeout", "60s"])?;
    assert_eq!(got["output"], "1\nPermissionError\n1", "{got}");
    // The broker that this started is not tied along.
    let allowed = |process: &str| -> Verdict<Option<String>> {
        let status = fs::read_to_string(format!("/proc/{process}/status"))?;
        let mut lines = status.lines();
        Ok(lines
            .find(|line| line.starts_with("Cpus_allowed:"))
            .map(str::to_owned))
    };
    assert_eq!(allowed(&desk.pid()?.to_string())?, allowed("self")?);
    Ok(())
}

/// code-sandbox 23: whoever ends `sjail code` ends the program, too.
fn code_ends_with_whoever_asked(scene: &Scene) -> Verdict {
    let _desk = Desk::at(scene);
    let mark = format!("sleep 7{:06}", std::process::id());
    let text = scene.outside_file("text", &mark)?;
    let call = scene.sjail(["code", "--language", "bash"]);
    let running = call.args([text]).start()?;
    let runs = || {
        let pattern = format!("^{mark}$");
        let found = scene.host("pgrep").args(["-f", &pattern]).output();
        found.is_ok_and(|found| found.code() == Some(0))
    };
    wait::until_true("the program runs", &runs)?;
    running.signal(Signal::SIGTERM)?;
    let said = running.finish()?.json()?;
    assert_eq!(said["success"], false, "{said}");
    wait::until_true("the program has ended", || !runs())?;
    Ok(())
}
