//! The relay under load: nothing is left behind, and its memory stays flat. The long ones
//! run when `network-load` is named.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{setsockopt, sockopt::Linger};
use nix::unistd::Pid;
use sjail_tests::{Identity, Running, Scene, Stop, Test, Verdict, tests, wait};

use super::record::relay;
use super::{filtered, town};

pub fn tests() -> Vec<Test> {
    tests![
        whatever_ends_a_connection_leaves_nothing,
        the_jails_own_network_is_not_paced
    ]
}

pub fn long() -> Vec<Test> {
    tests![
        a_thousand_connections_at_once,
        ten_gib_through_one_connection,
        slow_readers_cost_no_memory,
    ]
    .into_iter()
    .map(|test| test.alone().timeout(600))
    .collect()
}

/// Nothing in there leaves the machine, whatever the host has chosen for its own lines.
fn the_jails_own_network_is_not_paced(scene: &Scene) -> Verdict {
    let how = "/proc/sys/net/ipv4/tcp_congestion_control";
    filtered(scene, &[], &["cat", how])
        .output()?
        .stdout_is("reno\n")?;
    Ok(())
}

/// What a relay holds: resident kilobytes, and descriptors where we may look.
struct Held {
    memory: u64,
    descriptors: Option<usize>,
}

fn held(relay: Pid) -> Verdict<Held> {
    let status = std::fs::read_to_string(format!("/proc/{relay}/status"))?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let memory = line
        .and_then(|line| line.split_ascii_whitespace().nth(1)?.parse().ok())
        .ok_or_else(|| Stop::failed("the relay has no memory"))?;
    let descriptors = std::fs::read_dir(format!("/proc/{relay}/fd"));
    Ok(Held {
        memory,
        descriptors: descriptors.ok().map(Iterator::count),
    })
}

/// Fails unless the relay comes back to what it held, but for spare pipes.
fn is_empty_again(scene: &Scene, relay: Pid, before: &Held) -> Verdict {
    if scene.identity() == Identity::Root && before.descriptors.is_none() {
        return Err(Stop::failed("the relay's descriptors cannot be counted"));
    }
    let Some(count) = before.descriptors else {
        return Ok(());
    };
    wait::until_true("the relay has closed everything", || {
        // At most 64 empty pipes of two ends each are kept.
        held(relay).is_ok_and(|now| now.descriptors.is_some_and(|now| now <= count + 128))
    })
}

/// A script inside that waits for `go`, works, says `done` by a file and waits for `end`.
fn start(scene: &Scene, work: &str) -> Verdict<Running> {
    scene.needs(&["python3"])?;
    scene.file(
        "load.py",
        format!(
            "import os, resource, signal, socket, struct, subprocess, sys, time\n\
             hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]\n\
             resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))\n\
             def wait(name):\n\
             \x20   while not os.path.exists(name): time.sleep(0.02)\n\
             def connect(): return socket.create_connection(('www.test', 7000))\n\
             open('started', 'w').close()\n\
             wait('go')\n\
             {work}\n\
             open('done', 'w').close()\n\
             wait('end')\n"
        ),
    )?;
    let allow = ["--allow-host", "www.test:7000"];
    let mut running = filtered(scene, &allow, &["python3", "load.py"]).start()?;
    running.wait_for_file(scene.workspace().join("started"))?;
    Ok(running)
}

/// Lets the script work; gives what the relay held before and how long it took.
fn work(scene: &Scene, running: &mut Running) -> Verdict<(Pid, Held, Duration)> {
    let relay = relay(running.pid())?;
    let before = held(relay)?;
    let began = Instant::now();
    scene.file("go", "")?;
    let done = scene.workspace().join("done");
    wait::until_within(Duration::from_secs(500), "the work is done", || {
        (done.exists() || running.ended()).then_some(())
    })?;
    if !done.exists() {
        return Err(Stop::failed("the command ended before its work was done"));
    }
    Ok((relay, before, began.elapsed()))
}

fn echo(mut stream: TcpStream) {
    let mut piece = [0; 4096];
    loop {
        match stream.read(&mut piece) {
            // The word to break off.
            Ok(length) if piece[..length].starts_with(b"break") => {
                let now = libc::linger {
                    l_onoff: 1,
                    l_linger: 0,
                };
                let _ = setsockopt(&stream, Linger, &now);
                return;
            }
            Ok(0) | Err(_) => break,
            Ok(length) => {
                if stream.write_all(&piece[..length]).is_err() {
                    return;
                }
            }
        }
    }
    let _ = stream.write_all(b"bye");
    let _ = stream.shutdown(Shutdown::Write);
}

