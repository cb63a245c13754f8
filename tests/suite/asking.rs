//! Every run through the broker: what happens without it, when the log cannot be written,
//! and what may be asked while a command runs.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use serde_json::Value;
use sjail_tests::{Output, Scene, Stop, Terminal, Test, Verdict, tests, wait};

use crate::desk::Desk;

pub fn suite() -> Vec<Test> {
    tests![
        a_plain_run_is_recorded,
        a_preview_is_recorded_too,
        without_a_broker_nothing_runs,
        alone_nobody_is_asked_and_nothing_recorded,
        running_alone_can_be_locked,
        nothing_starts_before_it_is_written,
        a_command_waits_for_the_word_that_it_is,
        an_alert_goes_on_and_says_so,
        the_same_submission_twice_is_one_run,
        another_version_is_told,
        a_host_is_asked_about_once_for_a_workspace,
        a_question_that_nobody_waits_for_is_withdrawn,
        evidence_is_shown_and_stays,
        an_environment_too_large_has_a_sentence,
        an_approval_names_and_carries_what_is_needed,
        a_broker_that_nobody_hears_goes_on,
        an_approver_may_leave_out_what_is_asked_for,
        a_script_is_bound_wherever_it_lies,
    ]
}

/// Speaks Varlink as a process of its own terminal: what it asks, others may answer.
const SPEAKER: &str = r#"
import json, os, socket, sys
def call(method, more=False, **parameters):
    s = socket.socket(socket.AF_UNIX)
    s.connect(os.environ['XDG_RUNTIME_DIR'] + '/sjail/request.sock')
    message = {'method': 'io.sjail.Broker.' + method, 'parameters': parameters, 'more': more}
    s.sendall(json.dumps(message).encode() + b'\0')
    return s
def reply(s):
    data = b''
    while not data.endswith(b'\0'):
        piece = s.recv(1)
        if not piece:
            return {'error': 'gone'}
        data += piece
    return json.loads(data[:-1])
def submit(line, more=False, **rest):
    there = {'protocol': 3, 'cwd': os.getcwd(), 'workspace': os.getcwd()}
    there.update(rest)
    return call('Submit', more, command={'line': line}, **there)
"#;

impl Desk<'_> {
    /// A program that speaks to the broker from a terminal of its own.
    fn speaker(&self, text: &str) -> Verdict<Terminal> {
        self.needs_no_terminal()?;
        self.scene.needs(&["python3"])?;
        self.sjail(["queue", "list"])?.succeeds()?;
        let path = self
            .scene
            .outside_file("speaker.py", format!("{SPEAKER}{text}"))?;
        self.scene.host("python3").args([path]).terminal()
    }

    fn first_request(&self) -> Verdict<Value> {
        let listed = self.sjail(["queue", "list", "--json"])?.json()?;
        listed["requests"]
            .get(0)
            .cloned()
            .ok_or_else(|| Stop::failed(format!("nothing waits: {listed}")))
    }
}

fn a_plain_run_is_recorded(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    let run = desk.sjail(["run", "--json", "--", "sh", "-c", "exit 5"])?;
    run.exits(5)?;
    let log = desk.log()?;
    assert_eq!(log.len(), 1, "{log:?}");
    assert_eq!(log[0]["id"], run.json()?["id"]);
    assert_eq!(log[0]["exit_code"], 5);
    desk.sjail(["audit", "verify"])?.succeeds()?;
    Ok(())
}

fn a_preview_is_recorded_too(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    scene.file("build/x", "x")?;
    // Would be asked about, and is not: nothing of the host changes.
    let run = desk.sjail(["run", "--dry-run", "--json", "-c", "rm -rf build"])?;
    run.succeeds()?;
    let result = run.json()?;
    assert_eq!(result["id"], result["preview"]["id"]);
    assert_eq!(result["decision"], "ask");
    desk.sjail(["run", "--dry-run", "-c", "dd if=/dev/zero of=/dev/sda"])?
        .exits(77)?;
    let log = desk.log()?;
    assert_eq!(log.len(), 2, "{log:?}");
    assert_eq!(log[0]["id"], result["id"]);
    assert_eq!(log[0]["decision"], "preview");
    assert_eq!(log[0]["exit_code"], 0);
    assert_eq!(log[1]["decision"], "block");
    // What it came to is in the record, and nothing waits for an answer.
    let id = result["id"].as_str().unwrap_or_default();
    let shown = desk.sjail(["audit", "show", id, "--json"])?;
    shown.succeeds()?.stdout_has("totals")?;
    desk.sjail(["queue", "list"])?.succeeds()?.lacks("rm -rf")?;
    // Where the policy wants previews, a plain run is one.
    scene.home_file(".config/sjail/policy.toml", "[commands]\ndry_run = true\n")?;
    let run = desk
        .sjail(["run", "--json", "-c", "rm -rf build"])?
        .json()?;
    assert_eq!(run["id"], run["preview"]["id"]);
    assert!(scene.workspace().join("build/x").exists());
    desk.sjail(["audit", "verify"])?.succeeds()?;
    Ok(())
}

