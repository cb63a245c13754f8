//! Hiding: what a jailed command closes to its own owner, spells differently or puts where
//! nobody looks, so that it is not seen, taken away or written over.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use sjail_tests::{Scene, Stop, Test, Verdict, ensure};

/// Something hidden.
struct Hiding {
    name: &'static str,
    /// What the host does first.
    before: &'static str,
    /// What is run, one jail after the other.
    runs: &'static [&'static str],
    /// What must not hold `evil` then.
    file: &'static str,
}

const HIDINGS: &[Hiding] = &[
    Hiding {
        name: "b22_a_planted_folder_that_cannot_be_moved",
        before: "",
        runs: &["mkdir x && echo evil >x/settings.json && chmod 500 x && mv x .claude"],
        file: ".claude/settings.json",
    },
    Hiding {
        name: "b22_a_planted_name_in_a_folder_that_cannot_be_written",
        before: "",
        runs: &["echo evil >x && mv x .mcp.json && chmod 500 ."],
        file: ".mcp.json",
    },
    Hiding {
        name: "b22_planted_in_a_workspace_that_cannot_be_read",
        before: "",
        runs: &["chmod 300 . && mkdir .claude && echo evil >.claude/settings.json"],
        file: ".claude/settings.json",
    },
    Hiding {
        name: "b30_a_folder_of_hooks_that_cannot_be_read",
        before: "",
        runs: &[
            "mkdir h && echo evil >h/pre-commit && chmod 755 h/pre-commit && chmod 300 h && git init -q r && rm -rf r/.git/hooks && mv h r/.git/hooks",
        ],
        file: "r/.git/hooks/pre-commit",
    },
    Hiding {
        name: "b31_a_configuration_that_cannot_be_written",
        before: "",
        runs: &[
            "git init -q r && cp r/.git/config c && printf '[core]\\n\\tfsmonitor = evil\\n' >>c && chmod 400 c && mv c r/.git/config",
        ],
        file: "r/.git/config",
    },
    Hiding {
        name: "b31_a_repository_in_a_folder_that_cannot_be_read",
        before: "",
        runs: &[
            "mkdir a && chmod 300 a && git init -q a/r && printf '[core]\\n\\tfsmonitor = evil\\n' >>a/r/.git/config",
        ],
        file: "a/r/.git/config",
    },
    Hiding {
        name: "b31_a_git_folder_closed_for_the_next_run",
        before: "git init -q .",
        runs: &[
            "chmod 300 .git",
            "chmod 700 .git; printf '[core]\\n\\tfsmonitor = evil\\n' >>.git/config",
        ],
        file: ".git/config",
    },
    Hiding {
        name: "b31_a_workspace_closed_for_the_next_run",
        before: "git init -q .",
        runs: &[
            "chmod 300 .",
            "chmod 700 .; printf '[core]\\n\\tfsmonitor = evil\\n' >>.git/config",
        ],
        file: ".git/config",
    },
    Hiding {
        name: "b31_a_nested_repository_closed_for_the_next_run",
        before: "mkdir sub && git init -q sub/inner",
        runs: &[
            "chmod 000 sub",
            "chmod 700 sub; printf '[core]\\n\\tfsmonitor = evil\\n' >>sub/inner/.git/config",
        ],
        file: "sub/inner/.git/config",
    },
    Hiding {
        name: "b31_a_workspace_that_looks_like_a_bare_repository",
        before: "git init -q .",
        runs: &[
            "mkdir objects refs && echo 'ref: refs/heads/main' >HEAD",
            "printf '[core]\\n\\tfsmonitor = evil\\n' >>.git/config",
        ],
        file: ".git/config",
    },
    Hiding {
        name: "b30_configured_hooks_that_are_not_there_yet",
        before: "git init -q . && git config core.hooksPath a/b/hooks && mkdir -p a/b",
        runs: &["mkdir a/b/hooks && echo evil >a/b/hooks/pre-commit"],
        file: "a/b/hooks/pre-commit",
    },
    Hiding {
        name: "b30_configured_hooks_in_folders_that_are_not_there_yet",
        before: "git init -q . && git config core.hooksPath a/b/c/d/hooks",
        runs: &[
            "mkdir a; mkdir a/b; mkdir -p a/b/c/d/hooks && echo evil >a/b/c/d/hooks/pre-commit",
        ],
        file: "a/b/c/d/hooks/pre-commit",
    },
    Hiding {
        name: "b30_configured_hooks_of_another_working_tree",
        before: "git init -q . && git -c user.name=a -c user.email=b commit -q --allow-empty -m x && git config core.hooksPath our-hooks && git worktree add -q tree && mkdir tree/our-hooks && echo host >tree/our-hooks/pre-commit",
        runs: &["echo evil >tree/our-hooks/pre-commit"],
        file: "tree/our-hooks/pre-commit",
    },
    Hiding {
        name: "b31_included_configuration_that_is_not_there_yet",
        before: "git init -q . && git config include.path ../settings/git && mkdir settings",
        runs: &["printf '[core]\\n\\tfsmonitor = evil\\n' >settings/git"],
        file: "settings/git",
    },
    Hiding {
        name: "b40_a_protected_link_that_leads_nowhere_yet",
        before: "mkdir conf && ln -s conf/editor .vscode",
        runs: &["mkdir conf/editor && echo evil >conf/editor/tasks.json"],
        file: ".vscode/tasks.json",
    },
    Hiding {
        name: "b29_a_repository_where_a_pointer_leads",
        before: "mkdir -p sub a/b/c/d && echo 'gitdir: ../a/b/c/d/real' >sub/.git",
        runs: &[
            "git init -q r && printf '[core]\\n\\tfsmonitor = evil\\n' >>r/.git/config && mv r/.git a/b/c/d/real",
        ],
        file: "a/b/c/d/real/config",
    },
    Hiding {
        name: "b27_another_spelling_of_git_beside_a_pointer",
        before: "git init -q r && mv r/.git real && rmdir r && echo 'gitdir: real' >.git",
        runs: &[
            "for n in .GIT .Git .gIt .giT .GIt .GiT .gIT; do mkdir $n; done",
            "echo 'gitdir: evil' >.git",
        ],
        file: ".git",
    },
];

