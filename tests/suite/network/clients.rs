//! Real clients, none of which is told of a proxy: each reaches what is allowed, and says
//! quickly and clearly that the rest is not there.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use sjail_tests::town::{Town, WEB};
use sjail_tests::{Output, Scene, Stop, Test, Verdict, tests};

use super::filtered;

pub fn tests() -> Vec<Test> {
    tests![
        curl,
        wget,
        python,
        python_requests,
        node,
        java,
        git,
        git_push,
    ]
}

/// The world with a web server that speaks TLS, and a folder that it serves.
pub struct Street {
    _town: Town,
    server: Child,
    pub served: PathBuf,
}

impl Street {
    pub fn new(scene: &Scene) -> Verdict<Street> {
        scene.needs(&["python3", "openssl"])?;
        let names = ["www.test", "evil.test", "reg.test", "git.test"].map(|name| (name, WEB));
        let town = Town::enter(scene, &names)?;
        let (cert, key) = certificate(scene)?;
        let served = scene.outside().join("served");
        fs::create_dir_all(&served)?;
        let script = scene.outside_file("server.py", include_str!("server.py"))?;
        let mut server = Command::new("python3");
        server
            .arg(script)
            .args([&served, &cert, &key])
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let server = town.program(server)?;
        town.served(443)?;
        Ok(Street {
            _town: town,
            server,
            served,
        })
    }

    /// Runs a script inside, with one host allowed.
    pub fn run(&self, scene: &Scene, host: &str, script: &str) -> Verdict<Output> {
        scene.file("client.sh", script)?;
        filtered(scene, &["--allow-host", host], &["sh", "client.sh"]).output()
    }

    /// The same script must reach one host, and then fail on another.
    fn try_both(&self, scene: &Scene, script: impl Fn(&str) -> String) -> Verdict {
        self.run(scene, "www.test", &script("www.test"))?
            .succeeds()?
            .stdout_has("hello www.test")?;
        let refused = self.run(scene, "www.test", &script("evil.test"))?;
        super::is_refused(&refused)?;
        refused.stderr_has("evil.test was refused")?;
        Ok(())
    }
}

