//! Where the text comes from that a command prints, when its words say so: from another machine,
//! or out of a decoder.

use super::act::Act;
use crate::classify::flow::{Flow, Sources};

/// A program and the words behind it, in order, anything between them; a star stands for the rest
/// of a word.
type Words = (&'static [&'static str], &'static [&'static str]);

/// Commands that print what another machine keeps.
const REMOTE: &[Words] = &[
    // Records of name servers are anybody's text; addresses are not.
    (
        &[
            "dig", "kdig", "drill", "delv", "dog", "doggo", "host", "nslookup", "q",
        ],
        &["txt"],
    ),
    (&["nslookup"], &["-type=txt"]),
    (&["nslookup"], &["-q=txt"]),
    (&["nslookup"], &["-query=txt"]),
    (&["nslookup"], &["-querytype=txt"]),
    (&["host"], &["-ttxt"]),
    (&["resolvectl"], &["--type=txt"]),
    // Objects of buckets and shares.
    (&["aws"], &["s3api", "get-object", "/dev/stdout"]),
    (&["aws"], &["lambda", "invoke", "/dev/stdout"]),
    (&["aws"], &["ssm", "get-parameter*"]),
    (&["aws"], &["dynamodb", "get-item"]),
    (&["aws"], &["codecommit", "get-*"]),
    (&["aws"], &["secretsmanager", "get-secret-value"]),
    (&["gsutil"], &["cat"]),
    (&["gcloud"], &["storage", "cat"]),
    (&["gcloud"], &["secrets", "versions", "access"]),
    (&["gcloud"], &["compute", "project-info", "describe"]),
    (&["az"], &["storage", "blob", "download"]),
    (&["az"], &["storage", "file", "download"]),
    (&["az"], &["keyvault", "secret", "show"]),
    (
        &[
            "rclone", "mc", "mcli", "s3fs", "b2", "oci", "ossutil", "s5cmd",
        ],
        &["cat"],
    ),
    (&["rclone"], &["copyto", "/dev/stdout"]),
    (&["s3cmd"], &["get", "-"]),
    (&["hdfs", "hadoop"], &["-cat"]),
    (&["smbclient"], &["get", "-"]),
    // Clusters, stores of keys and values, queues.
    (&["kubectl", "oc", "k", "microk8s.kubectl"], &["get"]),
    (&["kubectl", "oc", "k", "microk8s.kubectl"], &["logs"]),
    (&["consul"], &["kv", "get"]),
    (&["etcdctl"], &["get"]),
    (&["vault"], &["read"]),
    (&["vault"], &["kv", "get"]),
    (&["redis-cli", "valkey-cli"], &["get"]),
    (&["redis-cli", "valkey-cli"], &["lpop"]),
    (&["redis-cli", "valkey-cli"], &["blpop"]),
    (&["redis-cli", "valkey-cli"], &["subscribe"]),
    (
        &[
            "mosquitto_sub",
            "kafkacat",
            "kcat",
            "nats",
            "amqp-consume",
            "amqp-get",
            "zmqdump",
        ],
        &[],
    ),
    // Forges.
    (&["gh", "glab", "tea", "hub"], &["api"]),
    (&["gh"], &["gist", "view"]),
    (&["gh"], &["release", "download", "-"]),
    (&["gh", "glab"], &["issue", "view"]),
    (&["gh", "glab"], &["pr", "view"]),
    (&["git"], &["archive", "--remote*"]),
    // Mail, chat, clipboards, news.
    (
        &[
            "finger",
            "whois",
            "fetchmail",
            "sic",
            "ii",
            "irc",
            "snmpget",
            "snmpwalk",
            "ldapsearch",
        ],
        &[],
    ),
];

