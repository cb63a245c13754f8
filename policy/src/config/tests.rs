//! The layers together: what holds, where it came from, and what no workspace can do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use proptest::prelude::*;

use super::*;
use crate::bytes::ByteString;
use crate::plan::{Access, Memory, NetworkMode, User};
use crate::size::Size;

const MACHINE: u64 = 8 << 30;

fn holders() -> Vec<Holder> {
    vec![Holder {
        path: "/x".into(),
        uid: 0,
        mode: 0o644,
        group: GroupMembers::Others,
        kind: HolderKind::File,
    }]
}

fn file(path: &str, text: &str) -> PolicyFile {
    PolicyFile {
        path: path.into(),
        text: text.as_bytes().to_vec(),
        holders: holders(),
    }
}

fn workspace(text: &str, trust: Trust) -> WorkspaceFile {
    WorkspaceFile {
        path: "/ws/sjail.toml".into(),
        text: text.as_bytes().to_vec(),
        format: Format::Toml,
        trust,
    }
}

#[derive(Default)]
struct Setup {
    system: &'static str,
    user: &'static str,
    workspace: Vec<WorkspaceFile>,
    options: Vec<(&'static str, &'static str)>,
}

fn try_load(setup: Setup) -> Result<Loaded, Error> {
    let mut sources = Sources {
        system: Some(file("/etc/sjail/policy.toml", setup.system)),
        user: Some(file("/home/u/.config/sjail/policy.toml", setup.user)),
        workspace: setup.workspace,
        uid: 1000,
        machine_memory: Some(MACHINE),
        ..Sources::default()
    };
    for (flag, value) in setup.options {
        sources.command_line.push(flag, value.as_bytes())?;
    }
    load(&sources)
}

fn run() -> Run {
    Run {
        argv: vec!["true".into()],
        cwd: "/ws".into(),
        program: None,
        workspace: "/ws".into(),
        home: "/home/u".into(),
        user: User::Caller,
        env: vec![
            (
                "PATH".into(),
                "/usr/bin:.:/home/u/.cargo/bin:/mnt/c/Windows:/ws/node_modules/.bin".into(),
            ),
            ("HOME".into(), "/elsewhere".into()),
            ("GITHUB_TOKEN".into(), "secret".into()),
            ("CARGO_TERM_COLOR".into(), "always".into()),
            ("CARGO_REGISTRY_TOKEN".into(), "secret".into()),
        ],
        agent: None,
        session: None,
    }
}

#[test]
fn what_is_filled_in_is_never_a_shells_text() {
    let told = |words: &str| {
        let text = format!("[approval]\non_ask = {words}\n");
        load(&Sources {
            user: Some(file("/home/u/.config/sjail/policy.toml", &text)),
            uid: 1000,
            machine_memory: Some(MACHINE),
            ..Sources::default()
        })
    };
    for words in [
        r#"["notify-send", "sjail: {summary}"]"#,
        r#"["sh", "/usr/local/bin/tell", "{summary}"]"#,
        r#"["sh", "-c", "echo \"$SJAIL_SUMMARY\""]"#,
    ] {
        assert!(told(words).is_ok(), "{words}");
    }
    for words in [
        r#"["sh", "-c", "echo '{summary}'"]"#,
        r#"["sh", "-c", "{summary}"]"#,
        r#"["env", "bash", "-c", "mail {id}"]"#,
        r#"["ssh", "host", "tell", "{summary}"]"#,
    ] {
        assert!(told(words).is_err(), "{words}");
    }
}

#[test]
fn without_files_the_profile_holds() {
    let loaded = load(&Sources::default()).unwrap();
    assert_eq!(loaded.policy.profile.value.name, "workspace");
    assert_eq!(loaded.policy.network.value, NetworkMode::None);
    assert_eq!(
        loaded.policy.network.origin.to_string(),
        "profile workspace"
    );
    assert!(loaded.notices.is_empty() && loaded.files.is_empty());
}

