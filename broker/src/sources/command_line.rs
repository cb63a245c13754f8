//! The options of a command line that came over the wire.

use sjail_policy::bytes::ByteString;
use sjail_policy::config::{CommandLine, Error, WorkspaceChoice};

/// The options of a command line that policies know: `--net=host`, `--allow-degraded`.
pub(super) fn read(options: &[ByteString]) -> Result<CommandLine, Error> {
    let mut line = CommandLine::default();
    for option in options {
        let bytes = option.as_bytes();
        let (flag, value) = match bytes.iter().position(|byte| *byte == b'=') {
            Some(at) => (&bytes[..at], bytes.get(at + 1..).unwrap_or_default()),
            None => (bytes, &b""[..]),
        };
        if flag == b"--workspace" {
            line.workspace = WorkspaceChoice::Said;
            continue;
        }
        // Policies name options by their own spelling; what they do not know, they refuse.
        let flag = FLAGS
            .iter()
            .find(|known| known.as_bytes() == flag)
            .unwrap_or(&"(unknown option)");
        line.push(flag, value)?;
    }
    line.contradicts_itself()?;
    Ok(line)
}

/// The options that may come over the wire.
const FLAGS: [&str; 24] = [
    "--profile",
    "--ro",
    "--rw",
    "--bind",
    "--hide",
    "--net",
    "--allow-host",
    "--install-host",
    "--publish",
    "--proxy",
    "--ssh-agent",
    "--env",
    "--allow-degraded",
    "--memory",
    "--cpu",
    "--pids",
    "--io-read",
    "--io-write",
    "--timeout",
    "--max-output",
    "--tmp-size",
    "--wait",
    "--dry-run",
    "--no-dry-run",
];
