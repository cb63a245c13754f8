//! Two jails in one workspace that work together: what one hands to the other must be of no
//! more use than what that one has itself.

use std::fs;

use sjail_tests::{Scene, Test, Verdict, ensure, tests};

pub fn suite() -> Vec<Test> {
    tests![b14_a_handle_of_a_jail_that_has_ended]
}

/// Hands an open folder to whoever waits at the socket, and ends when it is told to.
const GIVE: &str = "
import os, socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect('meet')
socket.send_fds(s, [b'x'], [os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECTORY)])
s.recv(1)
";

/// Takes it, and tries to write protected names through it, while the other jail is there and
/// when it has gone.
const TAKE: &str = "
import os, socket, time
l = socket.socket(socket.AF_UNIX)
l.bind('new')
l.listen(1)
os.rename('new', 'meet')
c, _ = l.accept()
_, (folder,), _, _ = socket.recv_fds(c, 1, 1)
def write(name):
    try:
        f = os.open(name, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o755, dir_fd=folder)
        os.write(f, b'# pwned\\n')
        return 'written'
    except OSError as e:
        return e.strerror
def all():
    return [(name, write(name)) for name in ('.git/hooks/pre-commit', '.git/config', '.envrc', 'plain')]
print('there:', all())
c.send(b'k')
c.recv(1)
time.sleep(0.3)
print('gone:', all())
";

/// When a jail ends, its mounts are taken apart: an open folder leads below them from then on.
/// Another jail that was given it must not get there, wherever the workspace lies and by
/// whatever path it is seen.
fn b14_a_handle_of_a_jail_that_has_ended(scene: &Scene) -> Verdict {
    scene.needs(&["git", "python3"])?;
    let elsewhere = tempfile::tempdir_in("/var/tmp")?;
    let places = [
        (scene.workspace(), None),
        (scene.workspace(), Some("/mnt/app")),
        (elsewhere.path().to_owned(), None),
    ];
    for (here, also) in places {
        let git = |words: &[&str]| scene.host("git").args(words).cwd(&here).output();
        git(&["init", "-q", "."])?.exits(0)?;
        for (name, text) in [("give.py", GIVE), ("take.py", TAKE), (".envrc", "# mine\n")] {
            fs::write(here.join(name), text)?;
        }
        let _ = fs::remove_file(here.join("meet"));
        let config = fs::read(here.join(".git/config"))?;
        let bind = also.map(|also| format!("--bind={}:{also}:rw", here.display()));
        let from = also.unwrap_or(".");
        let words = |program: &[&str]| -> Vec<String> {
            let own = [format!("--workspace={}", here.display())];
            let program = ["--", "python3"]
                .iter()
                .chain(program)
                .map(ToString::to_string);
            own.into_iter().chain(bind.clone()).chain(program).collect()
        };
        let mut taker = scene.run(words(&["take.py"])).cwd(&here).start()?;
        taker.wait_for_file(here.join("meet"))?;
        let giver = scene.run(words(&["give.py", from])).cwd(&here).output()?;
        giver.exits(0)?;
        let said = taker.finish()?;
        said.stdout_has("gone:")?;
        said.lacks("'.git/hooks/pre-commit', 'written'")?;
        let is_own = fs::read(here.join(".git/config"))? == config
            && fs::read_to_string(here.join(".envrc"))? == "# mine\n"
            && !here.join(".git/hooks/pre-commit").exists();
        ensure(is_own, || {
            format!("{}, seen at {from}: {said}", here.display())
        })?;
    }
    Ok(())
}
