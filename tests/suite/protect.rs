//! Names that run code on the host later: git stays usable, nothing is planted, and a
//! host that edits them meanwhile does not open them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use sjail_tests::{Output, Scene, Stop, Test, Verdict, tests, wait};

pub fn suite() -> Vec<Test> {
    let mut all = tests![
        everyday_git_needs_nothing_special,
        commands_that_write_configuration_are_carried_over,
        keys_that_name_programs_are_left_out,
        a_line_with_more_than_one_command_is_not_special,
        hooks_are_left_out_of_copies,
        new_repositories_are_judged,
        planted_names_go_to_quarantine_and_come_back,
        a_planted_link_takes_nothing_with_it,
        parents_cannot_be_moved_away,
        links_that_were_there_are_held_with_their_targets,
        a_configured_hooks_folder_is_closed,
        working_trees_share_their_repository,
        a_planted_git_file_grants_nothing,
        submodules_work_inside_and_alone,
        a_killed_run_is_cleared_by_the_next,
        nothing_is_left_in_an_empty_workspace,
        a_busy_jail_goes_on_while_the_host_edits,
        what_the_host_changed_is_not_laid_to_the_command,
        too_many_protected_names_are_refused,
        hostile_workspaces_neither_hang_nor_crash,
    ];
    all.push(
        Test::new(
            "the_host_edits_while_the_jail_tries",
            the_host_edits_while_the_jail_tries,
        )
        .timeout(300),
    );
    all.push(
        Test::new(
            "whoever_holds_a_replaced_file_is_ended",
            whoever_holds_a_replaced_file_is_ended,
        )
        .timeout(300),
    );
    all
}

/// A line as a script of the project. Typed at the command line, a write to a protected
/// name is asked about; what is tried here is whether the jail holds it.
fn line(scene: &Scene, text: &str) -> Verdict<[String; 2]> {
    scene.script("try-it", &format!("#!/bin/sh\n{text}\n"))?;
    Ok(["--".to_owned(), "./try-it".to_owned()])
}

fn git(scene: &Scene, folder: &Path, line: &str) -> Verdict<Output> {
    let words = line.split(' ').filter(|word| !word.is_empty());
    let output = scene
        .host("git")
        .args([
            "-c",
            "user.name=t",
            "-c",
            "user.email=t@t",
            "-c",
            "protocol.file.allow=always",
        ])
        .args(words)
        .cwd(folder)
        .output()?;
    output.exits(0)?;
    Ok(output)
}

/// A repository in the workspace with one commit, and another one that it can fetch from.
fn repository(scene: &Scene) -> Verdict {
    scene.needs(&["git"])?;
    scene.home_file(".gitconfig", "[user]\n\tname = t\n\temail = t@t\n[protocol \"file\"]\n\tallow = always\n[init]\n\tdefaultBranch = main\n")?;
    let outside = scene.outside();
    git(scene, &outside, "init -q .")?;
    git(scene, &outside, "commit -q --allow-empty -m first")?;
    git(scene, &outside, "branch feature")?;
    scene.file("file", "one\n")?;
    let work = scene.workspace();
    git(scene, &work, "init -q .")?;
    git(scene, &work, "add file")?;
    git(scene, &work, "commit -q -m one")?;
    git(
        scene,
        &work,
        &format!("remote add origin {}", outside.display()),
    )?;
    git(scene, &work, "fetch -q origin")?;
    Ok(())
}

/// A jailed command that sees the other repository.
fn jailed(scene: &Scene, line: &str) -> Verdict<Output> {
    let outside = scene.outside().display().to_string();
    let words = line.split(' ').filter(|word| !word.is_empty());
    scene.run(["--ro", &outside, "--"]).args(words).output()
}

fn config(scene: &Scene, key: &str) -> Verdict<String> {
    let output = scene
        .host("git")
        .args(["config", "--local", "--get-all", key])
        .output()?;
    Ok(output.stdout.trim().to_owned())
}

fn ensure(holds: bool, what: impl Into<String>) -> Verdict {
    if holds {
        Ok(())
    } else {
        Err(Stop::failed(what.into()))
    }
}