pub fn tests() -> Vec<Test> {
    let mut tests: Vec<Test> = HIDINGS
        .iter()
        .map(|hiding| Test::new(hiding.name, move |scene| hidden(scene, hiding)))
        .collect();
    tests.push(Test::new(
        "b22_a_planted_folder_too_deep_to_be_copied",
        too_deep,
    ));
    tests
}

fn hidden(scene: &Scene, hiding: &Hiding) -> Verdict {
    scene.needs(&["git"])?;
    let file = scene.workspace().join(hiding.file);
    let begin = || -> Verdict {
        open(scene)?;
        for entry in fs::read_dir(scene.workspace())? {
            let path = entry?.path();
            match path.is_dir() {
                true => fs::remove_dir_all(&path)?,
                false => fs::remove_file(&path)?,
            }
        }
        scene
            .host("sh")
            .args(["-c", hiding.before])
            .output()?
            .succeeds()?;
        for (number, line) in hiding.runs.iter().enumerate() {
            scene.script(&format!("line-{number}"), &format!("#!/bin/sh\n{line}\n"))?;
        }
        Ok(())
    };
    begin()?;
    for number in 0..hiding.runs.len() {
        // It may fail, and sjail may refuse a workspace that it cannot look into.
        let output = scene.run(["--", &format!("./line-{number}")]).output()?;
        ensure(output.code() != Some(127), || {
            format!("it was not tried, {output}")
        })?;
    }
    open(scene)?;
    if is_evil(&file) {
        return Err(Stop::failed(format!("{} is evil now", file.display())));
    }
    begin()?;
    for number in 0..hiding.runs.len() {
        scene.host(format!("./line-{number}")).output()?;
    }
    open(scene)?;
    ensure(is_evil(&file), || "the check is hollow")
}

/// What the host's owner can do at any time, and an attacker can wait for.
fn open(scene: &Scene) -> Verdict {
    let line = "chmod u+rwx . && chmod -R u+rwX .";
    scene.host("sh").args(["-c", line]).output()?.succeeds()?;
    Ok(())
}

fn is_evil(file: &Path) -> bool {
    fs::read_to_string(file).is_ok_and(|text| text.contains("evil"))
}

/// The sandbox's own folder is on another file system: a planted name has to be copied there,
/// and cannot.
fn too_deep(scene: &Scene) -> Verdict {
    scene.needs(&["python3"])?;
    let elsewhere = scene
        .host("mktemp")
        .args(["-d", "/dev/shm/sjail-test-XXXXXX"])
        .output()?;
    let elsewhere = elsewhere.succeeds()?.stdout.trim().to_owned();
    let result = too_deep_with(scene, &elsewhere);
    fs::remove_dir_all(&elsewhere)?;
    result
}

fn too_deep_with(scene: &Scene, elsewhere: &str) -> Verdict {
    if fs::metadata(elsewhere)?.dev() == fs::metadata(scene.workspace())?.dev() {
        return scene.skip("there is no second file system at /dev/shm");
    }
    scene.file(
        "deep.py",
        "import os\nos.mkdir('x')\nopen('x/settings.json', 'w').write('evil')\nhere = os.open('.', os.O_RDONLY)\nos.chdir('x')\nfor n in range(1200):\n    os.mkdir('folder')\n    os.chdir('folder')\nos.fchdir(here)\nos.rename('x', '.claude')\n",
    )?;
    let file = scene.workspace().join(".claude/settings.json");
    let output = scene
        .run(["--", "python3", "deep.py"])
        .env("XDG_STATE_HOME", elsewhere)
        .output()?;
    output.stderr_has(".claude")?;
    ensure(!is_evil(&file), || format!("it is there, {output}"))?;
    scene
        .host("python3")
        .args(["deep.py"])
        .output()?
        .succeeds()?;
    ensure(is_evil(&file), || "the check is hollow")
}
