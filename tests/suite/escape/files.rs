//! Files of the host: through links, other names, descriptors, devices, the
//! kernel's own file systems.

use std::fs::{self, File};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use sjail_tests::attack::files::CANARY;
use sjail_tests::{Identity, Scene, Stop, Test, Verdict, ensure};

use super::attempt::{Control, Plan, attempt, is_held, plain};

pub fn tests() -> Vec<Test> {
    [
        links(),
        descriptors(),
        kernel_files(),
        devices(),
        set_user_id(),
        hidden(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Links and names that lead out of the workspace.
fn links() -> Vec<Test> {
    use Control::Bare;
    vec![
        attempt("b23_read_through_a_link_to_a_file", Bare, |scene| {
            let secret = scene.outside_file("secret", CANARY)?;
            link(scene, "link", &secret)?;
            Ok(Plan::new(["read", "link"]))
        }),
        attempt("b23_read_through_a_link_to_a_folder", Bare, |scene| {
            scene.outside_file("secret", CANARY)?;
            link(scene, "folder", &scene.outside())?;
            Ok(Plan::new(["read", "folder/secret"]))
        }),
        attempt("b23_write_through_a_link_to_a_file", Bare, |scene| {
            let target = scene.outside_file("target", "untouched")?;
            link(scene, "link", &target)?;
            Ok(Plan::new(["write", "link"]).afterwards(move || untouched(&target)))
        }),
        attempt("b23_write_through_a_link_to_a_folder", Bare, |scene| {
            link(scene, "folder", &scene.outside())?;
            let planted = scene.outside().join("planted");
            Ok(Plan::new(["write", "folder/planted"]).afterwards(move || absent(&planted)))
        }),
        attempt("b23_create_through_a_dangling_link", Bare, |scene| {
            let planted = scene.outside().join("not-there-yet");
            let _ = fs::remove_file(&planted);
            link(scene, "dangling", &planted)?;
            Ok(Plan::new(["write", "dangling"]).afterwards(move || absent(&planted)))
        }),
        attempt("b23_write_through_a_link_into_the_home", Bare, |scene| {
            let target = scene.home_file(".bashrc", "untouched")?;
            link(scene, "rc", &target)?;
            Ok(Plan::new(["write", "rc"])
                .judged_by_host()
                .afterwards(move || untouched(&target)))
        }),
        attempt("b23_dots_from_proc_self_cwd", Bare, |scene| {
            let secret = scene.outside_file("secret", CANARY)?;
            Ok(Plan::new([
                "read",
                &format!("/proc/self/cwd/../../outside/{}", name(&secret)),
            ]))
        }),
        attempt("b23_dots_out_of_the_workspace", Bare, |scene| {
            scene.outside_file("secret", CANARY)?;
            Ok(Plan::new(["read", "../../outside/secret"]))
        }),
        attempt("b09_proc_self_root", Bare, |scene| {
            let secret = scene.outside_file("secret", CANARY)?;
            Ok(Plan::new([
                "read",
                &format!("/proc/self/root{}", secret.display()),
            ]))
        }),
        attempt("b09_proc_1_root", Control::IfHostAllows, |scene| {
            let secret = scene.outside_file("secret", CANARY)?;
            Ok(Plan::new([
                "read",
                &format!("/proc/1/root{}", secret.display()),
            ]))
        }),
        attempt("b09_proc_thread_self_root", Bare, |scene| {
            let secret = scene.outside_file("secret", CANARY)?;
            Ok(Plan::new([
                "read",
                &format!("/proc/thread-self/root{}", secret.display()),
            ]))
        }),
        attempt("b28_hard_link_to_a_host_file", Bare, |scene| {
            let secret = scene.outside_file("secret", CANARY)?;
            let _ = fs::remove_file(scene.workspace().join("stolen"));
            Ok(Plan::new([
                "link-from",
                &secret.display().to_string(),
                "stolen",
            ]))
        }),
        attempt("b25_move_a_host_file_in", Bare, |scene| {
            let secret = scene.outside_file("secret", CANARY)?;
            let shown = secret.display().to_string();
            Ok(Plan::new(["move-in", &shown, "stolen"]).afterwards(move || present(&secret)))
        }),
        attempt("b23_write_beside_the_workspace", Bare, |scene| {
            let planted = scene.home().join("beside");
            let _ = fs::remove_file(&planted);
            Ok(Plan::new(["write", "../beside"])
                .judged_by_host()
                .afterwards(move || absent(&planted)))
        }),
        attempt("b23_write_a_program_on_the_path", Control::Root, |_| {
            let planted = format!("/usr/local/bin/sjail-test-{}", std::process::id());
            let _ = fs::remove_file(&planted);
            Ok(Plan::new(["write", &planted])
                .keep(Removed(planted.clone()))
                .afterwards(move || absent(Path::new(&planted))))
        }),
        Test::new("b23_link_retargeted_during_the_run", retargeted),
        Test::new(
            "b40_dangling_link_retargeted_during_the_run",
            retargeted_from_nothing,
        ),
        Test::new(
            "b23_working_folder_replaced_by_a_link",
            replaced_working_folder,
        ),
        Test::new("b29_gitdir_pointer_to_a_secret_folder", gitdir_pointer),
        Test::new(
            "b29_commondir_pointer_to_a_secret_folder",
            commondir_pointer,
        ),
        Test::new("b36_nothing_of_the_hosts_tmp_is_seen", hosts_tmp),
    ]
}

/// Descriptors that a careless caller lets through.
fn descriptors() -> Vec<Test> {
    use Control::Bare;
    vec![
        attempt("b13_any_descriptor_from_3_on", Bare, |scene| {
            let secret = scene.outside_file("secret", CANARY)?;
            let mut plan = Plan::new(["descriptors"]);
            for _ in 0..200 {
                plan.leaked.push(File::open(&secret)?.into());
            }
            Ok(plan)
        }),
        attempt("b13_descriptor_1023", Bare, |scene| {
            let secret = scene.outside_file("secret", CANARY)?;
            let file = File::open(&secret)?;
            let mut plan = Plan::new(["descriptors"]);
            plan.leaked.push(at_number(&file, 1000)?);
            Ok(plan)
        }),
        attempt("b13_read_below_a_leaked_folder", Bare, |scene| {
            scene.outside_file("secret", CANARY)?;
            let folder = at_number(&File::open(scene.outside())?, 77)?;
            let mut plan = Plan::new([
                "read-below".to_string(),
                folder.as_raw_fd().to_string(),
                "secret".to_string(),
            ]);
            plan.leaked.push(folder);
            Ok(plan)
        }),
        attempt("b13_write_below_a_leaked_folder", Bare, |scene| {
            let planted = scene.outside().join("planted");
            let _ = fs::remove_file(&planted);
            let folder = at_number(&File::open(scene.outside())?, 78)?;
            let mut plan = Plan::new([
                "write-below".to_string(),
                folder.as_raw_fd().to_string(),
                "planted".to_string(),
            ]);
            plan.leaked.push(folder);
            Ok(plan.afterwards(move || absent(&planted)))
        }),
        Test::new("b13_standard_input_is_a_host_folder", |scene| {
            stdin_folder(scene, &["read-below", "0", "secret"])
        }),
        Test::new("b13_enter_standard_input", |scene| {
            stdin_folder(scene, &["fchdir-stdin", "secret"])
        }),
        Test::new("b13_climb_from_standard_input", |scene| {
            stdin_folder(scene, &["read-below", "0", "../outside/secret"])
        }),
        Test::new("b13_the_mode_of_standard_input", stdin_mode),
        attempt("b15_open_by_handle", Control::Root, |scene| {
            let secret = scene.outside_file("secret", CANARY)?;
            let below_root = secret.display().to_string();
            Ok(Plan::new([
                "handle",
                ".",
                below_root.trim_start_matches('/'),
            ]))
        }),
    ]
}

/// `/proc`, `/sys`, control groups.
fn kernel_files() -> Vec<Test> {
    use Control::{Bare, Root};
    let mut tests = Vec::new();
    for (name, control, words) in [
        (
            "proc_sys_core_pattern",
            Root,
            &["write-same", "/proc/sys/kernel/core_pattern"][..],
        ),
        (
            "proc_sys_hostname",
            Root,
            &["write-same", "/proc/sys/kernel/hostname"],
        ),
        (
            "proc_sys_modprobe",
            Root,
            &["write-same", "/proc/sys/kernel/modprobe"],
        ),
        (
            "b11_proc_sys_max_user_namespaces",
            Control::IfHostAllows,
            &["write-same", "/proc/sys/user/max_user_namespaces"],
        ),
        (
            "proc_sys_drop_caches",
            Root,
            &["write-open", "/proc/sys/vm/drop_caches"],
        ),
        (
            "proc_sys_swappiness",
            Root,
            &["write-same", "/proc/sys/vm/swappiness"],
        ),
        (
            "b20_binfmt_register",
            Root,
            &["write-open", "/proc/sys/fs/binfmt_misc/register"],
        ),
        (
            "proc_sysrq_trigger",
            Root,
            &["write-open", "/proc/sysrq-trigger"],
        ),
        (
            "proc_irq_affinity",
            Root,
            &["write-same", "/proc/irq/default_smp_affinity"],
        ),
        ("proc_kcore", Root, &["read", "/proc/kcore", "anything"]),
        ("b15_proc_keys", Bare, &["read", "/proc/keys", "anything"]),
        (
            "proc_timer_list",
            Root,
            &["read", "/proc/timer_list", "anything"],
        ),
        ("proc_kmsg", Root, &["device", "/proc/kmsg"]),
        (
            "sys_uevent_helper",
            Root,
            &["write-open", "/sys/kernel/uevent_helper"],
        ),
        ("sys_power_state", Root, &["write-open", "/sys/power/state"]),
        (
            "sys_block_scheduler",
            Root,
            &["write-open", "/sys/block/vda/queue/scheduler"],
        ),
        (
            "sys_debug",
            Root,
            &["read", "/sys/kernel/debug/sched/features", "anything"],
        ),
        (
            "sys_transparent_hugepages",
            Root,
            &["write-open", "/sys/kernel/mm/transparent_hugepage/enabled"],
        ),
    ] {
        tests.push(plain(name, control, words));
    }
    for (name, folder) in [
        ("b17_make_a_group_at_the_top", "/sys/fs/cgroup"),
        ("b17_make_a_pids_group", "/sys/fs/cgroup/pids"),
        ("b17_make_a_unified_group", "/sys/fs/cgroup/unified"),
    ] {
        // Which of them is there differs from host to host.
        tests.push(attempt(name, Control::IfHostAllows, move |_| {
            Ok(Plan::new(["make-group", folder]))
        }));
    }
    for (name, file) in [
        ("b17_join_the_top_group", "/sys/fs/cgroup/cgroup.procs"),
        (
            "b17_join_another_pids_group",
            "/sys/fs/cgroup/pids/cgroup.procs",
        ),
        ("b17_release_agent", "/sys/fs/cgroup/memory/release_agent"),
    ] {
        tests.push(attempt(name, Control::IfHostAllows, move |_| {
            Ok(Plan::new(["write-open", file]))
        }));
    }
    tests
}

/// Devices: made, found, left in the workspace.
fn devices() -> Vec<Test> {
    let mut tests = vec![
        attempt("device_made_in_the_workspace", Control::Root, |scene| {
            let _ = fs::remove_file(scene.workspace().join("own-mem"));
            Ok(Plan::new(["mknod", "c", "1", "1", "own-mem"]))
        }),
        attempt("device_made_in_tmp", Control::Root, |scene| {
            let made = scene.outside().join("own-disk").display().to_string();
            let _ = fs::remove_file(&made);
            Ok(Plan::new(["mknod", "b", "254", "0", "/tmp/own-disk"])
                .control(["mknod", "b", "254", "0", &made]))
        }),
        attempt("device_left_in_the_workspace", Control::Root, |scene| {
            let path = scene.workspace().join("zero");
            if !path.exists() {
                scene
                    .host("mknod")
                    .args([path.as_os_str()])
                    .args(["c", "1", "5"])
                    .output()?
                    .succeeds()?;
            }
            Ok(Plan::new(["device", "zero"]))
        })
        .only(Identity::Root),
    ];
    for device in [
        "mem",
        "port",
        "kmsg",
        "vda",
        "sda",
        "nvme0n1",
        "console",
        "tty0",
        "fuse",
        "kvm",
        "net/tun",
        "loop-control",
        "mapper/control",
        "snapshot",
        "vsock",
        "uinput",
        "userfaultfd",
        "hwrng",
        "rtc0",
    ] {
        let name = format!("device_{}", device.replace(['/', '-'], "_"));
        tests.push(attempt(&name, Control::IfHostAllows, move |_| {
            Ok(Plan::new(["device".to_string(), format!("/dev/{device}")]))
        }));
    }
    tests
}

/// A set-user-id file that a jail leaves makes everybody else on the host who its
/// owner is, root with a root caller.
fn set_user_id() -> Vec<Test> {
    let mut tests = Vec::new();
    for way in ["chmod-mode", "fchmodat", "fchmodat2", "fchmod", "openat"] {
        // The kernels of some releases that we run on have no fchmodat2.
        let control = match way {
            "fchmodat2" => Control::IfHostAllows,
            _ => Control::Bare,
        };
        tests.push(attempt(
            &format!("setuid_bit_by_{way}"),
            control,
            move |scene| {
                let program = scene.script("own-program", "#!/bin/sh\n")?;
                let fresh = scene.workspace().join("own-program.fresh");
                let _ = fs::remove_file(&fresh);
                let mut words = vec!["chmod-mode", "4755", "own-program"];
                if way != "chmod" {
                    words.push(way);
                }
                Ok(Plan::new(words).afterwards(move || {
                    for path in [&program, &fresh] {
                        if path
                            .metadata()
                            .is_ok_and(|file| file.permissions().mode() & 0o6000 != 0)
                        {
                            return Err(Stop::failed(format!(
                                "{} has a set-user-id bit",
                                path.display()
                            )));
                        }
                    }
                    Ok(())
                }))
            },
        ));
    }
    tests
}

/// What was hidden by flag, reached by other names.
fn hidden() -> Vec<Test> {
    use Control::Bare;
    fn env_file(scene: &Scene) -> Verdict<Plan> {
        let path = scene.file(".env", CANARY)?;
        Ok(Plan::new(["read", ".env"]).flags(["--hide", &path.display().to_string()]))
    }
    vec![
        attempt("b26_hidden_file", Bare, env_file),
        attempt("b26_hidden_folder_with_a_trailing_slash", Bare, |scene| {
            scene.file("keys/private", CANARY)?;
            let folder = format!("{}/", scene.workspace().join("keys").display());
            Ok(Plan::new(["read", "keys/private"]).flags(["--hide", &folder]))
        }),
        attempt("hidden_file_by_dots", Bare, |scene| {
            scene.file("sub/file", "")?;
            Ok(Plan {
                words: vec!["read".into(), "sub/../.env".into()],
                ..env_file(scene)?
            })
        }),
        attempt("hidden_file_by_proc_self_cwd", Bare, |scene| {
            Ok(Plan {
                words: vec!["read".into(), "/proc/self/cwd/.env".into()],
                ..env_file(scene)?
            })
        }),
        attempt("hidden_file_by_a_link", Bare, |scene| {
            let plan = env_file(scene)?;
            link(scene, "other-name", Path::new(".env"))?;
            Ok(Plan {
                words: vec!["read".into(), "other-name".into()],
                ..plan
            })
        }),
        attempt("b25_hidden_file_moved", Bare, |scene| {
            Ok(Plan {
                words: vec!["move-in".into(), ".env".into(), "other".into()],
                ..env_file(scene)?
            })
        }),
        attempt("hidden_file_by_a_new_hard_link", Bare, |scene| {
            let _ = fs::remove_file(scene.workspace().join("other"));
            Ok(Plan {
                words: vec!["link-from".into(), ".env".into(), "other".into()],
                ..env_file(scene)?
            })
        }),
        attempt("b38_hidden_file_takes_no_writes", Bare, |scene| {
            let path = scene.workspace().join(".env");
            let plan = env_file(scene)?.afterwards(move || match fs::read_to_string(&path) {
                Ok(text) if text == CANARY => Ok(()),
                other => Err(Stop::failed(format!("the hidden file is {other:?}"))),
            });
            Ok(Plan {
                words: vec!["write".into(), ".env".into()],
                ..plan
            })
        }),
        attempt("b38_hidden_folder_takes_no_writes", Bare, |scene| {
            scene.file("keys/private", CANARY)?;
            let folder = scene.workspace().join("keys").display().to_string();
            Ok(Plan::new(["write", "keys/new"]).flags(["--hide", &folder]))
        }),
        attempt("b40_hidden_link_and_its_target", Bare, |scene| {
            scene.file("real-env", CANARY)?;
            link(scene, ".env", Path::new("real-env"))?;
            let path = scene.workspace().join(".env").display().to_string();
            Ok(Plan::new(["read", ".env"]).flags(["--hide", &path]))
        }),
        attempt("read_only_workspace_takes_no_writes", Bare, |scene| {
            let target = scene.file("source", "untouched")?;
            Ok(Plan::new(["write", "source"])
                .flags(["--profile", "strict"])
                .afterwards(move || untouched(&target)))
        }),
        attempt("b23_read_only_path_takes_no_writes", Bare, |scene| {
            let target = scene.outside_file("data", "untouched")?;
            let shown = target.display().to_string();
            Ok(Plan::new(["write", &shown])
                .flags(["--ro", &scene.outside().display().to_string()])
                .afterwards(move || untouched(&target)))
        }),
    ]
}

/// A file that goes when the attempt is over.
struct Removed(String);

impl Drop for Removed {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().display().to_string()
}

fn link(scene: &Scene, name: &str, target: &Path) -> Verdict {
    let path = scene.workspace().join(name);
    let _ = fs::remove_file(&path);
    Ok(symlink(target, path)?)
}

fn untouched(path: &Path) -> Verdict {
    match fs::read_to_string(path) {
        Ok(text) if text == "untouched" => Ok(()),
        other => Err(Stop::failed(format!("{} is now {other:?}", path.display()))),
    }
}

fn absent(path: &Path) -> Verdict {
    match path.symlink_metadata() {
        Err(_) => Ok(()),
        Ok(_) => Err(Stop::failed(format!("{} was planted", path.display()))),
    }
}

fn present(path: &Path) -> Verdict {
    match path.symlink_metadata() {
        Ok(_) => Ok(()),
        Err(_) => Err(Stop::failed(format!("{} is gone", path.display()))),
    }
}

/// The same open file under a number not below `least`.
fn at_number(file: &File, least: i32) -> Verdict<OwnedFd> {
    use std::os::fd::FromRawFd;
    // SAFETY: fcntl gives a new descriptor that nobody else owns, or -1.
    unsafe {
        let number = libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, least);
        if number < 0 {
            return Err(std::io::Error::last_os_error().into());
        }
        Ok(OwnedFd::from_raw_fd(number))
    }
}

/// Whoever calls `sjail` redirected a folder of the host into it.
fn stdin_folder(scene: &Scene, words: &[&str]) -> Verdict {
    scene.outside_file("secret", CANARY)?;
    let attacker = scene.attacker()?;
    let with_folder = |line: String| {
        scene
            .host("sh")
            .args(["-c", &format!("exec {line} <\"$0\"")])
            .args([scene.outside()])
            .output()
    };
    let words = words.join(" ");
    let sjail = scene.program("sjail");
    let jailed = with_folder(format!(
        "{} run --no-broker -- {} {words}",
        sjail.display(),
        attacker.display()
    ))?;
    jailed
        .exits(125)?
        .stderr_has("standard input is a folder")?
        .lacks("OUT")?;
    with_folder(format!("{} {words}", attacker.display()))?.stdout_has("OUT")?;
    Ok(())
}

/// Whoever owns a file may change its mode by a descriptor of it; that does not outlast the run.
fn stdin_mode(scene: &Scene) -> Verdict {
    let secret = scene.outside_file("secret", CANARY)?;
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600))?;
    let line = "exec \"$0\" run --no-broker -- chmod 0640 /proc/self/fd/0 <\"$1\"";
    let ran = scene
        .host("sh")
        .args(["-c", line])
        .args([scene.program("sjail"), secret.clone()])
        .output()?;
    ran.succeeds()?
        .stderr_has("changed the mode of what it was given as standard input; 0600 is back")?;
    let mode = fs::metadata(&secret)?.permissions().mode() & 0o7777;
    ensure(mode == 0o600, || format!("{mode:o}"))
}