fn everyday_git_needs_nothing_special(scene: &Scene) -> Verdict {
    repository(scene)?;
    let script = "set -e; echo two >>file; git add file; git commit -qm two; git checkout -q -b topic; \
        echo three >>file; git commit -qam three; git checkout -q main; git merge -q topic; \
        echo four >>file; git stash -q; git stash pop -q; git commit -qam four; \
        git checkout -q topic; git rebase -q main; git worktree add -q tree; git -C tree log --oneline | wc -l; \
        git worktree remove tree; git gc -q; git status --short";
    let output = scene.run(["--", "sh", "-c", script]).output()?;
    output.exits(0)?;
    ensure(output.stdout.contains('4'), format!("{output}"))?;
    for word in ["quarantine", "left out", "replaced"] {
        ensure(!output.stderr.contains(word), output.stderr.clone())?;
    }
    git(scene, &scene.workspace(), "fsck --strict")?;
    Ok(())
}

fn commands_that_write_configuration_are_carried_over(scene: &Scene) -> Verdict {
    repository(scene)?;
    let before = scene.read(".git/config")?;
    for (line, key, value) in [
        (
            "git remote add up https://example.org/x",
            "remote.up.url",
            "https://example.org/x",
        ),
        (
            "git remote set-url up https://example.org/y",
            "remote.up.url",
            "https://example.org/y",
        ),
        (
            "git remote rename up top",
            "remote.top.url",
            "https://example.org/y",
        ),
        ("git remote remove top", "remote.top.url", ""),
        ("git config user.name jailed", "user.name", "jailed"),
        ("git config --unset user.name", "user.name", ""),
        (
            "git checkout feature",
            "branch.feature.merge",
            "refs/heads/feature",
        ),
        (
            "git checkout -b second origin/feature",
            "branch.second.remote",
            "origin",
        ),
        (
            "git branch -m second third",
            "branch.third.remote",
            "origin",
        ),
        ("git checkout main", "branch.third.remote", "origin"),
        (
            "git branch -u origin/main",
            "branch.main.merge",
            "refs/heads/main",
        ),
        ("git branch --unset-upstream", "branch.main.merge", ""),
        (
            "git switch -c fourth --track origin/feature",
            "branch.fourth.remote",
            "origin",
        ),
        ("git switch main", "branch.fourth.remote", "origin"),
        (
            "git worktree add -b fifth tree origin/feature",
            "branch.fifth.remote",
            "origin",
        ),
        ("git worktree remove tree", "branch.fifth.remote", "origin"),
        (
            "git sparse-checkout set --skip-checks file",
            "core.sparseCheckout",
            "",
        ),
        (
            "git sparse-checkout disable",
            "remote.origin.fetch",
            "+refs/heads/*:refs/remotes/origin/*",
        ),
        ("git init", "core.bare", "false"),
    ] {
        let output = jailed(scene, line)?;
        output.exits(0)?;
        ensure(!output.stderr.contains("left out"), output.stderr.clone())?;
        let found = config(scene, key)?;
        ensure(
            found == value,
            format!("{line}: {key} is {found:?}, not {value:?}"),
        )?;
    }
    ensure(
        scene.read(".git/config")?.starts_with(before.trim_end()),
        "what was there changed",
    )?;
    git(scene, &scene.workspace(), "fsck --strict")?;
    let status = git(scene, &scene.workspace(), "status --short")?;
    ensure(status.stdout.is_empty(), status.stdout.clone())
}

fn keys_that_name_programs_are_left_out(scene: &Scene) -> Verdict {
    repository(scene)?;
    for (line, key) in [
        ("git config core.fsmonitor ./evil", "core.fsmonitor"),
        ("git config core.hooksPath evil", "core.hooksPath"),
        ("git config core.sshCommand evil", "core.sshCommand"),
        ("git config alias.st !evil", "alias.st"),
        ("git config filter.x.clean evil", "filter.x.clean"),
        ("git config include.path ../evil", "include.path"),
        ("git config credential.helper !evil", "credential.helper"),
        ("git remote add evil ext::evil", "remote.evil.url"),
        (
            "git config remote.origin.uploadpack evil",
            "remote.origin.uploadpack",
        ),
        (
            "git config branch.main.remote /tmp/evil",
            "branch.main.remote",
        ),
    ] {
        let output = jailed(scene, line)?;
        // Some of them are not even let run without a person's word.
        if output.code() != Some(77) {
            output.exits(0)?;
        }
        ensure(
            output.code() == Some(77) || output.stderr.contains("left out"),
            format!("{line} is not reported: {output}"),
        )?;
        let found = config(scene, key)?;
        ensure(found.is_empty(), format!("{line}: {key} is {found:?}"))?;
    }
    // Of one command, the harmless part goes through; what the host had stays.
    git(scene, &scene.workspace(), "config core.pager less")?;
    jailed(scene, "git config --unset core.pager")?;
    ensure(
        config(scene, "core.pager")? == "less",
        "the host's pager is gone",
    )
}

