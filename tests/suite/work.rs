//! Real work inside, with no special flags.

use std::fs;
use std::path::Path;

use sjail_tests::{Call, Identity, Output, Scene, Stop, Test, Verdict, tests};

pub fn suite() -> Vec<Test> {
    let mut tests = tests![
        git_add_and_commit,
        git_clone_of_a_local_repository,
        git_branch_merge_and_rebase,
        git_stash_and_checkout,
        git_worktree,
        git_sees_no_change_afterwards,
        gcc_and_make,
        python_venv_and_unittest,
        node_script,
        npm_test_of_a_local_package,
        find_grep_and_archives,
        sqlite_and_locks,
        a_server_and_its_client,
    ];
    tests.push(Test::new("cargo_build_and_test_offline", cargo_build_and_test).timeout(600));
    tests.push(Test::new("a_gibibyte_through_both_ends", gibibyte).timeout(300));
    // Minutes of compiling: once is enough, as the ordinary user.
    tests.push(
        Test::new("our_own_policy_tests", own_tests)
            .timeout(1500)
            .only(Identity::User),
    );
    tests
}

/// Runs shell lines in the jail as a script, which is judged by nothing but the jail;
/// the first that fails ends it.
fn lines(scene: &Scene, folder: &Path, lines: &str) -> Verdict<Output> {
    let script = scene.outside_file("lines.sh", lines)?;
    let script = script.display().to_string();
    let output = scene
        .run(["--ro", &script, "--", "sh", "-eux", &script])
        .cwd(folder)
        .output()?;
    output.succeeds()?;
    Ok(output)
}

/// The same on the host, for what the test lays out.
fn host(scene: &Scene, folder: &Path, lines: &str) -> Verdict<Output> {
    let output = scene
        .host("sh")
        .args(["-eux", "-c", lines])
        .cwd(folder)
        .output()?;
    output.succeeds()?;
    Ok(output)
}

/// A repository with one commit in the workspace, and an identity in the home.
fn repository(scene: &Scene) -> Verdict {
    scene.needs(&["git"])?;
    scene.home_file(
        ".gitconfig",
        "[user]\n\tname = Jo\n\temail = jo@example.org\n[init]\n\tdefaultBranch = main\n",
    )?;
    host(
        scene,
        &scene.workspace(),
        "git init -q .; echo one >file; git add file; git commit -qm first",
    )?;
    Ok(())
}

fn git_add_and_commit(scene: &Scene) -> Verdict {
    repository(scene)?;
    lines(scene, &scene.workspace(), "echo two >>file; git add file; git commit -qm second; git log --oneline; git status --short; git tag v1; git gc -q")?
        .stdout_has("second")?;
    host(
        scene,
        &scene.workspace(),
        "git fsck --strict; git log -1 --format='%s by %an'",
    )?
    .stdout_has("second by Jo")?;
    Ok(())
}

fn git_clone_of_a_local_repository(scene: &Scene) -> Verdict {
    repository(scene)?;
    let upstream = scene.workspace().with_file_name("upstream");
    fs::rename(scene.workspace(), &upstream)?;
    fs::create_dir(scene.workspace())?;
    let shown = upstream.display().to_string();
    scene
        .run(["--ro", &shown, "--", "git", "clone", "-q", &shown, "copy"])
        .output()?
        .succeeds()?;
    host(
        scene,
        &scene.workspace().join("copy"),
        "git log --oneline; git remote -v; cat file",
    )?
    .stdout_has("first")?;
    Ok(())
}

fn git_branch_merge_and_rebase(scene: &Scene) -> Verdict {
    repository(scene)?;
    lines(
        scene,
        &scene.workspace(),
        "git checkout -qb feature; echo f >feature; git add .; git commit -qm feature
         git checkout -q main; echo m >main; git add .; git commit -qm on-main
         git checkout -q feature; git rebase -q main
         git checkout -q main; git merge -q --no-ff -m merged feature
         git branch -d feature; git cherry-pick --abort 2>/dev/null || true; git reset -q --hard; git diff --exit-code",
    )?;
    host(
        scene,
        &scene.workspace(),
        "git log --topo-order --format=%s",
    )?
    .stdout_is("merged\nfeature\non-main\nfirst\n")?;
    Ok(())
}

