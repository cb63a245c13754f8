//! Paths of the host that a policy or an option gives to the jail.

use crate::bytes::ByteString;
use crate::plan::Access;
use crate::rule::Bases;
use crate::show::inert;

/// A path to be shown inside: absolute, below home or below the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantPath {
    base: Base,
    /// Without leading or trailing slashes; empty for the base itself.
    rest: ByteString,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Base {
    Root,
    Home,
    Workspace,
}

/// `SOURCE:DEST:ro|rw`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bind {
    /// The path on the host.
    pub source: GrantPath,
    /// Where it appears inside, absolute.
    pub dest: ByteString,
    /// Read-only unless `rw` is said.
    pub access: Access,
}

impl GrantPath {
    /// Reads a path from a policy file: `/data`, `~/models`, `./build`, `~/models/**`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let trimmed = text.trim();
        let body = trimmed.strip_suffix("/**").unwrap_or(trimmed);
        if body.contains(['*', '?']) {
            return Err(format!(
                "`{}` is a pattern; only whole files and folders can be given to the jail: name the folder, and use `deny` for what is not to be seen in it",
                inert(text.as_bytes())
            ));
        }
        let (base, rest) = if let Some(rest) = body.strip_prefix('/') {
            (Base::Root, rest)
        } else if trimmed == "/**" {
            (Base::Root, "")
        } else if body == "~" {
            (Base::Home, "")
        } else if let Some(rest) = body.strip_prefix("~/") {
            (Base::Home, rest)
        } else if body.starts_with('~') {
            return Err("`~` stands for your own home only, write the folder out".to_owned());
        } else if body.is_empty() {
            return Err("the path is empty".to_owned());
        } else {
            (Base::Workspace, body)
        };
        Self::checked(base, rest.as_bytes())
    }

    /// Takes an absolute path as it is, wildcard characters included: from an option, where
    /// the shell has already expanded what it expands.
    pub fn literal(path: &[u8]) -> Result<Self, String> {
        match path.strip_prefix(b"/") {
            Some(rest) => Self::checked(Base::Root, rest),
            None => Err(format!("`{}` is not an absolute path", inert(path))),
        }
    }

    fn checked(base: Base, rest: &[u8]) -> Result<Self, String> {
        if rest.contains(&0) {
            return Err("no path has a NUL in it".to_owned());
        }
        let names: Vec<&[u8]> = rest
            .split(|byte| *byte == b'/')
            .filter(|name| !name.is_empty() && *name != b".")
            .collect();
        if names.contains(&b"..".as_slice()) {
            return Err(
                "`..` means another folder when a link is on the way, write the folder out"
                    .to_owned(),
            );
        }
        let path = Self {
            base,
            rest: ByteString::from(names.join(&b'/')),
        };
        if base == Base::Root
            && let Some(why) = refused_source(
                path.resolve(Bases {
                    home: b"",
                    workspace: b"",
                })
                .as_bytes(),
            )
        {
            return Err(why.to_owned());
        }
        Ok(path)
    }

    /// The absolute path.
    pub fn resolve(&self, bases: Bases<'_>) -> ByteString {
        let base: &[u8] = match self.base {
            Base::Root => b"",
            Base::Home => bases.home,
            Base::Workspace => bases.workspace,
        };
        let mut path = base.strip_suffix(b"/").unwrap_or(base).to_vec();
        if !self.rest.is_empty() || path.is_empty() {
            path.push(b'/');
            path.extend_from_slice(self.rest.as_bytes());
        }
        ByteString::from(path)
    }

    /// As a policy file would say it.
    pub fn shown(&self) -> String {
        let rest = inert(self.rest.as_bytes());
        match (self.base, rest.is_empty()) {
            (Base::Root, _) => format!("/{rest}"),
            (Base::Home, true) => "~".to_owned(),
            (Base::Home, false) => format!("~/{rest}"),
            (Base::Workspace, true) => ".".to_owned(),
            (Base::Workspace, false) => format!("./{rest}"),
        }
    }
}

impl Bind {
    /// Reads `SOURCE:DEST[:ro|rw]`; from a policy file the source may start with `~`.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let form = || format!("`{}` is not SOURCE:DEST:ro or SOURCE:DEST:rw", inert(text));
        let mut parts: Vec<&[u8]> = text.split(|byte| *byte == b':').collect();
        let access = match (parts.len(), parts.last().copied()) {
            (3, Some(b"ro")) => Access::Ro,
            (3, Some(b"rw")) => Access::Rw,
            (2, _) => Access::Ro,
            _ => return Err(form()),
        };
        parts.truncate(2);
        let [source, dest] = parts.as_slice() else {
            return Err(form());
        };
        let source = match std::str::from_utf8(source) {
            Ok(source) if source.starts_with(['~', '.']) => GrantPath::parse(source)?,
            _ => GrantPath::literal(source)?,
        };
        let names: Vec<&[u8]> = dest
            .split(|byte| *byte == b'/')
            .filter(|name| !name.is_empty() && *name != b".")
            .collect();
        if !dest.starts_with(b"/")
            || names.is_empty()
            || names.contains(&b"..".as_slice())
            || dest.contains(&0)
        {
            return Err(format!(
                "the destination `{}` is not an absolute path below `/`",
                inert(dest)
            ));
        }
        let mut path = vec![b'/'];
        path.extend(names.join(&b'/'));
        if let Some(why) = refused_dest(&path) {
            return Err(why.to_owned());
        }
        Ok(Self {
            source,
            dest: ByteString::from(path),
            access,
        })
    }

    /// As a policy file would say it.
    pub fn shown(&self) -> String {
        let access = if self.access == Access::Rw {
            "rw"
        } else {
            "ro"
        };
        format!(
            "{}:{}:{access}",
            self.source.shown(),
            inert(self.dest.as_bytes())
        )
    }
}

