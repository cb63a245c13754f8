//! `sjail doctor` on machines that lack something: each made here for the moment, by
//! namespaces, mounts and filters of our own.

use std::io;

use serde_json::Value;
use sjail_tests::attack::files::CANARY;
use sjail_tests::{Call, Output, Scene, Stop, Test, Verdict, tests};

use crate::fallback::refusing;

pub fn suite() -> Vec<Test> {
    tests![
        this_machine_is_whole,
        no_user_namespaces_by_errno,
        no_user_namespaces_left,
        ubuntus_restriction_by_app_armor,
        a_masked_proc,
        windows_own_linux,
        no_delegation,
        every_landlock_version,
        nonsense_for_a_landlock_version,
    ]
}

/// What the ledger says of a layer, as one text; missing layers are nothing.
fn entry(output: &Output, layer: &str) -> Verdict<String> {
    let ledger: Value = serde_json::from_str(&output.stdout)
        .map_err(|error| Stop::failed(format!("no ledger ({error}), {output}")))?;
    let entries = ledger["entries"].as_array().cloned().unwrap_or_default();
    let entry = entries.into_iter().find(|entry| entry["layer"] == layer);
    Ok(entry.map(|entry| entry.to_string()).unwrap_or_default())
}

/// The layer stands like this, and its entry has these words.
fn says(output: &Output, layer: &str, state: &str, words: &[&str]) -> Verdict {
    let entry = entry(output, layer)?;
    let stands = entry.contains(&format!("\"state\":\"{state}\""));
    match stands && words.iter().all(|words| entry.contains(words)) {
        true => Ok(()),
        false => Err(Stop::failed(format!(
            "{layer} should be {state} with {words:?}, and is {entry}, {output}"
        ))),
    }
}

fn doctor(scene: &Scene) -> Call {
    scene.sjail(["doctor", "--json"])
}

/// Doctor as the first of a mount and user namespace where this line has been run.
fn after(scene: &Scene, line: &str) -> Verdict<Call> {
    scene.needs(&["unshare", "mount"])?;
    let line = format!("{line} && exec \"$0\" doctor --json");
    Ok(scene
        .host("unshare")
        .args(["-Urmpf", "--mount-proc", "sh", "-c", &line])
        .args([scene.program("sjail")]))
}

fn this_machine_is_whole(scene: &Scene) -> Verdict {
    let output = doctor(scene).output()?;
    output.succeeds()?;
    for layer in [
        "user namespace",
        "id maps",
        "mounts",
        "loopback",
        "/proc",
        "capabilities",
        "Landlock",
        "seccomp",
        "a whole run",
    ] {
        says(&output, layer, "verified", &[])?;
    }
    scene
        .sjail(["doctor"])
        .output()?
        .stdout_has("Every layer")?;
    // Its own run leaves nothing behind.
    scene.sjail(["sandbox", "list"]).output()?.stdout_is("")?;
    Ok(())
}

fn no_user_namespaces_by_errno(scene: &Scene) -> Verdict {
    for (errno, words) in [
        (libc::EPERM, &["EPERM", "a filter forbids them"][..]),
        (
            libc::ENOSPC,
            &["ENOSPC", "sysctl -w user.max_user_namespaces"],
        ),
        (libc::EACCES, &["EACCES", "apparmor_parser -r", "userns,"]),
        (libc::EINVAL, &["EINVAL", "CONFIG_USER_NS"]),
    ] {
        let output = refusing(doctor(scene), errno).output()?;
        output.exits(1)?;
        says(&output, "user namespace", "missing", words)?;
        says(&output, "a whole run", "missing", &[])?;
    }
    Ok(())
}

/// The kernel's own refusal.
fn no_user_namespaces_left(scene: &Scene) -> Verdict {
    let output = after(scene, "echo 0 >/proc/sys/user/max_user_namespaces")?.output()?;
    output.exits(1)?;
    let words = ["ENOSPC", "user.max_user_namespaces=0"];
    says(&output, "user namespace", "missing", &words)
}

/// A user namespace can be made, and what is done in it is refused; the setting says who
/// refuses it.
fn ubuntus_restriction_by_app_armor(scene: &Scene) -> Verdict {
    scene.file("kernel/apparmor_restrict_unprivileged_userns", "1\n")?;
    scene.file("kernel/osrelease", "6.8.0-41-generic\n")?;
    let call = after(scene, "mount --bind kernel /proc/sys/kernel")?;
    // SAFETY: the closure makes system calls on memory of its own and nothing else.
    let call = unsafe { call.before_exec(forbid_new_mounts) };
    let output = call.output()?;
    output.exits(1)?;
    let profile = format!("profile sjail \\\"{}\\\"", scene.program("sjail").display());
    let words = ["AppArmor", &profile, "userns,", "apparmor_parser -r"];
    says(&output, "mounts", "missing", &words)
}

