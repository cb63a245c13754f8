//! The ways around a list of hosts that others have found open, each with a control that
//! shows that the way exists.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, UdpSocket};

use sjail_tests::town::{HOST, SPECIAL, Town, WEB, WEB6};
use sjail_tests::{Identity, Scene, Stop, Test, Verdict, tests};

use super::{curl, filtered, is_refused, town};

pub fn tests() -> Vec<Test> {
    tests![
        an_allowed_name_is_reached_and_another_is_not,
        b56_an_empty_list_allows_nothing,
        b57_every_verb_and_scheme_meets_the_same_gate,
        b58_no_name_leaves_that_is_not_allowed,
        b59_first_words_must_name_the_host,
        b59_a_hello_must_name_the_host,
        b60_a_name_must_not_lead_to_special_addresses,
        b60_a_name_must_not_lead_home,
        b60_addresses_in_other_spellings,
        b61_names_are_compared_by_label,
        b64_other_sockets_reach_nothing,
        b65_variables_are_no_way_out,
        deny_wins,
        ports_are_part_of_the_list,
        addresses_and_ranges_are_named_aloud,
        localhost_is_named_aloud,
        the_files_of_names_are_the_jails_own,
        whoever_speaks_first_is_heard,
        halves_are_closed_one_by_one,
        names_are_looked_up_by_the_host,
        the_host_s_sockets_are_not_there,
    ]
}

/// Writes the user's own policy. In an ordinary user's world the folders above it belong to
/// nobody, and sjail rightly does not obey it: then there is none.
pub(super) fn has_own_policy(scene: &Scene, text: &str) -> Verdict<bool> {
    if scene.identity() != Identity::Root {
        return Ok(false);
    }
    scene.home_file(".config/sjail/policy.toml", text)?;
    Ok(true)
}

const PAGE: &str = "http://www.test/";

fn an_allowed_name_is_reached_and_another_is_not(scene: &Scene) -> Verdict {
    let _town = town(scene)?;
    curl(scene, &["--allow-host", "www.test"], &[PAGE])?
        .succeeds()?
        .stdout_has("hello www.test")?;
    for family in ["-4", "-6"] {
        curl(scene, &["--allow-host", "www.test"], &[family, PAGE])?
            .succeeds()?
            .stdout_has("hello www.test")?;
    }
    let refused = curl(scene, &["--allow-host", "www.test"], &["http://evil.test/"])?;
    is_refused(&refused)?;
    refused
        .exits(6)?
        .stderr_has("evil.test was refused")?
        .stderr_has("--allow-host evil.test")?;
    Ok(())
}

fn b56_an_empty_list_allows_nothing(scene: &Scene) -> Verdict {
    let _town = town(scene)?;
    is_refused(&curl(scene, &[], &[PAGE])?)?;
    if has_own_policy(scene, "[network]\nmode = \"filtered\"\nallow = []\n")? {
        let refused = scene.run(["--", "curl", "-sS", PAGE]).output()?;
        is_refused(&refused)?;
        refused.exits(6)?;
    }
    is_refused(&curl(scene, &[], &[&format!("http://{WEB}/")])?)
}

fn b57_every_verb_and_scheme_meets_the_same_gate(scene: &Scene) -> Verdict {
    let _town = town(scene)?;
    let allow = ["--allow-host", "www.test"];
    for verb in ["GET", "POST", "PUT", "OPTIONS"] {
        curl(scene, &allow, &["-X", verb, PAGE])?
            .succeeds()?
            .stdout_has("hello www.test")?;
        is_refused(&curl(scene, &allow, &["-X", verb, "http://evil.test/"])?)?;
    }
    // An allowed web server is no proxy to anybody else.
    for proxy in ["--proxytunnel", "--no-fail"] {
        let words = [proxy, "-x", "http://www.test:80", "http://evil.test/"];
        is_refused(&curl(scene, &allow, &words)?)?;
    }
    let tunnel = curl(scene, &allow, &["-X", "CONNECT", PAGE])?;
    is_refused(&tunnel)?;
    tunnel.stderr_has("it asks for a tunnel")?;
    Ok(())
}

