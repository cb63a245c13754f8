//! Peers on both sides that do not behave: servers that break off, answer by halves or do not
//! read, clients that leave, urgent data, first words of other protocols.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use nix::sys::socket::{setsockopt, sockopt::Linger};
use sjail_tests::{Output, Scene, Stop, Test, Verdict, tests, wait};

use super::{filtered, town};

pub fn tests() -> Vec<Test> {
    tests![
        urgent_data_stops_nobody,
        an_answer_comes_before_a_break,
        half_an_answer_to_an_upgrade_is_an_end,
        who_leaves_during_an_upgrade_is_not_kept,
        who_breaks_off_is_not_kept_for_a_server_that_does_not_read,
        other_protocols_begin_with_words_too,
        a_hello_of_many_kilobytes,
        silent_connections_stop_nobody,
        names_have_an_end,
    ]
}

const CLIENT: &str = "import errno, socket, struct, sys, time\n\
    def connect(port=7000):\n\
    \x20   s = socket.create_connection(('www.test', port))\n\
    \x20   s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)\n\
    \x20   s.settimeout(60)\n\
    \x20   return s\n\
    def rest(s):\n\
    \x20   got = b''\n\
    \x20   try:\n\
    \x20       while True:\n\
    \x20           more = s.recv(65536)\n\
    \x20           if not more: return got + b' END'\n\
    \x20           got += more\n\
    \x20   except ConnectionError: return got + b' RESET'\n";

fn client(scene: &Scene, port: u16, script: &str) -> Verdict<Output> {
    scene.needs(&["python3"])?;
    scene.file("peer.py", format!("{CLIENT}{script}"))?;
    let allow = format!("www.test:{port}");
    filtered(scene, &["--allow-host", &allow], &["python3", "peer.py"]).output()
}

/// Breaks off, so that the other side sees a reset.
fn break_off(stream: TcpStream) {
    let now = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    let _ = setsockopt(&stream, Linger, &now);
}

fn urgent_data_stops_nobody(scene: &Scene) -> Verdict {
    let town = town(scene)?;
    town.server(7000, |mut stream| {
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all);
        let _ = write!(stream, "got {}, ", all.len());
        let urgent = nix::sys::socket::MsgFlags::MSG_OOB;
        let _ = nix::sys::socket::send(stream.as_raw_fd(), b"!", urgent);
        let _ = stream.write_all(b" and more");
    })?;
    let output = client(
        scene,
        7000,
        "s = connect()\n\
         s.sendall(b'x' * 100000)\n\
         s.send(b'!', socket.MSG_OOB)\n\
         s.sendall(b'y' * 100000)\n\
         s.shutdown(socket.SHUT_WR)\n\
         print(rest(s))\n",
    )?;
    output
        .succeeds()?
        .stdout_has("got 200001")?
        .stdout_has("and more END")?;
    Ok(())
}

/// How many bytes of what was written nobody has taken yet.
fn unsent(stream: &TcpStream) -> usize {
    let mut count: libc::c_int = 0;
    // SAFETY: the kernel writes one int, and the descriptor is the stream's own.
    let asked = unsafe { libc::ioctl(stream.as_raw_fd(), libc::TIOCOUTQ, &mut count) };
    match asked {
        0 => usize::try_from(count).unwrap_or(0),
        _ => usize::MAX,
    }
}

/// A server that gives a long answer, and breaks off: what was taken from it arrives, however
/// late the client reads, and whatever the client goes on saying.
fn an_answer_comes_before_a_break(scene: &Scene) -> Verdict {
    let town = town(scene)?;
    let given = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&given);
    let broken = scene.workspace().join("broken");
    town.server(7000, move |mut stream| {
        let _ = stream.read(&mut [0; 16]);
        let _ = stream.set_nonblocking(true);
        let (mut written, mut quiet) = (0, 0);
        while quiet < 20 {
            match stream.write(&[b'n'; 65536]) {
                Ok(length) => (written, quiet) = (written + length, 0),
                Err(_) => {
                    std::thread::sleep(std::time::Duration::from_millis(10));
                    quiet += 1;
                }
            }
        }
        count.store(written.saturating_sub(unsent(&stream)), Ordering::SeqCst);
        break_off(stream);
        let _ = std::fs::write(&broken, "");
    })?;
    let output = client(
        scene,
        7000,
        "import os\n\
         s = connect()\n\
         s.sendall(b'x')\n\
         while not os.path.exists('broken'): time.sleep(0.02)\n\
         try:\n\
         \x20   for _ in range(10):\n\
         \x20       s.sendall(b'more')\n\
         \x20       time.sleep(0.02)\n\
         except ConnectionError: pass\n\
         print('got', rest(s).count(b'n'))\n",
    )?;
    let said = output.succeeds()?.stdout.clone();
    let got: Option<usize> = said
        .trim()
        .strip_prefix("got ")
        .and_then(|number| number.parse().ok());
    let given = given.load(Ordering::SeqCst);
    match got {
        Some(got) if given > 0 && got >= given => Ok(()),
        _ => Err(Stop::failed(format!("{given} bytes were given, {said}"))),
    }
}

