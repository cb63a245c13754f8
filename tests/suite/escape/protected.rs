//! Names in the workspace that run code on the host later: whether they are there
//! or not, by every way to put something under them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::Signal;
use sjail_tests::attack::{HELD, OUT};
use sjail_tests::wait;
use sjail_tests::{Scene, Stop, Test, Verdict, ensure};

use super::attempt::{Control, Plan, attempt};

/// Files that are there when the jail starts.
const THERE: &[(&str, &str)] = &[
    ("git_hook", ".git/hooks/pre-commit"),
    ("git_config", ".git/config"),
    ("vscode_tasks", ".vscode/tasks.json"),
    ("claude_settings", ".claude/settings.json"),
    ("mcp", ".mcp.json"),
    ("envrc", ".envrc"),
    ("policy", "sjail.toml"),
];

/// Ways to bring another content under a name that is there.
const WAYS: &[(&str, &str)] = &[
    ("written", "write"),
    ("renamed_onto", "rename"),
    ("exchanged", "exchange"),
    ("hard_linked", "second-name"),
    ("linked", "symlink"),
    ("removed", "take-away"),
    ("truncated", "cut-short"),
    ("mapped", "map-write"),
];

/// Names that are not there when the jail starts.
const NOT_THERE: &[&str] = &[
    ".git/hooks/post-checkout",
    ".git/info/attributes",
    ".vscode/settings.json",
    ".claude/settings.local.json",
    ".claude/commands/run.md",
    ".codex/config.toml",
    ".cursor/mcp.json",
    ".gemini/settings.json",
    ".idea/workspace.xml",
    ".mcp.json",
    ".envrc",
    "sjail.toml",
    "SANDBOX.md",
];

pub fn tests() -> Vec<Test> {
    let mut tests = Vec::new();
    for &(what, path) in THERE {
        for &(how, way) in WAYS {
            tests.push(attempt(
                &format!("protected_{what}_{how}"),
                Control::Bare,
                move |scene| {
                    repository(scene)?;
                    let file = scene.workspace().join(path);
                    let before = fs::read(&file)?;
                    Ok(Plan::new([way, path]).afterwards(move || unchanged(&file, &before)))
                },
            ));
        }
    }
    tests.extend(NOT_THERE.iter().map(|path| planted(path)));
    for (how, way) in [
        ("renamed", "rename"),
        ("hard_linked", "second-name"),
        ("linked", "symlink"),
    ] {
        tests.push(attempt(
            &format!("b25_planted_mcp_{how}"),
            Control::Bare,
            move |scene| {
                git(scene)?;
                let file = scene.workspace().join(".mcp.json");
                let _ = fs::remove_file(&file);
                Ok(Plan::new([way, ".mcp.json"]).afterwards(move || gone(&file)))
            },
        ));
    }
    tests.extend([
        attempt("b24_git_folder_renamed_away", Control::Bare, |scene| {
            parent(scene, ".git", ".git/hooks/pre-commit")
        }),
        attempt("b24_hooks_folder_renamed_away", Control::Bare, |scene| {
            parent(scene, ".git/hooks", ".git/hooks/pre-commit")
        }),
        attempt("b24_claude_folder_renamed_away", Control::Bare, |scene| {
            parent(scene, ".claude", ".claude/settings.json")
        }),
        attempt("b24_vscode_folder_renamed_away", Control::Bare, |scene| {
            parent(scene, ".vscode", ".vscode/tasks.json")
        }),
        attempt(
            "b24_nested_repository_renamed_away",
            Control::Bare,
            |scene| {
                scene
                    .host("git")
                    .args(["init", "-q", "sub/inner"])
                    .output()?
                    .succeeds()?;
                scene.file("sub/inner/.git/hooks/pre-commit", "#!/bin/sh\n")?;
                parent(scene, "sub", "sub/inner/.git/hooks/pre-commit")
            },
        ),
        attempt(
            "b30_hooks_path_of_the_configuration",
            Control::Bare,
            |scene| {
                git(scene)?;
                scene
                    .host("git")
                    .args(["config", "core.hooksPath", ".githooks"])
                    .output()?
                    .succeeds()?;
                let _ = fs::remove_dir_all(scene.workspace().join(".githooks"));
                let file = scene.workspace().join(".githooks/pre-commit");
                Ok(Plan::new(["create", ".githooks/pre-commit"]).afterwards(move || gone(&file)))
            },
        ),
        attempt(
            "b26_planted_with_a_trailing_slash",
            Control::Bare,
            |scene| {
                git(scene)?;
                let _ = fs::remove_dir_all(scene.workspace().join(".cursor"));
                let file = scene.workspace().join(".cursor/mcp.json");
                Ok(Plan::new(["mkdir", ".cursor/", "mcp.json"]).afterwards(move || gone(&file)))
            },
        ),
        attempt(
            "b24_nested_repositorys_hook_written",
            Control::Bare,
            |scene| {
                git(scene)?;
                if !scene.workspace().join("sub/inner").exists() {
                    scene
                        .host("git")
                        .args(["init", "-q", "sub/inner"])
                        .output()?
                        .succeeds()?;
                }
                let file = scene.file("sub/inner/.git/hooks/pre-commit", "#!/bin/sh\n")?;
                Ok(Plan::new(["write", "sub/inner/.git/hooks/pre-commit"])
                    .afterwards(move || unchanged(&file, b"#!/bin/sh\n")))
            },
        ),
        Test::new("b40a_settings_replaced_by_remove_and_make", |scene| {
            replaced(scene, ".claude/settings.json", by_remove_and_make)
        }),
        Test::new("b40a_hooks_folder_replaced_by_the_host", |scene| {
            replaced(scene, ".git/hooks/pre-commit", by_new_folder)
        }),
        planted(".git/config.worktree"),
        Test::new("b31_keys_of_git_that_run_programs", keys_that_run_programs),
        Test::new("b40a_config_replaced_by_the_host_by_rename", |scene| {
            replaced(scene, ".git/config", by_rename)
        }),
        Test::new("b40a_config_replaced_by_git_config", |scene| {
            replaced(scene, ".git/config", by_git_config)
        }),
    ]);
    tests.extend(HOLDS.iter().map(|&how| {
        let name = format!("b40a_a_replaced_file_is_kept_by_{how}");
        Test::new(&name, move |scene| kept_hold_of(scene, how)).timeout(300)
    }));
    tests
}

