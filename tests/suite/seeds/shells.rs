//! `sjail init bash|zsh|fish`, read by those shells.

use sjail_tests::{Call, Output, Scene, Test, Verdict, tests};

use crate::desk::Desk;

pub fn tests() -> Vec<Test> {
    tests![
        bash_is_set_up,
        zsh_is_set_up,
        fish_is_set_up,
        a_script_is_as_it_was,
        tools_are_the_users_choice,
    ]
}

/// A shell with our programs on its path.
fn shell(scene: &Scene, program: &str) -> Verdict<Call> {
    scene.needs(&[program])?;
    let own = scene.program("sjail");
    let mut path = own.parent().unwrap_or(&own).as_os_str().to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    Ok(scene.host(program).env("PATH", path))
}

/// The lines for a shell, in a file.
fn lines(scene: &Scene, name: &str) -> Verdict<String> {
    let lines = scene.sjail(["init", name]).output()?;
    lines.succeeds()?;
    let file = scene.outside_file(&format!("lines.{name}"), &lines.stdout)?;
    Ok(file.display().to_string())
}

/// What somebody types, in a shell that somebody types into; the words that make it one.
fn typed(scene: &Scene, name: &str, words: &[&str], text: &str) -> Verdict<Output> {
    let _desk = Desk::at(scene);
    scene.home_file("secret", "seen\n")?;
    scene.home_file("gone", "")?;
    let lines = lines(scene, name)?;
    let text = text.replace("LINES", &lines);
    shell(scene, name)?.args(words).args([text]).output()
}

/// Aliases, `\rm`, and pasted installers in the ways in which they are written.
const POSIX: &str = r#". LINES
eval 'rm ~/gone'; [ -e ~/gone ] && echo kept
echo 'cat ~/secret && echo out; echo piped' | sh
sh <(echo 'cat ~/secret && echo out; echo substituted $1') one
bash -c "$(printf 'cat ~/secret && echo out\necho several lines')"
echo 'echo with rights' | sudo bash || echo refused $?
echo 'cat ~/secret; echo outside' | command sh
sh -c 'cat ~/secret' </dev/null
eval '\rm ~/gone'; [ -e ~/gone ] || echo removed
"#;

/// What is typed goes through the jail, which shows nothing of the home.
const ANSWERED: &str = "kept\npiped\nsubstituted one\nseveral lines\nrefused 77\n\
                        seen\noutside\nseen\nremoved\n";

fn bash_is_set_up(scene: &Scene) -> Verdict {
    let output = typed(scene, "bash", &["--norc", "-ic"], POSIX)?;
    output.stdout_is(ANSWERED)?;
    let complete = typed(
        scene,
        "bash",
        &["--norc", "-ic"],
        ". LINES\ncomplete -p sjail",
    )?;
    complete.stdout_has("audit code hook mcp init")?;
    Ok(())
}

fn zsh_is_set_up(scene: &Scene) -> Verdict {
    typed(scene, "zsh", &["-f", "-ic"], POSIX)?.stdout_is(ANSWERED)?;
    Ok(())
}

fn fish_is_set_up(scene: &Scene) -> Verdict {
    let text = r#"source LINES
rm ~/gone; test -e ~/gone; and echo kept
echo 'cat ~/secret && echo out; echo piped' | sh
sh (echo 'cat ~/secret && echo out; echo substituted $1' | psub --fifo) one
bash -c (printf 'cat ~/secret && echo out\necho several lines' | string collect)
echo 'echo with rights' | sudo bash; or echo refused $status
echo 'cat ~/secret; echo outside' | command sh
sh -c 'cat ~/secret' </dev/null
command rm ~/gone; test -e ~/gone; or echo removed
"#;
    typed(scene, "fish", &["--no-config", "-i", "-c"], text)?.stdout_is(ANSWERED)?;
    Ok(())
}

/// Whoever reads the lines without typing has no alias and no function of ours.
fn a_script_is_as_it_was(scene: &Scene) -> Verdict {
    for name in ["bash", "zsh"] {
        if scene.has(name) {
            let text = format!(". {}; type rm; type sh", lines(scene, name)?);
            let output = shell(scene, name)?.args(["-c", &text]).output()?;
            output.succeeds()?.lacks("sjail")?.lacks("function")?;
        }
    }
    if scene.has("fish") {
        let text = format!("source {}; type sh", lines(scene, "fish")?);
        let output = shell(scene, "fish")?.args(["-c", &text]).output()?;
        output.succeeds()?.lacks("_sjail_guard")?;
    }
    let script = format!("#!/bin/bash\n. {}\nrm made\n", lines(scene, "bash")?);
    let script = scene.script("script", &script)?;
    scene.file("made", "")?;
    scene.host(script).output()?.succeeds()?;
    assert!(!scene.workspace().join("made").exists());
    Ok(())
}

fn tools_are_the_users_choice(scene: &Scene) -> Verdict {
    let words = ["init", "bash", "--tools", "rm,npm"];
    let lines = scene.sjail(words).output()?;
    lines.succeeds()?.stdout_has("alias rm='sjail run -- rm'")?;
    lines
        .stdout_has("alias npm='sjail run -- npm'")?
        .lacks("alias chmod")?;
    let usual = scene.sjail(["init", "bash"]).output()?;
    for tool in ["rm", "dd", "mkfs", "chmod", "npm", "pip", "npx"] {
        usual.stdout_has(&format!("alias {tool}="))?;
    }
    for bad in ["x;y", "-x", "a b"] {
        let words = ["init", "bash", "--tools", bad];
        scene.sjail(words).output()?.exits(125)?;
    }
    Ok(())
}