impl Drop for Street {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn curl(scene: &Scene) -> Verdict {
    scene.needs(&["curl"])?;
    Street::new(scene)?.try_both(scene, |host| {
        format!("curl -sS --cacert cert.pem https://{host}/")
    })
}

fn wget(scene: &Scene) -> Verdict {
    scene.needs(&["wget"])?;
    Street::new(scene)?.try_both(scene, |host| {
        format!("wget -q --tries=1 -O - --ca-certificate=cert.pem https://{host}/")
    })
}

fn python(scene: &Scene) -> Verdict {
    Street::new(scene)?.try_both(scene, |host| {
        format!(
            "exec python3 - <<'END'\n\
             import ssl, urllib.request\n\
             trust = ssl.create_default_context(cafile='cert.pem')\n\
             print(urllib.request.urlopen('https://{host}/', context=trust).read().decode())\n\
             END\n"
        )
    })
}

fn node(scene: &Scene) -> Verdict {
    scene.needs(&["node"])?;
    Street::new(scene)?.try_both(scene, |host| {
        format!(
            "export NODE_EXTRA_CA_CERTS=$PWD/cert.pem\n\
             cat > get.js <<'END'\n\
             const https = require('https');\n\
             const old = new Promise((good, bad) => https.get('https://{host}/', response => {{\n\
             \x20 response.on('data', data => good(String(data))); }}).on('error', bad));\n\
             old.then(text => typeof fetch === 'undefined' ? text\n\
             \x20 : fetch('https://{host}/').then(response => response.text()))\n\
             \x20 .then(console.log, error => {{ console.error(error); process.exit(1); }});\n\
             END\n\
             exec node get.js\n"
        )
    })
}

fn java(scene: &Scene) -> Verdict {
    scene.needs(&["java", "javac"])?;
    Street::new(scene)?.try_both(scene, |host| {
        format!(
            "cat > Get.java <<'END'\n\
             import java.io.*; import java.net.*; import java.net.http.*; import java.security.*;\n\
             import java.security.cert.*; import javax.net.ssl.*;\n\
             public class Get {{ public static void main(String[] words) throws Exception {{\n\
             KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType()); store.load(null, null);\n\
             store.setCertificateEntry(\"own\", CertificateFactory.getInstance(\"X.509\")\n\
             .generateCertificate(new FileInputStream(\"cert.pem\")));\n\
             TrustManagerFactory trust = TrustManagerFactory.getInstance(\"PKIX\"); trust.init(store);\n\
             SSLContext context = SSLContext.getInstance(\"TLS\");\n\
             context.init(null, trust.getTrustManagers(), null);\n\
             System.out.println(HttpClient.newBuilder().sslContext(context).build().send(\n\
             HttpRequest.newBuilder(URI.create(\"https://{host}/\")).build(),\n\
             HttpResponse.BodyHandlers.ofString()).body()); }} }}\n\
             END\n\
             exec java Get.java\n"
        )
    })
}

/// Runs a shell script outside, in a folder, to make what is served.
pub fn make(folder: &std::path::Path, script: &str) -> Verdict {
    let made = Command::new("sh")
        .args(["-ec", script])
        .current_dir(folder)
        .env("HOME", folder)
        .output()?;
    match made.status.success() {
        true => Ok(()),
        false => Err(Stop::failed(format!(
            "{script}: {}",
            String::from_utf8_lossy(&made.stderr)
        ))),
    }
}

fn git(scene: &Scene) -> Verdict {
    scene.needs(&["git"])?;
    let street = Street::new(scene)?;
    make(
        &street.served,
        "git init -q made; cd made; echo hello from git > file; git add file\n\
         git -c user.name=a -c user.email=a@b.test commit -qm one; cd ..\n\
         git clone -q --bare made repo.git; cd repo.git; git update-server-info",
    )?;
    let clone = |host: &str, to: &str| {
        format!(
            "export GIT_SSL_CAINFO=$PWD/cert.pem\n\
             git clone -q https://{host}/repo.git {to} && cat {to}/file\n"
        )
    };
    street
        .run(scene, "git.test", &clone("git.test", "good"))?
        .succeeds()?
        .stdout_has("hello from git")?;
    let refused = street.run(scene, "git.test", &clone("evil.test", "bad"))?;
    super::is_refused(&refused)?;
    refused.stderr_has("--allow-host evil.test")?;
    Ok(())
}

fn git_push(scene: &Scene) -> Verdict {
    scene.needs(&["git"])?;
    let found = Command::new("git").arg("--exec-path").output()?;
    let programs = PathBuf::from(String::from_utf8_lossy(&found.stdout).trim());
    if !programs.join("git-http-backend").exists() {
        return scene.skip("git has no http-backend");
    }
    let street = Street::new(scene)?;
    make(
        &street.served,
        "git init -q --bare smart/repo.git\n\
         git -C smart/repo.git config http.receivepack true",
    )?;
    let push = |host: &str, folder: &str| {
        format!(
            "export GIT_SSL_CAINFO=$PWD/cert.pem\n\
             git init -q {folder} && cd {folder} && echo hello > file && git add file\n\
             git -c user.name=a -c user.email=a@b.test commit -qm one\n\
             git push -q https://{host}/smart/repo.git HEAD:refs/heads/{folder}\n"
        )
    };
    let run = street.run(scene, "git.test", &push("git.test", "good"))?;
    run.succeeds()?;
    make(
        &street.served,
        "git -C smart/repo.git rev-parse --verify refs/heads/good",
    )?;
    let refused = street.run(scene, "git.test", &push("evil.test", "bad"))?;
    super::is_refused(&refused)?;
    refused.stderr_has("--allow-host evil.test")?;
    Ok(())
}

fn python_requests(scene: &Scene) -> Verdict {
    const IMPORT: &str =
        "try: import requests\nexcept ImportError: from pip._vendor import requests\n";
    scene.needs(&["python3"])?;
    let has = Command::new("python3")
        .args(["-c", IMPORT])
        .stderr(Stdio::null())
        .status()?;
    if !has.success() {
        return scene.skip("python3 has no requests");
    }
    Street::new(scene)?.try_both(scene, |host| {
        format!(
            "exec python3 - <<'END'\n\
             {IMPORT}\
             print(requests.get('https://{host}/', verify='cert.pem').text)\n\
             END\n"
        )
    })
}

/// A certificate for the names of the tests, its own authority, and its key.
pub fn certificate(scene: &Scene) -> Verdict<(PathBuf, PathBuf)> {
    let (cert, key) = (
        scene.workspace().join("cert.pem"),
        scene.outside().join("key.pem"),
    );
    let names = "subjectAltName=DNS:www.test,DNS:api.test,DNS:evil.test,DNS:reg.test,DNS:git.test";
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt"])
        .args(["ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"])
        .args(["-subj", "/CN=www.test", "-addext", names, "-keyout"])
        .arg(&key)
        .arg("-out")
        .arg(&cert)
        .output()?;
    match made.status.success() {
        true => Ok((cert, key)),
        false => Err(Stop::failed(format!(
            "openssl: {}",
            String::from_utf8_lossy(&made.stderr)
        ))),
    }
}
