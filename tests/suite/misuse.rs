//! Odd callers and odd places: each ends in the right code, with a sentence where
//! something is wrong.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use sjail_tests::{Identity, Output, Scene, Stop, Test, Verdict, ensure, tests};

pub fn suite() -> Vec<Test> {
    let mut tests = tests![
        missing_program,
        missing_program_by_path,
        not_executable,
        a_folder_as_program,
        missing_interpreter,
        no_command,
        unknown_flag,
        wrong_usage_has_a_result_object,
        odd_names_are_escaped_once,
        nonsense_values,
        missing_workspace,
        workspace_is_a_file,
        unreadable_working_folder,
        deleted_working_folder,
        read_only_working_folder,
        symlinked_workspace,
        symlinked_working_folder,
        names_with_newlines_and_invalid_utf_8,
        closed_standard_input,
        closed_standard_output,
        all_three_closed,
        few_descriptors,
        little_memory_of_the_caller,
        no_file_size,
        few_processes,
        nested,
        no_user_namespaces_left,
        no_home,
        no_environment_at_all,
        the_roots_of_everything_need_to_be_said_aloud,
        what_everybody_uses_needs_to_be_said_aloud,
        keys_and_settings_need_to_be_said_aloud,
        a_policy_above_is_not_left_by_a_repository,
        help_for_a_command,
        missing_path_to_show,
        umask_of_the_caller,
    ];
    tests.push(Test::new("working_folder_on_a_mount_below", mount_below));
    tests
}

/// It could not, and said so in a sentence that names this.
fn refused<'a>(output: &'a Output, code: i32, named: &str) -> Verdict<&'a Output> {
    output.exits(code)?.stderr_has(named)?;
    if !output.stderr.starts_with("sjail") {
        return Err(Stop::failed(format!(
            "the sentence does not say who speaks, {output}"
        )));
    }
    Ok(output)
}

fn missing_program(scene: &Scene) -> Verdict {
    refused(
        &scene.run(["--", "no-such-program"]).output()?,
        127,
        "no-such-program",
    )?;
    Ok(())
}

fn missing_program_by_path(scene: &Scene) -> Verdict {
    refused(
        &scene.run(["--", "./no-such-program"]).output()?,
        127,
        "no-such-program",
    )?;
    refused(
        &scene.run(["--", "/no/such/program"]).output()?,
        127,
        "/no/such/program",
    )?;
    Ok(())
}

fn not_executable(scene: &Scene) -> Verdict {
    scene.file("text", "just text\n")?;
    refused(&scene.run(["--", "./text"]).output()?, 126, "text")?;
    Ok(())
}

fn a_folder_as_program(scene: &Scene) -> Verdict {
    fs::create_dir(scene.workspace().join("folder"))?;
    refused(&scene.run(["--", "./folder"]).output()?, 126, "folder")?;
    Ok(())
}

fn missing_interpreter(scene: &Scene) -> Verdict {
    scene.script("script", "#!/no/such/interpreter\n")?;
    let output = scene.run(["--", "./script"]).output()?;
    refused(&output, 127, "/no/such/interpreter")
        .or_else(|_| refused(&output, 126, "/no/such/interpreter"))?;
    Ok(())
}

fn no_command(scene: &Scene) -> Verdict {
    scene.run(["--"]).output()?.exits(125)?;
    scene.run([] as [&str; 0]).output()?.exits(125)?;
    Ok(())
}

fn unknown_flag(scene: &Scene) -> Verdict {
    scene
        .run(["--no-such-flag", "--", "true"])
        .output()?
        .exits(125)?
        .stderr_has("--no-such-flag")?;
    Ok(())
}