/// Where a process can keep a file that it got hold of: see the attempt.
const HOLDS: &[&str] = &[
    "handle",
    "undumpable",
    "leaderless",
    "mapping",
    "flight",
    "forks",
    "woken",
];

/// The jail gets hold of a protected file that the host has just replaced. The moment for
/// that is made as long as it takes: sjail sleeps meanwhile.
fn kept_hold_of(scene: &Scene, how: &'static str) -> Verdict {
    git(scene)?;
    let attacker = scene.attacker()?;
    let workspace = scene.workspace();
    let file = workspace.join(".git/config");
    let words = ["keep-hold", ".git/config", how];
    let mut running = scene.run(["--"]).args([&attacker]).args(words).start()?;
    running.wait_for_file(workspace.join("ready"))?;
    running.signal(Signal::SIGSTOP)?;
    by_rename(scene, &file, 1)?;
    let before = fs::read(&file)?;
    running.wait_for_file(workspace.join("got"))?;
    running.signal(Signal::SIGCONT)?;
    // A new protected name goes to quarantine in the same look, or a later one: when the
    // second is gone, the look that followed the host's change is over.
    for _ in 0..2 {
        let marker = workspace.join(".mcp.json");
        fs::write(&marker, "{}")?;
        wait::until_within(Duration::from_secs(100), "sjail looks", || {
            (running.ended() || !marker.exists()).then_some(())
        })?;
        let _ = fs::remove_file(&marker);
    }
    scene.file("go", "")?;
    let output = running.finish()?;
    unchanged(&file, &before)?;
    output
        .exits(125)?
        .stderr_has("was replaced on the host during the run, and")?;
    // Without the jail it is written.
    for name in ["ready", "got", "result"] {
        let _ = fs::remove_file(workspace.join(name));
    }
    let output = scene.host(&attacker).args(words).output()?;
    let now = fs::read_to_string(&file)?;
    ensure(now.contains("the jail was here"), || {
        format!("the check is hollow: {now:?}, {output}")
    })
}

/// Keys of git's configuration that name programs, set by git itself.
const KEYS: &[&str] = &[
    "core.fsmonitor",
    "core.sshCommand",
    "core.pager",
    "core.editor",
    "core.hooksPath",
    "diff.external",
    "filter.x.clean",
    "merge.x.driver",
    "diff.x.textconv",
    "alias.st",
    "credential.helper",
    "gpg.program",
    "include.path",
];

fn keys_that_run_programs(scene: &Scene) -> Verdict {
    git(scene)?;
    let file = scene.workspace().join(".git/config");
    let before = fs::read(&file)?;
    let lines: String = KEYS
        .iter()
        .map(|key| format!("git config {key} '!./planted'\n"))
        .collect();
    scene.script("keys", &format!("#!/bin/sh\n{lines}exit 0\n"))?;
    scene.run(["--", "./keys"]).output()?.exits(0)?;
    unchanged(&file, &before)?;
    // Without the jail every one of them is set.
    scene.host("./keys").output()?.succeeds()?;
    let after = fs::read_to_string(&file)?;
    let set = after.matches("planted").count();
    ensure(set == KEYS.len(), || {
        format!("the check is hollow: {after}")
    })
}

/// A name that is not there, made during the run: gone from the host again.
pub fn planted(path: &'static str) -> Test {
    let name = path.replace(['.', '/'], "_");
    let name = format!("b22_planted_{}", name.trim_matches('_'));
    attempt(&name, Control::Bare, move |scene| {
        git(scene)?;
        let file = scene.workspace().join(path);
        let _ = fs::remove_file(&file);
        Ok(Plan::new(["create", path]).afterwards(move || gone(&file)))
    })
}