fn half_an_answer_to_an_upgrade_is_an_end(scene: &Scene) -> Verdict {
    let town = town(scene)?;
    town.server(7000, |mut stream| {
        let _ = stream.read(&mut [0; 1024]);
        let _ = stream.write_all(b"HTTP");
    })?;
    client(
        scene,
        7000,
        &format!("s = connect()\n{UPGRADE}print(rest(s))\n"),
    )?
    .succeeds()?
    .stdout_has("b'HTTP END'")?;
    Ok(())
}

const UPGRADE: &str = "s.sendall(b'GET / HTTP/1.1\\r\\nHost: www.test\\r\\nConnection: Upgrade\\r\\nUpgrade: websocket\\r\\n\\r\\n')\n";

/// Runs a script beside a server, and waits until that server has seen so many ends.
fn ends(scene: &Scene, count: &Arc<AtomicUsize>, most: usize, script: &str) -> Verdict {
    scene.needs(&["python3"])?;
    let script = format!(
        "{CLIENT}{script}\
         import os\n\
         open('done', 'w').close()\n\
         while not os.path.exists('end'): time.sleep(0.02)\n"
    );
    scene.file("peer.py", script)?;
    let allow = ["--allow-host", "www.test:7000"];
    let mut running = filtered(scene, &allow, &["python3", "peer.py"]).start()?;
    running.wait_for_file(scene.workspace().join("done"))?;
    wait::until_true("the server has seen every end", || {
        count.load(Ordering::SeqCst) == most
    })?;
    scene.file("end", "")?;
    running.finish()?.succeeds()?;
    Ok(())
}

fn who_leaves_during_an_upgrade_is_not_kept(scene: &Scene) -> Verdict {
    let town = town(scene)?;
    let gone = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&gone);
    town.server(7000, move |mut stream| {
        // Never answers.
        let _ = stream.read_to_end(&mut Vec::new());
        count.fetch_add(1, Ordering::SeqCst);
    })?;
    ends(
        scene,
        &gone,
        20,
        &format!("for _ in range(20):\n    s = connect()\n    {UPGRADE}    s.close()\n"),
    )
}

fn who_breaks_off_is_not_kept_for_a_server_that_does_not_read(scene: &Scene) -> Verdict {
    let town = town(scene)?;
    let gone = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&gone);
    town.server(7000, move |mut stream| {
        let _ = stream.write_all(b"go on");
        let reset = wait::until("a reset", || stream.take_error().ok().flatten());
        count.fetch_add(usize::from(reset.is_ok()), Ordering::SeqCst);
    })?;
    ends(
        scene,
        &gone,
        5,
        "for _ in range(5):\n\
         \x20   s = connect()\n\
         \x20   s.sendall(b'x')\n\
         \x20   assert s.recv(5) == b'go on'\n\
         \x20   s.setblocking(False)\n\
         \x20   quiet = 0\n\
         \x20   while quiet < 10:\n\
         \x20       try:\n\
         \x20           s.send(b'x' * 1000000)\n\
         \x20           quiet = 0\n\
         \x20       except BlockingIOError:\n\
         \x20           quiet += 1\n\
         \x20           time.sleep(0.02)\n\
         \x20   s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))\n\
         \x20   s.close()\n",
    )
}

fn other_protocols_begin_with_words_too(scene: &Scene) -> Verdict {
    let town = town(scene)?;
    town.server(2525, |mut stream| {
        let mut line = [0; 64];
        while let Ok(length @ 1..) = stream.read(&mut line) {
            let _ = stream.write_all(&[b"250 heard ", &line[..length]].concat());
        }
    })?;
    client(
        scene,
        2525,
        "s = connect(2525)\n\
         for word in (b'EHLO me\\r\\n', b'MAIL FROM:<a@b.test>\\r\\n', b'QUIT\\r\\n'):\n\
         \x20   s.sendall(word)\n\
         \x20   print(s.recv(100))\n",
    )?
    .succeeds()?
    .stdout_has("250 heard EHLO me")?
    .stdout_has("250 heard QUIT")?;
    // A request stays one, whatever its first line looks like.
    let refused = client(
        scene,
        2525,
        "for line in (b'GET /', b'GET / HTTP/1.1 ', b'FETCH / http/1.1'):\n\
         \x20   s = connect(2525)\n\
         \x20   s.sendall(line + b'\\r\\nHost: evil.test\\r\\n\\r\\n')\n\
         \x20   print(rest(s))\n",
    )?;
    refused.succeeds()?.lacks("heard")?.stdout_has("RESET")?;
    Ok(())
}

