//! git over ssh, and the owner's agent: it signs for logins at allowed hosts, and for nothing
//! else.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use sjail_tests::town::{Town, WEB};
use sjail_tests::{Call, Identity, Scene, Stop, Test, Verdict, tests, wait};

use super::clients::make;

pub fn tests() -> Vec<Test> {
    // A server of ssh that is not root's lets in whoever started it.
    tests![
        a_clone_and_a_push_over_ssh,
        without_a_word_there_is_no_agent,
        the_agent_signs_for_known_hosts_alone,
        the_agent_signs_nothing_but_logins,
    ]
    .into_iter()
    .map(|test| test.only(Identity::User))
    .collect()
}

/// Two servers of ssh with a key each (the one on port 22 is known), and an agent with two
/// keys, of which one may log in.
struct Forge {
    _town: Town,
    programs: Vec<Child>,
    agent: PathBuf,
    url: String,
}

impl Forge {
    fn new(scene: &Scene) -> Verdict<Forge> {
        scene.needs(&["git", "ssh", "ssh-agent", "ssh-add", "ssh-keygen"])?;
        let Some(server) = ["/usr/sbin/sshd", "/usr/bin/sshd"]
            .into_iter()
            .find(|path| fs::metadata(path).is_ok())
        else {
            return scene.skip("there is no sshd");
        };
        let folder = scene.outside().join("forge");
        fs::create_dir_all(&folder)?;
        make(
            &folder,
            "for name in host other mine yours; do ssh-keygen -q -t ed25519 -N '' -C $name -f $name; done\n\
             cat mine.pub yours.pub > authorized\n\
             git init -q made; cd made; echo hello from git > file; git add file\n\
             git -c user.name=a -c user.email=a@b.test commit -qm one; cd ..\n\
             git clone -q --bare made repo.git",
        )?;
        let text = |name: &str| fs::read_to_string(folder.join(name));
        let key: Vec<String> = text("host.pub")?
            .split(' ')
            .take(2)
            .map(str::to_owned)
            .collect();
        scene.home_file(
            ".ssh/known_hosts",
            format!("git.test,evil.test {}\n", key.join(" ")),
        )?;
        let town = Town::enter(scene, &[("git.test", WEB), ("evil.test", WEB)])?;
        let mut programs = Vec::new();
        for (port, name) in [(22_u16, "host"), (2222, "other")] {
            let mut sshd = Command::new(server);
            sshd.args(["-D", "-q", "-f", "/dev/null", "-p", &port.to_string(), "-h"])
                .arg(folder.join(name))
                .args([
                    "-o",
                    "UsePAM=no",
                    "-o",
                    "StrictModes=no",
                    "-o",
                    "PidFile=none",
                ])
                .arg("-o")
                .arg(format!(
                    "AuthorizedKeysFile={}",
                    folder.join("authorized").display()
                ))
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            programs.push(town.program(sshd)?);
            town.served(port)?;
        }
        let agent = folder.join("agent");
        let mut own = Command::new("ssh-agent");
        own.args(["-D", "-a"])
            .arg(&agent)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        programs.push(town.at_home(own)?);
        wait::until_true("the agent is there", || agent.exists())?;
        make(
            &folder,
            "export SSH_AUTH_SOCK=$PWD/agent; ssh-add -q mine; ssh-add -q yours",
        )?;
        Ok(Forge {
            _town: town,
            programs,
            agent,
            url: format!(
                "ssh://{}@git.test{}/repo.git",
                scene.identity().account()?,
                folder.display()
            ),
        })
    }

    /// A script inside, with these options.
    fn run(&self, scene: &Scene, options: &[&str], script: &str) -> Verdict<Call> {
        scene.file("client.sh", script)?;
        Ok(super::filtered(scene, options, &["sh", "client.sh"]).env("SSH_AUTH_SOCK", &self.agent))
    }
}

