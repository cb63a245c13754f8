//! Repositories that a command makes so that the host's git runs its program later: files
//! that say where a folder of git is, read otherwise than git reads them, folders that only
//! look like one, and what is carried over from a copy.
//!
//! Each payload is tried without a jail first, where the host's git must run the program.

use std::fs;
use std::time::Duration;

use sjail_tests::{Output, Scene, Test, Verdict, ensure, tests};

/// What every payload starts with.
const BEGIN: &str = r#"#!/bin/sh
set -e
bait() { # FOLDER
    mkdir -p "$1/objects" "$1/refs/heads"
    printf '[core]\n\trepositoryformatversion = 0\n\tfsmonitor = "touch %s/pwned; false"\n' "$PWD" >"$1/config"
}
repository() { # FOLDER
    bait "$1"
    echo 'ref: refs/heads/main' >"$1/HEAD"
}
harmless() { # FOLDER
    repository "$1"
    printf '[core]\n\trepositoryformatversion = 0\n' >"$1/config"
}
"#;

/// How the payload comes to run.
#[derive(Clone, Copy)]
enum How {
    /// As any command.
    Script,
    /// As a git command that writes configuration, and hence on a copy of `.git`.
    OnCopy,
}

/// A name, how it runs, the payload; `git status` in `src` then runs the program.
const PLANTED: &[(&str, How, &str)] = &[
    (
        "b30_shared_folder_without_a_head",
        How::Script,
        r#"mkdir src
           bait lib
           mkdir -p lib/worktrees/w
           echo 'ref: refs/heads/main' >lib/worktrees/w/HEAD
           echo ../.. >lib/worktrees/w/commondir
           echo "$PWD/src/.git" >lib/worktrees/w/gitdir
           echo 'gitdir: ../lib/worktrees/w' >src/.git"#,
    ),
    (
        "b30_pointer_that_ends_at_a_nul",
        How::Script,
        r#"mkdir src
           harmless good
           repository node_modules/bad
           printf 'gitdir: ../node_modules/bad\000/../../good\n' >src/.git"#,
    ),
    (
        "b30_pointer_up_behind_a_link",
        How::Script,
        r#"mkdir src
           harmless good
           repository a/b/c/d/good
           mkdir a/b/c/d/e
           ln -s a/b/c/d/e way
           echo 'gitdir: ../way/../good' >src/.git"#,
    ),
    (
        "b30_pointer_with_a_blank_at_its_end",
        How::Script,
        r#"mkdir src
           harmless node_modules/it
           repository 'node_modules/it '
           echo 'gitdir: ../node_modules/it ' >src/.git"#,
    ),
    (
        "b30_repository_among_many_new_folders",
        How::Script,
        r#"for i in $(seq 300); do mkdir "new$i"; done
           sleep 1
           mkdir src
           sleep 1
           repository src/.git"#,
    ),
    (
        "b30_submodule_whose_head_is_a_link",
        How::OnCopy,
        r#"mkdir src
           bait .git/modules/x
           ln -s refs/heads/main .git/modules/x/HEAD
           echo 'gitdir: ../.git/modules/x' >src/.git"#,
    ),
    (
        "b30_submodule_within_another",
        How::OnCopy,
        r#"mkdir src
           harmless .git/modules/x
           repository .git/modules/x/y
           echo 'gitdir: ../.git/modules/x/y' >src/.git"#,
    ),
    (
        "b30_modules_is_a_link",
        How::OnCopy,
        r#"mkdir src
           repository node_modules/m/x
           ln -s ../node_modules/m .git/modules
           echo 'gitdir: ../.git/modules/x' >src/.git"#,
    ),
];

pub fn suite() -> Vec<Test> {
    let mut all: Vec<Test> = PLANTED
        .iter()
        .map(|&(name, how, payload)| {
            Test::new(name, move |scene: &Scene| planted(scene, how, payload))
        })
        .collect();
    all.extend(tests![
        b31_repositories_that_the_index_names,
        b30_submodules_of_any_name,
        b30_keys_that_lead_through_links,
        b30_awaited_hooks_behind_a_link,
        b31_hooks_of_every_repository,
        b30_a_pipe_where_the_index_is,
        b30_committed_repositories_of_any_name,
        b23_links_that_git_writes_through,
        b30_a_push_runs_no_hook_of_the_jail,
        b30_a_commit_makes_no_repository_of_two_halves,
        b23_a_grant_follows_no_link_that_was_laid,
        b23_a_link_in_the_kept_cache_shows_nothing,
        b23_another_jail_swaps_a_folder_of_the_copy,
    ]);
    all
}