/// `fsopen` is what doctor's mounts need and `mount(8)` of this fixture does not.
fn forbid_new_mounts() -> io::Result<()> {
    crate::fallback::forbid(&[libc::SYS_fsopen], libc::EACCES)
}

/// As in a container: something lies over a part of `/proc`.
fn a_masked_proc(scene: &Scene) -> Verdict {
    let output = after(scene, "mount --bind /dev/null /proc/version")?.output()?;
    output.exits(1)?;
    let words = ["masked", "systempaths=unconfined", "procMount: Unmasked"];
    says(&output, "/proc", "missing", &words)
}

fn windows_own_linux(scene: &Scene) -> Verdict {
    scene.file("release", "5.15.153.1-microsoft-standard-WSL2\n")?;
    let output = after(scene, "mount --bind release /proc/sys/kernel/osrelease")?.output()?;
    says(&output, "WSL", "noted", &["Windows programs"])?;
    scene.file("release", "4.4.0-19041-Microsoft\n")?;
    let output = after(scene, "mount --bind release /proc/sys/kernel/osrelease")?.output()?;
    says(&output, "WSL", "missing", &["wsl --set-version"])
}

/// Whoever is in a group that nobody has given to it, without systemd.
fn no_delegation(scene: &Scene) -> Verdict {
    let output = after(scene, "mount -t tmpfs none /sys/fs/cgroup")?
        .without_env("DBUS_SESSION_BUS_ADDRESS")
        .env("XDG_RUNTIME_DIR", scene.outside())
        .output()?;
    let words = ["watchdog", "systemd-run --user --scope"];
    says(&output, "limits group", "limited", &words)
}

/// Every version that is known, as if the kernel had that one.
fn every_landlock_version(scene: &Scene) -> Verdict {
    const VARIABLE: &str = "SJAIL_LANDLOCK_ABI";
    let kernel = doctor(scene).output()?;
    let kernel = entry(&kernel, "Landlock")?;
    let kernel: u32 = (1..=9)
        .rev()
        .find(|abi| kernel.contains(&format!("ABI {abi}")))
        .ok_or_else(|| Stop::failed(format!("which version is {kernel}?")))?;
    let secret = scene.outside_file("secret", CANARY)?.display().to_string();
    let attacker = scene.attacker()?;
    for abi in 1..=9 {
        let used = format!("Landlock ABI {}", abi.min(kernel));
        let run = scene
            .run(["--json", "--"])
            .args([&attacker])
            .args(["read", &secret])
            .env(VARIABLE, abi.to_string())
            .output()?;
        let result = run.json()?;
        let layers = result["isolation"]["layers"].to_string();
        let said = result["stdout"].as_str().unwrap_or_default();
        if !layers.contains(&used) || !said.contains("HELD") {
            return Err(Stop::failed(format!("not {used}: {layers}, {run}")));
        }
        let output = doctor(scene).env(VARIABLE, abi.to_string()).output()?;
        let words = format!("ABI {}", abi.min(kernel));
        says(&output, "Landlock", "verified", &[&words])?;
        // Without scopes the host's network is refused, with a sentence.
        let host = scene
            .run(["--net", "host", "--", "true"])
            .env(VARIABLE, abi.to_string())
            .output()?;
        match abi.min(kernel) {
            0..6 => host.exits(125)?.stderr_has("Landlock ABI 6")?,
            _ => host.succeeds()?,
        };
    }
    let none = scene.run(["--", "true"]).env(VARIABLE, "0").output()?;
    none.exits(125)?.stderr_has("no Landlock")?;
    let degraded = scene
        .run(["--allow-degraded", "--json", "--", "true"])
        .env(VARIABLE, "0")
        .output()?;
    let result = degraded.succeeds()?.json()?;
    let missing = result["isolation"]["degraded"].to_string();
    match missing.contains("Landlock is not enforced") {
        true => Ok(()),
        false => Err(Stop::failed(format!("it is not said, {degraded}"))),
    }
}

fn nonsense_for_a_landlock_version(scene: &Scene) -> Verdict {
    for value in ["10", "-1", "some", ""] {
        let run = scene.run(["--", "true"]).env("SJAIL_LANDLOCK_ABI", value);
        run.output()?.exits(125)?.stderr_has("from 0 to 9")?;
    }
    Ok(())
}