/// Commands that decode or decipher what they read.
const DECODE: &[Words] = &[
    (&["gpg", "gpg2", "sq", "sqop"], &["-d"]),
    (&["gpg", "gpg2", "sq"], &["--decrypt"]),
    (&["sq", "rage", "age", "minisign"], &["decrypt"]),
    (&["age", "rage", "ccrypt", "mcrypt", "bcrypt"], &["-d"]),
    (&["age", "rage", "ccrypt"], &["--decrypt"]),
    (
        &[
            "ccat",
            "ccdecrypt",
            "mdecrypt",
            "uudeview",
            "rot13",
            "caesar",
            "hexdec",
        ],
        &[],
    ),
    (&["openssl"], &["rsautl", "-decrypt"]),
    (&["openssl"], &["pkeyutl", "-decrypt"]),
    (&["openssl"], &["smime", "-decrypt"]),
    (&["openssl"], &["cms", "-decrypt"]),
    (&["mimencode", "mmencode"], &["-u"]),
    (&["qprint"], &["-d"]),
    (&["steghide", "zsteg", "outguess", "stegsnow"], &[]),
    (&["exiftool"], &["-b"]),
    (&["recode"], &["/b64*"]),
    (&["7z", "7za", "7zz"], &["x", "-so", "-p*"]),
    (&["unzip"], &["-p", "-P"]),
];

/// What a command prints, marked with where it comes from.
pub(crate) fn marked(act: &Act<'_, '_>, mut flow: Flow) -> Flow {
    let name = act.draft.program.name.as_str();
    let listed = |table: &[Words]| {
        table
            .iter()
            .any(|(programs, words)| programs.contains(&name) && follow(act, words))
    };
    if listed(REMOTE) || copies_to_output(act, name) {
        flow.from = flow.from.with(Sources::REMOTE);
        flow.text = None;
    }
    let decodes = matches!(name, "jq" | "gojq" | "jaq")
        && act
            .args
            .iter()
            .any(|word| word.text.contains("@base64d") || word.text.contains("@base32d"));
    if decodes || listed(DECODE) {
        flow.from = flow.from.with(Sources::DECODED);
        flow.text = None;
    }
    if matches!(name, "ls" | "gls" | "exa" | "eza") {
        // The names of what a pattern finds.
        let found = act.positionals().find(|word| word.glob);
        flow.partly = found.map(|word| word.text.clone());
    }
    let endless = match name {
        "yes" => true,
        "seq" => act
            .args
            .iter()
            .any(|word| matches!(word.text.as_str(), "inf" | "infinity")),
        "cat" | "head" => act
            .args
            .iter()
            .any(|word| matches!(word.text.as_str(), "/dev/zero" | "/dev/urandom")),
        _ => false,
    };
    if endless && !act.reading.has("-c") && !act.reading.has("-n") {
        flow.from = flow.from.with(Sources::ENDLESS);
    }
    flow
}

/// `aws s3 cp s3://bucket/x -`: a copy from another machine whose target is the output.
fn copies_to_output(act: &Act<'_, '_>, name: &str) -> bool {
    const COPY: &[&str] = &[
        "aws", "gsutil", "gcloud", "az", "s5cmd", "scp", "rsync", "mc", "ossutil", "rclone",
        "hdfs", "hadoop", "adb", "docker", "podman", "kubectl",
    ];
    let words = &act.call.args[1..];
    if matches!(name, "svn" | "hg" | "bzr" | "cvs" | "fossil") {
        // `svn cat https://…`
        let shows = words
            .iter()
            .any(|word| matches!(word.text.as_str(), "cat" | "export"));
        return shows && words.iter().any(|word| word.text.contains("://"));
    }
    let output = |text: &str| matches!(text, "-" | "/dev/stdout" | "/dev/fd/1" | "/proc/self/fd/1");
    let elsewhere = |text: &str| text.contains(":/") || (name == "scp" && text.contains(':'));
    COPY.contains(&name)
        && words.iter().any(|word| output(&word.text))
        && words.iter().any(|word| elsewhere(&word.text))
}

/// Whether these words stand among the arguments, in this order.
fn follow(act: &Act<'_, '_>, words: &[&str]) -> bool {
    let mut args = act.call.args[1..].iter();
    words.iter().all(|word| {
        args.any(|arg| match word.strip_suffix('*') {
            _ if !arg.exact => false,
            Some(start) => arg.text.starts_with(start),
            None => arg.text.eq_ignore_ascii_case(word),
        })
    })
}
