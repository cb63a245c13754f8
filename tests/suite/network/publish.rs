//! Ports of the jail that are served on the host.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use nix::sys::signal::Signal;
use sjail_tests::town::{HOST, Town};
use sjail_tests::{Call, Scene, Stop, Test, Verdict, tests, wait};

pub fn tests() -> Vec<Test> {
    tests![
        a_server_inside_is_reached_from_outside,
        others_reach_what_is_published_aloud,
        a_port_in_use_is_said_before_anything_runs,
        ports_that_cannot_be_published,
        a_killed_sjail_frees_the_port,
    ]
}

/// Serves so many requests, then ends.
const SERVER: &str = "import http.server, sys\n\
    class Handler(http.server.BaseHTTPRequestHandler):\n\
    \x20   def do_GET(self):\n\
    \x20       body = b'hello from inside ' * 10000\n\
    \x20       self.send_response(200)\n\
    \x20       self.send_header('Content-Length', str(len(body)))\n\
    \x20       self.end_headers()\n\
    \x20       self.wfile.write(body)\n\
    \x20   def log_message(self, *args): pass\n\
    server = http.server.HTTPServer(('127.0.0.1', 3000), Handler)\n\
    open('ready', 'w').close()\n\
    for _ in range(int(sys.argv[1])): server.handle_request()\n";

fn server(scene: &Scene, options: &[&str], count: &str) -> Verdict<Call> {
    scene.needs(&["python3"])?;
    scene.file("server.py", SERVER)?;
    Ok(scene
        .run(options)
        .args(["--json", "--", "python3", "server.py", count]))
}

fn fetch(place: (&str, u16)) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(place)?;
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
    let mut page = String::new();
    stream.read_to_string(&mut page)?;
    Ok(page)
}

fn a_server_inside_is_reached_from_outside(scene: &Scene) -> Verdict {
    let town = Town::enter(scene, &[])?;
    for network in [
        &["--net", "none"][..],
        &["--net", "filtered", "--allow-host", "www.test"],
    ] {
        let mut options = network.to_vec();
        options.extend(["--publish", "8080:3000"]);
        let mut running = server(scene, &options, "1")?.start()?;
        running.wait_for_file(scene.workspace().join("ready"))?;
        // Published at loopback: nobody else gets there.
        if town.out_there(|| Ok(TcpStream::connect((HOST, 8080)).is_ok()))? {
            return Err(Stop::failed("another machine got there"));
        }
        let page = fetch(("127.0.0.1", 8080))?;
        if page.matches("hello from inside").count() != 10000 {
            return Err(Stop::failed(format!("{} bytes came", page.len())));
        }
        let output = running.finish()?;
        let result = output.succeeds()?.json()?;
        let entry = result["network"][0].clone();
        let bytes = |key: &str| entry[key].as_u64().unwrap_or(0);
        if entry["published"] != "127.0.0.1:8080"
            || entry["port"] != 3000
            || bytes("sent") != page.len() as u64
            || bytes("received") != 18
        {
            return Err(Stop::failed(format!(
                "not written down as it was: {result}"
            )));
        }
        std::fs::remove_file(scene.workspace().join("ready"))?;
    }
    Ok(())
}

fn others_reach_what_is_published_aloud(scene: &Scene) -> Verdict {
    let town = Town::enter(scene, &[])?;
    let options = ["--publish", "0.0.0.0:8080:3000"];
    let mut running = server(scene, &options, "1")?.start()?;
    running.wait_for_file(scene.workspace().join("ready"))?;
    let page = town.out_there(|| fetch((HOST, 8080)))?;
    let output = running.finish()?;
    output.succeeds()?.stderr_has("other machines may reach")?;
    match page.contains("hello from inside") {
        true => Ok(()),
        false => Err(Stop::failed(page)),
    }
}

fn a_port_in_use_is_said_before_anything_runs(scene: &Scene) -> Verdict {
    let _town = Town::enter(scene, &[])?;
    let _taken = TcpListener::bind("127.0.0.1:8080")?;
    scene
        .run(["--publish", "127.0.0.1:8080:3000", "--", "touch", "ran"])
        .output()?
        .exits(125)?
        .stderr_has("publishing port 3000 at 127.0.0.1:8080 failed")?
        .stderr_has("in use")?;
    match scene.workspace().join("ran").exists() {
        true => Err(Stop::failed("it ran all the same")),
        false => Ok(()),
    }
}

fn ports_that_cannot_be_published(scene: &Scene) -> Verdict {
    for (options, words) in [
        (&["--publish", "8080"][..], "host's own"),
        (&["--publish", "nonsense"], "PORT-INSIDE"),
        (&["--publish", "0:80"], "the port on the host is none"),
    ] {
        scene
            .run(["--net", "host"])
            .args(options)
            .args(["--", "true"])
            .output()?
            .exits(125)?
            .stderr_has(words)?;
    }
    scene
        .run(["--net", "filtered", "--publish", "8443:443", "--", "true"])
        .output()?
        .exits(125)?
        .stderr_has("for itself")?;
    Ok(())
}

fn a_killed_sjail_frees_the_port(scene: &Scene) -> Verdict {
    let _town = Town::enter(scene, &[])?;
    let options = ["--publish", "127.0.0.1:8080:3000"];
    let mut running = server(scene, &options, "9")?.start()?;
    running.wait_for_file(scene.workspace().join("ready"))?;
    fetch(("127.0.0.1", 8080))?;
    running.signal(Signal::SIGKILL)?;
    running.finish()?;
    wait::until_true("the port is free", || {
        TcpListener::bind("127.0.0.1:8080").is_ok()
    })
}