fn a_line_with_more_than_one_command_is_not_special(scene: &Scene) -> Verdict {
    repository(scene)?;
    let one = scene
        .run(["-c", "git remote add one https://example.org/1"])
        .output()?;
    one.exits(0)?;
    ensure(
        config(scene, "remote.one.url")? == "https://example.org/1",
        "not carried over",
    )?;
    let two = scene
        .run(["-c", "true; git remote add two https://example.org/2"])
        .output()?;
    ensure(
        two.code() != Some(0),
        "the read-only configuration was written",
    )?;
    ensure(
        config(scene, "remote.two.url")?.is_empty(),
        "it was written after all",
    )
}

fn hooks_are_left_out_of_copies(scene: &Scene) -> Verdict {
    repository(scene)?;
    // A template with a live hook: git itself copies it into .git/hooks.
    scene.script("template/hooks/post-checkout", "#!/bin/sh\ntouch ran\n")?;
    let output = jailed(scene, "git init --template=template")?;
    output.exits(0)?;
    ensure(
        output.stderr.contains("post-checkout"),
        format!("not reported: {output}"),
    )?;
    ensure(
        !scene.workspace().join(".git/hooks/post-checkout").exists(),
        "a live hook on the host",
    )
}

fn new_repositories_are_judged(scene: &Scene) -> Verdict {
    repository(scene)?;
    let outside = scene.outside().display().to_string();
    jailed(scene, &format!("git clone -q {outside} copy"))?.exits(0)?;
    let url = scene
        .host("git")
        .args(["-C", "copy", "config", "remote.origin.url"])
        .output()?;
    ensure(url.stdout.trim() == outside, url.stdout.clone())?;
    for (name, script) in [
        (
            "first",
            "git init -q first; git -C first config core.fsmonitor evil; echo x >first/.git/hooks/pre-commit",
        ),
        (
            "a/b/second",
            "git init -q a/b/second; git -C a/b/second config core.fsmonitor evil; echo x >a/b/second/.git/hooks/pre-commit",
        ),
        (
            "third.git",
            "git init -q --bare third.git; git -C third.git config core.fsmonitor evil; echo x >third.git/hooks/pre-commit",
        ),
    ] {
        let output = scene.run(line(scene, script)?).output()?;
        output.exits(0)?;
        let top = scene.workspace().join(name);
        let git_dir = if name.ends_with(".git") {
            top
        } else {
            top.join(".git")
        };
        let text = fs::read_to_string(git_dir.join("config"))?;
        ensure(!text.contains("evil"), format!("{name}: {text}"))?;
        ensure(
            text.contains("repositoryformatversion"),
            format!("{name}: {text}"),
        )?;
        ensure(
            !git_dir.join("hooks/pre-commit").exists(),
            format!("{name}: a live hook"),
        )?;
        ensure(
            output.stderr.contains("core.fsmonitor"),
            format!("{name}: {output}"),
        )?;
    }
    Ok(())
}

fn planted_names_go_to_quarantine_and_come_back(scene: &Scene) -> Verdict {
    repository(scene)?;
    let script = "mkdir .vscode 2>/dev/null; echo x >.envrc; echo ../x >.git/commondir; \
        for n in 1 2 3 4 5 6 7 8 9 10; do [ -e .envrc ] || break; sleep 0.2; done; [ ! -e .envrc ] && echo gone";
    let output = scene.run(line(scene, script)?).output()?;
    output.exits(0)?.stdout_is("gone\n")?;
    for name in [".vscode", ".envrc", ".git/commondir"] {
        ensure(
            !scene.workspace().join(name).exists(),
            format!("{name} is still there"),
        )?;
        ensure(
            output.stderr.contains(name),
            format!("{name} is not reported: {output}"),
        )?;
    }
    let list = scene.sjail(["quarantine", "list"]).output()?;
    list.exits(0)?;
    let id = list
        .stdout
        .lines()
        .find(|line| line.contains(".envrc"))
        .and_then(|line| line.split(' ').next())
        .ok_or_else(|| Stop::failed(list.stdout.clone()))?
        .to_owned();
    scene
        .sjail(["quarantine", "restore", &id])
        .output()?
        .exits(0)?;
    ensure(scene.read(".envrc")? == "x\n", "not put back")?;
    // And in the result object.
    let json = scene
        .run(["--json"])
        .args(line(scene, "echo x >.mcp.json")?)
        .output()?;
    ensure(
        json.stdout.contains("\"auto_exec\":[{") && json.stdout.contains(".mcp.json"),
        json.stdout.clone(),
    )
}

