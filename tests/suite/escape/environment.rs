//! The caller's environment: secrets in it, and variables that steer programs.

use std::fs;

use sjail_tests::attack::files::CANARY;
use sjail_tests::{Scene, Stop, Test, Verdict, ensure};

use super::attempt::{Control, Plan, attempt};

/// Never passed on unless named aloud.
const VARIABLES: &[&str] = &[
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "GITHUB_TOKEN",
    "ANTHROPIC_API_KEY",
    "OPENAI_API_KEY",
    "MY_PASSWORD",
    "DATABASE_URL",
    "SSH_AUTH_SOCK",
    "GPG_AGENT_INFO",
    "DBUS_SESSION_BUS_ADDRESS",
    "DOCKER_HOST",
    "KUBECONFIG",
    "WAYLAND_DISPLAY",
    "DISPLAY",
    "XAUTHORITY",
    "WSL_INTEROP",
    "LD_LIBRARY_PATH",
    "LD_AUDIT",
    "BASH_ENV",
    "ENV",
    "PROMPT_COMMAND",
    "GIT_SSH_COMMAND",
    "GIT_CONFIG_COUNT",
    "GIT_EXTERNAL_DIFF",
    "PYTHONSTARTUP",
    "PYTHONPATH",
    "NODE_OPTIONS",
    "PERL5OPT",
    "RUBYOPT",
    "JAVA_TOOL_OPTIONS",
    "HTTP_PROXY",
    "RUSTC_WRAPPER",
    "XDG_RUNTIME_DIR",
];

pub fn tests() -> Vec<Test> {
    let mut tests: Vec<Test> = VARIABLES
        .iter()
        .map(|name| {
            attempt(
                &format!("environment_{}", name.to_lowercase()),
                Control::Bare,
                move |_| Ok(Plan::new(["env", name]).variable(name, CANARY)),
            )
        })
        .collect();
    tests.push(attempt("environment_ld_preload", Control::Bare, |_| {
        // The attacker is static: the loader that would act on it never runs.
        Ok(Plan::new(["env", "LD_PRELOAD"]).variable("LD_PRELOAD", &format!("/{CANARY}.so")))
    }));
    tests.push(Test::new(
        "b76_folders_redirected_into_the_workspace",
        redirected_folders,
    ));
    tests.push(Test::new(
        "b37_helpers_from_the_path",
        helpers_from_the_path,
    ));
    tests
}

/// Programs named like helpers lie first on the path and in the working folder.
fn helpers_from_the_path(scene: &Scene) -> Verdict {
    let marker = scene.outside().join("helper-ran");
    for name in [
        "sh",
        "mount",
        "umount",
        "newuidmap",
        "newgidmap",
        "ip",
        "bwrap",
        "git",
        "id",
        "getent",
        "socat",
        "sjail-broker",
        "systemd-run",
        "true",
    ] {
        scene.script(
            name,
            &format!("#!/bin/sh\necho {name} >> {}\n", marker.display()),
        )?;
    }
    let path = format!("{}:.:/usr/bin:/bin", scene.workspace().display());
    scene
        .run(["--", "/bin/true"])
        .env("PATH", &path)
        .output()?
        .succeeds()?;
    if let Ok(ran) = fs::read_to_string(&marker) {
        return Err(Stop::failed(format!(
            "ran from the workspace, outside the jail: {ran}"
        )));
    }
    // Without sjail the same path runs them.
    scene
        .host("/bin/sh")
        .args(["-c", "mount"])
        .env("PATH", &path)
        .output()?;
    match fs::read_to_string(&marker) {
        Ok(_) => Ok(()),
        Err(error) => Err(Stop::failed(format!("the check is hollow: {error}"))),
    }
}

/// Where sjail keeps its own files is steered into the workspace, where the
/// command could change them: nothing of ours may end up there.
fn redirected_folders(scene: &Scene) -> Verdict {
    let evil = scene.workspace().join("evil");
    fs::create_dir(&evil)?;
    let mut call = scene.run(["--", "/bin/true"]);
    for name in [
        "TMPDIR",
        "XDG_STATE_HOME",
        "XDG_DATA_HOME",
        "XDG_CACHE_HOME",
        "XDG_RUNTIME_DIR",
        "XDG_CONFIG_HOME",
    ] {
        call = call.env(name, &evil);
    }
    let output = call.output()?;
    output.exits(125)?.stderr_has("inside the workspace")?;
    let planted: Vec<_> = fs::read_dir(&evil)?
        .flatten()
        .map(|entry| entry.path())
        .collect();
    ensure(planted.is_empty(), || {
        format!("in the workspace: {planted:?}, {output}")
    })?;
    // Each by itself is enough, by a link or a name that is not there yet as well.
    std::os::unix::fs::symlink(&evil, scene.outside().join("link"))?;
    for (name, path) in [
        ("XDG_STATE_HOME", evil.join("not-yet/there")),
        ("XDG_CONFIG_HOME", scene.outside().join("link")),
        ("XDG_RUNTIME_DIR", evil.clone()),
    ] {
        let output = scene.run(["--", "/bin/true"]).env(name, path).output()?;
        output.exits(125)?.stderr_has(name)?;
    }
    Ok(())
}