/// Why a path of the host is never given to a jail, whoever asks: it would give the host
/// away. To be asked again about the path that links resolve to.
pub fn refused_source(path: &[u8]) -> Option<&'static str> {
    let names: Vec<&[u8]> = path
        .split(|byte| *byte == b'/')
        .filter(|name| !name.is_empty())
        .collect();
    match names.as_slice() {
        [] => Some("`/` would give the whole machine: name the folders that are needed"),
        [b"proc", ..] => {
            Some("`/proc` of the host shows and controls its processes; the jail has its own")
        }
        [b"sys", ..] => Some("`/sys` controls the host's kernel"),
        [b"dev", ..] => Some("`/dev` of the host is its hardware; the jail has its own"),
        [b"etc"] => Some("`/etc` holds the system's secrets: name the file in it that is needed"),
        [
            b"etc",
            b"shadow" | b"shadow-" | b"gshadow" | b"gshadow-" | b"sudoers" | b"sudoers.d" | b"ssh",
            ..,
        ] => Some("this part of `/etc` is the system's secrets"),
        [b"etc", b"ssl", b"private", ..] => Some("this part of `/etc` is the system's secrets"),
        [b"run"] | [b"var"] | [b"var", b"run"] => {
            Some("it holds the sockets of the host's services, and with them the host")
        }
        [.., last] if is_root_socket(last) => {
            Some("whoever reaches this socket is root on the host")
        }
        [
            b"run",
            b"docker" | b"containerd" | b"podman" | b"libvirt" | b"systemd" | b"dbus",
            ..,
        ]
        | [
            b"var",
            b"run",
            b"docker" | b"containerd" | b"podman" | b"libvirt" | b"systemd" | b"dbus",
            ..,
        ]
        | [
            b"var",
            b"lib",
            b"docker" | b"containers" | b"containerd" | b"libvirt",
            ..,
        ] => Some("whoever reaches this service is root on the host"),
        [b"run", b"user", ..] | [b"var", b"run", b"user", ..] => Some(
            "it holds the sockets of the user's session: its bus starts programs outside the jail",
        ),
        _ => None,
    }
}

fn is_root_socket(name: &[u8]) -> bool {
    matches!(
        name,
        b"docker.sock"
            | b"podman.sock"
            | b"containerd.sock"
            | b"crio.sock"
            | b"libvirt-sock"
            | b"buildkitd.sock"
            | b"lxd.sock"
            | b"snapd.socket"
    )
}

fn refused_dest(path: &[u8]) -> Option<&'static str> {
    let names: Vec<&[u8]> = path
        .split(|byte| *byte == b'/')
        .filter(|name| !name.is_empty())
        .collect();
    match names.as_slice() {
        [b"proc" | b"sys" | b"dev", ..] => {
            Some("`/proc`, `/sys` and `/dev` inside are the jail's own")
        }
        [b"usr" | b"bin" | b"sbin" | b"lib" | b"lib64" | b"etc"] => {
            Some("the system's folders cannot be replaced, only added to")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const BASES: Bases<'static> = Bases {
        home: b"/home/u",
        workspace: b"/ws",
    };

    #[test]
    fn paths_resolve() {
        for (text, path, shown) in [
            ("~/models/", "/home/u/models", "~/models"),
            ("~/models/**", "/home/u/models", "~/models"),
            ("/data//x/./y", "/data/x/y", "/data/x/y"),
            ("./**", "/ws", "."),
            ("build", "/ws/build", "./build"),
            ("~", "/home/u", "~"),
        ] {
            let grant = GrantPath::parse(text).unwrap();
            assert_eq!(grant.resolve(BASES), ByteString::from(path), "{text}");
            assert_eq!(grant.shown(), shown, "{text}");
        }
    }

    #[test]
    fn what_would_give_the_host_away_is_refused() {
        for bad in [
            "/",
            "/**",
            "/etc",
            "/etc/",
            "/etc/shadow",
            "/proc/1",
            "/sys",
            "/dev/sda",
            "/var/run/docker.sock",
            "/run/docker.sock",
            "/run",
            "/run/user/1000/bus",
            "/home/x/docker.sock",
            "/a/../etc",
            "~root/x",
            "",
            "/a/*.txt",
        ] {
            assert!(GrantPath::parse(bad).is_err(), "{bad}");
        }
        assert!(GrantPath::parse("/etc/myapp.conf").is_ok());
        assert!(GrantPath::literal(b"/a/*").is_ok());
        assert!(GrantPath::literal(b"relative").is_err());
    }

    #[test]
    fn binds() {
        let bind = Bind::parse(b"/data:/mnt/data:rw").unwrap();
        assert_eq!(
            (bind.shown().as_str(), bind.access),
            ("/data:/mnt/data:rw", Access::Rw)
        );
        assert_eq!(Bind::parse(b"~/p:/projects").unwrap().access, Access::Ro);
        for bad in [
            "/a",
            "/a:/b:xx",
            "/a:b:ro",
            "/a:/:ro",
            "/etc:/etc2:ro",
            "/a:/proc/x:ro",
            "/a:/b:ro:ro",
            ":/b:ro",
            "/a:/x/../y:ro",
        ] {
            assert!(Bind::parse(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
