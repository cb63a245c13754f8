//! The system call gate, namespaces, mounts and privileges.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};

use sjail_tests::attack::files::CANARY;
use sjail_tests::{Identity, Scene, Stop, Test, Verdict};

use super::attempt::{Control, Plan, attempt, is_held, plain};

pub fn tests() -> Vec<Test> {
    use Control::{Bare, IfHostAllows, Root, Seen, Weak};
    const NO_MODULES: Control = Control::Root;
    let mut tests = vec![
        plain("b06_i386_getpid", Bare, &["i386", "getpid"]),
        plain("b06_i386_socketcall", Bare, &["i386-socketcall"]),
        attempt("b06_i386_reads_a_secret", Bare, |scene| {
            let secret = scene.outside_file("secret", CANARY)?;
            Ok(Plan::new(["i386", "open", &secret.display().to_string()]))
        }),
        plain("b06_x32_getpid", Bare, &["x32", "39"]),
        plain(
            "b06_x32_mount",
            Seen("an x32 kernel would need capabilities for it"),
            &["x32", "165"],
        ),
        plain("b07_clone_flags_with_high_bits", Bare, &["clone-high-bits"]),
        plain("b07_socket_family_with_high_bits", Bare, &["high-socket"]),
        plain("b11_unshare_user", Bare, &["unshare-namespace", "user"]),
        plain("b11_unshare_mount", Weak, &["unshare-namespace", "mnt"]),
        plain("b11_unshare_pid", Weak, &["unshare-namespace", "pid"]),
        plain("b11_unshare_net", Weak, &["unshare-namespace", "net"]),
        plain("b11_unshare_ipc", Weak, &["unshare-namespace", "ipc"]),
        plain("b11_unshare_uts", Weak, &["unshare-namespace", "uts"]),
        plain("b11_unshare_cgroup", Weak, &["unshare-namespace", "cgroup"]),
        plain("b11_unshare_time", Weak, &["unshare-namespace", "time"]),
        plain("b11_clone_user", Bare, &["clone-namespace", "user"]),
        plain("b11_clone_net", Weak, &["clone-namespace", "net"]),
        plain("b11_clone_mount", Weak, &["clone-namespace", "mnt"]),
        plain("b11_clone3_user", Bare, &["clone3-namespace", "user"]),
        plain("b11_clone3_mount", Weak, &["clone3-namespace", "mnt"]),
        plain("b11_clone3_pid", Weak, &["clone3-namespace", "pid"]),
        plain("b11_setns_own_uts", Weak, &["setns", "/proc/self/ns/uts"]),
        plain("b11_setns_own_net", Weak, &["setns", "/proc/self/ns/net"]),
        attempt("b11_setns_by_pidfd_of_pid_1", Weak, |_| {
            Ok(Plan::new(["setns", "pidfd", "1"]).control(["setns", "pidfd", "self"]))
        }),
        plain("b10_mount_tmpfs", Weak, &["mount-tmpfs", "."]),
        plain("b10_mount_over_proc", Weak, &["mount-tmpfs", "/proc"]),
        plain(
            "b10_bind_root_into_the_workspace",
            Weak,
            &["mount-bind", "/", "."],
        ),
        attempt("b10_remount_usr_writable", Weak, |_| {
            Ok(Plan::new(["remount", "/usr"]).control(["remount", "/"]))
        }),
        attempt("b10_remount_root_writable", Weak, |_| {
            Ok(Plan::new(["remount", "/"]))
        }),
        plain("b10_umount_tmp", Weak, &["umount-it", "/tmp"]),
        plain("b10_umount_proc_sys", Weak, &["umount-it", "/proc/sys"]),
        plain("b10_umount_home", Weak, &["umount-it", "/home"]),
        plain("b10_umount_the_workspace", Weak, &["umount-it", "."]),
        plain("b10_fsopen", Weak, &["fsopen"]),
        plain("b10_fsmount", Weak, &["fsmount"]),
        plain("b10_open_tree", Weak, &["open-tree", "/usr"]),
        plain("b10_move_mount", Weak, &["move-mount", "/usr", "."]),
        attempt("b10_mount_setattr", Weak, |_| {
            Ok(Plan::new(["mount-setattr", "/usr"]).control(["mount-setattr", "/"]))
        }),
        plain("b10_pivot_root", Weak, &["pivot-root", "."]),
        plain("b10_chroot", Weak, &["chroot-here", "."]),
        plain("b10_any_capability", Bare, &["caps-any"]),
        plain("b10_raise_a_capability", Weak, &["caps-raise"]),
        plain("b10_new_privileges", Bare, &["new-privs"]),
        plain(
            "b10_a_mount_honours_setuid",
            Bare,
            &["mounts-nosuid", "nosuid"],
        ),
        plain(
            "b10_a_mount_honours_devices",
            Bare,
            &["mounts-nosuid", "nodev"],
        ),
        plain("b10_setuid_program_of_the_host", Bare, &["passwd-status"]),
        plain("b10_become_another_user", Root, &["setuid", "12345"]),
        plain("b10_drop_groups", Root, &["setgroups"]),
        Test::new("b10_setuid_root_file_in_the_workspace", setuid_root_file).only(Identity::Root),
        Test::new("b10_file_capabilities_in_the_workspace", file_capabilities).only(Identity::Root),
        plain("b05_io_uring_setup", IfHostAllows, &["io-uring", "setup"]),
        plain("b05_io_uring_enter", IfHostAllows, &["io-uring", "enter"]),
        plain(
            "b05_io_uring_register",
            IfHostAllows,
            &["io-uring", "register"],
        ),
        plain("kernel_bpf", Root, &["probe", "bpf"]),
        plain(
            "kernel_userfaultfd",
            IfHostAllows,
            &["probe", "userfaultfd"],
        ),
        plain("kernel_perf_event_open", IfHostAllows, &["probe", "perf"]),
        plain("kernel_fanotify", Bare, &["probe", "fanotify"]),
        plain("kernel_log", Root, &["probe", "syslog"]),
        plain("kernel_reboot", Root, &["probe", "reboot"]),
        plain("kernel_swapon", Root, &["probe", "swapon"]),
        plain("kernel_acct", Root, &["probe", "acct"]),
        plain("kernel_iopl", Root, &["probe", "iopl"]),
        plain("kernel_ioperm", Root, &["probe", "ioperm"]),
        plain("kernel_clock", Root, &["probe", "clock"]),
        plain("kernel_hostname", Weak, &["probe", "sethostname"]),
        plain("b15_add_key", Bare, &["probe", "add-key"]),
        plain("b15_request_key", Bare, &["probe", "request-key"]),
        attempt("b45_program_without_a_path_reads_a_secret", Bare, |scene| {
            let secret = scene.outside_file("secret", CANARY)?;
            Ok(Plan::new(["memfd", "read", &secret.display().to_string()]))
        }),
        plain("core_dump_by_raising_the_limit", Bare, &["core-limit"]),
    ];
    for (name, words) in [
        ("kernel_kexec", &["probe", "kexec"]),
        ("kernel_kexec_file", &["probe", "kexec-file"]),
        ("kernel_init_module", &["probe", "init-module"]),
        ("kernel_finit_module", &["probe", "finit-module"]),
        ("kernel_delete_module", &["probe", "delete-module"]),
    ] {
        tests.push(plain(name, NO_MODULES, words));
    }
    tests
}