fn b58_no_name_leaves_that_is_not_allowed(scene: &Scene) -> Verdict {
    let town = town(scene)?;
    let allow = ["--allow-host", "www.test", "--allow-host", "*.good.test"];
    scene.script(
        "look.sh",
        "for name in secret.evil2.test $(printf 'k%.0s' $(seq 60)).x.test secret.www.test \\\n\
         www.test.evil2.test; do getent hosts $name; getent ahostsv4 $name; done; true\n",
    )?;
    filtered(scene, &allow, &["sh", "look.sh"])
        .output()?
        .succeeds()?
        .stdout_is("")?;
    // Even an allowed name is not looked up before it is dialled.
    filtered(scene, &allow, &["getent", "ahosts", "a.good.test"])
        .output()?
        .succeeds()?
        .stdout_has("198.18.")?;
    match town.asked().as_slice() {
        [] => {}
        asked => return Err(Stop::failed(format!("names got out: {asked:?}"))),
    }
    // Control: what is allowed and dialled is asked for, so the server does hear.
    curl(scene, &allow, &["http://a.good.test/"])?.succeeds()?;
    match town.asked().iter().any(|name| name == "a.good.test") {
        true => Ok(()),
        false => Err(Stop::failed("the name server hears nothing at all")),
    }
}

fn b59_first_words_must_name_the_host(scene: &Scene) -> Verdict {
    let _town = town(scene)?;
    let allow = ["--allow-host", "www.test"];
    let other = curl(scene, &allow, &["-H", "Host: evil.test", PAGE])?;
    is_refused(&other)?;
    other.stderr_has("what was said was for evil.test")?;
    is_refused(&curl(scene, &allow, &["-H", "Host:", PAGE])?)?;
    is_refused(&curl(scene, &allow, &["--http2-prior-knowledge", PAGE])?)?;
    // Control: the server would have answered.
    scene
        .host("curl")
        .args(["-sS", "-H", "Host: evil.test", PAGE])
        .output()?
        .stdout_has("hello evil.test")?;
    Ok(())
}

fn b59_a_hello_must_name_the_host(scene: &Scene) -> Verdict {
    scene.needs(&["openssl"])?;
    let town = town(scene)?;
    let (cert, key) = super::clients::certificate(scene)?;
    let mut server = std::process::Command::new("openssl");
    server
        .args(["s_server", "-quiet", "-accept", "443", "-www"])
        .arg("-cert")
        .arg(cert)
        .arg("-key")
        .arg(key)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null());
    let mut server = town.program(server)?;
    town.served(443)?;
    let hello = |options: &[&str], name: &[&str]| {
        let mut words = vec!["openssl", "s_client", "-connect", "www.test:443"];
        words.extend_from_slice(name);
        let mut all = vec!["--allow-host", "www.test"];
        all.extend_from_slice(options);
        filtered(scene, &all, &words)
            .input("GET / HTTP/1.0\r\nHost: www.test\r\n\r\n")
            .output()
    };
    let shaken = "BEGIN CERTIFICATE";
    hello(&[], &["-servername", "www.test"])?.stdout_has(shaken)?;
    for (name, words) in [
        (
            &["-servername", "evil.test"][..],
            "what was said was for evil.test",
        ),
        (&["-noservername"], "does not say for whom"),
    ] {
        hello(&[], name)?.lacks(shaken)?.stderr_has(words)?;
    }
    // Control: a policy that allows it.
    if has_own_policy(scene, "[network]\nunnamed = \"allow\"\n")? {
        hello(&[], &["-noservername"])?.stdout_has(shaken)?;
    }
    hello(&[], &["-servername", "evil.test"])?.lacks(shaken)?;
    server.kill()?;
    server.wait()?;
    Ok(())
}

fn b60_a_name_must_not_lead_to_special_addresses(scene: &Scene) -> Verdict {
    let _town = town(scene)?;
    let sixes = [
        // IPv4 in IPv6's clothes, translated, and a private one.
        "00000000000000000000ffff0a090909",
        "0064ff9b00000000000000000a090909",
        "20020a090909000000000000000000009",
        "fd000009000000000000000000000009",
    ];
    let fours = SPECIAL.map(|address| format!("{}.v4.test", address.replace('.', "-")));
    let names = fours
        .into_iter()
        .chain(sixes.map(|hex| format!("{}.v6.test", &hex[..32])));
    for name in names {
        let page = format!("http://{name}/");
        let refused = curl(scene, &["--allow-host", "*.test"], &[&page])?;
        is_refused(&refused)?;
        refused.stderr_has("leads to ")?;
    }
    // Control: the servers are there, and answer whoever is allowed to ask.
    let page = "http://10-9-9-9.v4.test/";
    curl(
        scene,
        &["--allow-host", "*.test", "--allow-host", "10.9.9.0/24"],
        &[page],
    )?
    .succeeds()?
    .stdout_has("hello 10-9-9-9.v4.test")?;
    Ok(())
}

