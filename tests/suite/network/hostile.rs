//! What a command that knows how the filtered network works would try: packets and first
//! words that are none, floods, and ways to have nothing written down.

use std::io::{Read, Write};
use std::net::TcpStream;

use sjail_tests::{Identity, Scene, Stop, Test, Verdict, tests};

use super::{curl, filtered, is_refused, town};

pub fn tests() -> Vec<Test> {
    let mut tests = tests![
        hostile_packets_to_the_resolver,
        a_flood_of_names_hides_nothing,
        long_and_odd_words_hide_nothing,
        a_hello_in_pieces,
        other_protocols_on_the_webs_ports,
        names_at_their_longest,
        scopes_are_no_way_around,
        an_answer_with_many_addresses,
    ];
    // An own policy is needed, which an ordinary user's world cannot have.
    tests.push(
        Test::new(
            "a_flood_of_questions_stops_nobody",
            a_flood_of_questions_stops_nobody,
        )
        .only(Identity::Root),
    );
    tests
}

const ALLOW: [&str; 2] = ["--allow-host", "www.test"];

fn python(scene: &Scene, options: &[&str], script: &str) -> Verdict<sjail_tests::Output> {
    scene.needs(&["python3"])?;
    scene.file("try.py", script)?;
    filtered(scene, options, &["python3", "try.py"]).output()
}

fn hostile_packets_to_the_resolver(scene: &Scene) -> Verdict {
    let _town = town(scene)?;
    let script = "import random, socket, struct\n\
        random.seed(7)\n\
        def name(*labels): return b''.join(bytes([len(l)]) + l for l in labels) + b'\\0'\n\
        def head(flags=0x100, counts=(1, 0, 0, 0)): return struct.pack('>HHHHHH', 7, flags, *counts)\n\
        good = head() + name(b'www', b'test') + b'\\0\\1\\0\\1'\n\
        packets = [b'', b'\\0', head(), head() + b'\\xc0\\x0c' + b'\\0\\1\\0\\1', head() + b'\\x40' + b'a' * 64,\n\
        \x20   head() + (b'\\x3f' + b'a' * 63) * 8 + b'\\0\\0\\1\\0\\1', head(counts=(65535, 65535, 65535, 65535)),\n\
        \x20   head(flags=0x8180) + name(b'www', b'test') + b'\\0\\1\\0\\1', head(flags=0x7900) + good[12:],\n\
        \x20   head() + name(b'www.test') + b'\\0\\1\\0\\1', head() + name(b'evil\\0', b'www', b'test') + b'\\0\\1\\0\\1',\n\
        \x20   good[:-1], good + b'\\0' * 4000, b'\\xff' * 4096, head() + b'\\0' + b'\\0\\2\\0\\1']\n\
        for _ in range(3000):\n\
        \x20   noise = bytearray(random.choice(packets) or good)\n\
        \x20   for _ in range(random.randrange(6)):\n\
        \x20       noise[random.randrange(len(noise))] = random.randrange(256)\n\
        \x20   packets.append(bytes(noise))\n\
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
        for packet in packets: s.sendto(packet, ('198.18.0.1', 53))\n\
        for packet in packets[:300]:\n\
        \x20   t = socket.create_connection(('198.18.0.1', 53))\n\
        \x20   try:\n\
        \x20       t.sendall(struct.pack('>H', random.choice([len(packet), 0, 65535])) + packet)\n\
        \x20   except OSError: pass\n\
        \x20   t.close()\n\
        # Whole questions, one byte at a time, and many in one piece.\n\
        t = socket.create_connection(('198.18.0.1', 53))\n\
        t.settimeout(60)\n\
        for byte in struct.pack('>H', len(good)) + good: t.sendall(bytes([byte]))\n\
        for _ in range(50): t.sendall(struct.pack('>H', len(good)) + good)\n\
        got = b''\n\
        while got.count(b'www') < 51: got += t.recv(4096)\n\
        print('stream', got.count(b'www'))\n\
        # Other kinds of records are answered at once: nothing hangs.\n\
        for kind in (2, 5, 6, 12, 15, 16, 33, 64, 65, 99, 255, 257):\n\
        \x20   u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
        \x20   u.settimeout(60)\n\
        \x20   u.sendto(good[:-4] + struct.pack('>HH', kind, 1), ('198.18.0.1', 53))\n\
        \x20   answer = u.recv(4096)\n\
        \x20   assert answer[:2] == b'\\0\\7' and answer[3] & 15 == 0 and answer[6:8] == b'\\0\\0', answer\n\
        print(socket.gethostbyname('www.test'))\n";
    python(scene, &ALLOW, script)?
        .succeeds()?
        .stdout_has("stream 51")?
        .stdout_has("198.18.")?;
    Ok(())
}