impl Drop for Forge {
    fn drop(&mut self) {
        for program in &mut self.programs {
            let _ = program.kill();
            let _ = program.wait();
        }
    }
}

const LENT: [&str; 5] = [
    "--json",
    "--allow-host",
    "git.test:22",
    "--ssh-agent",
    "mine",
];

fn a_clone_and_a_push_over_ssh(scene: &Scene) -> Verdict {
    let forge = Forge::new(scene)?;
    let script = format!(
        "set -e; git clone -q {} copy; cd copy; cat file\n\
         echo more >> file; git -c user.name=a -c user.email=a@b.test commit -qam two\n\
         git push -q origin HEAD:refs/heads/pushed; git ls-remote origin\n\
         ssh-add -l\n",
        forge.url
    );
    let output = forge.run(scene, &LENT, &script)?.output()?;
    let result = output.succeeds()?.json()?;
    let said = result["stdout"].as_str().unwrap_or_default();
    let keys: Vec<&str> = said
        .lines()
        .filter(|line| line.contains("SHA256:"))
        .collect();
    if !said.contains("hello from git")
        || !said.contains("refs/heads/pushed")
        || !matches!(keys.as_slice(), [only] if only.contains("mine"))
    {
        return Err(Stop::failed(format!("{result}")));
    }
    let network = result["network"].as_array().cloned().unwrap_or_default();
    let as_whom = format!("as {}", scene.identity().account()?);
    let signed = network.iter().any(|entry| {
        let text = entry["signed"].as_str().unwrap_or_default();
        entry["host"] == "git.test"
            && entry["decision"] == "allow"
            && text.starts_with("SHA256:")
            && text.ends_with(&as_whom)
    });
    let reached = network
        .iter()
        .any(|entry| entry["host"] == "git.test" && entry["port"] == 22 && entry["sent"] != 0);
    match signed && reached {
        true => Ok(()),
        false => Err(Stop::failed(format!("not written down: {network:?}"))),
    }
}

fn without_a_word_there_is_no_agent(scene: &Scene) -> Verdict {
    let forge = Forge::new(scene)?;
    let script = format!(
        "echo \"agent: $SSH_AUTH_SOCK.\"; ls /dev/shm ~/.ssh; cat ~/.ssh/known_hosts\n\
         git clone {} copy\n",
        forge.url
    );
    let allow = ["--allow-host", "git.test:22"];
    let output = forge.run(scene, &allow, &script)?.output()?;
    super::is_refused(&output)?;
    // The host's key is known inside, and nobody else's.
    output
        .stdout_has("agent: .")?
        .stdout_has("git.test ssh-ed25519 ")?
        .lacks("sjail-ssh-agent")?
        .lacks("evil.test")?
        .stderr_has("Permission denied")?;
    Ok(())
}

fn the_agent_signs_for_known_hosts_alone(scene: &Scene) -> Verdict {
    let forge = Forge::new(scene)?;
    let other = forge.url.replace("git.test", "git.test:2222");
    let script = format!(
        "export GIT_SSH_COMMAND='ssh -o StrictHostKeyChecking=no'\ngit clone {other} copy\n"
    );
    let options = [&LENT[1..], &["--allow-host", "git.test:2222"]].concat();
    let output = forge.run(scene, &options, &script)?.output()?;
    super::is_refused(&output)?;
    output
        .stderr_has("Permission denied")?
        .stderr_has("not in known_hosts")?;
    // Control: that server would have let the key in.
    let cloned = scene
        .host("git")
        .args([
            "-c",
            "core.sshCommand=ssh -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null",
        ])
        .args(["clone", "-q", &other, "control"])
        .env("SSH_AUTH_SOCK", &forge.agent)
        .output()?;
    cloned.succeeds()?;
    // A key that is not lent is not even seen.
    let yours = ["--allow-host", "git.test:22", "--ssh-agent", "nobody's"];
    let script = format!("ssh-add -l; git clone {} copy\n", forge.url);
    let output = forge.run(scene, &yours, &script)?.output()?;
    super::is_refused(&output)?;
    output.stdout_has("no identities")?;
    Ok(())
}

