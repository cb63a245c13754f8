//! A broker for one test, and ways to speak to it.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use nix::sys::socket::{getsockopt, sockopt};
use nix::unistd::Pid;
use serde_json::{Value, json};
use sjail_tests::{Call, Output, Scene, Stop, Verdict, wait};

/// A broker for one test, ended with it.
pub struct Desk<'a> {
    pub scene: &'a Scene,
}

impl Drop for Desk<'_> {
    fn drop(&mut self) {
        let pid = self.pid();
        let _ = self.broker(["stop"]).output();
        // Its last record is written after it has answered.
        let Ok(pid) = pid else { return };
        let _ = wait::until_true("the broker has ended", || {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.is_empty() || stat.contains(") Z ")
        });
    }
}

impl<'a> Desk<'a> {
    /// A desk in the scene; the broker starts when it is first needed.
    pub fn at(scene: &'a Scene) -> Desk<'a> {
        Desk { scene }
    }

    /// `sjail-broker WORDS…`
    pub fn broker<const N: usize>(&self, words: [&str; N]) -> Call {
        self.scene
            .host(self.scene.program("sjail-broker"))
            .args(words)
    }

    /// `sjail WORDS…`, to its end.
    pub fn sjail<const N: usize>(&self, words: [&str; N]) -> Verdict<Output> {
        self.scene.sjail(words).output()
    }

    /// A request from a terminal of its own, as a person's.
    pub fn ask(&self, line: &str) -> Verdict<String> {
        self.needs_no_terminal()?;
        let mut terminal = self
            .scene
            .sjail(["run", "--no-wait", "-c", line])
            .terminal()?;
        terminal.expect("approval is pending")?;
        terminal.finish()?;
        self.newest()
    }

    /// The request that was asked last.
    pub fn newest(&self) -> Verdict<String> {
        let listed = self.sjail(["queue", "list", "--json"])?.json()?;
        listed["requests"][0]["id"]
            .as_str()
            .map(str::to_owned)
            .ok_or_else(|| Stop::failed(format!("no request: {listed}")))
    }

    /// Started from a terminal, all of this descends from the shell there: nobody in
    /// it may answer for another.
    pub fn needs_no_terminal(&self) -> Verdict {
        let mut pid = std::process::id();
        while pid > 1 {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
            let rest = stat.rsplit(") ").next().unwrap_or_default();
            let fields: Vec<&str> = rest.split(' ').collect();
            let field = |number: usize| fields.get(number).copied().unwrap_or("0");
            if field(3) == pid.to_string() && field(4) != "0" {
                return self.scene.skip("the tests were started from a terminal");
            }
            pid = field(1).parse()?;
        }
        Ok(())
    }

    /// The commands in the log.
    pub fn log(&self) -> Verdict<Vec<Value>> {
        let log = self.sjail(["audit", "log", "--json"])?.json()?;
        Ok(log.as_array().cloned().unwrap_or_default())
    }

    /// The present broker's process.
    pub fn pid(&self) -> Verdict<Pid> {
        let events = self
            .sjail(["audit", "log", "--events", "--last", "1000", "--json"])?
            .json()?;
        let pid = events
            .as_array()
            .into_iter()
            .flatten()
            .rev()
            .find(|record| record["event"] == "start")
            .and_then(|record| record["detail"]["pid"].as_i64())
            .ok_or_else(|| Stop::failed("no broker has started"))?;
        Ok(Pid::from_raw(i32::try_from(pid)?))
    }

    /// The process that listens at the request socket, by the kernel's word; none if nobody
    /// does.
    pub fn listening(&self) -> Option<Pid> {
        let stream = UnixStream::connect(self.socket("request.sock")).ok()?;
        let peer = getsockopt(&stream, sockopt::PeerCredentials).ok()?;
        Some(Pid::from_raw(peer.pid()))
    }

    /// One of the broker's sockets.
    pub fn socket(&self, name: &str) -> PathBuf {
        self.scene.runtime().join("sjail").join(name)
    }

    /// One Varlink call, its one reply.
    pub fn call(&self, socket: &str, method: &str, parameters: Value) -> Verdict<Value> {
        let mut stream = UnixStream::connect(self.socket(socket))?;
        let call = json!({ "method": method, "parameters": parameters });
        stream.write_all(format!("{call}\0").as_bytes())?;
        let mut reply = Vec::new();
        let mut byte = [0];
        while stream.read(&mut byte)? == 1 && byte[0] != 0 {
            reply.push(byte[0]);
        }
        Ok(serde_json::from_slice(&reply)?)
    }
}