fn whatever_ends_a_connection_leaves_nothing(scene: &Scene) -> Verdict {
    let town = town(scene)?;
    town.server(7000, echo)?;
    let mut running = start(
        scene,
        "now = struct.pack('ii', 1, 0)\n\
         some = [connect() for _ in range(80)]\n\
         for s in some: s.sendall(b'hello')\n\
         for s in some: assert s.recv(5) == b'hello'\n\
         for s in some[:20]: s.shutdown(socket.SHUT_WR)\n\
         for s in some[:20]: assert s.makefile().read() == 'bye'\n\
         for s in some[20:40]: s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, now)\n\
         for s in some[40:60]: s.sendall(b'break')\n\
         for s in some[40:60]:\n\
         \x20   try: assert s.recv(5) == b''\n\
         \x20   except ConnectionError: pass\n\
         for s in some: s.close()\n\
         child = subprocess.Popen([sys.executable, '-c', 'import socket\\nsome = [socket.create_connection((\"www.test\", 7000)) for _ in range(20)]\\nprint(1, flush=True)\\ninput()'], stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n\
         child.stdout.readline()\n\
         child.kill()\n\
         child.wait()",
    )?;
    let (relay, before, _) = work(scene, &mut running)?;
    is_empty_again(scene, relay, &before)?;
    scene.file("end", "")?;
    running.finish()?.succeeds()?;
    Ok(())
}

fn a_thousand_connections_at_once(scene: &Scene) -> Verdict {
    let town = town(scene)?;
    town.server(7000, echo)?;
    let mut running = start(
        scene,
        "for turn in range(5):\n\
         \x20   some = [connect() for _ in range(1000)]\n\
         \x20   for s in some: s.sendall(b'hello')\n\
         \x20   for s in some: assert s.recv(5) == b'hello'\n\
         \x20   for s in some: s.close()",
    )?;
    let (relay, before, took) = work(scene, &mut running)?;
    is_empty_again(scene, relay, &before)?;
    let after = held(relay)?;
    eprintln!(
        "5 x 1,000 connections in {took:?}; the relay's memory: {} KiB before, {} KiB after",
        before.memory, after.memory
    );
    assert!(after.memory < before.memory + (16 << 10));
    scene.file("end", "")?;
    running.finish()?.succeeds()?;
    Ok(())
}

const TEN_GIB: u64 = 10 << 30;

fn ten_gib_through_one_connection(scene: &Scene) -> Verdict {
    let town = town(scene)?;
    town.server(7000, |mut stream| {
        // Whoever closes before it has read everything breaks off.
        if stream.read_exact(&mut [0]).is_err() {
            return;
        }
        let zeros = vec![0; 1 << 20];
        for _ in 0..TEN_GIB >> 20 {
            if stream.write_all(&zeros).is_err() {
                return;
            }
        }
    })?;
    let mut running = start(
        scene,
        &format!(
            "s = connect()\n\
             s.sendall(b'x')\n\
             room = bytearray(1 << 20)\n\
             total = 0\n\
             while True:\n\
             \x20   length = s.recv_into(room)\n\
             \x20   if not length: break\n\
             \x20   total += length\n\
             assert total == {TEN_GIB}, total"
        ),
    )?;
    let (relay, before, took) = work(scene, &mut running)?;
    let after = held(relay)?;
    eprintln!(
        "10 GiB in {took:?}: {:.2} GiB/s; the relay's memory: {} KiB before, {} KiB after",
        10.0 / took.as_secs_f64(),
        before.memory,
        after.memory
    );
    assert!(after.memory < before.memory + (4 << 10));
    scene.file("end", "")?;
    running.finish()?.succeeds()?;
    Ok(())
}

fn slow_readers_cost_no_memory(scene: &Scene) -> Verdict {
    let town = town(scene)?;
    town.server(7000, |mut stream| {
        // As much as anybody takes.
        let zeros = vec![0; 1 << 20];
        for _ in 0..64 {
            if stream.write_all(&zeros).is_err() {
                return;
            }
        }
    })?;
    let mut running = start(
        scene,
        "some = [connect() for _ in range(100)]\n\
         for s in some: s.sendall(b'x')\n\
         for turn in range(20):\n\
         \x20   for s in some: s.recv(1000)\n\
         \x20   time.sleep(0.1)",
    )?;
    let (relay, before, _) = work(scene, &mut running)?;
    let after = held(relay)?;
    eprintln!(
        "100 slow readers; the relay's memory: {} KiB before, {} KiB with them",
        before.memory, after.memory
    );
    assert!(after.memory < before.memory + (16 << 10));
    // Who is killed while others wait for it leaves nothing either.
    kill(running.pid(), Signal::SIGKILL)?;
    running.finish()?;
    wait::until_true("the relay is gone", || {
        match std::fs::read_to_string(format!("/proc/{relay}/status")) {
            Ok(status) => status.contains("State:\tZ"),
            Err(_) => true,
        }
    })
}