fn a_flood_of_names_hides_nothing(scene: &Scene) -> Verdict {
    let _town = town(scene)?;
    let script = "import socket, struct, urllib.request\n\
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
        s.settimeout(60)\n\
        for number in range(3000):\n\
        \x20   label = b'n%d' % number\n\
        \x20   s.sendto(struct.pack('>HHHHHH', 7, 0x100, 1, 0, 0, 0) + bytes([len(label)]) + label + b'\\4evil\\4test\\0\\0\\1\\0\\1', ('198.18.0.1', 53))\n\
        \x20   s.recv(512)\n\
        print(urllib.request.urlopen('http://www.test/', data=b'secret').read())\n";
    let output = python(scene, &[&["--json"], &ALLOW[..]].concat(), script)?;
    let network = output.succeeds()?.json()?["network"].clone();
    let entries = network.as_array().cloned().unwrap_or_default();
    let kept = entries
        .iter()
        .any(|entry| entry["host"] == "www.test" && entry["decision"] == "allow");
    let count = |entry: &serde_json::Value| entry["count"].as_u64().unwrap_or(0);
    let refused: u64 = entries
        .iter()
        .filter(|entry| entry["decision"] == "refuse")
        .map(count)
        .sum();
    match (kept, refused) {
        (true, 3000..) => Ok(()),
        _ => Err(Stop::failed(format!(
            "kept: {kept}, refused: {refused} in {} entries",
            entries.len()
        ))),
    }
}

fn long_and_odd_words_hide_nothing(scene: &Scene) -> Verdict {
    let _town = town(scene)?;
    let script = "import socket, urllib.request\n\
        def send(words, place=('www.test', 80)):\n\
        \x20   s = socket.create_connection(place)\n\
        \x20   try:\n\
        \x20       s.sendall(words)\n\
        \x20       assert b'hello' not in s.recv(100)\n\
        \x20   except ConnectionError: pass\n\
        long = b'\\xe2\\x80\\xae' * 15000\n\
        send(b'GET / HTTP/1.1\\r\\nHost: ' + long + b'\\r\\n\\r\\n')\n\
        send(b'GET http://' + long + b'/ HTTP/1.1\\r\\nHost: www.test\\r\\n\\r\\n')\n\
        send(b'CONNECT ' + long + b':443 HTTP/1.1\\r\\n\\r\\n', ('198.18.0.1', 3128))\n\
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))\n\
        print(opener.open('http://www.test/', data=b'secret').read())\n";
    let options = [&["--json", "--proxy"], &ALLOW[..]].concat();
    let output = python(scene, &options, script)?;
    let result = output.succeeds()?.json()?;
    let entries = result["network"].as_array().cloned().unwrap_or_default();
    let is = |host: &str, decision: &str| {
        entries
            .iter()
            .any(|entry| entry["host"] == host && entry["decision"] == decision)
    };
    match is("www.test", "allow") && is("www.test", "refuse") && !is("(relay)", "refuse") {
        true => Ok(()),
        false => Err(Stop::failed(format!("{result}"))),
    }
}

/// Says how many bytes came before the other side had said all.
fn counts(mut stream: TcpStream) {
    let mut all = Vec::new();
    let _ = stream.read_to_end(&mut all);
    let _ = write!(stream, "server got {}", all.len());
}

fn a_hello_in_pieces(scene: &Scene) -> Verdict {
    let town = town(scene)?;
    town.server(443, counts)?;
    let script = "import errno, socket, ssl, struct\n\
        def hello(name):\n\
        \x20   coming, going = ssl.MemoryBIO(), ssl.MemoryBIO()\n\
        \x20   context = ssl.create_default_context()\n\
        \x20   talk = context.wrap_bio(coming, going, server_hostname=name)\n\
        \x20   try: talk.do_handshake()\n\
        \x20   except ssl.SSLWantReadError: pass\n\
        \x20   return going.read()\n\
        def records(hello, size):\n\
        \x20   body = hello[5:]\n\
        \x20   parts = [body[at:at + size] for at in range(0, len(body), size)]\n\
        \x20   return b''.join(hello[:3] + struct.pack('>H', len(part)) + part for part in parts)\n\
        def send(words):\n\
        \x20   s = socket.create_connection(('www.test', 443))\n\
        \x20   s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)\n\
        \x20   s.settimeout(60)\n\
        \x20   try:\n\
        \x20       for byte in words: s.sendall(bytes([byte]))\n\
        \x20       s.shutdown(socket.SHUT_WR)\n\
        \x20       return s.makefile().read() or 'end'\n\
        \x20   except OSError as error:\n\
        \x20       if error.errno in (errno.ECONNRESET, errno.EPIPE, errno.ENOTCONN): return 'reset'\n\
        \x20       raise\n\
        for name in ('www.test', 'WWW.Test', 'evil.test', 'www.test.evil.test'):\n\
        \x20   for words in (hello(name), records(hello(name), 20), records(hello(name), 1)):\n\
        \x20       print(name, len(words), send(words))\n\
        # Half a hello names nobody.\n\
        print('half', send(hello('www.test')[:-1]))\n\
        # A name and its dot is the same host, but no hello has it.\n\
        whole = hello('www.test-')\n\
        print('dot', send(whole.replace(b'www.test-', b'www.test.')))\n\
        print('nul', send(whole.replace(b'www.test-', b'www.test\\0')))\n";
    let output = python(scene, &ALLOW, script)?;
    output.succeeds()?;
    let said = output.stdout.clone();
    for line in said.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let right = match words.as_slice() {
            ["www.test" | "WWW.Test", size, "server", "got", count] => size == count,
            ["evil.test" | "www.test.evil.test", _, "reset"] => true,
            ["half" | "nul", "reset"] => true,
            ["dot", "server", "got", _] => true,
            _ => false,
        };
        if !right {
            return Err(Stop::failed(format!("{line:?} in {said}")));
        }
    }
    match said.lines().count() {
        15 => Ok(()),
        _ => Err(Stop::failed(said)),
    }
}