fn without_a_broker_nothing_runs(scene: &Scene) -> Verdict {
    let folder = scene.runtime().join("sjail");
    fs::create_dir(&folder)?;
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755))?;
    let run = ["run", "--", "touch", "made"];
    scene
        .sjail(run)
        .output()?
        .exits(125)?
        .stderr_has("the broker cannot be asked")?
        .stderr_has("--no-broker")?;
    assert!(!scene.workspace().join("made").exists());
    scene.run(["--", "touch", "made"]).output()?.succeeds()?;
    assert!(scene.workspace().join("made").exists());
    Ok(())
}

fn alone_nobody_is_asked_and_nothing_recorded(scene: &Scene) -> Verdict {
    scene
        .run(["--", "echo", "hi"])
        .output()?
        .succeeds()?
        .stderr_has("nothing of this run is recorded")?;
    scene.file("build/x", "x")?;
    scene
        .run(["-c", "rm -rf build"])
        .output()?
        .exits(77)?
        .stderr_has("needs an approval")?;
    assert!(scene.workspace().join("build/x").exists());
    assert!(!scene.home().join(".local/state/sjail/audit.db").exists());
    Ok(())
}

fn running_alone_can_be_locked(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    scene.home_file(
        ".config/sjail/policy.toml",
        "[lock]\nkeys = [\"sandbox.broker\"]\n",
    )?;
    scene.run(["--", "touch", "made"]).output()?.exits(77)?;
    assert!(!scene.workspace().join("made").exists());
    desk.sjail(["run", "--", "touch", "made"])?.succeeds()?;
    assert!(scene.workspace().join("made").exists());
    Ok(())
}

/// Fills the log of a broker that may only write small files, until a run is refused.
fn until_the_log_is_full(scene: &Scene, desk: &Desk<'_>, on_failure: &str) -> Verdict<bool> {
    scene.home_file(
        ".config/sjail/policy.toml",
        format!("[audit]\non_failure = \"{on_failure}\"\n"),
    )?;
    // 256 KiB: the tables have room, some dozen records do not.
    let line = "trap '' XFSZ; ulimit -f 256; exec \"$0\" serve --detach";
    let broker = scene.host("bash").args(["-c", line]);
    let mut broker = broker.args([scene.program("sjail-broker")]).start()?;
    assert_eq!(broker.line()?, "ready\n");
    for _ in 0..200 {
        let marker = scene.workspace().join("made");
        let _ = fs::remove_file(&marker);
        let run = desk.sjail(["run", "--", "touch", "made"])?;
        if run.code() == Some(0) && !run.stderr.contains("not in the audit log") {
            assert!(marker.exists());
            continue;
        }
        return match on_failure {
            "block" => {
                run.exits(125)?;
                Ok(marker.exists())
            }
            _ => {
                run.succeeds()?;
                Ok(marker.exists())
            }
        };
    }
    Err(Stop::failed("the log never became full"))
}

fn nothing_starts_before_it_is_written(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    scene.needs(&["bash"])?;
    let ran = until_the_log_is_full(scene, &desk, "block")?;
    assert!(!ran, "it ran although its intent could not be written");
    // It still answers.
    desk.sjail(["queue", "grants"])?.succeeds()?;
    Ok(())
}

/// One message of the protocol, its end included.
fn message(stream: &mut UnixStream) -> Verdict<Vec<u8>> {
    let (mut bytes, mut byte) = (Vec::new(), [1]);
    while byte[0] != 0 {
        stream.read_exact(&mut byte)?;
        bytes.push(byte[0]);
    }
    Ok(bytes)
}