fn git_stash_and_checkout(scene: &Scene) -> Verdict {
    repository(scene)?;
    lines(
        scene,
        &scene.workspace(),
        "echo changed >file; git stash -q; grep one file; git stash pop -q; grep changed file
         git checkout -q -- file; grep one file; git switch -qc other; git restore file; git mv file renamed; git commit -qm moved",
    )?;
    host(
        scene,
        &scene.workspace(),
        "git log -1 --format=%s; test -e renamed",
    )?
    .stdout_is("moved\n")?;
    Ok(())
}

fn git_worktree(scene: &Scene) -> Verdict {
    repository(scene)?;
    lines(
        scene,
        &scene.workspace(),
        "git worktree add -q trees/second -b second; cd trees/second; echo w >w; git add w; git commit -qm in-the-worktree; git status --short",
    )?;
    // Standing in the worktree, too.
    lines(
        scene,
        &scene.workspace().join("trees/second"),
        "echo x >>w; git commit -qam again; git log --oneline",
    )?
    .stdout_has("again")?;
    host(scene, &scene.workspace(), "git log -1 --format=%s second")?.stdout_is("again\n")?;
    Ok(())
}

/// The index that the jail's git leaves does not make the host's git look at
/// every file again: ids are the same on both sides.
fn git_sees_no_change_afterwards(scene: &Scene) -> Verdict {
    repository(scene)?;
    host(
        scene,
        &scene.workspace(),
        "for i in 1 2 3 4 5; do echo $i >f$i; done; git add .; git commit -qm five; git status --short",
    )?;
    let index = scene.workspace().join(".git/index");
    let before = fs::read(&index)?;
    lines(
        scene,
        &scene.workspace(),
        "git status --short; git diff --stat; git status --short",
    )?
    .stdout_is("")?;
    if fs::read(&index)? != before {
        return Err(Stop::failed(
            "git in the jail rewrote the index: it sees other ids than the host",
        ));
    }
    Ok(())
}

fn cargo(scene: &Scene, words: &[&str]) -> Verdict<Call> {
    let Some((home, path)) = scene.rust() else {
        return scene.skip("there is no Rust toolchain that this user can read");
    };
    Ok(scene.run(words).env("HOME", home).env("PATH", path))
}

fn cargo_build_and_test(scene: &Scene) -> Verdict {
    scene.file(
        "Cargo.toml",
        "[package]\nname = \"small\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
    )?;
    scene.file(
        "build.rs",
        "fn main() { println!(\"cargo:rustc-env=BUILT=yes\"); }\n",
    )?;
    scene.file("src/lib.rs", "/// ```\n/// assert_eq!(small::two(), 2);\n/// ```\npub fn two() -> u8 { 2 }\n#[test] fn built() { assert_eq!(env!(\"BUILT\"), \"yes\"); }\n")?;
    scene.file(
        "src/main.rs",
        "fn main() { println!(\"{}\", small::two()); }\n",
    )?;
    cargo(scene, &["--", "cargo", "build", "--offline"])?
        .output()?
        .succeeds()?;
    cargo(scene, &["--", "cargo", "test", "--offline"])?
        .output()?
        .succeeds()?
        .stdout_has("test built ... ok")?;
    scene
        .host("target/debug/small")
        .output()?
        .stdout_is("2\n")?;
    Ok(())
}