/// An empty repository, and nothing else in the workspace.
fn fresh(scene: &Scene) -> Verdict {
    let here = scene.workspace();
    for entry in fs::read_dir(&here)? {
        let path = entry?.path();
        if fs::symlink_metadata(&path)?.is_dir() {
            fs::remove_dir_all(path)?;
        } else {
            fs::remove_file(path)?;
        }
    }
    scene
        .host("git")
        .args(["init", "-q", "."])
        .output()?
        .exits(0)?;
    // What is on the disk already was not changed by the command.
    std::thread::sleep(Duration::from_millis(50));
    Ok(())
}

/// Whether the host's git runs the program.
fn is_run(scene: &Scene) -> Verdict<bool> {
    let marker = scene.workspace().join("pwned");
    let src = scene.workspace().join("src");
    scene.host("git").args(["status"]).cwd(src).output()?;
    let run = marker.exists();
    let _ = fs::remove_file(marker);
    Ok(run)
}

fn planted(scene: &Scene, how: How, payload: &str) -> Verdict {
    scene.needs(&["git"])?;
    let text = format!("{BEGIN}{payload}\n");
    fresh(scene)?;
    let script = scene.script("bin/git", &text)?;
    scene.host(&script).output()?.exits(0)?;
    ensure(is_run(scene)?, || "without a jail nothing was run, either")?;
    fresh(scene)?;
    scene.script("bin/git", &text)?;
    let output = match how {
        How::Script => scene.run(["--", "./bin/git"]).output()?,
        How::OnCopy => on_copy(scene)?,
    };
    output.exits(0)?;
    ensure(!is_run(scene)?, || {
        format!("the host's git ran the command's program: {output}")
    })
}

/// Runs what is called git in the workspace as a git command that writes configuration.
fn on_copy(scene: &Scene) -> Verdict<Output> {
    let path = scene.workspace().join("bin");
    let path = format!("{}:/usr/bin:/bin", path.display());
    scene
        .run(["--", "git", "config", "a.b", "c"])
        .env("PATH", path)
        .output()
}

/// Writes an index with one entry that git takes for a repository, in a way that is said.
const INDEX: &str = r#"
import os, struct, sys
said = dict(zip(sys.argv[1::2], sys.argv[2::2]))
name = said.get("--name", "a/b/c/d/e").encode()
told = int(said.get("--told", len(name)))
strip = int(said.get("--strip", -1))
object = bytes.fromhex("1234567890" * 4)

def head(mode, told):
    return struct.pack(">10I", *[0] * 6, mode, *[0] * 3) + object + struct.pack(">H", told)

def entry(mode, name, told):
    begin = head(mode, told)
    return (begin + name).ljust((len(begin) + told + 8) & ~7, b"\0")

def extension(name, text):
    return name + struct.pack(">I", len(text)) + text

version, extensions = 2, b""
link = entry(int(said.get("--mode", 0o160000)), name, told)
if strip >= 0:
    version, link = 4, head(0o160000, told) + bytes([strip]) + name + b"\0"
if "--threads" in said:
    hidden, link = link, entry(0o100644, b"x", 1)
    begin = 12 + len(link)
    table = extension(b"IEOT", struct.pack(">3I", 1, begin + 8, 1))
    extensions = extension(b"ABCD", hidden) + table
    import hashlib
    heads = b"ABCD" + struct.pack(">I", len(hidden)) + table[:8]
    extensions += extension(b"EOIE", struct.pack(">I", begin) + hashlib.sha1(heads).digest())
text = b"DIRC" + struct.pack(">2I", version, 1) + link + extensions + bytes(20)
if "--in-place" in said:
    os.pwrite(os.open(".git/index", os.O_WRONLY), text.ljust(os.stat(".git/index").st_size, b"\0"), 0)
else:
    open(".git/index", "wb").write(text)
"#;