/// What an attacker inside would ask for: signatures over anything, sessions that are not
/// his, the agent for others, the agent changed.
const ATTACK: &str = r#"
import os, socket, struct
def string(b): return struct.pack('>I', len(b)) + b
def connect():
    s = socket.socket(socket.AF_UNIX)
    s.connect(os.environ['SSH_AUTH_SOCK'])
    return s
def ask(s, content):
    s.sendall(string(content))
    head = b''
    while len(head) < 4:
        more = s.recv(4 - len(head))
        if not more: return b'gone'
        head += more
    length, body = struct.unpack('>I', head)[0], b''
    while len(body) < length: body += s.recv(length - len(body))
    return body
s = connect()
listed = ask(s, b'\x0b')
assert listed[0] == 12, listed
length = struct.unpack('>I', listed[5:9])[0]
key = listed[9:9 + length]
words = open(os.path.expanduser('~/.ssh/known_hosts')).read().split()
import base64
host = base64.b64decode(words[2])
session = b'i' * 32
login = string(session) + b'\x32' + string(b'git') + string(b'ssh-connection') + string(b'publickey') + b'\x01' + string(b'ssh-ed25519') + string(key)
def sign(data): return b'\x0d' + string(key) + string(data) + bytes(4)
def bind(proof, forward=b'\0'): return b'\x1b' + string(b'session-bind@openssh.com') + string(host) + string(session) + string(proof) + forward
proof = string(b'ssh-ed25519') + string(bytes(64))
for name, request in [
    ('anything', sign(b'SSHSIG' + b'x' * 50)), ('login', sign(login)), ('empty', b''),
    ('unsigned session', bind(proof)), ('no proof', bind(b'')), ('forwarded', bind(proof, b'\1')),
    ('login after', sign(login)), ('add', b'\x11' + string(b'ssh-ed25519')), ('remove all', b'\x13'),
    ('lock', b'\x16' + string(b'x')), ('query', b'\x1b' + string(b'query')), ('old list', b'\x01'),
    ('smartcard', b'\x14' + string(b'/tmp/x.so') + string(b'')), ('cut', b'\x0d\0\0\1'),
]:
    answer = ask(s, request)
    print('refused' if answer == b'\x05' else 'OPEN', name, answer)
# Too long, and many at once: nobody else is hurt.
t = connect()
t.sendall(b'\xff\xff\xff\xff')
print('refused' if t.recv(1) == b'' else 'OPEN', 'too long')
many = [connect() for _ in range(16)]
for m in many: m.sendall(b'\0\0')
for m in many: m.close()
print('control', ask(connect(), b'\x0b')[0])
"#;

fn the_agent_signs_nothing_but_logins(scene: &Scene) -> Verdict {
    scene.needs(&["python3"])?;
    let forge = Forge::new(scene)?;
    scene.file("attack.py", ATTACK)?;
    let script = "python3 attack.py || exit 1\n\
        ssh-add -L > mine.pub; echo text > text\n\
        ssh-keygen -Y sign -n file -f mine.pub text && echo OPEN ssh-keygen\n\
        ssh-add -D && echo OPEN delete; true\n";
    let output = forge.run(scene, &LENT[1..], script)?.output()?;
    output
        .succeeds()?
        .lacks("OPEN")?
        .stdout_has("refused anything")?
        .stdout_has("refused login after")?
        .stdout_has("control 12")?
        .stderr_has("ssh-agent was refused")?
        .stderr_has("has not signed")?;
    // Control: the owner's agent itself signs whatever it is asked to.
    let signed = scene
        .host("ssh-keygen")
        .args(["-Y", "sign", "-n", "file", "-f", "mine.pub", "text"])
        .env("SSH_AUTH_SOCK", &forge.agent)
        .output()?;
    signed.succeeds()?;
    Ok(())
}