/// A set-user-id root program lies in the workspace of an ordinary user. On the
/// host it makes him root.
fn setuid_root_file(scene: &Scene) -> Verdict {
    let program = scene.attacker()?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755))?;
    gains_nothing(scene)
}

/// The same by file capabilities.
fn file_capabilities(scene: &Scene) -> Verdict {
    let program = scene.attacker()?;
    // struct vfs_cap_data, revision 2, effective bit, CAP_SYS_ADMIN permitted.
    let mut value = vec![1, 0, 0, 2];
    value.extend_from_slice(&(1u32 << 21).to_le_bytes());
    value.extend_from_slice(&[0; 12]);
    let path = std::ffi::CString::new(program.as_os_str().as_encoded_bytes())?;
    // SAFETY: path and value outlive the call; the length is the value's own.
    let set = unsafe {
        libc::setxattr(
            path.as_ptr(),
            c"security.capability".as_ptr(),
            value.as_ptr().cast(),
            value.len(),
            0,
        )
    };
    if set < 0 {
        return scene.skip("this file system takes no file capabilities");
    }
    gains_nothing(scene)
}

/// Runs the workspace's attacker as an ordinary user: on the host it gains
/// privileges, in the jail it does not.
fn gains_nothing(scene: &Scene) -> Verdict {
    let (uid, gid) = Identity::User.ids()?;
    for folder in [
        scene.scratch(),
        &scene.home(),
        &scene.workspace(),
        &scene.runtime(),
    ] {
        chown(folder, Some(uid.as_raw()), Some(gid.as_raw()))?;
    }
    let program = scene.attacker()?;
    let words = [program.display().to_string(), "who-am-i".to_string()];
    let as_user = |call: sjail_tests::Call| {
        let mut call = call;
        use std::os::unix::process::CommandExt;
        call.command().uid(uid.as_raw()).gid(gid.as_raw());
        call
    };
    let bare = as_user(scene.host(&program).args(&words[1..])).output()?;
    if !bare.stdout.contains("OUT") {
        return Err(Stop::failed(format!("the check is hollow, {bare}")));
    }
    is_held(&as_user(scene.run(["--"]).args(&words)).output()?)
}