#[test]
fn later_layers_replace_values_and_add_to_lists() {
    let loaded = try_load(Setup {
        system: "[limits]\npids = 100\n[commands]\ndeny = [\"nc\"]\n",
        user: "[limits]\npids = 200\n[commands]\ndeny = [\"wget\"]\n[filesystem]\nread = [\n  \"~/data\",\n  \"/srv\",\n]\n",
        options: vec![("--memory", "1G")],
        ..Setup::default()
    })
    .unwrap();
    let policy = &loaded.policy;
    assert_eq!(policy.pids.value, Some(200));
    assert_eq!(
        policy.pids.origin.to_string(),
        "/home/u/.config/sjail/policy.toml:2"
    );
    let denied: Vec<String> = policy
        .forbid
        .iter()
        .map(|rule| format!("{} {}", rule.value.text(), rule.origin))
        .collect();
    assert_eq!(
        denied,
        [
            "nc /etc/sjail/policy.toml:4",
            "wget /home/u/.config/sjail/policy.toml:4"
        ]
    );
    assert_eq!(
        policy.read[1].origin.to_string(),
        "/home/u/.config/sjail/policy.toml:8"
    );
    assert_eq!(
        policy.memory.value,
        Some(Memory::Bytes(Size::from_bytes(1 << 30)))
    );
    assert_eq!(policy.memory.origin.to_string(), "--memory");
}

#[test]
fn errors_point_at_the_line() {
    for (text, message) in [
        (
            "[filesytem]\nread = []\n",
            "p.toml:1:2: unknown table `filesytem`, did you mean `filesystem`?\n  1 | [filesytem]\n    |  ^^^^^^^^^",
        ),
        (
            "[network]\nmoed = \"none\"\n",
            "p.toml:2:1: unknown key `network.moed`, did you mean `network.mode`?",
        ),
        (
            "[network]\nmode = \"nune\"\n",
            "p.toml:2:8: unknown value `nune`, did you mean `none`?",
        ),
        (
            "[network]\nmode = 3\n",
            "p.toml:2:8: `network.mode`: a number where a text in quotes is wanted",
        ),
        (
            "[limits]\ntimeout = 60\n",
            "p.toml:2:11: `limits.timeout`: `60` has no unit: write 60ms, 60s, 60m, 60h or 60d",
        ),
        (
            "[limits]\nmemory = \"12X\"\n",
            "p.toml:2:10: `limits.memory`: `12X` is not a size",
        ),
        (
            "[limits]\npids = \"5\"\n",
            "p.toml:2:8: `limits.pids`: a whole number from 1 is wanted",
        ),
        (
            "[filesystem]\nread = [\n  \"/ok\",\n  \"/etc\",\n]\n",
            "p.toml:4:3: `filesystem.read`: `/etc` holds the system's secrets",
        ),
        (
            "[filesystem]\ndeny = [\"!x\"]\n",
            "p.toml:2:9: `filesystem.deny`: the pattern `!x` can match nothing",
        ),
        (
            "[commands]\nallow = [\"./x.sh\"]\n",
            "p.toml:2:10: `commands.allow`: the pattern `./x.sh` can match nothing",
        ),
        (
            "[commands]\ndeny_regex = [\"(\"]\n",
            "p.toml:2:15: `commands.deny`: `(` is not a regular expression",
        ),
        (
            "[environment]\npass = [\"*\"]\n",
            "p.toml:2:9: `environment.pass`: `*` would pass everything",
        ),
        (
            "[lock]\nkeys = [\"network.mod\"]\n",
            "p.toml:2:9: `lock.keys`: unknown key `network.mod`, did you mean `network.mode`?",
        ),
        (
            "[[test]]\ncomand = \"x\"\n",
            "p.toml:2:1: unknown key `test.comand`, did you mean `command`?",
        ),
        (
            "[[test]]\ncommand = \"x\"\n",
            "p.toml:1:1: `test`: a case needs `expect`",
        ),
        ("[network\nmode = 1", "p.toml:1:9: "),
        (
            "level = \"full\"\n",
            "p.toml:1:1: unknown key `level`, did you mean `commands.level`?",
        ),
        ("network = 3\n", "p.toml:1:11: `network`: this is a table"),
    ] {
        let path = std::sync::Arc::from("p.toml");
        let error = document::read(Layer::User, &path, text.as_bytes())
            .unwrap_err()
            .to_string();
        assert!(error.starts_with(message), "{text}\n{error}");
    }
}

