//! The proxy inside, for programs that insist on one: the same hosts, named another way.

use std::net::TcpStream;

use sjail_tests::{Scene, Stop, Test, Verdict, tests};

use super::{curl, filtered, is_refused, town};

pub fn tests() -> Vec<Test> {
    tests![
        the_proxy_leads_where_everything_leads,
        b55_odd_bytes_in_a_name_lead_nowhere,
        b63_the_proxy_is_the_jails_alone,
    ]
}

const PROXY: &str = "198.18.0.1:3128";
const OPTIONS: [&str; 3] = ["--proxy", "--allow-host", "www.test"];

fn the_proxy_leads_where_everything_leads(scene: &Scene) -> Verdict {
    let town = town(scene)?;
    let tunnel = ["-p", "-x", &format!("http://{PROXY}")];
    let socks = ["--socks5-hostname", PROXY];
    let own = ["--socks5", PROXY];
    for way in [&[][..], &tunnel, &socks, &own] {
        let page = |host: &str, more: &[&str]| {
            let url = format!("http://{host}/");
            let words = [way, more, &[url.as_str()]].concat();
            curl(scene, &OPTIONS, &words)
        };
        page("www.test", &[])?
            .succeeds()?
            .stdout_has("hello www.test")?;
        let refused = page("evil.test", &["-f"])?;
        is_refused(&refused)?;
        refused.stderr_has("evil.test")?.stderr_has("was refused")?;
        is_refused(&page("203.0.113.10", &["-f"])?)?;
        is_refused(&page("www.test", &["-f", "-H", "Host: evil.test"])?)?;
    }
    // Two hosts after one another, over what the client takes for one connection.
    let both = ["--proxy", "--allow-host", "*.test"];
    curl(scene, &both, &["http://www.test/", "http://api.test/"])?
        .succeeds()?
        .stdout_has("hello www.test")?
        .stdout_has("hello api.test")?;
    if town.asked().iter().any(|name| name == "evil.test") {
        return Err(Stop::failed("a name got out that is not allowed"));
    }
    // Only who asks for it has the variables.
    let shown = |options: &[&str]| filtered(scene, options, &["env"]).output();
    shown(&OPTIONS)?
        .stdout_has(&format!("https_proxy=http://{PROXY}"))?
        .stdout_has("NO_PROXY=")?;
    shown(&["--allow-host", "www.test"])?.lacks("_proxy")?;
    Ok(())
}

fn b55_odd_bytes_in_a_name_lead_nowhere(scene: &Scene) -> Verdict {
    let _town = town(scene)?;
    scene.needs(&["python3"])?;
    scene.file(
        "odd.py",
        "import socket\n\
         def ask(name):\n\
         \x20   s = socket.create_connection(('198.18.0.1', 3128))\n\
         \x20   s.sendall(b'\\x05\\x01\\x00')\n\
         \x20   s.recv(2)\n\
         \x20   s.sendall(b'\\x05\\x01\\x00\\x03' + bytes([len(name)]) + name + b'\\x00\\x50')\n\
         \x20   return s.recv(10)[1]\n\
         for name in (b'evil.test\\0.www.test', b'evil.test\\0www.test', b'www.test\\0', b'www.test#',\n\
         \x20            b'evil.test\\r\\nwww.test', b'www.test@evil.test', b'\\xff.www.test', b'', b'127.0.0.1',\n\
         \x20            b'2130706433', b'0x7f.1', b'[::1]', b'w' * 255):\n\
         \x20   print('refused' if ask(name) == 2 else 'OPEN', name)\n\
         print('control', ask(b'WWW.test.'))\n",
    )?;
    filtered(scene, &OPTIONS, &["python3", "odd.py"])
        .output()?
        .succeeds()?
        .lacks("OPEN")?
        .stdout_has("control 0")?;
    Ok(())
}

/// Neither the relay nor its proxy is on the host's network, and there is no secret to it.
fn b63_the_proxy_is_the_jails_alone(scene: &Scene) -> Verdict {
    let _town = town(scene)?;
    scene.file(
        "wait.sh",
        "env > seen; touch started; while [ ! -e go ]; do sleep 0.05; done\n",
    )?;
    let mut running = filtered(scene, &OPTIONS, &["sh", "wait.sh"]).start()?;
    running.wait_for_file(scene.workspace().join("started"))?;
    let tables = ["tcp", "tcp6"].map(|name| std::fs::read_to_string(format!("/proc/net/{name}")));
    let open = TcpStream::connect(("127.0.0.1", 3128)).is_ok();
    scene.file("go", "")?;
    running.finish()?.succeeds()?;
    let listens = |table: &String| table.lines().any(|line| line.contains(":0C38 "));
    if open || tables.iter().flatten().any(listens) {
        return Err(Stop::failed("the host has the proxy as well"));
    }
    // Where it is, and nothing that would let somebody else in.
    let seen = scene.read("seen")?;
    for line in seen.lines().filter(|line| line.contains("://")) {
        if !line.ends_with(PROXY) || line.contains('@') {
            return Err(Stop::failed(format!("more than a place: {line}")));
        }
    }
    Ok(())
}