fn other_protocols_on_the_webs_ports(scene: &Scene) -> Verdict {
    let town = town(scene)?;
    town.server(443, counts)?;
    let script = "import socket, sys\n\
        for words in (b'hello\\n', b'\\0\\1\\2', b'SSH-2.0-x\\r\\n', b'get / HTTP/1.1\\r\\nHost: www.test\\r\\n\\r\\n', b'\\x80\\x2e\\1\\3\\1', b'\\x16\\2\\0\\0\\5hello'):\n\
        \x20   s = socket.create_connection(('www.test', 443))\n\
        \x20   s.settimeout(60)\n\
        \x20   try:\n\
        \x20       s.sendall(words)\n\
        \x20       s.shutdown(socket.SHUT_WR)\n\
        \x20       print(words, s.makefile('rb').read())\n\
        \x20   except OSError: print('held')\n";
    let output = python(scene, &ALLOW, script)?;
    output
        .succeeds()?
        .lacks("server got")?
        .stdout_is(&"held\n".repeat(6))?;
    // Control: the server answers to anything.
    scene
        .host("python3")
        .args(["try.py"])
        .output()?
        .stdout_has("server got 6")?;
    Ok(())
}

fn names_at_their_longest(scene: &Scene) -> Verdict {
    let _town = town(scene)?;
    // 253 characters, the most that a name has; one more is none.
    let long = format!("{}{}.test", "a.".repeat(93), "b".repeat(62));
    assert_eq!(long.len(), 253);
    let all = ["--allow-host", "*.test"];
    curl(scene, &all, &[&format!("http://{long}/")])?
        .succeeds()?
        .stdout_has("hello a.a.a.")?;
    for bad in [
        format!("http://a{long}/"),
        format!("http://{}.test/", "c".repeat(64)),
    ] {
        is_refused(&curl(scene, &all, &[&bad])?)?;
    }
    Ok(())
}

fn scopes_are_no_way_around(scene: &Scene) -> Verdict {
    let town = town(scene)?;
    town.web_at_home()?;
    let script = "import socket\n\
        for address in (('fe80::1', 80, 0, 1), ('::1', 80, 0, 1), ('ff02::1', 80, 0, 1), ('::ffff:127.0.0.1', 80, 0, 1)):\n\
        \x20   s = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)\n\
        \x20   s.settimeout(60)\n\
        \x20   try:\n\
        \x20       s.connect(address)\n\
        \x20       s.sendall(b'GET / HTTP/1.1\\r\\nHost: www.test\\r\\n\\r\\n')\n\
        \x20       print('OPEN' if s.recv(100) else 'held', address)\n\
        \x20   except OSError as error: print('held', address, error)\n";
    let output = python(scene, &["--allow-host", "*"], script)?;
    output.succeeds()?.lacks("OPEN")?.stdout_has("held")?;
    Ok(())
}

fn an_answer_with_many_addresses(scene: &Scene) -> Verdict {
    let _town = town(scene)?;
    // The name server gives two hundred addresses of the machine's own, and one good one.
    curl(scene, &["--allow-host", "*.test"], &["http://many.test/"])?
        .succeeds()?
        .stdout_has("hello many.test")?;
    Ok(())
}

fn a_flood_of_questions_stops_nobody(scene: &Scene) -> Verdict {
    let _town = town(scene)?;
    scene.home_file(
        ".config/sjail/policy.toml",
        "[network]\nmode = \"filtered\"\nask = true\nallow = [\"www.test\", \"x.test:1001\", \"x.test:1002\", \"x.test:1003\"]\n",
    )?;
    let script = "import socket, urllib.request\n\
        some = []\n\
        for number in range(3000):\n\
        \x20   s = socket.socket()\n\
        \x20   s.setblocking(False)\n\
        \x20   try: s.connect((socket.gethostbyname('n%d.test' % (number // 6)), (22, 80, 443, 1001, 1002, 1003)[number % 6]))\n\
        \x20   except OSError: pass\n\
        \x20   some.append(s)\n\
        \x20   if len(some) > 800: some.pop(0).close()\n\
        print(urllib.request.urlopen('http://www.test/').read())\n";
    scene.needs(&["python3"])?;
    scene.file("flood.py", script)?;
    scene
        .run(["--", "python3", "flood.py"])
        .output()?
        .succeeds()?
        .stdout_has("hello www.test")?;
    Ok(())
}