/// Whoever reads the object gets one, whatever was typed.
fn wrong_usage_has_a_result_object(scene: &Scene) -> Verdict {
    let is_told = |output: &Output, object: &str| -> Verdict {
        output.exits(125)?.stderr_has("--no-such-flag")?;
        let object: serde_json::Value = serde_json::from_str(object)?;
        assert_eq!(object["status"], "failed");
        assert_eq!(object["exit_code"], 125);
        assert_eq!(object["command"], "echo hello");
        let reason = object["reason"].as_str().unwrap_or_default();
        assert!(reason.contains("--no-such-flag"), "{object}");
        Ok(())
    };
    let words = ["--no-such-flag", "--", "echo", "hello"];
    let output = scene.run(["--json"]).args(words).output()?;
    is_told(&output, &output.stdout)?;
    let line = "exec \"$0\" run --status-fd 3 \"$@\" 3>object";
    let output = scene
        .host("sh")
        .args(["-c", line])
        .args([scene.program("sjail")])
        .args(words)
        .output()?;
    is_told(&output, &scene.read("object")?)?;
    output.stdout_is("")?;
    // Asking for help is no misuse.
    let output = scene.run(["--json", "--help"]).output()?;
    output.succeeds()?.stdout_has("Usage: sjail run")?;
    Ok(())
}

/// A name from strangers is inert on standard error, and can be read back.
fn odd_names_are_escaped_once(scene: &Scene) -> Verdict {
    let name = "odd\nsjail: approved \\n \u{1b}[31m";
    let output = scene
        .run(["--quiet", "--"])
        .args([format!("./{name}")])
        .output()?;
    let shown = "odd\\nsjail: approved \\\\n \\x1b[31m";
    refused(&output, 127, &format!("{shown}: not found"))?;
    assert_eq!(output.stderr.lines().count(), 1, "{output}");
    let odd = scene.workspace().join(name);
    fs::create_dir_all(&odd)?;
    let output = scene
        .run(["--", "sh", "-c", "mkdir .vscode"])
        .cwd(&odd)
        .output()?;
    output.stderr_has(&format!("{shown}/.vscode"))?;
    Ok(())
}

fn nonsense_values(scene: &Scene) -> Verdict {
    for words in [
        ["--memory", "lots"],
        ["--timeout", "forever"],
        ["--pids", "0"],
        ["--net", "some"],
        ["--profile", "no-such-profile"],
    ] {
        scene
            .run(words)
            .args(["--", "true"])
            .output()?
            .exits(125)?
            .stderr_has(words[1])?;
    }
    // Hosts beside a network that knows none of them.
    for net in ["none", "host"] {
        scene
            .run(["--net", net, "--allow-host", "a.test", "--", "true"])
            .output()?
            .exits(125)?
            .stderr_has("leave one of them out")?;
    }
    // Which profiles there are is said, and in the help as well.
    let names = [
        "workspace",
        "strict",
        "agent",
        "code",
        "host-net",
        "offline-build",
    ];
    let wrong = scene.run(["--profile", "strikt", "--", "true"]).output()?;
    let help = scene.sjail(["run", "--help"]).output()?;
    for name in names {
        wrong.stderr_has(name)?;
        help.stdout_has(name)?;
    }
    Ok(())
}

fn missing_workspace(scene: &Scene) -> Verdict {
    refused(
        &scene
            .run(["--workspace", "/no/such/folder", "--", "true"])
            .output()?,
        125,
        "/no/such/folder",
    )?;
    Ok(())
}

fn workspace_is_a_file(scene: &Scene) -> Verdict {
    let file = scene.file("file", "")?.display().to_string();
    refused(
        &scene.run(["--workspace", &file, "--", "true"]).output()?,
        125,
        &file,
    )?;
    Ok(())
}

fn missing_path_to_show(scene: &Scene) -> Verdict {
    refused(
        &scene
            .run(["--ro", "/no/such/path", "--", "true"])
            .output()?,
        125,
        "/no/such/path",
    )?;
    Ok(())
}

/// Standing in a folder that may be neither listed nor entered any more. Root
/// may; for a user it is a sentence or a run, never a hang or a wrong folder.
fn unreadable_working_folder(scene: &Scene) -> Verdict {
    let folder = scene.workspace().join("closed");
    fs::create_dir(&folder)?;
    let line = "chmod 000 . && exec \"$0\" run --no-broker -- pwd";
    let output = scene
        .host("sh")
        .args(["-c", line])
        .args([scene.program("sjail")])
        .cwd(&folder)
        .output()?;
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755))?;
    match output.code() {
        Some(0) => output.stdout_is(&format!("{}\n", folder.display()))?,
        _ => refused(&output, 125, "closed")?,
    };
    Ok(())
}

