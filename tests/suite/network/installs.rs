//! Package managers reach their own registry, and nobody else, without being told.

use sjail_tests::{Output, Scene, Test, Verdict, tests};

use super::clients::{Street, make};
use super::matrix::has_own_policy;

pub fn tests() -> Vec<Test> {
    tests![
        a_clone_reaches_a_host_that_the_owner_listed,
        settings_name_the_registry,
        a_group_stands_for_a_clients_settings,
    ]
}

fn is_held(output: &Output) -> Verdict {
    output.lacks("hello")?;
    super::is_refused(output)
}

fn a_clone_reaches_a_host_that_the_owner_listed(scene: &Scene) -> Verdict {
    scene.needs(&["git"])?;
    let street = Street::new(scene)?;
    make(
        &street.served,
        "git init -q made; cd made; echo x > file; git add file\n\
         git -c user.name=a -c user.email=a@b.test commit -qm one; cd ..\n\
         git clone -q --bare made repo.git; cd repo.git; git update-server-info",
    )?;
    let clone = |options: &[&str], to: &str| {
        scene
            .run(["--env", "GIT_SSL_CAINFO=cert.pem"])
            .args(options)
            .args(["--", "git", "clone", "-q", "https://git.test/repo.git", to])
            .output()
    };
    // Whoever wrote the line chose the host: without somebody to ask it is not reached, and
    // nobody else on the line reaches it, either.
    is_held(&clone(&[], "none")?)?;
    let line = "true || git clone https://git.test/x; curl -s --cacert cert.pem https://git.test/";
    is_held(&scene.run(["-c", line]).output()?)?;
    // Said aloud, no network is no network.
    is_held(&clone(&["--net", "none"], "two")?)?;
    // The owner's list has it.
    if !has_own_policy(scene, "[network]\nallow = [\"git.test\"]\n")? {
        return Ok(());
    }
    clone(&[], "one")?.succeeds()?;
    assert_eq!(scene.read("one/file")?, "x\n");
    // The project's policy may switch it off.
    scene.file("sjail.toml", "[network]\ninstalls = false\n")?;
    is_held(&clone(&[], "three")?)
}

fn settings_name_the_registry(scene: &Scene) -> Verdict {
    scene.needs(&["npm"])?;
    let _street = Street::new(scene)?;
    scene.home_file(".npmrc", "registry=https://reg.test/\n")?;
    // The project's own file names somebody else, who is not believed.
    scene.file(".npmrc", "registry=https://evil.test/\n")?;
    scene.file("package.json", "{}")?;
    let run = scene
        .run(["--json", "--", "npm", "install", "--fetch-retries=0"])
        .args(["--no-audit", "--no-fund", "--no-update-notifier", "tiny"])
        .output()?;
    let network = run.json()?["network"].to_string();
    assert!(
        network.contains("evil.test") && network.contains("refuse"),
        "{network}"
    );
    assert!(!network.contains("\"allow\""), "{network}");
    Ok(())
}

fn a_group_stands_for_a_clients_settings(scene: &Scene) -> Verdict {
    scene.needs(&["curl"])?;
    let _street = Street::new(scene)?;
    let fetch = || {
        let options = ["--allow-host", "@npm"];
        super::curl(
            scene,
            &options,
            &["--cacert", "cert.pem", "https://reg.test/"],
        )
    };
    fetch()?.exits(125)?.stderr_has("name the host")?;
    scene.home_file(".npmrc", "registry=https://user:pw@reg.test/npm/\n")?;
    fetch()?.succeeds()?.stdout_has("hello reg.test")?;
    Ok(())
}
