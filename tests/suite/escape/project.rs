//! What a project brings along: names that run code later, settings that would loosen the
//! jail, folders that are not what they seem.

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::thread;

use sjail_tests::attack::files::CANARY;
use sjail_tests::attack::{HELD, OUT};
use sjail_tests::{Output, Scene, Test, Verdict, ensure, tests};

pub fn tests() -> Vec<Test> {
    tests![
        b21_a_kernel_without_landlock_is_refused,
        b21_every_landlock_is_enforced_in_full,
        b27_protected_names_in_other_letters,
        b32_what_runs_later_is_named,
        b33_a_projects_policy_loosens_nothing,
        b34_a_policy_that_others_can_write,
        b35_trust_ends_when_the_policy_changes,
        b39_a_working_folder_that_is_not_shown,
    ]
}

/// Pretends that the kernel's Landlock is older than it is.
const LANDLOCK: &str = "SJAIL_LANDLOCK_ABI";

/// A wall that is not there is no reason to go on, but a reason to say so.
fn b21_a_kernel_without_landlock_is_refused(scene: &Scene) -> Verdict {
    let run = |flags: &[&str]| {
        let words = flags.iter().chain(&["--", "touch", "ran"]);
        scene.run(words).env(LANDLOCK, "0").output()
    };
    run(&[])?.exits(125)?.stderr_has("no Landlock")?;
    ensure(!scene.workspace().join("ran").exists(), || "it ran")?;
    let aloud = run(&["--allow-degraded"])?;
    aloud.exits(0)?.stderr_has("Landlock is not enforced")?;
    ensure(scene.workspace().join("ran").exists(), || "it did not run")
}

/// Whatever the kernel has: all of it is in force, and the result names the version.
fn b21_every_landlock_is_enforced_in_full(scene: &Scene) -> Verdict {
    let claimed = |call: sjail_tests::Call| -> Verdict<(u32, serde_json::Value)> {
        let result = call.output()?.succeeds()?.json()?;
        let isolation = result["isolation"].clone();
        let layers = isolation["layers"].as_array().cloned().unwrap_or_default();
        let version = layers
            .iter()
            .filter_map(|layer| layer.as_str()?.strip_prefix("Landlock ABI ")?.parse().ok())
            .next();
        match version {
            Some(version) => Ok((version, isolation["degraded"].clone())),
            None => Err(sjail_tests::Stop::failed(isolation.to_string())),
        }
    };
    let words = ["--json", "--quiet", "--", "true"];
    let (kernel, _) = claimed(scene.run(words))?;
    for version in 1..=9_u32 {
        let run = scene.run(words).env(LANDLOCK, version.to_string());
        let (used, degraded) = claimed(run)?;
        ensure(used == version.min(kernel), || {
            format!("{version} of {kernel}: {used}")
        })?;
        let less = version < kernel;
        let said = degraded.to_string().contains(LANDLOCK);
        ensure(said == less, || degraded.to_string())?;
    }
    Ok(())
}

/// On a file system that folds case these are the protected names themselves.
fn b27_protected_names_in_other_letters(scene: &Scene) -> Verdict {
    let plant = "mkdir .cLauDe; echo x > .cLauDe/settings.json; echo x > .EnvRC; echo x > plain";
    scene.script("plant", &format!("#!/bin/sh\n{plant}\n"))?;
    scene.run(["--", "./plant"]).output()?.succeeds()?;
    let there = |name: &str| scene.workspace().join(name).exists();
    ensure(!there(".cLauDe"), || ".cLauDe stayed")?;
    ensure(!there(".EnvRC"), || ".EnvRC stayed")?;
    ensure(there("plain"), || "what is not protected was taken")
}

/// Not protected, for that is what a project is made of; but said.
fn b32_what_runs_later_is_named(scene: &Scene) -> Verdict {
    let names = [
        "package.json",
        "Makefile",
        "conftest.py",
        ".cargo/config.toml",
    ];
    let write = "mkdir .cargo; for f in package.json Makefile conftest.py .cargo/config.toml other; do echo > $f; done";
    scene.script("plant", &format!("#!/bin/sh\n{write}\n"))?;
    let result = scene
        .run(["--json", "--quiet", "--", "./plant"])
        .output()?
        .succeeds()?
        .json()?;
    let told = result["auto_exec"].to_string();
    for name in names {
        let path = scene.workspace().join(name).display().to_string();
        ensure(told.contains(&path), || format!("{name}: {told}"))?;
    }
    ensure(!told.contains("/other"), || told.clone())
}