/// A repository with something under each of the names.
fn repository(scene: &Scene) -> Verdict {
    git(scene)?;
    for (_, path) in THERE {
        if *path == ".git/config" {
            continue;
        }
        let file = scene.workspace().join(path);
        let _ = fs::remove_file(&file);
        // The policy must be one.
        let content = if path.ends_with(".toml") {
            "# of the host\n"
        } else {
            "of the host\n"
        };
        scene.file(path, content)?;
    }
    Ok(())
}

/// A fresh `.git`, whatever the attempt before made of it.
fn git(scene: &Scene) -> Verdict {
    if !scene.has("git") {
        return scene.skip("git is not installed");
    }
    for name in [
        ".git",
        ".githooks",
        "moved-away",
        "sub",
        ".claude",
        ".vscode",
    ] {
        let path = scene.workspace().join(name);
        let _ = fs::remove_dir_all(&path);
        let _ = fs::remove_file(&path);
    }
    scene
        .host("git")
        .args(["init", "-q", "."])
        .output()?
        .succeeds()?;
    Ok(())
}

fn parent(scene: &Scene, folder: &'static str, path: &'static str) -> Verdict<Plan> {
    if folder != "sub" {
        repository(scene)?;
    }
    let file = scene.workspace().join(path);
    let before = fs::read(&file)?;
    Ok(Plan::new(["rename-away", folder, path]).afterwards(move || unchanged(&file, &before)))
}

fn unchanged(path: &Path, before: &[u8]) -> Verdict {
    match fs::read(path) {
        Ok(now) if now == before && !path.is_symlink() => Ok(()),
        other => Err(Stop::failed(format!(
            "{} is now {:?}",
            path.display(),
            other.map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        ))),
    }
}

fn gone(path: &Path) -> Verdict {
    match path.symlink_metadata() {
        Err(_) => Ok(()),
        Ok(_) => Err(Stop::failed(format!(
            "{} is there on the host",
            path.display()
        ))),
    }
}

/// The jail hammers at a protected name while the host replaces it again and
/// again. A write may hit the moment between the host's replacement and its being
/// closed again; nothing of that may stay. A jail that got hold of the new file in that
/// moment is ended, which is as safe.
fn replaced(scene: &Scene, path: &str, replace: fn(&Scene, &Path, usize) -> Verdict) -> Verdict {
    repository(scene)?;
    let attacker = scene.attacker()?;
    let file: PathBuf = scene.workspace().join(path);
    let words = ["write-until", path, "ready", "done"];
    let mut running = scene.run(["--"]).args([&attacker]).args(words).start()?;
    running.wait_for_file(scene.workspace().join("ready"))?;
    for round in 0..30 {
        // What was judged and taken away meanwhile is put there again; what is taken
        // away while the host is at it is tried again, as a person would.
        wait::until("the host replaces the file", || {
            if !file.exists() {
                write(&file, "[user]\n\tname = of the host\n").ok()?;
            }
            replace(scene, &file, round).ok()
        })?;
        std::thread::sleep(Duration::from_millis(10));
    }
    scene.file("done", "")?;
    let output = running.finish()?;
    let tried = matches!(output.code(), Some(OUT | HELD));
    let ended = output.code() == Some(125) && output.stderr.contains("on the host during the run");
    ensure(tried || ended, || format!("it was not tried, {output}"))?;
    // Whatever is there now, nothing of it is the jail's.
    match fs::read_to_string(&file) {
        Ok(content) if content.contains("the jail was here") => Err(Stop::failed(format!(
            "the host now has {content:?}, {output}"
        ))),
        _ => Ok(()),
    }
}

fn write(path: &Path, content: &str) -> Verdict {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    Ok(fs::write(path, content)?)
}

fn by_rename(scene: &Scene, path: &Path, round: usize) -> Verdict {
    let fresh = scene.outside().join("fresh");
    fs::write(&fresh, format!("[user]\n\tname = round {round}\n"))?;
    Ok(fs::rename(&fresh, path)?)
}

fn by_git_config(scene: &Scene, _: &Path, round: usize) -> Verdict {
    scene
        .host("git")
        .args(["config", "user.name", &format!("round {round}")])
        .output()?
        .succeeds()?;
    Ok(())
}

fn by_remove_and_make(_: &Scene, path: &Path, round: usize) -> Verdict {
    // It may just have been taken away by the jail's keeper.
    let _ = fs::remove_file(path);
    Ok(fs::write(path, format!("{{\"round\": {round}}}\n"))?)
}

fn by_new_folder(_: &Scene, path: &Path, round: usize) -> Verdict {
    let folder = path.parent().unwrap_or(path);
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder)?;
    Ok(fs::write(path, format!("#!/bin/sh\n# {round}\n"))?)
}
