//! Plain HTTP, request by request: a connection that was opened for one host is for that
//! host to its end.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use sjail_tests::{Scene, Test, Verdict, tests};

use super::{filtered, town};

pub fn tests() -> Vec<Test> {
    tests![
        b59_every_request_names_the_host,
        what_keeps_a_connection_open_works,
        b62_what_goes_to_an_allowed_host_is_written_down,
    ]
}

/// Answers one request after the other, whatever they say, and becomes an echo when asked to.
fn answers_all(mut stream: TcpStream) {
    let Ok(copy) = stream.try_clone() else {
        return;
    };
    let mut reader = BufReader::new(copy);
    loop {
        let (mut host, mut length, mut upgrade) = (String::new(), 0, false);
        let mut line = String::new();
        loop {
            line.clear();
            match reader.read_line(&mut line) {
                Ok(0) | Err(_) => return,
                Ok(_) if line.trim().is_empty() => break,
                Ok(_) => {}
            }
            let lower = line.to_ascii_lowercase();
            if let Some(value) = lower.strip_prefix("host:") {
                host = value.trim().to_owned();
            }
            if let Some(value) = lower.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap_or(0);
            }
            upgrade |= lower.starts_with("upgrade: websocket");
        }
        if upgrade {
            let _ = stream.write_all(b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\n\r\n");
            let mut word = [0; 4];
            while reader.read_exact(&mut word).is_ok() {
                let _ = stream.write_all(&word);
            }
            return;
        }
        let mut body = vec![0; length];
        let _ = reader.read_exact(&mut body);
        let text = format!("hello {host} {length}\n");
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}",
            text.len()
        );
        if stream.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

const CLIENT: &str = "import socket, sys\n\
    def connect():\n\
    \x20   s = socket.create_connection(('www.test', 8000))\n\
    \x20   s.settimeout(60)\n\
    \x20   return s\n\
    def until(s, what):\n\
    \x20   got = b''\n\
    \x20   while what not in got:\n\
    \x20       try:\n\
    \x20           more = s.recv(4096)\n\
    \x20       except ConnectionError:\n\
    \x20           more = b''\n\
    \x20       if not more:\n\
    \x20           return got.decode() + ' CUT OFF'\n\
    \x20       got += more\n\
    \x20   return got.decode()\n\
    def request(host, more='', body=''):\n\
    \x20   return f'POST / HTTP/1.1\\r\\nHost: {host}\\r\\n{more}\\r\\n{body}'.encode()\n";

fn b59_every_request_names_the_host(scene: &Scene) -> Verdict {
    let town = town(scene)?;
    scene.needs(&["python3"])?;
    town.server(8000, answers_all)?;
    let script = format!(
        "{CLIENT}\
         evil = request('evil.test')\n\
         after = [b'', request('www.test'), request('www.test', 'Content-Length: 3\\r\\n', 'abc')]\n\
         for before in after:\n\
         \x20   s = connect()\n\
         \x20   s.sendall(request('www.test'))\n\
         \x20   print(until(s, b'hello www.test'))\n\
         \x20   s.sendall(before + evil)\n\
         \x20   print(until(s, b'hello evil.test'))\n\
         if len(sys.argv) > 1: sys.exit()\n\
         for smuggled in (\n\
         \x20   request('www.test') + evil,\n\
         \x20   request('www.test', f'Content-Length: 0\\r\\nContent-Length: {{len(evil)}}\\r\\n') + evil,\n\
         \x20   request('www.test', f'X: y\\nContent-Length: {{len(evil)}}\\r\\n') + evil,\n\
         \x20   request('www.test', 'Upgrade: h2c\\r\\n') + evil,\n\
         \x20   b'\\r\\n' + evil,\n\
         ):\n\
         \x20   s = connect()\n\
         \x20   s.sendall(smuggled)\n\
         \x20   print(until(s, b'hello evil.test'))\n"
    );
    scene.file("next.py", script)?;
    let allow = ["--allow-host", "www.test:8000"];
    let tried = filtered(scene, &allow, &["python3", "next.py"]).output()?;
    tried
        .succeeds()?
        .lacks("hello evil.test")?
        .stdout_has("hello www.test")?
        .stderr_has("what was said was for evil.test")?;
    // Control: the server answers to any name, as often as it is asked.
    scene
        .host("python3")
        .args(["next.py", "plainly"])
        .output()?
        .succeeds()?
        .stdout_has("hello evil.test")?;
    Ok(())
}

fn what_keeps_a_connection_open_works(scene: &Scene) -> Verdict {
    let town = town(scene)?;
    scene.needs(&["python3"])?;
    town.server(8000, answers_all)?;
    let script = format!(
        "{CLIENT}\
         s = connect()\n\
         for size in (0, 5, 3000000, 1):\n\
         \x20   s.sendall(request('www.test:8000', f'Content-Length: {{size}}\\r\\n', 'x' * size))\n\
         \x20   print(until(s, f'8000 {{size}}\\n'.encode()))\n\
         s = connect()\n\
         s.sendall(request('www.test', 'Connection: Upgrade\\r\\nUpgrade: websocket\\r\\n'))\n\
         print(until(s, b'\\r\\n\\r\\n'))\n\
         s.sendall(b'\\x01\\x02\\n\\n')\n\
         print('echo', until(s, b'\\x01\\x02\\n\\n'))\n"
    );
    scene.file("open.py", script)?;
    let allow = ["--allow-host", "www.test:8000"];
    filtered(scene, &allow, &["python3", "open.py"])
        .output()?
        .succeeds()?
        .stdout_has("8000 3000000")?
        .stdout_has("8000 1\n")?
        .stdout_has("echo")?
        .lacks("CUT OFF")?;
    Ok(())
}

/// Whoever is allowed can be told anything: the record says how much was.
fn b62_what_goes_to_an_allowed_host_is_written_down(scene: &Scene) -> Verdict {
    let _town = town(scene)?;
    scene.file("secret", vec![b'x'; 200_000])?;
    let sent = super::curl(
        scene,
        &["--json", "--allow-host", "www.test"],
        &[
            "--data-binary",
            "@secret",
            "-o",
            "/dev/null",
            "http://www.test/",
        ],
    )?
    .succeeds()?
    .json()?;
    let entry = &sent["network"][0];
    assert_eq!(entry["host"], "www.test");
    let bytes = entry["sent"].as_u64().unwrap_or(0);
    assert!((200_000..202_000).contains(&bytes), "{entry}");
    // Publishing on purpose is asked about, whoever is allowed.
    scene.sjail(["check", "npm publish"]).output()?.exits(75)?;
    Ok(())
}