fn a_planted_link_takes_nothing_with_it(scene: &Scene) -> Verdict {
    repository(scene)?;
    scene
        .run(line(scene, "ln -s file .envrc")?)
        .output()?
        .exits(0)?;
    ensure(
        fs::symlink_metadata(scene.workspace().join(".envrc")).is_err(),
        "the link stayed",
    )?;
    ensure(scene.read("file")? == "one\n", "what it pointed to is gone")
}

fn parents_cannot_be_moved_away(scene: &Scene) -> Verdict {
    repository(scene)?;
    fs::create_dir_all(scene.workspace().join("deep/er"))?;
    git(scene, &scene.workspace().join("deep/er"), "init -q .")?;
    for path in [".git", "deep", "deep/er", "deep/er/.git", ".git/hooks"] {
        let script = format!("mv {path} elsewhere");
        let output = scene.run(line(scene, &script)?).output()?;
        ensure(output.code() != Some(0), format!("{path} was moved"))?;
    }
    ensure(
        scene.workspace().join("deep/er/.git/config").exists(),
        "it is gone",
    )
}

fn links_that_were_there_are_held_with_their_targets(scene: &Scene) -> Verdict {
    repository(scene)?;
    scene.file("dot/tasks.json", "{}")?;
    symlink("dot", scene.workspace().join(".vscode"))?;
    for script in [
        "rm .vscode",
        "ln -sfn src .vscode",
        "mv .vscode x",
        "echo x >.vscode/tasks.json",
        "echo x >dot/tasks.json",
        "mv dot other",
    ] {
        let output = scene.run(line(scene, script)?).output()?;
        ensure(output.code() != Some(0), format!("{script} worked"))?;
    }
    scene
        .run(["--", "cat", ".vscode/tasks.json"])
        .output()?
        .exits(0)?
        .stdout_is("{}")?;
    Ok(())
}

fn a_configured_hooks_folder_is_closed(scene: &Scene) -> Verdict {
    repository(scene)?;
    scene.script("tools/hooks/pre-commit", "#!/bin/sh\n")?;
    scene.file("tools/shared.conf", "[core]\n")?;
    git(
        scene,
        &scene.workspace(),
        "config core.hooksPath tools/hooks",
    )?;
    git(
        scene,
        &scene.workspace(),
        "config include.path ../tools/shared.conf",
    )?;
    for script in [
        "echo x >tools/hooks/pre-commit",
        "echo x >tools/hooks/post-commit",
        "echo x >tools/shared.conf",
        "mv tools other",
    ] {
        let output = scene.run(line(scene, script)?).output()?;
        ensure(output.code() != Some(0), format!("{script} worked"))?;
    }
    Ok(())
}

fn working_trees_share_their_repository(scene: &Scene) -> Verdict {
    repository(scene)?;
    let tree = scene.home().join("tree");
    let other = scene.home().join("other");
    git(
        scene,
        &scene.workspace(),
        &format!("worktree add -q {} -b tree", tree.display()),
    )?;
    git(
        scene,
        &scene.workspace(),
        &format!("worktree add -q {} -b other", other.display()),
    )?;
    let script = "set -e; echo two >>file; git commit -qam two; git log --oneline | wc -l; git worktree prune";
    scene
        .run(["--", "sh", "-c", script])
        .cwd(&tree)
        .output()?
        .exits(0)?
        .stdout_has("2")?;
    let common = scene.workspace().join(".git");
    ensure(
        common.join("worktrees/other/HEAD").exists(),
        "a tree that the jail cannot see was pruned",
    )?;
    for path in [
        "config",
        "hooks/pre-commit",
        "worktrees/other/HEAD",
        "worktrees/tree/commondir",
    ] {
        let script = format!("#!/bin/sh\necho x >{}\n", common.join(path).display());
        fs::write(tree.join("try-it"), script)?;
        let words = ["--", "sh", "try-it"];
        let output = scene.run(words).cwd(&tree).output()?;
        ensure(output.code() != Some(0), format!("{path} was written"))?;
    }
    let output = scene
        .run(["--", "git", "remote", "add", "up", "https://example.org/x"])
        .cwd(&tree)
        .output()?;
    output.exits(0)?;
    ensure(
        config(scene, "remote.up.url")? == "https://example.org/x",
        "not carried over",
    )?;
    git(scene, &tree, "status --short")?;
    Ok(())
}

