//! The host that a program says it cannot reach.

use sjail_policy::host;

/// The host that a line complains about: behind `host:`, in a URL, or the last word that can
/// be nothing else.
pub fn named_in(line: &str) -> Option<String> {
    let around = |c: char| c.is_whitespace() || "'\"`‘’“”,;()<>[]{}=|".contains(c);
    let bare = |word: &str| {
        let word = word.trim_matches([':', '.', '!', '?']);
        let word = word.split_once("://").map_or(word, |(_, rest)| rest);
        let word = word.split(['/', '?', '#']).next().unwrap_or_default();
        let word = word.rsplit('@').next().unwrap_or_default();
        let (name, port) = word.split_once(':').unwrap_or((word, ""));
        let name = host::canonical(name).filter(|name| name.contains('.'))?;
        Some(match port {
            "" | "80" | "443" => name,
            port if port.bytes().all(|byte| byte.is_ascii_digit()) => format!("{name}:{port}"),
            _ => name,
        })
    };
    let after = line.split_once("resolve host").map(|(_, rest)| rest);
    let named = after.and_then(|rest| rest.split(around).find_map(bare));
    let url = || {
        line.split(around)
            .filter(|w| w.contains("://"))
            .find_map(bare)
    };
    // The first word says who complains: a program, or the class of an error.
    let last = || {
        let words: Vec<&str> = line.split(around).skip(1).collect();
        words.into_iter().rev().find_map(bare)
    };
    let host = named.or_else(url).or_else(last)?;
    // Who logs in means another port than the web's.
    match line.contains("ssh: ") && !host.contains(':') {
        true => Some(format!("{host}:22")),
        false => Some(host),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_found_in_what_programs_say() {
        for (line, host) in [
            (
                "curl: (6) Could not resolve host: www.example.org",
                "www.example.org",
            ),
            (
                "fatal: unable to access 'https://git.example.org/a.git/': Could not resolve host: git.example.org",
                "git.example.org",
            ),
            (
                "npm error request to https://reg.example.org:4873/tiny failed, reason: getaddrinfo EAI_AGAIN reg.example.org",
                "reg.example.org:4873",
            ),
            (
                "ping: a.test: Temporary failure in name resolution",
                "a.test",
            ),
            (
                "ssh: Could not resolve hostname git.example.org: Temporary failure in name resolution",
                "git.example.org:22",
            ),
            ("connect to 203.0.113.7: Network is unreachable", ""),
            ("Name or service not known", ""),
            (
                "socket.gaierror: [Errno -3] Temporary failure in name resolution",
                "",
            ),
            (
                "urllib.error.URLError: <urlopen error [Errno -3] Temporary failure in name resolution>",
                "",
            ),
        ] {
            assert_eq!(named_in(line).unwrap_or_default(), host, "{line}");
        }
    }
}
