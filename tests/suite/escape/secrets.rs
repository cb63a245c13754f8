//! Secrets of the host user and of the machine: simply not there.

use sjail_tests::Test;
use sjail_tests::attack::files::CANARY;

use super::attempt::{Control, Plan, attempt, plain};

/// Where programs keep what opens doors elsewhere.
const IN_HOME: &[&str] = &[
    ".ssh/id_ed25519",
    ".ssh/config",
    ".ssh/known_hosts",
    ".aws/credentials",
    ".config/gcloud/credentials.db",
    ".azure/accessTokens.json",
    ".kube/config",
    ".docker/config.json",
    ".netrc",
    ".git-credentials",
    ".config/git/credentials",
    ".config/gh/hosts.yml",
    ".npmrc",
    ".pypirc",
    ".cargo/credentials.toml",
    ".gnupg/private-keys-v1.d/key",
    ".password-store/site.gpg",
    ".local/share/keyrings/login.keyring",
    ".mozilla/firefox/profile/logins.json",
    ".config/google-chrome/Default/Cookies",
    ".bash_history",
    ".claude/.credentials.json",
    ".codex/auth.json",
    ".config/sjail/policy.toml",
    ".local/state/sjail/audit.db",
    "notes.txt",
];

pub fn tests() -> Vec<Test> {
    let mut tests: Vec<Test> = IN_HOME
        .iter()
        .map(|path| {
            let name = format!(
                "secret_{}",
                path.replace(['.', '/', '-'], "_").trim_start_matches('_')
            );
            attempt(&name, Control::Bare, move |scene| {
                // A policy is read before the jail starts and must be one.
                let content = if path.ends_with(".toml") {
                    format!("# {CANARY}\n")
                } else {
                    CANARY.to_string()
                };
                let secret = scene.home_file(path, content)?;
                Ok(Plan::new(["read", &secret.display().to_string()]))
            })
        })
        .collect();
    for (name, path) in [
        ("secret_etc_shadow", "/etc/shadow"),
        ("secret_etc_gshadow", "/etc/gshadow"),
        ("secret_etc_shadow_copy", "/etc/shadow-"),
        ("secret_etc_sudoers", "/etc/sudoers"),
        ("secret_host_key_rsa", "/etc/ssh/ssh_host_rsa_key"),
        ("secret_host_key_ed25519", "/etc/ssh/ssh_host_ed25519_key"),
        ("secret_etc_krb5_keytab", "/etc/krb5.keytab"),
        ("secret_machine_id", "/etc/machine-id"),
        ("secret_root_home", "/root/.bashrc"),
        ("secret_boot", "/boot/grub/grub.cfg"),
        ("secret_system_log", "/var/log/dpkg.log"),
    ] {
        let control = if path == "/etc/machine-id" {
            Control::IfHostAllows
        } else {
            Control::Root
        };
        tests.push(attempt(name, control, move |_| {
            Ok(Plan::new(["read", path, "anything"]))
        }));
    }
    tests.push(plain(
        "b20_wsl_init",
        Control::Seen("there is no WSL here; the name must not be there"),
        &["read", "/init", "anything"],
    ));
    tests.push(plain(
        "b20_wsl_windows_disk",
        Control::Seen("there is no WSL here; the name must not be there"),
        &["read", "/mnt/c/Windows/System32/cmd.exe", "anything"],
    ));
    tests.push(plain(
        "b20_wsl_interop_socket",
        Control::Seen("there is no WSL here; the name must not be there"),
        &["connect-unix", "/run/WSL/1_interop"],
    ));
    tests
}