/// Stands between a run and the broker, and keeps back the word that the intent is on the
/// disk: the jail is built meanwhile, and nothing starts in it.
fn a_command_waits_for_the_word_that_it_is(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    desk.sjail(["queue", "list"])?.succeeds()?;
    let (door, behind) = (desk.socket("request.sock"), desk.socket("behind.sock"));
    fs::rename(&door, &behind)?;
    let listener = UnixListener::bind(&door)?;
    listener.set_nonblocking(true)?;
    let mut run = scene.sjail(["run", "--", "touch", "made"]).start()?;
    let children = format!("/proc/{0}/task/{0}/children", run.pid());
    if !fs::exists(&children)? {
        return scene.skip("this kernel does not list the children of a process");
    }
    let accept = || listener.accept().ok();
    let (mut caller, _) = wait::until("the run is submitted", accept)?;
    caller.set_nonblocking(false)?;
    let mut broker = UnixStream::connect(&behind)?;
    broker.write_all(&message(&mut caller)?)?;
    caller.write_all(&message(&mut broker)?)?;
    let recorded = message(&mut broker)?;
    wait::until_true("a jail is built", || {
        fs::read_to_string(&children).is_ok_and(|list| !list.trim().is_empty())
    })?;
    // Time for a command that does not wait; one that does is not seen, however long.
    std::thread::sleep(Duration::from_millis(300));
    let made = scene.workspace().join("made");
    assert!(!made.exists() && !run.ended(), "it did not wait");
    caller.write_all(&recorded)?;
    // How it ended is told over the same connection.
    broker.write_all(&message(&mut caller)?)?;
    caller.write_all(&message(&mut broker)?)?;
    run.finish()?.succeeds()?;
    assert!(made.exists());
    fs::rename(&behind, &door)?;
    assert_eq!(desk.log()?.len(), 1);
    Ok(())
}

fn an_alert_goes_on_and_says_so(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    scene.needs(&["bash"])?;
    let ran = until_the_log_is_full(scene, &desk, "alert")?;
    assert!(ran, "the policy said to go on");
    Ok(())
}

fn the_same_submission_twice_is_one_run(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    let mut speaker = desk.speaker(
        r#"
first = reply(submit('true', run='run_0123456789ab'))
again = reply(submit('true', run='run_0123456789ab'))
other = reply(submit('ls', run='run_0123456789ab'))
bad = reply(submit('true', run='../../x'))
print('seqs', first['parameters']['seq'] == again['parameters']['seq'])
print('tokens', first['parameters']['token'] == again['parameters']['token'])
print('other', other.get('error'))
print('bad', bad.get('error'))
"#,
    )?;
    speaker.expect("seqs True")?;
    speaker.expect("tokens False")?;
    speaker.expect("other org.varlink.service.InvalidParameter")?;
    speaker.expect("bad org.varlink.service.InvalidParameter")?;
    speaker.finish()?;
    let export = desk.sjail(["audit", "export", "--format", "jsonl"])?;
    let intents = export
        .stdout
        .lines()
        .filter(|line| line.contains("\"event\":\"intent\""));
    assert_eq!(intents.count(), 1);
    Ok(())
}

fn another_version_is_told(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    let mut speaker = desk.speaker(
        r#"
print('old', reply(submit('true', protocol=1, strange=1)).get('error'))
print('new', reply(submit('true', version='99.0.0')).get('error'))
print('same', reply(submit('true', version='0.0.1')).get('error'))
"#,
    )?;
    speaker.expect("old io.sjail.Broker.VersionMismatch")?;
    speaker.expect("new io.sjail.Broker.VersionMismatch")?;
    speaker.expect("same None")?;
    speaker.finish()?;
    Ok(())
}

/// A run of one's own, and whether it may reach a host.
const ASKS: &str = r#"
run = reply(submit('true'))['parameters']
def ask(wait, token=run['token']):
    return reply(call('AskHost', run=run['id'], token=token, host='example.org', port=443,
                      reason='for the test', wait_ms=wait))
"#;