/// What the jail is for: our own tests, with dependencies fetched into the
/// sandbox's own cache by one call with the network, used by the next without.
fn own_tests(scene: &Scene) -> Verdict {
    let Some(source) = scene.source() else {
        return scene.skip("the sources are not a git clone");
    };
    host(
        scene,
        &scene.workspace(),
        &format!("cp -r '{}/.' .", source.display()),
    )?;
    let fetched = cargo(
        scene,
        &["--net", "host", "--", "cargo", "fetch", "--locked"],
    )?
    .output()?;
    if fetched.code() != Some(0) {
        let unreachable = [
            "resolve host",
            "Could not connect",
            "timed out",
            "network",
            "download",
        ];
        if unreachable.iter().any(|word| fetched.stderr.contains(word)) {
            return scene.skip(format!(
                "the registry cannot be reached: {}",
                fetched.stderr.lines().last().unwrap_or("")
            ));
        }
        return Err(Stop::failed(format!("cargo fetch, {fetched}")));
    }
    cargo(
        scene,
        &[
            "--",
            "cargo",
            "test",
            "--offline",
            "--locked",
            "-p",
            "sjail-policy",
        ],
    )?
    .output()?
    .succeeds()?
    .stdout_has("test result: ok")?;
    Ok(())
}

fn gcc_and_make(scene: &Scene) -> Verdict {
    scene.needs(&["gcc", "make"])?;
    scene.file("one.c", "#include <stdio.h>\nint two(void);\nint main(void) { printf(\"%d\\n\", two()); return 0; }\n")?;
    scene.file("two.c", "int two(void) { return 2; }\n")?;
    scene.file(
        "Makefile",
        "CFLAGS = -O2 -pipe\nprogram: one.o two.o\n\t$(CC) -o $@ $^\nclean:\n\trm -f *.o program\n",
    )?;
    lines(
        scene,
        &scene.workspace(),
        "make -j4; ./program; make clean; make CFLAGS=-g",
    )?
    .stdout_has("2\n")?;
    scene.host("./program").output()?.stdout_is("2\n")?;
    Ok(())
}

fn python_venv_and_unittest(scene: &Scene) -> Verdict {
    scene.needs(&["python3"])?;
    if scene
        .host("python3")
        .args(["-c", "import venv, ensurepip"])
        .output()?
        .code()
        != Some(0)
    {
        return scene.skip("python3-venv is not installed");
    }
    scene.file("pkg/__init__.py", "")?;
    scene.file("tests/__init__.py", "")?;
    scene.file("pkg/sums.py", "def add(a, b):\n    return a + b\n")?;
    scene.file(
        "tests/test_sums.py",
        "import subprocess, sys, tempfile, threading, multiprocessing, unittest\nfrom pkg.sums import add\n\
         class Sums(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(add(1, 2), 3)\n\
         \x20   def test_child(self):\n        self.assertEqual(subprocess.check_output([sys.executable, '-c', 'print(7)']), b'7\\n')\n\
         \x20   def test_pool(self):\n        with multiprocessing.Pool(2) as pool:\n            self.assertEqual(pool.map(abs, [-1, -2]), [1, 2])\n\
         \x20   def test_temporary(self):\n        with tempfile.NamedTemporaryFile() as f:\n            f.write(b'x')\n",
    )?;
    let output = lines(
        scene,
        &scene.workspace(),
        "python3 -m venv .venv; . .venv/bin/activate; python -m unittest discover -s tests -t . -v; pip --version",
    )?;
    output.stderr_has("Ran 4 tests")?.stderr_has("OK")?;
    Ok(())
}

fn node_script(scene: &Scene) -> Verdict {
    scene.needs(&["node"])?;
    scene.file(
        "script.js",
        "const { Worker, isMainThread, parentPort } = require('worker_threads');\n\
         if (isMainThread) {\n  require('fs').writeFileSync('out.txt', process.version);\n\
         \x20 require('child_process').execSync('true');\n\
         \x20 new Worker(__filename).on('message', m => console.log('worker says', m));\n\
         } else parentPort.postMessage(6 * 7);\n",
    )?;
    lines(scene, &scene.workspace(), "node script.js")?.stdout_has("worker says 42")?;
    assert!(scene.read("out.txt")?.starts_with('v'));
    Ok(())
}