#[test]
fn hostile_text_in_a_message_is_inert() {
    let path = std::sync::Arc::from("p.toml");
    let error = document::read(
        Layer::User,
        &path,
        "[network]\nmode = \"\\u001b[2J\\u202e\"\n".as_bytes(),
    )
    .unwrap_err();
    assert!(
        error
            .to_string()
            .chars()
            .all(|c| c == '\n' || !c.is_control()),
        "{error}"
    );
    let error = document::read(Layer::User, &path, b"[net\x1b[2Jwork]").unwrap_err();
    assert!(
        error
            .to_string()
            .chars()
            .all(|c| c == '\n' || !c.is_control()),
        "{error}"
    );
}

#[test]
fn groups_stand_for_their_hosts() {
    let user = "[network.groups]\nwork = [\"a.test\", \"*.b.test:22\"]\n";
    let setup = |system, group| Setup {
        system,
        user,
        options: vec![("--allow-host", group)],
        ..Setup::default()
    };
    let loaded = try_load(setup("", "@work")).unwrap();
    let hosts: Vec<String> = loaded
        .policy
        .hosts_allow
        .iter()
        .map(|host| host.value.to_string())
        .collect();
    assert_eq!(hosts, ["a.test", "*.b.test:22"]);
    assert_eq!(loaded.policy.network.value, NetworkMode::Filtered);
    let unknown = try_load(setup("", "@wrok")).unwrap_err();
    assert!(unknown.to_string().contains("@wrok"), "{unknown}");
    let locked = "[lock]\nkeys = [\"network.allow\"]\n";
    let refused = try_load(setup(locked, "@work")).unwrap_err();
    assert!(refused.is_refusal(), "{refused}");
}

#[test]
fn a_client_without_settings_has_the_group_of_its_name() {
    let user = "[network]\nallow = [\"other.test\"]\n[network.groups]\nnpm = [\"npm.test\"]\n";
    let load = |user, value| {
        let loaded = try_load(Setup {
            user,
            options: vec![("--install-host", value)],
            ..Setup::default()
        })
        .unwrap();
        let hosts = loaded.policy.hosts_allow.iter();
        let hosts: Vec<String> = hosts.map(|host| host.value.to_string()).collect();
        (
            loaded.policy.network.value,
            hosts.join(" "),
            loaded.policy.hosts_ask.value,
        )
    };
    let filtered = NetworkMode::Filtered;
    for value in ["@npm", "?npm"] {
        assert_eq!(load(user, value), (filtered, "npm.test".to_owned(), false));
    }
    assert_eq!(load(user, "?pip"), (filtered, String::new(), true));
    assert_eq!(load(user, "@pip").0, NetworkMode::None);
    assert_eq!(load("", "a.test"), (filtered, "a.test".to_owned(), false));
}

#[test]
fn locked_keys_stay_locked() {
    let system = "# the machine's owner\n\n[lock]\nkeys = [\"network.mode\", \"filesystem.write\", \"limits\", \"sandbox.broker\"]\n";
    for options in [
        vec![("--net", "host")],
        vec![("--profile", "host-net")],
        vec![("--allow-host", "example.org")],
        vec![("--rw", "/data")],
        vec![("--memory", "100%")],
        vec![("--pids", "513")],
        vec![("--no-broker", "")],
    ] {
        let flag = options[0].0;
        let error = try_load(Setup {
            system,
            options,
            ..Setup::default()
        })
        .unwrap_err();
        assert!(error.is_refusal(), "{flag}: {error}");
        assert!(error.to_string().starts_with(flag), "{flag}: {error}");
        assert!(
            error.to_string().contains("/etc/sjail/policy.toml:4"),
            "{error}"
        );
    }
    for options in [
        vec![("--net", "none")],
        vec![("--pids", "100")],
        vec![("--memory", "1G")],
        vec![("--ro", "/data")],
        vec![("--profile", "strict")],
        vec![("--hide", ".env")],
    ] {
        let shown = format!("{options:?}");
        assert!(
            try_load(Setup {
                system,
                options,
                ..Setup::default()
            })
            .is_ok(),
            "{shown}"
        );
    }
}