fn deleted_working_folder(scene: &Scene) -> Verdict {
    let folder = scene.workspace().join("deleted");
    fs::create_dir(&folder)?;
    let line = "rmdir \"$PWD\" && exec \"$0\" run --no-broker -- true";
    let output = scene
        .host("sh")
        .args(["-c", line])
        .args([scene.program("sjail")])
        .cwd(&folder)
        .output()?;
    refused(&output, 125, "folder")?;
    Ok(())
}

fn read_only_working_folder(scene: &Scene) -> Verdict {
    let folder = scene.workspace().join("read-only");
    fs::create_dir(&folder)?;
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o555))?;
    scene
        .run(["--", "pwd"])
        .cwd(&folder)
        .output()?
        .succeeds()?
        .stdout_has("read-only")?;
    Ok(())
}

fn mount_below(scene: &Scene) -> Verdict {
    scene.needs(&["unshare", "setpriv"])?;
    let folder = scene.workspace().join("mounted");
    scene.host("mkdir").args([&folder]).output()?.succeeds()?;
    let line = "mount -t tmpfs none mounted && cd mounted && echo here >file && exec setpriv --ambient-caps=-all --inh-caps=-all -- \"$0\" run --no-broker --workspace .. -- sh -c 'cat file; echo new >written; pwd'";
    // An ordinary user mounts in a namespace of its own, under its own name.
    let space: &[&str] = match scene.identity() {
        Identity::Root => &["--mount"],
        Identity::User => &["--user", "--map-current-user", "--keep-caps", "--mount"],
    };
    let output = scene
        .host("unshare")
        .args(space)
        .args(["sh", "-c", line])
        .args([scene.program("sjail")])
        .output()?;
    output
        .succeeds()?
        .stdout_is(&format!("here\n{}\n", folder.display()))?;
    Ok(())
}

fn symlinked_workspace(scene: &Scene) -> Verdict {
    let link = scene.home().join("link");
    symlink(scene.workspace(), &link)?;
    let output = scene
        .run([
            "--workspace",
            &link.display().to_string(),
            "--",
            "sh",
            "-c",
            "echo new >written",
        ])
        .output()?;
    output.succeeds()?;
    assert_eq!(scene.read("written")?, "new\n");
    Ok(())
}

fn symlinked_working_folder(scene: &Scene) -> Verdict {
    let link = scene.home().join("link");
    symlink(scene.workspace(), &link)?;
    scene
        .run(["--", "sh", "-c", "echo new >written"])
        .cwd(&link)
        .env("PWD", &link)
        .output()?
        .succeeds()?;
    assert_eq!(scene.read("written")?, "new\n");
    Ok(())
}

fn names_with_newlines_and_invalid_utf_8(scene: &Scene) -> Verdict {
    let folder = scene
        .workspace()
        .join(OsStr::from_bytes(b"new\nline \\040 and \xff"));
    fs::create_dir(&folder)?;
    let name = OsStr::from_bytes(b"odd\n\xfe name");
    fs::write(folder.join(name), "found\n")?;
    scene
        .run(["--", "cat"])
        .args([name])
        .cwd(&folder)
        .output()?
        .succeeds()?
        .stdout_is("found\n")?;
    let script = folder.join(OsStr::from_bytes(b"run\n\xfe"));
    fs::write(&script, "#!/bin/sh\necho ran\n")?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
    scene
        .run(["--"])
        .args([&script])
        .cwd(&folder)
        .output()?
        .succeeds()?
        .stdout_is("ran\n")?;
    Ok(())
}

fn with_redirects(scene: &Scene, redirects: &str, command: &str) -> Verdict<Output> {
    let line =
        format!("\"$0\" run --no-broker -- sh -c '{command}' {redirects}; echo code $? >code");
    let output = scene
        .host("sh")
        .args(["-c", &line])
        .args([scene.program("sjail")])
        .output()?;
    output.succeeds()?;
    Ok(output)
}

fn closed_standard_input(scene: &Scene) -> Verdict {
    with_redirects(scene, "<&-", "cat; echo ran >ran")?;
    assert_eq!(scene.read("ran")?, "ran\n");
    Ok(())
}