fn a_planted_git_file_grants_nothing(scene: &Scene) -> Verdict {
    scene.needs(&["git"])?;
    let secret = scene.home_file("secret/key", "s3cret")?;
    scene.file(
        ".git",
        format!("gitdir: {}\n", scene.home().join("secret").display()),
    )?;
    let output = scene
        .run(["--", "cat", &secret.display().to_string()])
        .output()?;
    ensure(
        output.code() != Some(0) && !output.stdout.contains("s3cret"),
        format!("{output}"),
    )?;
    ensure(
        output.stderr.contains("git will not work here"),
        output.stderr.clone(),
    )
}

fn submodules_work_inside_and_alone(scene: &Scene) -> Verdict {
    repository(scene)?;
    let outside = scene.outside().display().to_string();
    jailed(
        scene,
        &format!("git -c protocol.file.allow=always submodule add {outside} part"),
    )?
    .exits(0)?;
    jailed(scene, "git submodule update --init")?.exits(0)?;
    git(scene, &scene.workspace(), "commit -qm part")?;
    let module = scene.workspace().join(".git/modules/part");
    ensure(
        fs::read_to_string(module.join("config"))?.contains("worktree = ../../../part"),
        "no work tree",
    )?;
    let script = "set -e; cd part; git commit -q --allow-empty -m x; ! echo x >../.git/modules/part/config; ! echo x >.git";
    scene.run(line(scene, script)?).output()?.exits(0)?;
    let alone = scene
        .run(["--", "git", "log", "--oneline"])
        .cwd(scene.workspace().join("part"))
        .output()?;
    alone.exits(0)?;
    git(scene, &scene.workspace(), "fsck --strict")?;
    Ok(())
}

fn a_killed_run_is_cleared_by_the_next(scene: &Scene) -> Verdict {
    repository(scene)?;
    // Stopped, sjail cannot look; then killed, it cannot clear.
    let mut run = scene
        .run(line(
            scene,
            "echo ready; read x; echo evil >.envrc; echo done; sleep 100",
        )?)
        .start()?;
    let mut stdin = run.stdin();
    ensure(run.line()? == "ready\n", "not ready")?;
    run.signal(nix::sys::signal::Signal::SIGSTOP)?;
    if let Some(stdin) = &mut stdin {
        use std::io::Write;
        stdin.write_all(b"\n")?;
    }
    run.wait_for_file(scene.workspace().join(".envrc"))?;
    run.signal(nix::sys::signal::Signal::SIGKILL)?;
    drop(stdin);
    let _ = run.finish()?;
    let output = scene.run(["--", "true"]).output()?;
    output.exits(0)?;
    ensure(
        output.stderr.contains(".envrc"),
        format!("not reported: {output}"),
    )?;
    ensure(
        !scene.workspace().join(".envrc").exists(),
        "it is still there",
    )
}

fn nothing_is_left_in_an_empty_workspace(scene: &Scene) -> Verdict {
    scene.run(["--", "true"]).output()?.exits(0)?;
    let left: Vec<_> = fs::read_dir(scene.workspace())?
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    ensure(left.is_empty(), format!("{left:?}"))?;
    let records = scene.runtime().join("sjail/protect");
    let left = fs::read_dir(records).map_or(0, |entries| entries.count());
    ensure(left == 0, "a record is left")
}