fn b60_a_name_must_not_lead_home(scene: &Scene) -> Verdict {
    let town = town(scene)?;
    town.web_at_home()?;
    let own = format!("http://{}.v4.test/", HOST.replace('.', "-"));
    // Each for its own reason: one check does not stand in for another.
    let (loopback, machine) = ("a loopback address", "an address of this machine");
    let pages = [
        ("http://home.test/", "127.0.0.1", loopback),
        ("http://127-0-0-1.v4.test/", "127.0.0.1", loopback),
        ("http://0-0-0-0.v4.test/", "0.0.0.0", machine),
        (
            "http://00000000000000000000ffff7f000001.v6.test/",
            "127.0.0.1",
            loopback,
        ),
        (
            "http://00000000000000000000000000000001.v6.test/",
            "::1",
            loopback,
        ),
        (&own, HOST, machine),
    ];
    for (page, address, kind) in pages {
        let refused = curl(scene, &["--allow-host", "*.test"], &[page])?;
        is_refused(&refused)?;
        refused.stderr_has(&format!("leads to {address}, {kind}"))?;
        // Control: without a jail it is reached. (Not every system dials 0.0.0.0.)
        let control = scene.host("curl").args(["-sS", page]).output()?;
        if !page.contains("0-0-0-0") {
            control.stdout_has("hello ")?;
        }
    }
    Ok(())
}

fn b60_addresses_in_other_spellings(scene: &Scene) -> Verdict {
    let town = town(scene)?;
    town.web_at_home()?;
    for host in [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "localhost",
        HOST,
        WEB,
        &format!("[{WEB6}]"),
        "169.254.169.254",
        "[fd00:9::9]",
        "198.18.0.1",
    ] {
        // In a script: the line itself would be asked about before it runs.
        scene.file(
            "fetch.sh",
            format!("curl -sS --max-time 60 'http://{host}/'\n"),
        )?;
        let refused = filtered(scene, &["--allow-host", "*"], &["sh", "fetch.sh"]).output()?;
        is_refused(&refused)?;
        // Not because of what is there: because `*` means names.
        refused.stderr_has("is an address that no rule names")?;
    }
    // Control: one of them, outside.
    scene
        .host("curl")
        .args(["-sS", "http://2130706433/"])
        .output()?
        .stdout_has("hello ")?;
    Ok(())
}

fn b61_names_are_compared_by_label(scene: &Scene) -> Verdict {
    let _town = town(scene)?;
    let allow = ["--allow-host", "www.test", "--allow-host", "*.good.test"];
    for page in [
        "http://WWW.test/",
        "http://www.test./",
        "http://user@www.test/",
        "http://a.b.good.test/",
    ] {
        curl(scene, &allow, &[page])?
            .succeeds()?
            .stdout_has("hello ")?;
    }
    for page in [
        "http://www.test.evil.test/",
        "http://evilwww.test/",
        "http://www.test@evil.test/",
        "http://good.test/",
        "http://xgood.test/",
        "http://a.good.test.evil.test/",
        "http://ẁww.test/",
        "http://www。test.evil.test/",
        "http://www.test%00.evil.test/",
    ] {
        is_refused(&curl(scene, &allow, &[page])?)?;
    }
    Ok(())
}

