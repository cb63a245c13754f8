//! `sjail code`: program texts from elsewhere.

use serde_json::{Value, json};
use sjail_tests::{Output, Scene, Test, Verdict, tests};

use crate::desk::Desk;

pub fn tests() -> Vec<Test> {
    tests![
        python_runs,
        javascript_runs_in_a_context_of_its_own,
        bash_runs_in_its_temporary_folder,
        errors_are_data,
        code_is_killed_when_its_time_is_up,
        code_output_is_cut_and_says_so,
        code_reaches_nothing,
        code_memory_is_bounded,
        raw_streams,
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

/// code-sandbox 27, 201-213, 256: errors in the result.
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
        "javascript was not found: install node and put it on the PATH"
    );
    scene
        .sjail(["code", "--language", "cobol"])
        .output()?
        .exits(125)?
        .stderr_has("python, javascript, bash")?;
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
    assert!(output.ends_with("[output truncated at 1000]"), "{got}");
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