fn closed_standard_output(scene: &Scene) -> Verdict {
    with_redirects(scene, ">&-", "echo ran >ran")?;
    assert_eq!(
        (scene.read("ran")?, scene.read("code")?),
        ("ran\n".into(), "code 0\n".into())
    );
    Ok(())
}

/// With 0, 1 and 2 closed, whatever sjail opens first gets those numbers: none
/// of it may be handed to the command.
fn all_three_closed(scene: &Scene) -> Verdict {
    scene.script(
        "look",
        "#!/bin/sh\nls -l /proc/self/fd >fds 2>&1\necho ran >ran\n",
    )?;
    with_redirects(scene, "<&- >&- 2>&-", "./look")?;
    assert_eq!(
        (scene.read("ran")?, scene.read("code")?),
        ("ran\n".into(), "code 0\n".into())
    );
    let open = scene.read("fds")?;
    for odd in [
        "socket:",
        "pipe:",
        "pidfd",
        "memfd",
        "eventfd",
        "signalfd",
        "mountinfo",
    ] {
        assert!(!open.contains(odd), "{open}");
    }
    Ok(())
}

/// Either it runs or it says what it lacks; under a caller's limit both are right.
fn limited(scene: &Scene, limit: &str) -> Verdict {
    let line = format!("{limit}; exec \"$0\" run --no-broker -- /bin/echo ran");
    let output = scene
        .host("bash")
        .args(["-c", &line])
        .args([scene.program("sjail")])
        .output()?;
    match output.code() {
        Some(0) => output.stdout_is("ran\n")?,
        _ => refused(&output, 125, "")?,
    };
    Ok(())
}

fn few_descriptors(scene: &Scene) -> Verdict {
    limited(scene, "ulimit -n 64")?;
    limited(scene, "ulimit -n 8")
}

fn little_memory_of_the_caller(scene: &Scene) -> Verdict {
    limited(scene, "ulimit -v 200000")?;
    limited(scene, "ulimit -d 20000")?;
    limited(scene, "ulimit -s 256")
}

/// A caller that may write no file at all.
fn no_file_size(scene: &Scene) -> Verdict {
    limited(scene, "ulimit -f 0")
}

fn few_processes(scene: &Scene) -> Verdict {
    limited(scene, "ulimit -u 1")
}

/// Inside the jail no further one can be made: said in a sentence, not in a crash.
fn nested(scene: &Scene) -> Verdict {
    fs::copy(scene.program("sjail"), scene.workspace().join("sjail"))?;
    let output = scene
        .run(["--", "./sjail", "run", "--no-broker", "--", "true"])
        .output()?;
    output.exits(125)?.stderr_has("namespace")?;
    Ok(())
}

/// The cause and the fix are named, and nothing is run.
fn no_user_namespaces_left(scene: &Scene) -> Verdict {
    scene.needs(&["unshare"])?;
    let spend = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$0\" \"$@\"";
    let output = scene
        .host("unshare")
        .args(["-Ur", "sh", "-c", spend])
        .args([scene.program("sjail")])
        .args(["run", "--no-broker", "--quiet", "--", "touch", "ran"])
        .output()?;
    refused(&output, 125, "user.max_user_namespaces")?;
    ensure(!scene.workspace().join("ran").exists(), || "it ran")
}

fn no_home(scene: &Scene) -> Verdict {
    let output = scene
        .run(["--", "echo", "ran"])
        .without_env("HOME")
        .output()?;
    match output.code() {
        Some(0) => output.stdout_is("ran\n")?,
        _ => refused(&output, 125, "HOME")?,
    };
    Ok(())
}

fn no_environment_at_all(scene: &Scene) -> Verdict {
    let line = "exec env -i \"$0\" run --no-broker -- /bin/echo ran";
    let output = scene
        .host("sh")
        .args(["-c", line])
        .args([scene.program("sjail")])
        .output()?;
    match output.code() {
        Some(0) => output.stdout_is("ran\n")?,
        _ => refused(&output, 125, "HOME")?,
    };
    Ok(())
}