/// Every way a host process may replace a protected name, while a loop in the jail tries
/// to write it all the time.
fn the_host_edits_while_the_jail_tries(scene: &Scene) -> Verdict {
    repository(scene)?;
    scene.file(".envrc", "host 0\n")?;
    let work = scene.workspace();
    let script = "echo ready; while [ ! -e stop ]; do \
        for f in .git/config .envrc .git/hooks/pre-commit; do (printf '[core]\\n\\tfsmonitor = EVIL\\n' >>$f) 2>/dev/null; done; done; true";
    let mut run = scene.run(line(scene, script)?).start()?;
    ensure(run.line()? == "ready\n", "not ready")?;
    for round in 0..5 {
        let settle = || std::thread::sleep(Duration::from_millis(150));
        git(scene, &work, &format!("config user.name round{round}"))?;
        settle();
        fs::write(work.join(".envrc.new"), format!("host {round}\n"))?;
        fs::rename(work.join(".envrc.new"), work.join(".envrc"))?;
        settle();
        fs::remove_dir_all(work.join(".git/hooks"))?;
        fs::create_dir(work.join(".git/hooks"))?;
        settle();
        let text = fs::read(work.join(".git/config"))?;
        fs::rename(work.join(".git/config"), work.join(".git/config~"))?;
        fs::write(work.join(".git/config"), text)?;
        settle();
        let _ = fs::remove_file(work.join(".envrc"));
        fs::write(work.join(".envrc"), format!("host {round} again\n"))?;
        settle();
    }
    scene.file("stop", "")?;
    let output = run.finish()?;
    // The loop may have been ended for holding a file in the gap; it never gets through.
    let code = output.code();
    ensure(code == Some(0) || code == Some(125), format!("{output}"))?;
    let text = scene.read(".git/config")?;
    ensure(!text.contains("EVIL"), text.clone())?;
    if code == Some(0) {
        ensure(text.contains("round4"), text)?;
    }
    let envrc = scene.read(".envrc").unwrap_or_default();
    ensure(!envrc.contains("EVIL"), envrc)?;
    ensure(
        !work.join(".git/hooks/pre-commit").exists(),
        "a hook was planted",
    )
}

/// A handle that was opened in the moment between the host's replacing a file and its
/// being closed again keeps working: so whoever has one is ended.
fn whoever_holds_a_replaced_file_is_ended(scene: &Scene) -> Verdict {
    repository(scene)?;
    scene.needs(&["python3"])?;
    let script = "import os, sys, time\n\
        print('ready', flush=True)\n\
        end = time.time() + 20\n\
        while time.time() < end:\n\
        \x20   try: f = os.open('.git/config', os.O_PATH)\n\
        \x20   except OSError: continue\n\
        \x20   if not os.fstatvfs(f).f_flag & os.ST_RDONLY: break\n\
        \x20   os.close(f)\n\
        else: sys.exit(3)\n\
        time.sleep(5)\n\
        with open(f'/proc/self/fd/{f}', 'a') as g: g.write('[core]\\n\\tfsmonitor = EVIL\\n')\n";
    scene.file("hold.py", script)?;
    let mut run = scene.run(["--", "python3", "hold.py"]).start()?;
    ensure(run.line()? == "ready\n", "not ready")?;
    for round in 0..40 {
        if run.ended() {
            break;
        }
        git(
            scene,
            &scene.workspace(),
            &format!("config user.name round{round}"),
        )?;
        std::thread::sleep(Duration::from_millis(100));
    }
    wait::until_true("the run ends", || run.ended())?;
    let output = run.finish()?;
    // Ended; or never in time; or what it got hold of was replaced once more, and is
    // nobody's file any longer.
    let code = output.code();
    ensure(matches!(code, Some(0 | 3 | 125)), format!("{output}"))?;
    ensure(
        !scene.read(".git/config")?.contains("EVIL"),
        "it was written",
    )
}

/// A jail whose processes never rest is stopped for a moment so that it can be looked at,
/// and nobody in it must notice.
fn a_busy_jail_goes_on_while_the_host_edits(scene: &Scene) -> Verdict {
    repository(scene)?;
    let script = "echo ready; (while [ ! -e stop ]; do /bin/true; done; echo busy) & \
        while [ ! -e stop ]; do :; done; wait; echo went on";
    let mut run = scene.run(["--", "bash", "-c", script]).start()?;
    ensure(run.line()? == "ready\n", "not ready")?;
    let work = scene.workspace();
    for round in 0..10 {
        git(scene, &work, &format!("config user.name round{round}"))?;
        // When the second is gone, the look that followed the edit is over.
        for _ in 0..2 {
            let marker = scene.file(".mcp.json", "{}")?;
            wait::until_true("sjail has looked", || !marker.exists() || run.ended())?;
        }
        ensure(!run.ended(), "it was ended")?;
    }
    scene.file("stop", "")?;
    let output = run.finish()?;
    output.exits(0)?.stdout_is("busy\nwent on\n")?;
    ensure(scene.read(".git/config")?.contains("round9"), "edit lost")
}

