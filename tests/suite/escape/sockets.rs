//! Sockets: daemons of the host, its loopback, families nobody filters.

use std::fs;
use std::io::{IoSlice, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::thread;

use nix::sys::socket::{ControlMessage, MsgFlags, UnixAddr, sendmsg};
use sjail_tests::attack::files::CANARY;
use sjail_tests::{Identity, Scene, Stop, Test, Verdict};

use super::attempt::{Control, Plan, attempt, is_held, plain};

pub fn tests() -> Vec<Test> {
    use Control::{Bare, IfHostAllows, Root, Weak};
    let mut tests = vec![
        attempt("b01_docker_socket_below_run", Bare, |_| {
            below(Path::new("/run"), "docker.sock")
        })
        .only(Identity::Root),
        attempt("b01_docker_socket_below_var_run", Bare, |_| {
            below(Path::new("/var/run"), "podman.sock")
        })
        .only(Identity::Root),
        attempt("b01_rootless_docker_socket", Bare, |scene| {
            daemon(&scene.runtime().join("docker.sock"))
        }),
        attempt("b01_containerd_socket_in_home", Bare, |scene| {
            daemon(&scene.home().join(".docker/run/docker.sock"))
        }),
        attempt("b01_socket_in_the_hosts_tmp", Bare, |_| {
            below(&std::env::temp_dir(), "agent.sock")
        }),
        attempt("b02_session_bus", Bare, |scene| {
            daemon(&scene.runtime().join("bus"))
        }),
        attempt("b02_system_bus", Bare, |_| {
            below(Path::new("/run"), "system_bus_socket")
        })
        .only(Identity::Root),
        attempt("b13_ssh_agent_socket", Bare, |scene| {
            let path = scene.outside().join("agent.1");
            let shown = path.display().to_string();
            Ok(daemon(&path)?.variable("SSH_AUTH_SOCK", &shown))
        }),
        attempt("b03_abstract_socket", Bare, |_| {
            let name = format!("sjail-test-{}", std::process::id());
            abstract_daemon(&name)?;
            Ok(Plan::new(["connect-abstract", &name]))
        }),
        attempt(
            "b03_abstract_socket_with_the_hosts_network",
            Bare,
            |scene| {
                needs_scopes(scene)?;
                let name = format!("sjail-test-net-{}", std::process::id());
                abstract_daemon(&name)?;
                Ok(Plan::new(["connect-abstract", &name]).flags(["--net", "host"]))
            },
        ),
        attempt("b04_datagram_without_connect", Bare, |scene| {
            let path = scene.outside().join("log");
            let _ = fs::remove_file(&path);
            let socket = UnixDatagram::bind(&path)?;
            socket.set_nonblocking(true)?;
            let listener = socket.try_clone()?;
            Ok(Plan::new(["sendto-unix", &path.display().to_string()])
                .keep(socket)
                .afterwards(move || match listener.recv(&mut [0; 64]) {
                    Err(_) => Ok(()),
                    Ok(_) => Err(Stop::failed("the host got a datagram")),
                }))
        }),
        attempt(
            "b14_folder_handed_over_by_a_friend",
            Bare,
            friend_with_a_folder,
        ),
        attempt("b64_hosts_loopback_tcp", Bare, |_| {
            tcp_daemon("127.0.0.1:0")
        }),
        attempt("b64_hosts_loopback_tcp_by_another_address", Bare, |_| {
            tcp_daemon("127.7.7.7:0")
        }),
        attempt("b64_hosts_loopback_tcp_v6", IfHostAllows, |_| {
            tcp_daemon("[::1]:0")
        }),
        attempt("b64_hosts_loopback_udp", Bare, |_| {
            let socket = UdpSocket::bind("127.0.0.1:0")?;
            let address = socket.local_addr()?.to_string();
            thread::spawn(move || {
                let mut buffer = [0; 64];
                while let Ok((_, from)) = socket.recv_from(&mut buffer) {
                    let _ = socket.send_to(CANARY.as_bytes(), from);
                }
            });
            Ok(Plan::new(["udp", &address]))
        }),
        Test::new("b64_dev_tcp_of_bash", dev_tcp),
        plain("b64_packet_socket", Weak, &["socket", "packet"]),
        plain("b64_raw_socket", Weak, &["socket", "raw"]),
        plain("b64_raw_socket_v6", Weak, &["socket", "raw6"]),
        plain("b64_xdp_socket", Weak, &["socket", "xdp"]),
        plain("b64_netlink_audit", Weak, &["netlink", "audit"]),
        plain("b64_netlink_uevent", Bare, &["netlink", "uevent"]),
        plain("b64_netlink_diag", Bare, &["netlink", "diag"]),
        plain("b64_netlink_netfilter", Bare, &["netlink", "netfilter"]),
        plain("b64_netlink_crypto", Bare, &["netlink", "crypto"]),
        plain("b64_netlink_connector", Root, &["netlink", "connector"]),
        plain("b64_netlink_generic", Bare, &["netlink", "generic"]),
        plain("b64_netlink_xfrm", Bare, &["netlink", "xfrm"]),
        plain("b64_socket_pair_of_another_family", Bare, &["socket-same"]),
    ];
    for family in [
        "vsock",
        "alg",
        "bluetooth",
        "can",
        "tipc",
        "rds",
        "smc",
        "kcm",
        "nfc",
        "key",
    ] {
        tests.push(attempt(
            &format!("b64_{family}_socket"),
            IfHostAllows,
            move |_| Ok(Plan::new(["socket", family])),
        ));
    }
    tests
}

/// A daemon on a path; it greets whoever connects with the canary.
fn daemon(path: &Path) -> Verdict<Plan> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let _ = fs::remove_file(path);
    greet_all(UnixListener::bind(path)?);
    Ok(Plan::new(["connect-unix", &path.display().to_string()]))
}