/// `git status` at the top goes into every repository that the index names, however deep it
/// lies: payloads, each the command of a run of its own.
const NAMED: &[&[&str]] = &[
    &[r#"repository a/b/c/d/e/.git
         name a/b/c/d/e"#],
    // The name is there before the repository is.
    &[
        "mkdir -p a/b/c; name a/b/c/d/e",
        "repository a/b/c/d/e/.git",
    ],
    &[
        "mkdir -p a/b/c/d/e; name a/b/c/d/e",
        "repository a/b/c/d/e/.git",
    ],
    &[r#"repository node_modules/bad
         mkdir -p a/b/c/d
         echo 'gitdir: ../../../../node_modules/bad' >a/b/c/d/.git
         name a/b/c/d"#],
    // One names the next.
    &[r#"harmless a/b/c/d/.git
         repository a/b/c/d/e/f/g/.git
         name a/b/c/d
         cd a/b/c/d; name e/f/g"#],
    &[r#"repository a/b/c/d/e/.git
         name a/b/c/d/e
         /usr/bin/git update-index --split-index"#],
    &[r#"repository a/b/c/d/e/.git
         name a/b/c/d/e
         /usr/bin/git update-index --index-version 4"#],
    // An index that git reads and never writes.
    &[r#"repository a/b/c/d/e/.git
         python3 index.py --mode 57764"#],
    &[r#"repository a/b/c/d/e/.git
         python3 index.py --name a/b/../b/c/d/e"#],
    &[r#"repository a/b/c/d/e/.git
         python3 index.py --name "$PWD/a/b/c/d/e""#],
    &[r#"repository a/b/c/d/e/.git
         python3 index.py --told 8 --name a/b/c/d/eXYZ"#],
    &[r#"repository a/b/c/d/e/.git
         python3 index.py --strip 5"#],
    &[r#"repository a/b/c/d/e/.git
         python3 index.py --threads 1"#],
    // Into the same file, so that no name comes or goes where anybody watches.
    &[
        "mkdir -p a/b/c/d/e; python3 index.py --mode 33188 --name elsewhere",
        r#"repository a/b/c/d/e/.git
         python3 index.py --in-place 1 --name a/b/c/d/e"#,
    ],
];

fn b31_repositories_that_the_index_names(scene: &Scene) -> Verdict {
    scene.needs(&["git", "python3"])?;
    const NAME: &str = "name() { /usr/bin/git update-index --add --info-only --cacheinfo 160000,1234567890123456789012345678901234567890,$1; }\n";
    for payloads in NAMED {
        for jailed in [false, true] {
            fresh(scene)?;
            scene.script("index.py", INDEX)?;
            let git = |words: &[&str]| scene.host("git").args(words).output();
            git(&["config", "index.threads", "4"])?.exits(0)?;
            let mut said = Vec::new();
            for payload in *payloads {
                let text = format!("{BEGIN}{NAME}here=$PWD\n{payload}\n");
                let script = scene.script("plant", &text)?;
                let output = match jailed {
                    true => scene.run(["--", "./plant"]).output()?,
                    false => scene.host(&script).output()?,
                };
                output.exits(0)?;
                said.push(output.to_string());
            }
            scene.host("git").args(["status"]).output()?;
            let marker = scene.workspace().join("pwned");
            let run = marker.exists();
            ensure(run != jailed, || {
                format!("jailed: {jailed}, and the program was run: {run}: {payloads:?} {said:?}")
            })?;
        }
    }
    Ok(())
}

/// A submodule's own folder lies where its name says: behind what only looks like one, and as
/// deep as it likes.
fn b30_submodules_of_any_name(scene: &Scene) -> Verdict {
    scene.needs(&["git"])?;
    for (name, before) in [
        ("x", "true"),
        (
            "a/b",
            "mkdir -p .git/modules/a; echo x >.git/modules/a/HEAD",
        ),
        ("a/b/c/d/e/f", "true"),
        (
            "a/refs/heads/x",
            "mkdir -p .git/modules/a; echo x >.git/modules/a/HEAD",
        ),
        (
            "a/objects/x",
            "mkdir -p .git/modules/a; echo x >.git/modules/a/HEAD",
        ),
    ] {
        let text = format!(
            r#"#!/bin/sh
set -e
{before}
git init -q /tmp/own.$$
top=$PWD
cd /tmp/own.$$
git -c user.name=x -c user.email=x@x commit -q --allow-empty -m x
made=$(git rev-parse HEAD)
mkdir -p .git/hooks
printf '#!/bin/sh\ntouch %s/pwned\n' "$top" >.git/hooks/post-checkout
chmod +x .git/hooks/post-checkout
cd "$top"
mkdir -p .git/modules/{name}
cp -r /tmp/own.$$/.git/. .git/modules/{name}
rm -rf /tmp/own.$$
printf '[submodule "{name}"]\n\tpath = lib\n\turl = https://example.invalid/lib\n' >.gitmodules
git update-index --add .gitmodules --cacheinfo 160000,$made,lib
"#
        );
        for jailed in [false, true] {
            fresh(scene)?;
            let script = scene.script("plant", &text)?;
            let output = match jailed {
                true => scene.run(["--", "./plant"]).output()?,
                false => scene.host(&script).output()?,
            };
            output.exits(0)?;
            let update = ["submodule", "update", "--init"];
            scene.host("git").args(update).output()?;
            let run = scene.workspace().join("pwned").exists();
            ensure(run != jailed, || {
                format!("jailed: {jailed}, and the hook was run: {run}: {name}: {output}")
            })?;
        }
    }
    Ok(())
}

fn b30_keys_that_lead_through_links(scene: &Scene) -> Verdict {
    scene.needs(&["git"])?;
    fresh(scene)?;
    // A link of the host's own, outside, which leads back.
    let back = scene.outside().join("back");
    std::os::unix::fs::symlink(scene.workspace(), &back)?;
    let script = "#!/bin/sh\nln -s /tmp away\n/usr/bin/git init -q --bare node_modules/bad.git\nln -s node_modules/bad.git near\n/usr/bin/git config core.worktree ../away\n/usr/bin/git config remote.a.url ./near\n/usr/bin/git config remote.b.url /proc/self/cwd/node_modules/bad.git\n/usr/bin/git config remote.c.url ./near/../node_modules/bad.git\n/usr/bin/git config remote.d.url https://example.org/d\n";
    let behind = format!(
        "/usr/bin/git config remote.e.url {}/node_modules/bad.git\n",
        back.display()
    );
    scene.script("bin/git", &format!("{script}{behind}"))?;
    let output = on_copy(scene)?;
    output.exits(0)?;
    let config = scene.read(".git/config")?;
    let led = ["worktree", "bad", "near"];
    ensure(!led.iter().any(|word| config.contains(word)), || {
        format!("carried over: {config}{output}")
    })?;
    ensure(config.contains("https://example.org/d"), || {
        format!("a harmless key is missing: {config}{output}")
    })
}

fn b30_awaited_hooks_behind_a_link(scene: &Scene) -> Verdict {
    let payload = "#!/bin/sh\nmkdir -p evil/hooks\nprintf '#!/bin/sh\\ntouch pwned\\n' >evil/hooks/pre-commit\nchmod +x evil/hooks/pre-commit\nln -s evil tools\n";
    hook_is_not_planted(scene, payload, || {
        let words = ["config", "core.hooksPath", "tools/hooks"];
        scene.host("git").args(words).output()?.exits(0)?;
        Ok(())
    })
}

/// A folder of hooks that the user's own configuration names, in whatever repository.
fn b31_hooks_of_every_repository(scene: &Scene) -> Verdict {
    let payload = "#!/bin/sh\nmkdir -p tools/hooks\nprintf '#!/bin/sh\\ntouch pwned\\n' >tools/hooks/pre-commit\nchmod +x tools/hooks/pre-commit\n";
    scene.home_file(".gitconfig", "[core]\n\thooksPath = tools/hooks\n")?;
    hook_is_not_planted(scene, payload, || Ok(()))
}

/// A hook that the payload makes is run by the host's next commit, unless the payload was jailed.
fn hook_is_not_planted(scene: &Scene, payload: &str, configured: impl Fn() -> Verdict) -> Verdict {
    scene.needs(&["git"])?;
    for jailed in [false, true] {
        fresh(scene)?;
        configured()?;
        let script = scene.script("plant", payload)?;
        match jailed {
            true => scene.run(["--", "./plant"]).output()?,
            false => scene.host(script).output()?,
        };
        let author = ["-c", "user.name=t", "-c", "user.email=t@t"];
        let commit = ["commit", "-q", "--allow-empty", "-m", "x"];
        let words = [&author[..], &commit[..]].concat();
        scene.host("git").args(words).output()?;
        let run = scene.workspace().join("pwned").exists();
        ensure(run != jailed, || {
            format!("jailed: {jailed}, and the hook was run: {run}")
        })?;
    }
    Ok(())
}

fn b30_a_pipe_where_the_index_is(scene: &Scene) -> Verdict {
    scene.needs(&["git", "mkfifo"])?;
    fresh(scene)?;
    let index = scene.workspace().join(".git/index");
    scene.host("mkfifo").args([&index]).output()?.exits(0)?;
    scene.run(["--dry-run", "--", "true"]).output()?.exits(0)?;
    Ok(())
}

fn b30_committed_repositories_of_any_name(scene: &Scene) -> Verdict {
    scene.needs(&["git"])?;
    for payload in [
        "mkdir src\nrepository plain\necho 'gitdir: ../plain' >src/.git",
        "repository src\nprintf '\\tbare = false\\n\\tworktree = ..\\n' >>src/config",
        "repository src/.git",
    ] {
        let text = format!("{BEGIN}{payload}\n");
        for jailed in [false, true] {
            fresh(scene)?;
            let script = scene.script("plant", &text)?;
            if jailed {
                let output = scene
                    .run(["--dry-run", "--json", "--", "./plant"])
                    .output()?;
                let id = output.exits(0)?.json()?["id"].to_string();
                let id = id.trim_matches('"');
                scene.sjail(["commit", id]).output()?.exits(0)?;
                let come = scene.workspace().join("src").exists();
                ensure(come, || format!("nothing was committed of {payload}"))?;
            } else {
                scene.host(script).output()?.exits(0)?;
            }
            let run = is_run(scene)?;
            ensure(run != jailed, || {
                format!("committed: {jailed}, and the program was run: {run}: {payload}")
            })?;
        }
    }
    Ok(())
}

/// The sandbox's caches are kept from run to run, and jails write there: a link in the place of
/// one is not followed when the next run mounts it inside a folder of the host.
fn b23_a_link_in_the_kept_cache_shows_nothing(scene: &Scene) -> Verdict {
    let private = scene.home().join("private");
    fs::create_dir_all(&private)?;
    fs::write(private.join("key"), "secret")?;
    scene.home_file(".local/share/pnpm/store/v10/x", "")?;
    let cache = "~/.cache/local-share-pnpm-store";
    let run = |line: &str| scene.run(["-c", line]).output();
    run(&format!("mkdir -p {cache} && echo own >{cache}/mine"))?.exits(0)?;
    let look = "cat ~/.local/share/pnpm/store/*; echo x >~/.local/share/pnpm/store/new";
    run(look)?.stdout_has("own")?;
    let lay = format!(
        "mv {cache} ~/.cache/old; ln -s {} {cache}",
        private.display()
    );
    run(&lay)?.exits(0)?;
    let output = run(look)?;
    output.lacks("secret")?;
    ensure(!private.join("new").exists(), || {
        format!("written behind the link: {output}")
    })?;
    Ok(())
}

/// What the owner grants by a name in the workspace is not what a jail made of that name.
fn b23_a_grant_follows_no_link_that_was_laid(scene: &Scene) -> Verdict {
    let private = scene.outside().join("private");
    fs::create_dir_all(&private)?;
    fs::write(private.join("key"), "secret")?;
    let bind = |mode: &str| format!("{}/data:/mnt/d:{mode}", scene.workspace().display());
    let grants = [
        ["--ro", "data"].map(str::to_owned),
        ["--rw", "data"].map(str::to_owned),
        ["--bind".to_owned(), bind("ro")],
        ["--bind".to_owned(), bind("rw")],
    ];
    let look = "cat data/key /mnt/d/key; echo x >data/new; echo x >/mnt/d/new";
    let run = |grant: &[String; 2]| {
        let words = grant.iter().map(String::as_str).chain(["-c", look]);
        scene.run(words).output()
    };
    scene.file("data/key", "own")?;
    scene.file("data/sub/x", "")?;
    for grant in &grants {
        run(grant)?.stdout_has("own")?;
    }
    let lay = format!("mv data old; ln -s {} data", private.display());
    scene.run(["-c", &lay]).output()?.exits(0)?;
    for grant in &grants {
        let output = run(grant)?;
        output.lacks("secret")?;
        ensure(!private.join("new").exists(), || {
            format!("{grant:?} wrote behind the link: {output}")
        })?;
    }
    let output = run(&grants[0])?;
    output.exits(125)?.stderr_has("lies where jails write")?;
    Ok(())
}

/// One half comes from a preview, the other from a run meanwhile: neither was a repository.
fn b30_a_commit_makes_no_repository_of_two_halves(scene: &Scene) -> Verdict {
    scene.needs(&["git"])?;
    let (config, rest) = (
        "printf '[core]\\n\\trepositoryformatversion = 0\\n\\tworktree = ..\\n\\tfsmonitor = \"touch %s/pwned; false\"\\n' \"$PWD\" >src/config",
        "mkdir -p src/objects src/refs/heads; echo ref: refs/heads/main >src/HEAD",
    );
    for (first, second) in [(config, rest), (rest, config)] {
        for jailed in [false, true] {
            fresh(scene)?;
            scene.file("src/own", "x")?;
            if jailed {
                let words = ["--dry-run", "--json", "-c", first];
                let result = scene.run(words).output()?.exits(0)?.json()?;
                let id = result["id"].as_str().unwrap_or_default();
                scene.run(["-c", second]).output()?.exits(0)?;
                scene.sjail(["commit", id]).output()?;
            } else {
                for half in [first, second] {
                    scene.host("sh").args(["-c", half]).output()?.exits(0)?;
                }
            }
            let run = is_run(scene)?;
            ensure(run != jailed, || {
                format!("committed: {jailed}, and the program was run: {run}: {first}")
            })?;
        }
    }
    Ok(())
}

/// A push to a path runs the hooks there. Folders that are not searched for repositories hold
/// none that a configuration from inside could name.
fn b30_a_push_runs_no_hook_of_the_jail(scene: &Scene) -> Verdict {
    scene.needs(&["git"])?;
    let make = "#!/bin/sh\nmkdir -p node_modules\ngit init -q --bare node_modules/e.git\nprintf '#!/bin/sh\\ntouch %s/pwned\\n' \"$PWD\" >node_modules/e.git/hooks/post-receive\nchmod +x node_modules/e.git/hooks/post-receive\n";
    let file = |folder: &str, text: &str| {
        format!("{make}mkdir -p .git/{folder}\necho '{text}' >.git/{folder}/there\n")
    };
    let target = "node_modules/e.git";
    let ways = [
        (
            make.to_owned(),
            Some(("branch.main.pushRemote", target)),
            "",
        ),
        (make.to_owned(), Some(("branch.main.remote", target)), ""),
        (make.to_owned(), Some(("remote.pushDefault", target)), ""),
        (make.to_owned(), Some(("remote.there.url", target)), "there"),
        (file("remotes", "URL: node_modules/e.git"), None, "there"),
        (file("branches", "node_modules/e.git"), None, "there"),
    ];
    for (number, (script, key, remote)) in ways.iter().enumerate() {
        for jailed in [false, true] {
            fresh(scene)?;
            let git = |words: &[&str]| scene.host("git").args(words).output();
            for words in [
                &["symbolic-ref", "HEAD", "refs/heads/main"][..],
                &["config", "user.name", "t"],
                &["config", "user.email", "t@t"],
                &["config", "push.default", "current"],
                &["commit", "-q", "--allow-empty", "-m", "x"],
            ] {
                git(words)?.exits(0)?;
            }
            std::thread::sleep(Duration::from_millis(50));
            let path = scene.script("plant", script)?;
            let set = |words: [&str; 4]| match jailed {
                true => scene.run(["--"]).args(words).output(),
                false => scene.host(words[0]).args(&words[1..]).output(),
            };
            match jailed {
                true => scene.run(["--", "./plant"]).output()?,
                false => scene.host(path).output()?,
            };
            if let Some((key, value)) = key {
                set(["git", "config", key, value])?;
            }
            let words = ["push", "-q", remote];
            git(&words[..if remote.is_empty() { 2 } else { 3 }])?;
            let marker = scene.workspace().join("pwned");
            ensure(marker.exists() != jailed, || {
                format!(
                    "way {number}, jailed: {jailed}; the hook was run: {}",
                    marker.exists()
                )
            })?;
        }
    }
    Ok(())
}

/// Git opens its own files by name: a link there decides which file of the host is filled.
fn b23_links_that_git_writes_through(scene: &Scene) -> Verdict {
    scene.needs(&["git"])?;
    let victim = scene.outside().join("victim");
    for (link, also, host) in [
        (
            "COMMIT_EDITMSG",
            "echo evil >.git/MERGE_MSG",
            "GIT_EDITOR=false git commit --allow-empty",
        ),
        (
            "logs/HEAD",
            "mkdir -p .git/logs",
            "git commit -q --allow-empty -m evil",
        ),
        (
            // In a folder without folders, which is not read again if it is as it was.
            "logs/$(git symbolic-ref HEAD)",
            ":",
            "git commit -q --allow-empty -m evil",
        ),
        ("FETCH_HEAD", ":", "git fetch -q ."),
        (
            "logs",
            "rm -r .git/logs",
            "git commit -q --allow-empty -m x",
        ),
    ] {
        let plant = format!(
            "#!/bin/sh\n{also}\nrm -f .git/{link}\nln -s {} .git/{link}\ntouch planted\n",
            victim.display()
        );
        for how in ["directly", "in a jail", "in a preview"] {
            fresh(scene)?;
            let _ = fs::remove_file(&victim);
            let _ = fs::remove_dir_all(&victim);
            match link {
                "logs" => fs::create_dir(&victim)?,
                _ => fs::write(&victim, "the host's own")?,
            }
            let author = ["user.name=t", "user.email=t@t"];
            for key in author.map(|pair| pair.split_once('=').unwrap_or_default()) {
                let words = ["config", key.0, key.1];
                scene.host("git").args(words).output()?.exits(0)?;
            }
            let first = ["commit", "-q", "--allow-empty", "-m", "first"];
            scene.host("git").args(first).output()?.exits(0)?;
            std::thread::sleep(Duration::from_millis(50));
            let script = scene.script("plant", &plant)?;
            match how {
                "directly" => drop(scene.host(script).output()?.exits(0)?),
                "in a jail" => drop(scene.run(["--", "./plant"]).output()?.exits(0)?),
                _ => {
                    let words = ["--dry-run", "--json", "--", "./plant"];
                    let result = scene.run(words).output()?.exits(0)?.json()?;
                    let id = result["id"].as_str().unwrap_or_default();
                    scene.sjail(["commit", id]).output()?.exits(0)?;
                }
            }
            scene.read("planted")?;
            scene.host("sh").args(["-c", host]).output()?;
            let own = match link {
                "logs" => fs::read_dir(&victim)?.next().is_none(),
                _ => fs::read_to_string(&victim)? == "the host's own",
            };
            ensure(own == (how != "directly"), || {
                format!("{link} {how}: the file outside is its owner's own: {own}")
            })?;
        }
    }
    Ok(())
}

/// While what a command wrote is moved into `.git`, another jail in the same workspace swaps
/// a folder on the way for a link.
fn b23_another_jail_swaps_a_folder_of_the_copy(scene: &Scene) -> Verdict {
    const NAMES: usize = 2000;
    scene.needs(&["git", "python3"])?;
    fresh(scene)?;
    let victim = scene.outside().join("victim");
    fs::create_dir_all(&victim)?;
    fs::write(victim.join("zz"), "the host's own")?;
    let swap = format!(
        "import os, time\nx = '.git/refs/x'\nos.symlink('{}', '.git/refs/y')\nopen('ready', 'w')\nend = time.time() + 20\nwhile time.time() < end:\n    try:\n        if os.listdir(x):\n            os.rename(x, '.git/refs/old')\n            os.rename('.git/refs/y', x)\n            open('swapped', 'w')\n            break\n    except FileNotFoundError:\n        pass\n",
        victim.display()
    );
    scene.file("swap.py", swap)?;
    let write = format!(
        "#!/bin/sh\nmkdir -p .git/refs/x\ncd .git/refs/x\nfor i in $(seq {NAMES}); do : >a$i; done\necho evil >zz\n"
    );
    scene.script("bin/git", &write)?;
    let mut other = scene.run(["--", "python3", "swap.py"]).start()?;
    other.wait_for_file(scene.workspace().join("ready"))?;
    let output = on_copy(scene)?;
    other.finish()?;
    let swapped = scene.workspace().join("swapped").exists();
    ensure(swapped, || {
        format!("the folder was not swapped in time: {output}")
    })?;
    let inside = fs::read_dir(&victim)?.count();
    let own = fs::read_to_string(victim.join("zz"))?;
    ensure(inside == 1 && own == "the host's own", || {
        format!("{inside} files outside the workspace, {own:?}: {output}")
    })
}