#[test]
fn a_lock_also_binds_the_layers_below_and_the_choice_of_workspace() {
    let system =
        "[network]\nmode = \"none\"\n[lock]\nkeys = [\"network.mode\", \"filesystem.write\"]\n";
    let loaded = try_load(Setup {
        system,
        user: "[network]\nmode = \"host\"\n",
        workspace: vec![workspace(
            "[filesystem]\nwrite = [\"/srv\"]\n",
            Trust::Pinned,
        )],
        ..Setup::default()
    })
    .unwrap();
    assert_eq!(loaded.policy.network.value, NetworkMode::None);
    assert!(loaded.policy.write.is_empty());
    let notices: Vec<String> = loaded.sentences();
    assert_eq!(
        notices,
        [
            "/home/u/.config/sjail/policy.toml:2: `network.mode` would loosen what /etc/sjail/policy.toml:4 locks and is left out",
            "/ws/sjail.toml:2: `filesystem.write` would loosen what /etc/sjail/policy.toml:4 locks and is left out",
        ]
    );
    let mut sources = Sources {
        system: Some(file("/etc/sjail/policy.toml", system)),
        ..Sources::default()
    };
    sources.command_line.workspace = WorkspaceChoice::Said;
    assert!(load(&sources).unwrap_err().is_refusal());
}

#[test]
fn a_users_lock_on_the_profile_binds_the_command_line_only() {
    let user = "[sandbox]\nprofile = \"strict\"\n[lock]\nkeys = [\"sandbox.profile\"]\n";
    let loaded = try_load(Setup {
        user,
        ..Setup::default()
    })
    .unwrap();
    assert_eq!(loaded.policy.profile.value.name, "strict");
    assert_eq!(loaded.policy.workspace.value, Access::Ro);
    assert!(
        try_load(Setup {
            user,
            options: vec![("--profile", "workspace")],
            ..Setup::default()
        })
        .unwrap_err()
        .is_refusal()
    );
}

#[test]
fn what_the_command_line_loosens_is_recorded() {
    let loaded = try_load(Setup {
        options: vec![("--net", "host"), ("--pids", "10"), ("--rw", "/data")],
        ..Setup::default()
    })
    .unwrap();
    let keys: Vec<_> = loaded
        .loosened
        .iter()
        .map(|loosened| (loosened.key, loosened.option))
        .collect();
    assert_eq!(
        keys,
        [("filesystem.write", "--rw"), ("network.mode", "--net")]
    );
}