/// A link that points at something harmless when the jail starts.
fn retargeted(scene: &Scene) -> Verdict {
    scene.file("harmless", "nothing to see")?;
    link(scene, "link", Path::new("harmless"))?;
    retarget(scene)
}

/// A link that points at nothing when the jail starts.
fn retargeted_from_nothing(scene: &Scene) -> Verdict {
    link(scene, "link", &scene.outside().join("secret"))?;
    retarget(scene)
}

fn retarget(scene: &Scene) -> Verdict {
    let attacker = scene.attacker()?;
    let words = ["read-when", "link", "ready", "go"];
    let mut running = scene.run(["--"]).args([&attacker]).args(words).start()?;
    running.wait_for_file(scene.workspace().join("ready"))?;
    let secret = scene.outside_file("secret", CANARY)?;
    link(scene, "link", &secret)?;
    scene.file("go", "")?;
    is_held(&running.finish()?)?;
    scene
        .host(&attacker)
        .args(words)
        .output()?
        .stdout_has("OUT")?;
    Ok(())
}

/// The folder the caller stands in was moved, and a link put in its place: what
/// counts is where the caller stands, not the name it once had.
fn replaced_working_folder(scene: &Scene) -> Verdict {
    scene.attacker()?;
    scene.home_file(".ssh/id", CANARY)?;
    let named = scene.workspace();
    let line = format!(
        "mv '{0}' '{0}.old' && ln -s '{1}' '{0}' && exec \"$@\"",
        named.display(),
        scene.home().join(".ssh").display()
    );
    let moved = named.with_file_name("work.old").join("attacker");
    let output = scene
        .host("sh")
        .args(["-c", &line, "sh"])
        .args([scene.program("sjail").as_os_str()])
        .args(["run", "--no-broker", "--"])
        .args([moved.as_os_str()])
        .args(["read", "id"])
        .env("PWD", &named)
        .output()?;
    is_held(&output)
}