fn b64_other_sockets_reach_nothing(scene: &Scene) -> Verdict {
    let town = town(scene)?;
    scene.needs(&["bash", "python3"])?;
    let heard = town.out_there(|| {
        let socket = UdpSocket::bind((WEB, 443))?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    })?;
    let allow = ["--allow-host", "www.test", "--allow-host", WEB];
    let dial = |host: &str| {
        format!(
            "exec 3<>/dev/tcp/{host}/80 && printf 'GET / HTTP/1.1\\r\\nHost: {host}\\r\\n\\r\\n' >&3 && cat <&3"
        )
    };
    let bash = |host: &str| {
        scene.file("dial.sh", dial(host))?;
        filtered(scene, &allow, &["bash", "dial.sh"]).output()
    };
    bash("www.test")?.stdout_has("hello www.test")?;
    is_refused(&bash("evil.test")?)?;
    scene.file(
        "sockets.py",
        format!(
            "import socket, sys\n\
             def attempt(name, act):\n\
             \x20   try:\n\
             \x20       act()\n\
             \x20       print('OPEN', name)\n\
             \x20   except OSError as error:\n\
             \x20       print('held', name, error)\n\
             def udp(port):\n\
             \x20   s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
             \x20   s.settimeout(20)\n\
             \x20   s.connect(('{WEB}', port))\n\
             \x20   s.send(b'quic?')\n\
             \x20   s.recv(10)\n\
             attempt('udp', lambda: udp(443))\n\
             attempt('udp high', lambda: udp(4433))\n\
             attempt('icmp', lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 1))\n\
             attempt('raw', lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))\n\
             attempt('packet', lambda: socket.socket(17, socket.SOCK_RAW, 0))\n\
             attempt('vsock', lambda: socket.socket(40, socket.SOCK_STREAM))\n\
             attempt('alg', lambda: socket.socket(38, socket.SOCK_SEQPACKET))\n\
             attempt('bluetooth', lambda: socket.socket(31, socket.SOCK_RAW))\n\
             attempt('generic netlink', lambda: socket.socket(16, socket.SOCK_RAW, 16))\n\
             def route():\n\
             \x20   s = socket.socket(16, socket.SOCK_RAW, 0)\n\
             \x20   m = bytes([28,0,0,0,24,0,5,6,0,0,0,0,0,0,0,0,2,0,0,0,254,4,0,1,0,0,0,0])\n\
             \x20   s.send(m)\n\
             \x20   code = int.from_bytes(s.recv(100)[16:20], 'little', signed=True)\n\
             \x20   if code: raise OSError(-code, 'netlink')\n\
             attempt('route', route)\n"
        ),
    )?;
    let tried = filtered(scene, &allow, &["python3", "sockets.py"]).output()?;
    tried.succeeds()?.lacks("OPEN")?.stdout_has("held udp ")?;
    match heard.recv(&mut [0; 16]) {
        Err(_) => {}
        Ok(_) => return Err(Stop::failed("a datagram got out")),
    }
    // Control: outside, a datagram gets there.
    UdpSocket::bind("0.0.0.0:0")?.send_to(b"quic?", (WEB, 443))?;
    heard.set_nonblocking(false)?;
    heard.set_read_timeout(Some(sjail_tests::wait::SOON))?;
    heard.recv(&mut [0; 16])?;
    Ok(())
}

fn b65_variables_are_no_way_out(scene: &Scene) -> Verdict {
    let town = town(scene)?;
    town.server(3128, sjail_tests::town::say_hello)?;
    let proxy = format!("http_proxy=http://{WEB}:3128");
    let options = ["--allow-host", "www.test", "--env", proxy.as_str()];
    is_refused(&curl(scene, &options, &[PAGE])?)?;
    is_refused(&curl(scene, &options, &["http://evil.test/"])?)?;
    // Control: it is a proxy to whoever reaches it.
    scene
        .host("curl")
        .args(["-sS", "http://evil.test/"])
        .env("http_proxy", format!("http://{WEB}:3128"))
        .output()?
        .stdout_has("hello evil.test")?;
    Ok(())
}

fn deny_wins(scene: &Scene) -> Verdict {
    let _town = town(scene)?;
    scene.file("sjail.toml", "[network]\ndeny = [\"evil.test\"]\n")?;
    let all = ["--allow-host", "*.test", "--allow-host", "evil.test"];
    curl(scene, &all, &[PAGE])?.succeeds()?;
    let refused = curl(scene, &all, &["http://evil.test/"])?;
    is_refused(&refused)?;
    refused.stderr_has("denied by the policy")?;
    Ok(())
}

fn ports_are_part_of_the_list(scene: &Scene) -> Verdict {
    let town = town(scene)?;
    town.server(8080, sjail_tests::town::say_hello)?;
    let high = "http://www.test:8080/";
    is_refused(&curl(scene, &["--allow-host", "www.test"], &[high])?)?;
    is_refused(&curl(scene, &["--allow-host", "www.test:8080"], &[PAGE])?)?;
    let other = ["--allow-host", "www.test", "--allow-host", "api.test:8080"];
    let refused = curl(scene, &other, &[high])?;
    is_refused(&refused)?;
    refused.stderr_has("--allow-host www.test:8080")?;
    curl(scene, &["--allow-host", "www.test:8080"], &[high])?
        .succeeds()?
        .stdout_has("hello www.test:8080")?;
    Ok(())
}

fn addresses_and_ranges_are_named_aloud(scene: &Scene) -> Verdict {
    let _town = town(scene)?;
    let page = format!("http://{WEB}/");
    for range in [WEB, "203.0.113.0/24", "203.0.113.10:80"] {
        curl(scene, &["--allow-host", range], &[&page])?
            .succeeds()?
            .stdout_has("hello ")?;
    }
    is_refused(&curl(scene, &["--allow-host", "203.0.113.8/31"], &[&page])?)?;
    curl(
        scene,
        &["--allow-host", "2001:db8:cafe::/64"],
        &[&format!("http://[{WEB6}]/")],
    )?
    .succeeds()?;
    Ok(())
}