fn a_host_is_asked_about_once_for_a_workspace(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    let text = r#"
print('guess', ask(1, 'guessed').get('error'), flush=True)
print('asks', flush=True)
print('first', ask(60000)['parameters']['answer'], flush=True)
print('second', ask(60000)['parameters']['answer'], flush=True)
"#;
    let mut speaker = desk.speaker(&format!("{ASKS}{text}"))?;
    speaker.expect("guess io.sjail.Broker.UnknownId")?;
    speaker.expect("asks")?;
    sjail_tests::wait::until_true("the question waits", || desk.first_request().is_ok())?;
    let request = desk.first_request()?;
    let id = request["id"].as_str().unwrap_or_default();
    desk.sjail(["queue", "show", id])?
        .succeeds()?
        .stdout_has("the network: example.org:443")?
        .stdout_has("for the test")?;
    desk.sjail(["queue", "approve", id, "--workspace"])?
        .succeeds()?;
    speaker.expect("first workspace")?;
    speaker.expect("second workspace")?;
    speaker.finish()?;
    // An answer about a host lets no command run.
    desk.sjail(["run", "--no-wait", "--approval", id])?
        .exits(77)?
        .stderr_has("no approval")?;
    desk.sjail(["audit", "verify"])?.succeeds()?;
    Ok(())
}

fn a_question_that_nobody_waits_for_is_withdrawn(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    let text = "print('late', ask(50)['parameters'], flush=True)\n";
    let mut speaker = desk.speaker(&format!("{ASKS}{text}"))?;
    speaker.expect("nobody has answered")?;
    speaker.finish()?;
    let listed = desk.sjail(["queue", "list", "--json"])?.json()?;
    assert_eq!(listed["total"], 0, "{listed}");
    Ok(())
}

fn evidence_is_shown_and_stays(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    let text = r#"
waiting = submit('rm -rf build', more=True)
item = reply(waiting)['parameters']
found = {'changes': 'build/x \u202e gone'}
print('one', reply(call('Attach', id=item['id'], evidence=found)).get('error'), flush=True)
print('two', reply(call('Attach', id=item['id'], evidence={})).get('error'), flush=True)
print('big', reply(call('Attach', id=item['id'], evidence={'x': 'x' * 70000})).get('error'), flush=True)
print('shape', reply(call('Attach', id=item['id'], evidence='x')).get('error'), flush=True)
print(reply(waiting)['parameters']['message'], flush=True)
"#;
    let mut speaker = desk.speaker(text)?;
    speaker.expect("one None")?;
    speaker.expect("two io.sjail.Broker.Unable")?;
    speaker.expect("big org.varlink.service.InvalidParameter")?;
    speaker.expect("shape org.varlink.service.InvalidParameter")?;
    let request = desk.first_request()?;
    let id = request["id"].as_str().unwrap_or_default();
    desk.sjail(["queue", "show", id])?
        .succeeds()?
        .stdout_has("it found")?
        .stdout_has("build/x")?
        .lacks("\u{202e}")?;
    desk.sjail(["queue", "reject", id, "--reason", "seen"])?
        .succeeds()?;
    speaker.expect("seen")?;
    speaker.finish()?;
    Ok(())
}

fn an_environment_too_large_has_a_sentence(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    let mut call = scene.sjail(["run", "--", "touch", "made"]);
    for number in 0..12 {
        call = call.env(format!("LARGE_{number}"), "x".repeat(100_000));
    }
    call.output()?
        .exits(125)?
        .stderr_has("the command and its environment have")?;
    assert!(!scene.workspace().join("made").exists());
    drop(desk);
    Ok(())
}

fn an_approval_names_and_carries_what_is_needed(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    desk.needs_no_terminal()?;
    let key = scene.home_file("kept/id.pub", "the key\n")?;
    let path = key.display().to_string();
    // Without it there is no such file in the jail.
    let cat = ["run", "--no-wait", "--", "cat", &path];
    let blind = desk.sjail(cat)?;
    assert_ne!(blind.code(), Some(0));
    let mut terminal = scene
        .sjail(["run", "--require-approval", "--no-wait", "--ro", &path])
        .args(["--", "cat", &path])
        .terminal()?;
    terminal.expect("approval is pending")?;
    terminal.finish()?;
    let request = desk.first_request()?;
    let id = request["id"].as_str().unwrap_or_default();
    desk.sjail(["queue", "show", id])?
        .succeeds()?
        .stdout_has(&format!("to read {path}"))?;
    desk.sjail(["queue", "approve", id])?.succeeds()?;
    desk.sjail(["run", "--approval", id])?
        .succeeds()?
        .stdout_has("the key")?;
    // For that run alone.
    let again = desk.sjail(cat)?;
    assert_ne!(again.code(), Some(0));
    Ok(())
}