/// A `.git` file planted by an earlier run that names a secret folder as the
/// repository: it must not become visible or writable.
fn gitdir_pointer(scene: &Scene) -> Verdict {
    let secret = scene.home_file(".ssh/id", CANARY)?;
    let folder = scene.home().join(".ssh");
    scene.file(".git", format!("gitdir: {}\n", folder.display()))?;
    pointer_opens_nothing(scene, &secret)
}

/// The same by the second step of the pointer.
fn commondir_pointer(scene: &Scene) -> Verdict {
    let secret = scene.home_file(".ssh/id", CANARY)?;
    let tree = scene.workspace().join("tree");
    scene.file("tree/HEAD", "ref: refs/heads/main\n")?;
    scene.file(
        "tree/commondir",
        format!("{}\n", scene.home().join(".ssh").display()),
    )?;
    scene.file(
        "tree/gitdir",
        format!("{}\n", scene.workspace().join(".git").display()),
    )?;
    scene.file(".git", format!("gitdir: {}\n", tree.display()))?;
    pointer_opens_nothing(scene, &secret)
}

fn pointer_opens_nothing(scene: &Scene, secret: &Path) -> Verdict {
    let attacker = scene.attacker()?;
    let planted = secret.with_file_name("planted");
    for words in [
        ["read", &secret.display().to_string()],
        ["write", &planted.display().to_string()],
    ] {
        let output = scene.run(["--"]).args([&attacker]).args(words).output()?;
        // A refusal to start with such a pointer is as good.
        if output.code() != Some(125) {
            is_held(&output)?;
        }
        absent(&planted)?;
        scene
            .host(&attacker)
            .args(words)
            .output()?
            .stdout_has("OUT")?;
    }
    Ok(())
}

/// The jail's own `/tmp` shows none of the host's names, and what is written
/// there does not reach the host.
fn hosts_tmp(scene: &Scene) -> Verdict {
    let own = std::env::temp_dir().join(format!("sjail-test-{}", std::process::id()));
    fs::write(&own, CANARY)?;
    let _removed = Removed(own.display().to_string());
    let shown = own.display().to_string();
    let attacker = scene.attacker()?;
    is_held(
        &scene
            .run(["--"])
            .args([&attacker])
            .args(["read", &shown])
            .output()?,
    )?;
    scene
        .host(&attacker)
        .args(["read", &shown])
        .output()?
        .stdout_has("OUT")?;
    scene
        .run(["--"])
        .args([&attacker])
        .args(["write", &shown])
        .output()?;
    match fs::read_to_string(&own)?.as_str() {
        CANARY => Ok(()),
        other => Err(Stop::failed(format!("the host's file is now {other:?}"))),
    }
}