fn npm_test_of_a_local_package(scene: &Scene) -> Verdict {
    scene.needs(&["node", "npm"])?;
    scene.file("package.json", "{\"name\":\"small\",\"version\":\"1.0.0\",\"scripts\":{\"test\":\"node test.js\"},\"dependencies\":{\"local\":\"file:./local\"}}")?;
    scene.file(
        "local/package.json",
        "{\"name\":\"local\",\"version\":\"1.0.0\",\"main\":\"index.js\"}",
    )?;
    scene.file("local/index.js", "module.exports = () => 'local works';\n")?;
    scene.file("test.js", "console.log(require('local')());\n")?;
    lines(
        scene,
        &scene.workspace(),
        "npm install --offline --no-audit --no-fund --loglevel=error; npm test",
    )?
    .stdout_has("local works")?;
    Ok(())
}

fn find_grep_and_archives(scene: &Scene) -> Verdict {
    for number in 0..50 {
        scene.file(
            &format!("tree/{}/{number}.txt", number % 7),
            format!("number {number}\n"),
        )?;
    }
    lines(
        scene,
        &scene.workspace(),
        "find tree -name '*.txt' | wc -l; grep -rl 'number 4' tree | wc -l; tar czf all.tgz tree; mkdir out; tar xzf all.tgz -C out
         diff -r tree out/tree; cp -a tree copy; chmod -R u+w copy; mv copy copy2; rm -r copy2; ln -s tree link; ls link/0 | wc -l; sort -R all.tgz | wc -c >/dev/null; date; id -u; df . >/dev/null; nproc >/dev/null",
    )?
    .stdout_has("50\n11\n")?;
    Ok(())
}

/// Locks, mappings, write-ahead logs: what a database does to its file.
fn sqlite_and_locks(scene: &Scene) -> Verdict {
    scene.needs(&["python3", "flock"])?;
    scene.file(
        "db.py",
        "import sqlite3, mmap, fcntl, os\n\
         c = sqlite3.connect('data.db'); c.execute('pragma journal_mode=wal'); c.execute('create table t(x)')\n\
         c.executemany('insert into t values (?)', [(i,) for i in range(1000)]); c.commit()\n\
         print(c.execute('select count(*) from t').fetchone()[0])\n\
         f = open('map', 'w+b'); f.write(b'a' * 4096); f.flush(); m = mmap.mmap(f.fileno(), 4096); m[0:1] = b'z'; m.flush()\n\
         fcntl.lockf(f, fcntl.LOCK_EX); os.posix_fallocate(f.fileno(), 0, 8192); print('mapped')\n",
    )?;
    lines(
        scene,
        &scene.workspace(),
        "python3 db.py; flock lockfile true",
    )?
    .stdout_is("1000\nmapped\n")?;
    Ok(())
}

/// The jail's own loopback works, by address and by name.
fn a_server_and_its_client(scene: &Scene) -> Verdict {
    scene.needs(&["python3"])?;
    scene.file(
        "talk.py",
        "import http.server, threading, urllib.request\n\
         s = http.server.HTTPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)\n\
         threading.Thread(target=s.serve_forever, daemon=True).start()\n\
         for name in ('127.0.0.1', 'localhost'):\n\
         \x20   print(urllib.request.urlopen('http://%s:%d/talk.py' % (name, s.server_port)).status)\n",
    )?;
    lines(scene, &scene.workspace(), "python3 talk.py")?.stdout_is("200\n200\n")?;
    Ok(())
}

/// A pipeline with a gibibyte through standard input and output, byte for byte.
fn gibibyte(scene: &Scene) -> Verdict {
    scene.needs(&["bash", "cmp"])?;
    let line = "n=1073741824; yes 0123456789abcde | head -c $n | \"$0\" run --no-broker -- cat | cmp - <(yes 0123456789abcde | head -c $n) && echo same";
    scene
        .host("bash")
        .args(["-c", line])
        .args([scene.program("sjail")])
        .output()?
        .succeeds()?
        .stdout_is("same\n")?;
    Ok(())
}