/// A daemon in a folder of its own below one that all share; taken away again.
fn below(folder: &Path, name: &str) -> Verdict<Plan> {
    let own = folder.join(format!("sjail-test-{}", std::process::id()));
    Ok(daemon(&own.join(name))?.keep(Folder(own)))
}

/// A folder that goes when the attempt is over.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// With the host's network only Landlock stands before abstract sockets, from version 6 on:
/// what SECURITY.md says of older kernels is not to be tried on one.
fn needs_scopes(scene: &Scene) -> Verdict {
    let words = ["--json", "--quiet", "--", "true"];
    let result = scene.run(words).output()?.succeeds()?.json()?;
    let layers = result["isolation"]["layers"].as_array();
    let version = layers
        .into_iter()
        .flatten()
        .find_map(|layer| layer.as_str()?.strip_prefix("Landlock ABI ")?.parse().ok());
    match version {
        Some(6u32..) => Ok(()),
        Some(older) => Err(Stop::Skipped(format!(
            "Landlock of this kernel (ABI {older}) knows no scopes"
        ))),
        None => Err(Stop::failed(result.to_string())),
    }
}

fn abstract_daemon(name: &str) -> Verdict {
    let address = SocketAddr::from_abstract_name(name)?;
    // The second preparation finds the first one's listener still there.
    if let Ok(listener) = UnixListener::bind_addr(&address) {
        greet_all(listener);
    }
    Ok(())
}

/// Answers for as long as the test lives.
fn greet_all(listener: UnixListener) {
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.write_all(CANARY.as_bytes());
        }
    });
}

fn tcp_daemon(address: &str) -> Verdict<Plan> {
    let Ok(listener) = TcpListener::bind(address) else {
        return Ok(Plan::new(["connect-tcp", "[::1]:9"]));
    };
    let address = listener.local_addr()?.to_string();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.write_all(CANARY.as_bytes());
        }
    });
    Ok(Plan::new(["connect-tcp", &address]))
}

/// A process outside that would hand a folder of the host to whoever connects.
fn friend_with_a_folder(scene: &Scene) -> Verdict<Plan> {
    scene.outside_file("secret", CANARY)?;
    let folder = fs::File::open(scene.outside())?;
    let path = scene.runtime().join("friend.sock");
    let _ = fs::remove_file(&path);
    let listener = UnixListener::bind(&path)?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let descriptors = [folder.as_raw_fd()];
            let _ = sendmsg::<UnixAddr>(
                stream.as_raw_fd(),
                &[IoSlice::new(b"x")],
                &[ControlMessage::ScmRights(&descriptors)],
                MsgFlags::empty(),
                None,
            );
        }
    });
    Ok(Plan::new([
        "scm-rights",
        &path.display().to_string(),
        "secret",
    ]))
}

/// The shell's own way to a socket.
fn dev_tcp(scene: &Scene) -> Verdict {
    scene.needs(&["bash"])?;
    let plan = tcp_daemon("127.0.0.1:0")?;
    let (host, port) = plan.words[1].split_once(':').unwrap_or_default();
    let line = format!(
        "if grep -q {CANARY} </dev/tcp/{host}/{port}; then echo OUT there; else echo HELD; exit 10; fi"
    );
    is_held(&scene.run(["--", "bash", "-c", &line]).output()?)?;
    scene
        .host("bash")
        .args(["-c", &line])
        .output()?
        .stdout_has("OUT")?;
    Ok(())
}
