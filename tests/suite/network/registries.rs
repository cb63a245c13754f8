//! Package managers with registries of the test's own.

use std::process::{Command, Stdio};

use sjail_tests::{Scene, Stop, Test, Verdict, tests};

use super::clients::{Street, make};
use super::{filtered, is_refused};

pub fn tests() -> Vec<Test> {
    let mut tests = tests![npm, pip];
    // These compile.
    tests.extend(tests![go, cargo].into_iter().map(|test| test.timeout(600)));
    tests
}

fn npm(scene: &Scene) -> Verdict {
    scene.needs(&["npm", "node", "tar"])?;
    let street = Street::new(scene)?;
    make(
        &street.served,
        "mkdir -p package files\n\
         echo '{\"name\":\"tiny\",\"version\":\"1.0.0\",\"main\":\"i.js\"}' > package/package.json\n\
         echo 'console.log(\"hello from npm\")' > package/i.js\n\
         tar czf files/tiny-1.0.0.tgz package\n\
         sum=$(sha1sum files/tiny-1.0.0.tgz | cut -d' ' -f1)\n\
         echo \"{\\\"name\\\":\\\"tiny\\\",\\\"dist-tags\\\":{\\\"latest\\\":\\\"1.0.0\\\"},\\\"versions\\\":{\\\"1.0.0\\\":{\\\"name\\\":\\\"tiny\\\",\\\"version\\\":\\\"1.0.0\\\",\\\"main\\\":\\\"i.js\\\",\\\"dist\\\":{\\\"tarball\\\":\\\"https://reg.test/files/tiny-1.0.0.tgz\\\",\\\"shasum\\\":\\\"$sum\\\"}}}}\" > tiny",
    )?;
    let install = |host: &str| {
        format!(
            "mkdir -p {host} && cd {host} && echo '{{}}' > package.json\n\
             npm install --no-audit --no-fund --no-update-notifier --fetch-retries=0 \\\n\
             \x20 --cafile=../cert.pem --registry=https://{host}/ tiny >npm.log 2>&1 \\\n\
             \x20 || {{ tail -5 npm.log; exit 1; }}\n\
             node -e 'require(\"tiny\")'\n"
        )
    };
    street
        .run(scene, "reg.test", &install("reg.test"))?
        .succeeds()?
        .stdout_has("hello from npm")?;
    is_refused(&street.run(scene, "reg.test", &install("evil.test"))?)
}

fn pip(scene: &Scene) -> Verdict {
    let street = Street::new(scene)?;
    let has = Command::new("python3")
        .args(["-c", "import pip, venv"])
        .stderr(Stdio::null())
        .status()?;
    if !has.success() {
        return scene.skip("python3 has no pip");
    }
    make(
        &street.served,
        "mkdir -p simple/tiny files\n\
         python3 - <<'END'\n\
         import zipfile\n\
         with zipfile.ZipFile('files/tiny-1.0-py3-none-any.whl', 'w') as wheel:\n\
         \x20   wheel.writestr('tiny.py', 'print(\"hello from pip\")\\n')\n\
         \x20   info = 'tiny-1.0.dist-info/'\n\
         \x20   wheel.writestr(info + 'METADATA', 'Metadata-Version: 2.1\\nName: tiny\\nVersion: 1.0\\n')\n\
         \x20   wheel.writestr(info + 'WHEEL', 'Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n\
         \x20   wheel.writestr(info + 'RECORD', '')\n\
         END\n\
         echo '<a href=\"../../files/tiny-1.0-py3-none-any.whl\">tiny-1.0-py3-none-any.whl</a>' > simple/tiny/index.html",
    )?;
    let install = |host: &str| {
        // What is not on the line is in the owner's settings, without the password.
        let index = match host {
            "reg.test" => String::new(),
            _ => format!("--index-url https://{host}/simple/"),
        };
        format!(
            "python3 -m pip install -q --disable-pip-version-check --retries 0 --cert cert.pem \\\n\
             \x20 --target to-{host} {index} tiny \\\n\
             \x20 && PYTHONPATH=to-{host} python3 -c 'import tiny'\n"
        )
    };
    let settings = "[global]\nindex-url = https://me:secret@reg.test/simple/\n";
    scene.home_file(".config/pip/pip.conf", settings)?;
    street
        .run(scene, "reg.test", &install("reg.test"))?
        .succeeds()?
        .stdout_has("hello from pip")?;
    street
        .run(scene, "reg.test", "cat ~/.config/pip/pip.conf")?
        .succeeds()?
        .stdout_has("https://reg.test/simple/")?
        .lacks("secret")?;
    is_refused(&street.run(scene, "reg.test", &install("evil.test"))?)
}