fn a_hello_of_many_kilobytes(scene: &Scene) -> Verdict {
    let town = town(scene)?;
    town.server(443, |mut stream| {
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all);
        let _ = write!(stream, "got {}", all.len());
        let _ = stream.shutdown(Shutdown::Write);
    })?;
    // One extension of padding, in front of the name and behind it, in one piece and in many.
    let script = "def hello(name, padding, behind):\n\
        \x20   sni = struct.pack('>HHHBH', 0, len(name) + 5, len(name) + 3, 0, len(name)) + name\n\
        \x20   pad = struct.pack('>HH', 21, padding) + bytes(padding)\n\
        \x20   more = sni + pad if behind else pad + sni\n\
        \x20   body = b'\\3\\3' + bytes(32) + b'\\0' + b'\\0\\2\\x13\\1' + b'\\1\\0' + struct.pack('>H', len(more)) + more\n\
        \x20   body = b'\\1' + struct.pack('>I', len(body))[1:] + body\n\
        \x20   parts = [body[at:at + 16384] for at in range(0, len(body), 16384)]\n\
        \x20   return b''.join(b'\\x16\\3\\1' + struct.pack('>H', len(part)) + part for part in parts)\n\
        for name in (b'www.test', b'evil.test'):\n\
        \x20   for padding in (0, 16000, 40000, 60000):\n\
        \x20       for behind in (False, True):\n\
        \x20           for size in (100000, 1000):\n\
        \x20               words = hello(name, padding, behind)\n\
        \x20               s = connect(443)\n\
        \x20               try:\n\
        \x20                   for at in range(0, len(words), size): s.sendall(words[at:at + size])\n\
        \x20                   s.shutdown(socket.SHUT_WR)\n\
        \x20               except OSError: pass\n\
        \x20               print(name.decode(), b'got %d END' % len(words) == rest(s))\n";
    scene.needs(&["python3"])?;
    scene.file("peer.py", format!("{CLIENT}{script}"))?;
    let allow = ["--allow-host", "www.test"];
    let output = filtered(scene, &allow, &["python3", "peer.py"]).output()?;
    let said = output.succeeds()?.stdout.clone();
    let expected = ["www.test True\n".repeat(16), "evil.test False\n".repeat(16)].concat();
    match said == expected {
        true => Ok(()),
        false => Err(Stop::failed(said)),
    }
}

fn silent_connections_stop_nobody(scene: &Scene) -> Verdict {
    let town = town(scene)?;
    town.server(7000, |mut stream| {
        let _ = stream.write_all(b"hello");
        let _ = stream.read_to_end(&mut Vec::new());
    })?;
    // At the web's port, at one with a server that speaks first, and at both of the resolver's.
    client(
        scene,
        7000,
        "import resource\n\
         hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]\n\
         resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))\n\
         some = []\n\
         for port in (7000, 53, 80, 443):\n\
         \x20   for _ in range(150):\n\
         \x20       s = socket.socket()\n\
         \x20       s.setblocking(False)\n\
         \x20       try: s.connect(('198.18.1.0' if port != 53 else '198.18.0.1', port))\n\
         \x20       except BlockingIOError: pass\n\
         \x20       some.append(s)\n\
         s = connect()\n\
         print(s.recv(5))\n\
         never = socket.create_connection(('198.18.77.77', 80))\n\
         print('never given', rest(never))\n",
    )?
    .succeeds()?
    .stdout_has("b'hello'")?
    .stdout_has("never given b' RESET'")?
    .stderr_has("198.18.77.77:80 was refused: it is an address that no rule names")?;
    Ok(())
}

fn names_have_an_end(scene: &Scene) -> Verdict {
    let _town = town(scene)?;
    scene.needs(&["python3"])?;
    let script = "import threading, urllib.request\n\
        def question(number):\n\
        \x20   label = b'n%d' % number\n\
        \x20   packet = struct.pack('>HHHHHH', 7, 0x100, 1, 0, 0, 0) + bytes([len(label)]) + label + b'\\4test\\0\\0\\1\\0\\1'\n\
        \x20   return struct.pack('>H', len(packet)) + packet\n\
        def exactly(s, count):\n\
        \x20   got = b''\n\
        \x20   while len(got) < count:\n\
        \x20       more = s.recv(count - len(got))\n\
        \x20       assert more, 'cut off'\n\
        \x20       got += more\n\
        \x20   return got\n\
        socket.gethostbyname('www.test')\n\
        s = socket.create_connection(('198.18.0.1', 53))\n\
        given = refused = 0\n\
        for turn in range(660):\n\
        \x20   s.sendall(b''.join(question(turn * 100 + number) for number in range(100)))\n\
        \x20   for _ in range(100):\n\
        \x20       answer = exactly(s, struct.unpack('>H', exactly(s, 2))[0])\n\
        \x20       if answer[3] & 15 == 3: refused += 1\n\
        \x20       else: given += 1\n\
        print(given, refused)\n\
        print(urllib.request.urlopen('http://www.test/').read())\n";
    scene.file("peer.py", format!("{CLIENT}{script}"))?;
    let allow = ["--allow-host", "*.test"];
    filtered(scene, &allow, &["python3", "peer.py"])
        .output()?
        .succeeds()?
        .stdout_has("65535 465")?
        .stdout_has("hello www.test")?
        .stderr_has("is one name more than a run may look up")?;
    Ok(())
}