/// `/`, the home and what is above it are no workspaces by accident.
/// Programs keep their sockets there.
fn what_everybody_uses_needs_to_be_said_aloud(scene: &Scene) -> Verdict {
    let shared = scene.outside().join("shared");
    fs::create_dir_all(shared.join("own"))?;
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777))?;
    let run = |folder: &Path| scene.run(["--", "true"]).cwd(folder).output();
    refused(&run(&shared)?, 125, "which everybody uses")?;
    run(&shared.join("own"))?.succeeds()?;
    let named = shared.display().to_string();
    let said = scene.run(["--workspace", &named, "--", "true"]);
    said.cwd(&shared).output()?.succeeds()?;
    Ok(())
}

fn keys_and_settings_need_to_be_said_aloud(scene: &Scene) -> Verdict {
    scene.home_file(".ssh/id_rsa", "key")?;
    scene.home_file(".config/tool/token", "token")?;
    scene.home_file(".dots/.git/HEAD", "ref: refs/heads/main\n")?;
    let run = |folder: &str| {
        let folder = scene.home().join(folder);
        scene.run(["--", "ls"]).cwd(folder).output()
    };
    for folder in [".ssh", ".config", ".config/tool"] {
        refused(&run(folder)?, 125, "keep keys and settings")?.lacks("id_rsa")?;
    }
    run(".dots")?.succeeds()?;
    Ok(())
}

/// A command inside can make a repository of any folder.
fn a_policy_above_is_not_left_by_a_repository(scene: &Scene) -> Verdict {
    scene.needs(&["git"])?;
    scene.file("sjail.toml", "[filesystem]\ndeny = [\"**/.env\"]\n")?;
    scene.file("data/.env", "secret")?;
    let work = scene.workspace();
    let sub = work.join("data");
    scene
        .run(["--", "git", "init", "-q", "data"])
        .output()?
        .succeeds()?;
    let plain = scene.run(["--", "cat", ".env"]).cwd(&sub).output()?;
    refused(&plain, 125, "sjail.toml above it does not hold")?.lacks("secret")?;
    // Nor by a folder in between that looks like everybody's.
    let deep = sub.join("deep");
    fs::create_dir_all(deep.join(".git"))?;
    fs::set_permissions(&sub, fs::Permissions::from_mode(0o1777))?;
    let plain = scene.run(["--", "true"]).cwd(&deep).output()?;
    refused(&plain, 125, "sjail.toml above it does not hold")?;
    fs::set_permissions(&sub, fs::Permissions::from_mode(0o755))?;
    let named = work.display().to_string();
    let said = scene.run(["--workspace", &named, "--", "cat", ".env"]);
    let said = said.cwd(&sub).output()?;
    said.exits(1)?.lacks("secret")?;
    Ok(())
}

fn help_for_a_command(scene: &Scene) -> Verdict {
    scene
        .sjail(["help", "run"])
        .output()?
        .succeeds()?
        .stdout_has("--no-wait")?;
    refused(
        &scene.sjail(["help", "nonsense"]).output()?,
        125,
        "there is no command",
    )?;
    Ok(())
}

fn the_roots_of_everything_need_to_be_said_aloud(scene: &Scene) -> Verdict {
    for folder in [scene.home(), scene.scratch().to_path_buf(), "/".into()] {
        refused(
            &scene.run(["--", "true"]).cwd(&folder).output()?,
            125,
            "--workspace",
        )?;
    }
    scene
        .run([
            "--workspace",
            &scene.home().display().to_string(),
            "--",
            "true",
        ])
        .cwd(scene.home())
        .output()?
        .succeeds()?;
    Ok(())
}

fn umask_of_the_caller(scene: &Scene) -> Verdict {
    let line = "umask 077; exec \"$0\" run --no-broker -- sh -c 'umask; echo new >closed'";
    scene
        .host("sh")
        .args(["-c", line])
        .args([scene.program("sjail")])
        .output()?
        .succeeds()?
        .stdout_is("0077\n")?;
    assert_eq!(
        fs::metadata(scene.workspace().join("closed"))?
            .permissions()
            .mode()
            & 0o777,
        0o600
    );
    Ok(())
}