fn what_the_host_changed_is_not_laid_to_the_command(scene: &Scene) -> Verdict {
    repository(scene)?;
    let result = scene
        .run(["--json", "--quiet", "--", "git", "remote", "add", "o", "/x"])
        .output()?
        .succeeds()?
        .json()?;
    ensure(
        scene.read(".git/config")?.contains("/x"),
        "not carried over",
    )?;
    let told = result["auto_exec"].to_string();
    ensure(!told.contains("touched"), told)
}

/// Each is held by a mount; a project that brings more than a jail can have is refused,
/// not held in part.
fn too_many_protected_names_are_refused(scene: &Scene) -> Verdict {
    // On a file system that does not fold case these are all different.
    let name = "windsurfrules";
    for number in 0..3000_u32 {
        let letters = name
            .char_indices()
            .map(|(at, letter)| match number >> at & 1 {
                1 => letter.to_ascii_uppercase(),
                _ => letter,
            });
        let name = format!(".{}", letters.collect::<String>());
        fs::write(scene.workspace().join(name), "")?;
    }
    let there = fs::read_dir(scene.workspace())?.count();
    if there < 2500 {
        return scene.skip("this file system folds case");
    }
    let output = scene.run(["--", "true"]).output()?;
    output
        .exits(125)?
        .stderr_has("protected names, more than")?;
    Ok(())
}

/// What a project can bring along to trouble whoever looks at it.
const HOSTILE: &[(&str, &str)] = &[
    (
        "a pipe as configuration",
        "mkfifo .git/config2 && mv .git/config2 .git/config",
    ),
    (
        "pipes everywhere",
        "mkfifo .envrc .mcp.json .gitmodules .claude .git/commondir",
    ),
    ("a pipe as .git", "rm -rf .git && mkfifo .git"),
    (
        "a link to itself",
        "rm -rf .git && ln -s .git .git && ln -s .envrc .envrc",
    ),
    (
        "an endless device",
        "ln -sf /dev/zero .git/config && ln -s /dev/zero .envrc",
    ),
    ("a huge configuration", "truncate -s 3G .git/config"),
    ("a huge .git file", "rm -rf .git && truncate -s 3G .git"),
    ("a huge pointer", "truncate -s 3G .git/commondir .git/HEAD"),
    (
        "many working trees",
        "mkdir .git/worktrees && cd .git/worktrees && seq 1000 | xargs mkdir",
    ),
    (
        "many submodules",
        "mkdir .git/modules && cd .git/modules && seq 1000 | xargs mkdir",
    ),
    (
        "includes in a circle",
        "printf '[include]\\n\\tpath = ../a\\n' >> .git/config && printf '[include]\\n\\tpath = a\\n' > a",
    ),
    (
        "closed folders",
        "mkdir -p .vscode sub/deep && chmod 0 .vscode sub .git/hooks",
    ),
    (
        "a deep tree",
        "for n in $(seq 300); do mkdir d && cd d; done",
    ),
    (
        "names that are no text",
        "mkdir \"$(printf 'a\\nb')\" \"$(printf '\\377\\376')\"",
    ),
];

fn hostile_workspaces_neither_hang_nor_crash(scene: &Scene) -> Verdict {
    scene.needs(&["git"])?;
    for (what, line) in HOSTILE {
        let folder = scene.outside().join("hostile");
        fs::create_dir(&folder)?;
        git(scene, &folder, "init -q .")?;
        let made = scene.host("sh").args(["-c", line]).cwd(&folder).output()?;
        made.exits(0)?;
        let output = scene
            .run(["--", "sh", "-c", "echo fine > mark"])
            .cwd(&folder)
            .output()?;
        let gone = scene
            .host("sh")
            .args(["-c", "chmod -R u+rwx hostile; rm -rf hostile"])
            .cwd(scene.outside())
            .output()?;
        ensure(output.code() == Some(0), format!("{what}: {output}"))?;
        gone.exits(0)?;
    }
    Ok(())
}