fn a_broker_that_nobody_hears_goes_on(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    scene.needs(&["bash"])?;
    // A program that is not there: the broker says so, into a pipe that nobody reads.
    scene.home_file(
        ".config/sjail/policy.toml",
        "[approval]\non_ask = [\"/nowhere/at-all\", \"{summary}\"]\n",
    )?;
    let line = "exec \"$0\" serve 2> >(exec true)";
    let broker = scene.host("bash").args(["-c", line]);
    let mut broker = broker.args([scene.program("sjail-broker")]).start()?;
    broker.wait_for_file(desk.socket("request.sock"))?;
    for line in ["rm -rf a", "rm -rf b", "rm -rf c"] {
        desk.sjail(["run", "--no-wait", "-c", line])?.exits(75)?;
    }
    assert!(!broker.ended(), "the broker ended");
    desk.sjail(["run", "--", "true"])?.succeeds()?;
    Ok(())
}

fn an_approver_may_leave_out_what_is_asked_for(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    desk.needs_no_terminal()?;
    let first = scene.home_file("kept/first", "the first\n")?;
    let second = scene.home_file("kept/second", "the second\n")?;
    let (first, second) = (first.display().to_string(), second.display().to_string());
    let line = format!("cat {first}; cat {second}");
    let mut terminal = scene
        .sjail(["run", "--require-approval", "--no-wait"])
        .args(["--ro", &first, "--ro", &second, "-c", &line])
        .terminal()?;
    terminal.expect("approval is pending")?;
    terminal.finish()?;
    let request = desk.first_request()?;
    let id = request["id"].as_str().unwrap_or_default();
    desk.sjail(["queue", "approve", id, "--without", "/etc/shadow"])?
        .exits(77)?
        .stderr_has("it is not asked for")?;
    desk.sjail(["queue", "approve", id, "--without", &second, "--for", "1h"])?
        .exits(77)?;
    desk.sjail(["queue", "approve", id, "--without", &second])?
        .succeeds()?;
    let run = desk.sjail(["run", "--approval", id])?;
    run.stdout_has("the first")?;
    assert!(!run.stdout.contains("the second"), "{}", run.stdout);
    Ok(())
}

/// A script that was changed after the yes is not run, however the line gets to it.
fn a_script_is_bound_wherever_it_lies(scene: &Scene) -> Verdict {
    scene.needs(&["make", "python3"])?;
    let desk = Desk::at(scene);
    let (script, makefile) = ("#!/bin/sh\necho WORD\n", "all:\n\t@echo WORD\n");
    let module = "print('WORD')\n";
    for (line, file, text) in [
        ("bash sub/s.sh", "sub/s.sh", script),
        ("cd sub && ./s.sh", "sub/s.sh", script),
        ("cd sub && bash s.sh", "sub/s.sh", script),
        ("(cd sub; bash s.sh)", "sub/s.sh", script),
        ("env -C sub bash s.sh", "sub/s.sh", script),
        ("PATH=sub:/usr/bin:/bin s.sh", "sub/s.sh", script),
        ("make -C sub", "sub/Makefile", makefile),
        ("cd sub && python3 -m m", "sub/m.py", module),
    ] {
        let run = |word: &str| -> Verdict<Output> {
            scene.script(file, &text.replace("WORD", "good"))?;
            let id = desk.ask(&format!("{line}; rm -rf gone"))?;
            desk.sjail(["queue", "approve", &id])?.succeeds()?;
            scene.script(file, &text.replace("WORD", word))?;
            desk.sjail(["run", "--approval", &id])
        };
        run("good")?.stdout_has("good")?;
        let changed = run("evil")?;
        assert!(changed.code() != Some(0), "{line}: {changed}");
        changed.lacks("evil")?;
    }
    let id = desk.ask("bash sub/*.sh; rm -rf gone")?;
    desk.sjail(["queue", "show", &id])?
        .stdout_has("what `bash sub/*.sh` names when it runs")?;
    Ok(())
}