/// What a policy can loosen, and everybody can see. Kernels before 6.12 want it said aloud that
/// the host's abstract sockets come with it.
const LOOSE: &str = "[network]\nmode = \"host\"\n";
const ALOUD: &str = "--allow-degraded";

/// A server on the host's loopback that greets whoever gets there.
fn server() -> Verdict<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?.to_string();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.write_all(CANARY.as_bytes());
        }
    });
    Ok(address)
}

fn reach(scene: &Scene, address: &str) -> Verdict<Output> {
    scene.attacker()?;
    scene
        .run([ALOUD, "--", "./attacker", "connect-tcp", address])
        .output()
}

fn b33_a_projects_policy_loosens_nothing(scene: &Scene) -> Verdict {
    let address = server()?;
    scene.file("sjail.toml", LOOSE)?;
    // Nor does a file that other tools read their own settings from.
    scene.file(".env", "XDG_CONFIG_HOME=./own\nHOME=./own\n")?;
    scene.file("own/sjail/policy.toml", LOOSE)?;
    reach(scene, &address)?
        .exits(HELD)?
        .stderr_has("would loosen the policy and is left out")?;
    // The same words in the user's own policy do.
    fs::remove_file(scene.workspace().join("sjail.toml"))?;
    own_policy(scene)?;
    reach(scene, &address)?.exits(OUT)?;
    Ok(())
}

fn own_policy(scene: &Scene) -> Verdict<std::path::PathBuf> {
    let policy = scene.home_file(".config/sjail/policy.toml", LOOSE)?;
    fs::set_permissions(&policy, fs::Permissions::from_mode(0o600))?;
    Ok(policy)
}

fn b34_a_policy_that_others_can_write(scene: &Scene) -> Verdict {
    let policy = own_policy(scene)?;
    let run = || scene.run([ALOUD, "--", "echo", "ran"]).output();
    run()?.succeeds()?;
    let folder = scene.home().join(".config/sjail");
    for (path, closed, open) in [(&policy, 0o600, 0o666), (&folder, 0o755, 0o777)] {
        fs::set_permissions(path, fs::Permissions::from_mode(open))?;
        run()?
            .exits(125)?
            .lacks("ran\n")?
            .stderr_has("can be changed by others")?;
        fs::set_permissions(path, fs::Permissions::from_mode(closed))?;
    }
    Ok(())
}

fn b35_trust_ends_when_the_policy_changes(scene: &Scene) -> Verdict {
    let address = server()?;
    let policy = scene.file("sjail.toml", LOOSE)?;
    let hash = scene.host("sha256sum").args([&policy]).output()?.stdout;
    let hash = hash.split_whitespace().next().unwrap_or_default();
    scene
        .sjail(["trust", "--hash", hash])
        .output()?
        .succeeds()?;
    reach(scene, &address)?.exits(OUT)?;
    scene.file("sjail.toml", format!("# one word more\n{LOOSE}"))?;
    reach(scene, &address)?
        .exits(HELD)?
        .stderr_has("would loosen the policy and is left out")?;
    Ok(())
}

/// Refused, instead of running somewhere else.
fn b39_a_working_folder_that_is_not_shown(scene: &Scene) -> Verdict {
    let sub = scene.workspace().join("sub");
    fs::create_dir(&sub)?;
    let run = |hidden: &str| {
        scene
            .run([
                "--workspace",
                "..",
                "--hide",
                hidden,
                "--",
                "sh",
                "-c",
                "pwd; echo ran",
            ])
            .cwd(&sub)
            .output()
    };
    let shown = sub.display().to_string();
    run(&shown)?
        .exits(125)?
        .lacks("ran\n")?
        .stderr_has("is not shown in the jail")?;
    run(&format!("{shown}/other"))?
        .succeeds()?
        .stdout_is(&format!("{shown}\nran\n"))?;
    Ok(())
}