/// A module from a proxy of the test's own, and a page by Go's own resolver and its TLS.
fn go(scene: &Scene) -> Verdict {
    scene.needs(&["go", "python3"])?;
    let street = Street::new(scene)?;
    make(
        &street.served,
        "mkdir -p tiny.test/m/@v; cd tiny.test/m/@v\n\
         echo v1.0.0 > list\n\
         echo '{\"Version\":\"v1.0.0\",\"Time\":\"2020-01-01T00:00:00Z\"}' > v1.0.0.info\n\
         echo 'module tiny.test/m' > v1.0.0.mod\n\
         python3 - <<'END'\n\
         import zipfile\n\
         with zipfile.ZipFile('v1.0.0.zip', 'w') as module:\n\
         \x20   module.writestr('tiny.test/m@v1.0.0/go.mod', 'module tiny.test/m\\n')\n\
         \x20   module.writestr('tiny.test/m@v1.0.0/m.go', 'package m\\n\\nconst Words = \"from a module\"\\n')\n\
         END",
    )?;
    let get = |registry: &str, host: &str| {
        format!(
            "export SSL_CERT_FILE=$PWD/cert.pem CGO_ENABLED=0 GOSUMDB=off GOFLAGS=-mod=mod\n\
             export GOPROXY=https://{registry} GOPATH=/tmp/go\n\
             export GOCACHE=/tmp/cache GO111MODULE=on\n\
             mkdir -p get && cd get && rm -f go.*\n\
             printf 'module get\\n\\ngo 1.16\\n\\nrequire tiny.test/m v1.0.0\\n' > go.mod\n\
             cat > get.go <<'END'\n\
             package main\n\
             import (\"fmt\"; \"io\"; \"net/http\"; \"os\"; \"tiny.test/m\")\n\
             func main() {{\n\
             answer, err := http.Get(\"https://{host}/\")\n\
             if err != nil {{ fmt.Println(err); os.Exit(1) }}\n\
             text, _ := io.ReadAll(answer.Body)\n\
             fmt.Println(string(text), m.Words)\n\
             }}\n\
             END\n\
             exec go run .\n"
        )
    };
    let run = |registry: &str, host: &str| {
        scene.file("client.sh", get(registry, host))?;
        let allow = ["--allow-host", "www.test", "--allow-host", "reg.test"];
        filtered(scene, &allow, &["sh", "client.sh"]).output()
    };
    run("reg.test", "www.test")?
        .succeeds()?
        .stdout_has("hello www.test")?
        .stdout_has("from a module")?;
    let page = run("reg.test", "evil.test")?;
    is_refused(&page)?;
    page.stdout_has("no such host")?
        .stderr_has("evil.test was refused")?;
    let module = run("evil.test", "www.test")?;
    is_refused(&module)?;
    module.stderr_has("evil.test was refused")?;
    Ok(())
}

/// A crate from a registry of the test's own.
fn cargo(scene: &Scene) -> Verdict {
    scene.needs(&["python3", "tar"])?;
    let Some((home, path)) = scene.rust() else {
        return scene.skip("there is no Rust toolchain");
    };
    let street = Street::new(scene)?;
    make(
        &street.served,
        "mkdir -p index/ti/ny crates tiny-1.0.0/src\n\
         echo '{\"dl\":\"https://reg.test/crates/{crate}-{version}.crate\"}' > index/config.json\n\
         printf '[package]\\nname = \"tiny\"\\nversion = \"1.0.0\"\\n' > tiny-1.0.0/Cargo.toml\n\
         echo 'pub const WORDS: &str = \"hello from a crate\";' > tiny-1.0.0/src/lib.rs\n\
         tar czf crates/tiny-1.0.0.crate tiny-1.0.0\n\
         sum=$(sha256sum crates/tiny-1.0.0.crate | cut -d' ' -f1)\n\
         echo \"{\\\"name\\\":\\\"tiny\\\",\\\"vers\\\":\\\"1.0.0\\\",\\\"deps\\\":[],\\\"cksum\\\":\\\"$sum\\\",\\\"features\\\":{},\\\"yanked\\\":false}\" > index/ti/ny/tiny",
    )?;
    scene.file("own/src/main.rs", "fn main() {}\n")?;
    let fetch = |host: &str| {
        scene.file(
            "own/Cargo.toml",
            "[package]\nname = \"own\"\nversion = \"1.0.0\"\nedition = \"2021\"\n\
             [dependencies]\ntiny = { version = \"1\", registry = \"mine\" }\n",
        )?;
        let index = format!("CARGO_REGISTRIES_MINE_INDEX=sparse+https://{host}/index/");
        let trust = format!(
            "CARGO_HTTP_CAINFO={}",
            scene.workspace().join("cert.pem").display()
        );
        scene
            .run(["--net", "filtered", "--allow-host", "reg.test"])
            .args(["--env", &index, "--env", &trust])
            .args(["--", "cargo", "fetch", "--manifest-path", "own/Cargo.toml"])
            .env("HOME", &home)
            .env("PATH", &path)
            .output()
    };
    let refused = fetch("evil.test")?;
    is_refused(&refused)?;
    refused.stderr_has("evil.test was refused")?;
    fetch("reg.test")?.succeeds()?;
    let lock = scene.read("own/Cargo.lock")?;
    match lock.contains("name = \"tiny\"") {
        true => Ok(()),
        false => Err(Stop::failed(lock)),
    }
}