fn localhost_is_named_aloud(scene: &Scene) -> Verdict {
    let _town = town(scene)?;
    let listener = TcpListener::bind("127.0.0.1:5432")?;
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            sjail_tests::town::say_hello(stream);
        }
    });
    let page = "http://localhost:5432/";
    is_refused(&curl(scene, &["--allow-host", "*"], &[page])?)?;
    for host in ["localhost:5432", "127.0.0.1:5432"] {
        curl(scene, &["--allow-host", host], &["-4", page])?
            .succeeds()?
            .stdout_has("hello localhost:5432")?;
    }
    Ok(())
}

fn the_files_of_names_are_the_jails_own(scene: &Scene) -> Verdict {
    let _town = town(scene)?;
    let words = [
        "cat",
        "/etc/hosts",
        "/etc/resolv.conf",
        "/etc/nsswitch.conf",
    ];
    filtered(scene, &["--allow-host", "www.test"], &words)
        .output()?
        .succeeds()?
        .stdout_has("nameserver 198.18.0.1")?
        .lacks("www.test")?
        .lacks("203.0.113")?;
    Ok(())
}

fn whoever_speaks_first_is_heard(scene: &Scene) -> Verdict {
    scene.needs(&["bash"])?;
    let town = town(scene)?;
    town.server(22, |mut stream| {
        let _ = stream.write_all(b"SSH-2.0-test\r\n");
        let mut answer = [0; 64];
        let length = stream.read(&mut answer).unwrap_or(0);
        let _ = stream.write_all(&answer[..length]);
    })?;
    scene.file(
        "ssh.sh",
        "exec 3<>/dev/tcp/www.test/22; read -r line <&3; echo \"$line\"; echo SSH-2.0-mine >&3; cat <&3\n",
    )?;
    filtered(scene, &["--allow-host", "www.test:22"], &["bash", "ssh.sh"])
        .output()?
        .stdout_has("SSH-2.0-test")?
        .stdout_has("SSH-2.0-mine")?;
    Ok(())
}

fn halves_are_closed_one_by_one(scene: &Scene) -> Verdict {
    scene.needs(&["python3"])?;
    let town = town(scene)?;
    town.server(7000, |mut stream| {
        // Answers only when the other has said all.
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all);
        let _ = write!(stream, "{} bytes", all.len());
        let _ = stream.shutdown(Shutdown::Write);
    })?;
    scene.file(
        "half.py",
        "import socket\n\
         s = socket.create_connection(('www.test', 7000))\n\
         s.sendall(b'x' * 3000000)\n\
         s.shutdown(socket.SHUT_WR)\n\
         print(s.makefile().read())\n",
    )?;
    filtered(
        scene,
        &["--allow-host", "www.test:7000"],
        &["python3", "half.py"],
    )
    .output()?
    .succeeds()?
    .stdout_has("3000000 bytes")?;
    Ok(())
}

fn names_are_looked_up_by_the_host(scene: &Scene) -> Verdict {
    let _town: Town = town(scene)?;
    let all = ["--allow-host", "*.test"];
    curl(scene, &all, &["http://only-in-dns.test/"])?
        .succeeds()?
        .stdout_has("hello only-in-dns.test")?;
    let six = "20010db8cafe00000000000000000010";
    curl(scene, &all, &[&format!("http://{six}.v6.test/")])?
        .succeeds()?
        .stdout_has("hello 2001")?;
    let none = curl(scene, &all, &["http://none.test/"])?;
    is_refused(&none)?;
    none.stderr_has("there is no such name")?;
    let nobody = curl(scene, &all, &["http://203-0-113-99.v4.test/"])?;
    is_refused(&nobody)?;
    nobody.stderr_has("connecting to 203.0.113.99 failed")?;
    Ok(())
}

fn the_host_s_sockets_are_not_there(scene: &Scene) -> Verdict {
    let town = town(scene)?;
    town.web_at_home()?;
    // A server of the jail's own on loopback is reached as ever.
    scene.needs(&["python3"])?;
    scene.file(
        "own.py",
        "import socket, threading\n\
         s = socket.create_server(('127.0.0.1', 8000))\n\
         def serve():\n\
         \x20   c, _ = s.accept(); c.sendall(b'own server'); c.close()\n\
         threading.Thread(target=serve).start()\n\
         print(socket.create_connection(('127.0.0.1', 8000)).recv(100).decode())\n",
    )?;
    filtered(scene, &["--allow-host", "www.test"], &["python3", "own.py"])
        .output()?
        .succeeds()?
        .stdout_has("own server")?;
    Ok(())
}