#[test]
fn an_untrusted_workspace_tightens_and_is_told_what_it_may_not() {
    let text = "[sandbox]\nworkspace = \"ro\"\nprofile = \"host-net\"\n[network]\nmode = \"host\"\nallow = [\"evil.org\"]\n\
                [commands]\nlevel = \"allowlist\"\nallow = [\"curl *\"]\ndeny = [\"nc\"]\n[filesystem]\nwrite = [\"~\"]\ndeny = [\".env\"]\n\
                [limits]\nmemory = \"1G\"\npids = 4096\n[approval]\non_ask = [\"sh\", \"-c\", \"evil\"]\n[lock]\nkeys = [\"*\"]\n\
                [environment]\nset = { GIT_SSH_COMMAND = \"evil\" }\n";
    let loaded = try_load(Setup {
        workspace: vec![workspace(text, Trust::Untrusted)],
        ..Setup::default()
    })
    .unwrap();
    let policy = &loaded.policy;
    assert_eq!(policy.workspace.value, Access::Ro);
    assert_eq!(policy.network.value, NetworkMode::None);
    assert_eq!(policy.level.value, Level::Allowlist);
    assert_eq!(
        (
            policy.allow.len(),
            policy.forbid.len(),
            policy.write.len(),
            policy.deny.len()
        ),
        (0, 1, 0, 1)
    );
    assert_eq!(
        policy.memory.value,
        Some(Memory::Bytes(Size::from_bytes(1 << 30)))
    );
    assert_eq!(policy.pids.value, Some(512));
    assert!(policy.on_ask.value.is_empty() && policy.locks.is_empty() && policy.set.is_empty());
    let ignored: Vec<&str> = loaded.notices.iter().map(|notice| notice.key).collect();
    assert_eq!(
        ignored,
        [
            "sandbox.profile",
            "network.mode",
            "network.allow",
            "commands.allow",
            "filesystem.write",
            "limits.pids",
            "approval.on_ask",
            "lock.keys",
            "environment.set",
        ]
    );
    let trusted = try_load(Setup {
        workspace: vec![workspace(text, Trust::Pinned)],
        ..Setup::default()
    })
    .unwrap();
    assert_eq!(trusted.policy.network.value, NetworkMode::Host);
    assert!(trusted.notices.is_empty());
}

#[test]
fn a_permission_comes_over_the_wire_as_it_was() {
    use crate::wire::Reply;
    use crate::wire::request::{Answer, Place, Run};
    let plan = try_load(Setup::default()).unwrap().policy.plan(run());
    let sent = [
        Answer::Run(Box::new(Run {
            id: "run_1".to_owned(),
            command: "a \"b\"".to_owned(),
            token: "t".to_owned(),
            risk: crate::risk::Risk::Safe,
            reasons: vec!["\u{202e}".to_owned()],
            decision: "allow".to_owned(),
            rule: "risk safe".to_owned(),
            place: Place::Jail,
            plan,
            binding: None,
            approval: None,
            preview: None,
            apply: None,
            notices: Vec::new(),
            recorded_output: Some(1),
        })),
        Answer::Recorded {
            seq: Some(7),
            alerts: Vec::new(),
        },
    ];
    for answer in sent {
        let message = serde_json::json!({ "continues": true, "parameters": answer });
        let read = Answer::read(message.to_string().as_bytes()).unwrap();
        assert_eq!(read.unwrap(), answer);
    }
    let error = br#"{"error":"x.y","parameters":{"state":"run"}}"#;
    let refused: Reply = Answer::read(error).unwrap().unwrap_err();
    assert_eq!(refused.error.as_deref(), Some("x.y"));
    assert!(Answer::read(br#"{"parameters":{"state":"run"}}"#).is_err());
}

#[test]
fn the_plan_has_what_the_policy_says() {
    let loaded = try_load(Setup {
        user: "[filesystem]\nread = [\"~/data/**\"]\nwrite = [\"./**\"]\nbinds = [\"/srv/x:/data:ro\"]\ndeny = [\"*.pem\", \"!test.pem\", \"~/data/secret\"]\nprotect = [\"Makefile\"]\n[environment]\npass = [\"CARGO_*\"]\nset = { CI = \"1\" }\n",
        options: vec![("--env", "GITHUB_TOKEN")],
        ..Setup::default()
    })
    .unwrap();
    let plan = loaded.policy.plan(run());
    let grants: Vec<String> = plan
        .filesystem
        .grants
        .iter()
        .map(|grant| {
            format!(
                "{} {} {:?}",
                grant.source.to_str().unwrap(),
                grant.dest.to_str().unwrap(),
                grant.access
            )
        })
        .collect();
    assert_eq!(grants, ["/home/u/data /home/u/data Ro", "/srv/x /data Ro"]);
    let hide: Vec<&str> = plan
        .filesystem
        .hide
        .iter()
        .rev()
        .take(2)
        .filter_map(ByteString::to_str)
        .collect();
    assert_eq!(hide, ["/home/u/data/secret", "/ws/**/*.pem"]);
    assert_eq!(plan.filesystem.unhide.len(), 1);
    assert_eq!(
        plan.filesystem.hide[plan.filesystem.unhide[0].hidden],
        ByteString::from("/ws/**/*.pem")
    );
    assert!(
        plan.filesystem
            .protect
            .names
            .contains(&ByteString::from("Makefile"))
    );
    let env: Vec<String> = plan
        .command
        .env
        .iter()
        .map(|variable| {
            format!(
                "{}={}",
                variable.name.to_str().unwrap(),
                variable.value.to_str().unwrap()
            )
        })
        .collect();
    assert_eq!(
        env,
        [
            "PATH=/usr/bin:/home/u/.cargo/bin:/ws/node_modules/.bin",
            "HOME=/home/u",
            "GITHUB_TOKEN=secret",
            "CARGO_TERM_COLOR=always",
            "CI=1",
            "PWD=/ws",
        ]
    );
    let json = serde_json::to_string(&plan).unwrap();
    assert_eq!(
        serde_json::from_str::<crate::plan::Plan>(&json).unwrap(),
        plan
    );
}

/// A value for a key, as TOML: sensible, strange or wrong.
fn toml_value() -> impl Strategy<Value = String> {
    let word = prop_oneof![proptest::sample::select(vec![
        "off",
        "non-main",
        "all",
        "session",
        "agent",
        "shared",
        "rw",
        "ro",
        "none",
        "filtered",
        "host",
        "full",
        "allowlist",
        "deny",
        "auto",
        "always",
        "never",
        "alert",
        "block",
        "coding",
        "messaging",
        "minimal",
        "strict",
        "workspace",
        "host-net",
        "offline-build",
        "1K",
        "1T",
        "75%",
        "100%",
        "1%",
        "1s",
        "365d",
        "0",
        "*",
        "group:fs",
        "exec",
        "network.mode",
        "PATH",
        "SSH_AUTH_SOCK",
        "LD_PRELOAD",
        "example.org",
        "*.org:443",
        "~/.ssh",
        "/srv",
        ".env",
        "!x",
        "rm -rf *",
        "Read(/**)",
        "/srv:/x:rw",
        ".git",
    ]),]
    .prop_map(|word| format!("\"{word}\""));
    let list = proptest::collection::vec(word.clone(), 0..4)
        .prop_map(|words| format!("[{}]", words.join(", ")));
    prop_oneof![
        word,
        list,
        any::<bool>().prop_map(|value| value.to_string()),
        (1u32..100_000).prop_map(|value| value.to_string()),
        Just("{ LD_PRELOAD = \"x\", PATH = \"/evil\" }".to_owned()),
    ]
}

/// A whole file: keys that exist, each at most once, with whatever values.
fn toml_file() -> impl Strategy<Value = String> {
    let keys: Vec<Key> = Key::all().collect();
    proptest::collection::btree_map(proptest::sample::select(keys), toml_value(), 0..8).prop_map(
        |entries| {
            entries
                .iter()
                .map(|(key, value)| format!("{} = {value}\n", key.name()))
                .collect::<String>()
        },
    )
}

/// Only the lines that can be read, so that files hold together.
fn readable(text: &str) -> String {
    let path = std::sync::Arc::from("x");
    text.lines()
        .filter(|line| document::read(Layer::Workspace, &path, line.as_bytes()).is_ok())
        .map(|line| format!("{line}\n"))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn no_workspace_file_can_loosen_anything(user in toml_file(), project in toml_file()) {
        let user = readable(&user);
        let project = readable(&project);
        let sources = |workspace: Vec<WorkspaceFile>| Sources {
            user: Some(file("/u", &user)),
            workspace,
            uid: 1000,
            machine_memory: Some(MACHINE),
            ..Sources::default()
        };
        let before = load(&sources(Vec::new())).unwrap();
        let after = load(&sources(vec![workspace(&project, Trust::Untrusted)])).unwrap();
        for key in Key::all() {
            prop_assert!(!after.policy.is_looser(&before.policy, key, Some(MACHINE)), "{}\n{user}---\n{project}", key.name());
        }
        // The same once more, seen from the plan, which knows nothing of keys.
        let (old, new) = (before.policy.plan(run()), after.policy.plan(run()));
        prop_assert!(new.workspace.access <= old.workspace.access);
        prop_assert!(new.network.mode <= old.network.mode);
        prop_assert!(new.degraded <= old.degraded);
        prop_assert!(new.filesystem.grants.iter().all(|grant| old.filesystem.grants.contains(grant)));
        prop_assert!(new.filesystem.system.iter().all(|path| old.filesystem.system.contains(path)));
        prop_assert!(new.filesystem.etc.iter().all(|path| old.filesystem.etc.contains(path)));
        prop_assert!(new.home.toolchains.iter().all(|path| old.home.toolchains.contains(path)));
        prop_assert!(old.filesystem.hide.iter().all(|path| new.filesystem.hide.contains(path)));
        prop_assert!(old.filesystem.protect.names.iter().all(|name| new.filesystem.protect.names.contains(name)));
        prop_assert!(new.network.allow.iter().all(|host| old.network.allow.iter().any(|known| known.covers(host))));
        prop_assert!(old.network.deny.iter().all(|host| new.network.deny.contains(host)));
        prop_assert!(new.environment.set == old.environment.set);
        prop_assert!(new.command.env.iter().all(|variable| old.command.env.iter().any(|known| known.name == variable.name)));
        let no_more = |new: Option<u64>, old: Option<u64>| old.is_none_or(|old| new.is_some_and(|new| new <= old));
        let memory = |plan: &crate::plan::Plan| plan.limits.memory.map(|memory| memory.bytes(MACHINE));
        prop_assert!(no_more(memory(&new), memory(&old)));
        prop_assert!(no_more(new.limits.pids.map(u64::from), old.limits.pids.map(u64::from)));
        prop_assert!(no_more(new.limits.timeout.map(|t| t.millis()), old.limits.timeout.map(|t| t.millis())));
        prop_assert!(no_more(new.limits.tmp.map(Size::bytes), old.limits.tmp.map(Size::bytes)));
    }

    #[test]
    fn a_lock_holds_against_every_option(
        user in toml_file(),
        options in proptest::collection::vec((
            proptest::sample::select(vec![
                "--profile", "--ro", "--rw", "--bind", "--hide", "--net", "--allow-host", "--publish", "--proxy", "--ssh-agent", "--env", "--no-broker",
                "--allow-degraded", "--memory", "--cpu", "--pids", "--timeout", "--max-output", "--tmp-size", "--wait", "--dry-run",
            ]),
            proptest::sample::select(vec![
                "host-net", "strict", "/srv", "/srv:/x:rw", ".env", "host", "none", "filtered", "example.org", "@work", "8080:80", "A=b", "A", "1G", "100%", "9999", "1s",
            ]),
        ), 1..4),
    ) {
        let user = format!("{}network.groups.work = \"example.org\"\nlock.keys = [\"*\"]\n", readable(&user).lines().filter(|line| !line.starts_with("lock")).map(|line| format!("{line}\n")).collect::<String>());
        let mut sources = Sources { user: Some(file("/u", &user)), uid: 1000, machine_memory: Some(MACHINE), ..Sources::default() };
        let before = load(&sources).unwrap();
        for (flag, value) in options {
            let _ = sources.command_line.push(flag, value.as_bytes());
        }
        match load(&sources) {
            Ok(after) => {
                for key in Key::all() {
                    prop_assert!(!after.policy.is_looser(&before.policy, key, Some(MACHINE)), "{}", key.name());
                }
                prop_assert!(after.loosened.is_empty());
            }
            Err(error) => prop_assert!(error.is_refusal(), "{error}"),
        }
    }

    #[test]
    fn reading_never_panics(text in proptest::collection::vec(any::<u8>(), 0..300), file in toml_file()) {
        let path = std::sync::Arc::from("x");
        let _ = document::read(Layer::User, &path, &text);
        let _ = document::read(Layer::User, &path, file.as_bytes());
    }
}
