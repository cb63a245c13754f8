//! Who may be reached: the one place where that is decided.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};

use sjail_policy::plan::{HostPattern, Network, PROXY, Proxy, Unlisted, Unnamed};

use super::address;

/// The ports that a host without a port means.
pub const USUAL: [u16; 2] = HostPattern::USUAL;

/// Asking is done for these as well: what people mean when they name a host.
const ASKED: u16 = 22;

/// So many answers are kept before refusals are forgotten.
const MOST_ANSWERS: usize = 1 << 14;

/// Port 53 is the jail's own resolver, whoever is addressed.
pub const DNS: u16 = 53;

/// The lists, and the answers that were given meanwhile.
#[derive(Debug, Clone)]
pub struct Gate {
    allow: Vec<HostPattern>,
    deny: Vec<HostPattern>,
    unlisted: Unlisted,
    unnamed: Unnamed,
    proxy: Proxy,
    answers: HashMap<(String, u16), Verdict>,
}

/// What the gate says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It may be reached.
    Allow,
    /// Somebody is to be asked.
    Ask,
    /// It may not.
    Refuse(Why),
}

/// Why not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// Nobody allows it.
    Unlisted,
    /// The policy forbids it.
    Denied,
    /// It is an address, and addresses must be named.
    NoName,
    /// A person said no, or nobody answered.
    Answered,
}

impl Why {
    /// As it goes on behind a host's name.
    pub fn words(self) -> &'static str {
        match self {
            Why::Unlisted => "is not on the list of hosts that may be reached",
            Why::Denied => "is denied by the policy",
            Why::NoName => "is an address that no rule names",
            Why::Answered => "was asked about, and nobody allowed it",
        }
    }
}

impl Gate {
    /// The gate of a plan.
    pub fn new(network: &Network) -> Gate {
        Gate {
            allow: network.allow.clone(),
            deny: network.deny.clone(),
            unlisted: network.unlisted,
            unnamed: network.unnamed,
            proxy: network.proxy,
            answers: HashMap::new(),
        }
    }

    /// The ports that lead anywhere, without the resolver's own.
    pub fn ports(&self) -> BTreeSet<u16> {
        let mut ports: BTreeSet<u16> = USUAL.into();
        if self.unlisted == Unlisted::Ask {
            ports.insert(ASKED);
        }
        if self.proxy == Proxy::Offered {
            ports.insert(PROXY.1);
        }
        ports.extend(self.allow.iter().filter_map(HostPattern::port));
        ports.remove(&DNS);
        ports
    }

    /// Whether this is where the proxy is.
    pub fn is_proxy(&self, place: SocketAddr) -> bool {
        let (address, port) = PROXY;
        self.proxy == Proxy::Offered
            && place.ip().to_canonical() == IpAddr::V4(address)
            && place.port() == port
    }

    /// Whether a host may be reached by its name. The name must be canonical.
    pub fn name(&self, name: &str, port: u16) -> Verdict {
        if self.deny.iter().any(|host| host.matches(name, port)) {
            return Verdict::Refuse(Why::Denied);
        }
        let listed = |host: &HostPattern| host.means_port(port) && host.matches(name, port);
        if self.allow.iter().any(listed) {
            return Verdict::Allow;
        }
        match self.unlisted {
            Unlisted::Refuse => Verdict::Refuse(Why::Unlisted),
            Unlisted::Ask => self
                .answers
                .get(&(name.to_owned(), port))
                .copied()
                .unwrap_or(Verdict::Ask),
        }
    }

    /// Whether a name leads anywhere on any port, and so is given an address.
    pub fn lookup(&self, name: &str) -> Verdict {
        let mut best = Verdict::Refuse(Why::Unlisted);
        for port in self.ports() {
            match (self.name(name, port), best) {
                (Verdict::Allow, _) => return Verdict::Allow,
                (Verdict::Ask, _) => best = Verdict::Ask,
                (refused, Verdict::Refuse(Why::Unlisted)) => best = refused,
                (Verdict::Refuse(_), _) => {}
            }
        }
        best
    }

    /// Whether an address may be reached that was not got from a name.
    pub fn address(&self, address: IpAddr, port: u16) -> Verdict {
        let shown = address.to_canonical().to_string();
        let denied = |host: &HostPattern| {
            host.matches(&shown, port) || (is_loopback(host, address) && means(host, port))
        };
        if self.deny.iter().any(denied) {
            return Verdict::Refuse(Why::Denied);
        }
        if self.names(address, port) {
            return Verdict::Allow;
        }
        Verdict::Refuse(Why::NoName)
    }

    /// Why an allowed name may not lead to this address; `None` if it may.
    pub fn forbids(&self, address: IpAddr, port: u16) -> Option<&'static str> {
        let shown = address.to_canonical().to_string();
        // `*` in the deny list means names; here only what names the address counts.
        let denied = |host: &HostPattern| {
            (host.names_address(address) && host.matches(&shown, port))
                || (is_loopback(host, address) && means(host, port))
        };
        if self.deny.iter().any(denied) {
            return Some("an address that the policy denies");
        }
        if self.names(address, port) {
            return None;
        }
        address::special(address)
            .or_else(|| address::is_own(address).then_some("an address of this machine"))
    }

    /// What happens to a connection that does not say whom it means.
    pub fn unnamed(&self) -> Unnamed {
        self.unnamed
    }

    /// A person has answered.
    pub fn answer(&mut self, name: &str, port: u16, allowed: bool) {
        let verdict = match allowed {
            true => Verdict::Allow,
            false => Verdict::Refuse(Why::Answered),
        };
        if self.answers.len() >= MOST_ANSWERS {
            // Whoever asks for that many again and again is refused anew each time.
            self.answers.retain(|_, known| *known == Verdict::Allow);
        }
        self.answers.insert((name.to_owned(), port), verdict);
    }

    /// Whether the address itself is on the list; `localhost` stands for loopback.
    fn names(&self, address: IpAddr, port: u16) -> bool {
        self.allow.iter().any(|host| {
            let named = host.names_address(address) && !is_swept_up(host, address);
            (named || is_loopback(host, address)) && host.means_port(port)
        })
    }
}

/// Whether a special address only happens to lie in a range of many others: who writes
/// `0.0.0.0/0` does not mean this machine, and who writes `127.0.0.0/8` does.
fn is_swept_up(host: &HostPattern, address: IpAddr) -> bool {
    match (host.range(), address::special(address)) {
        (None, _) => false,
        (Some(_), None) => address::is_own(address),
        (Some((first, last)), kind) => {
            address::special(first) != kind || address::special(last) != kind
        }
    }
}

/// Whether this is `localhost`, and the address one that it stands for.
fn is_loopback(host: &HostPattern, address: IpAddr) -> bool {
    host.name() == Some("localhost") && address.to_canonical().is_loopback()
}

/// Whether an entry of the deny list means this port: all of them, if it names none.
fn means(host: &HostPattern, port: u16) -> bool {
    host.port().is_none_or(|own| own == port)
}

/// The option that would let a refused host through, where one would.
pub fn fix(why: Why, host: &str, port: Option<u16>) -> Option<String> {
    let place = match port {
        Some(port) if !USUAL.contains(&port) && host.contains(':') => format!("[{host}]:{port}"),
        Some(port) if !USUAL.contains(&port) => format!("{host}:{port}"),
        _ => host.to_owned(),
    };
    match why {
        Why::Unlisted | Why::NoName => Some(format!("--allow-host {place}")),
        Why::Denied | Why::Answered => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use sjail_policy::plan::NetworkMode;

    fn gate(allow: &[&str], deny: &[&str], unlisted: Unlisted) -> Gate {
        let list = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        Gate::new(&Network {
            mode: NetworkMode::Filtered,
            allow: list(allow),
            deny: list(deny),
            unlisted,
            unnamed: Unnamed::Refuse,
            publish: Vec::new(),
            proxy: Default::default(),
            ssh_agent: Vec::new(),
        })
    }

    #[test]
    fn nothing_is_allowed_that_nobody_allows() {
        let empty = gate(&[], &[], Unlisted::Refuse);
        let unlisted = Verdict::Refuse(Why::Unlisted);
        assert_eq!(empty.name("example.org", 443), unlisted);
        assert_eq!(empty.lookup("example.org"), unlisted);
        assert_eq!(
            empty.address([203, 0, 113, 7].into(), 443),
            Verdict::Refuse(Why::NoName)
        );
    }

    #[test]
    fn ports_and_denials() {
        let gate = gate(
            &["*.example.org", "git.test:22"],
            &["bad.example.org"],
            Unlisted::Refuse,
        );
        assert_eq!(gate.name("www.example.org", 443), Verdict::Allow);
        assert_eq!(gate.name("www.example.org", 80), Verdict::Allow);
        assert_eq!(
            gate.name("www.example.org", 22),
            Verdict::Refuse(Why::Unlisted)
        );
        assert_eq!(gate.name("git.test", 22), Verdict::Allow);
        assert_eq!(gate.name("git.test", 443), Verdict::Refuse(Why::Unlisted));
        assert_eq!(
            gate.name("bad.example.org", 443),
            Verdict::Refuse(Why::Denied)
        );
        assert_eq!(gate.lookup("bad.example.org"), Verdict::Refuse(Why::Denied));
        assert_eq!(gate.lookup("git.test"), Verdict::Allow);
        assert!(gate.ports().iter().eq(&[22, 80, 443]));
    }

    #[test]
    fn addresses_are_named_or_refused() {
        let everything = gate(&["*"], &[], Unlisted::Refuse);
        let private = IpAddr::from([10, 0, 0, 1]);
        assert_eq!(
            everything.address([203, 0, 113, 7].into(), 443),
            Verdict::Refuse(Why::NoName)
        );
        assert!(everything.forbids(private, 443).is_some());
        assert!(everything.forbids([203, 0, 113, 7].into(), 443).is_none());
        let named = gate(
            &["*", "10.0.0.0/24:443", "localhost:5432"],
            &["10.0.0.9"],
            Unlisted::Refuse,
        );
        assert!(named.forbids(private, 443).is_none());
        assert!(named.forbids(private, 80).is_some());
        assert!(named.forbids([10, 0, 0, 9].into(), 443).is_some());
        assert_eq!(named.address([127, 0, 0, 1].into(), 5432), Verdict::Allow);
        assert_eq!(
            named.address([127, 0, 0, 1].into(), 80),
            Verdict::Refuse(Why::NoName)
        );
        let denied = gate(&["127.0.0.1:5432"], &["localhost"], Unlisted::Refuse);
        let home = IpAddr::from([127, 0, 0, 1]);
        assert_eq!(denied.address(home, 5432), Verdict::Refuse(Why::Denied));
        assert!(denied.forbids(home, 5432).is_some());
    }

    #[test]
    fn a_wide_range_means_nobody_special() {
        let wide = gate(&["0.0.0.0/0", "::/0"], &[], Unlisted::Refuse);
        assert_eq!(wide.address([203, 0, 113, 7].into(), 443), Verdict::Allow);
        for text in [
            "127.0.0.1",
            "0.0.0.0",
            "169.254.169.254",
            "10.0.0.1",
            "::1",
            "::ffff:127.0.0.1",
            "fd00::1",
        ] {
            let address: IpAddr = text.parse().unwrap();
            assert_eq!(
                wide.address(address, 443),
                Verdict::Refuse(Why::NoName),
                "{text}"
            );
            assert!(wide.forbids(address, 443).is_some(), "{text}");
        }
        let meant = gate(
            &["127.0.0.0/8", "10.0.0.0/8", "fd00::/8", "169.254.0.0/16"],
            &[],
            Unlisted::Refuse,
        );
        for text in ["127.0.0.1", "10.9.8.7", "fd00::1", "169.254.1.1"] {
            let address: IpAddr = text.parse().unwrap();
            assert_eq!(meant.address(address, 443), Verdict::Allow, "{text}");
        }
        // It says so by itself.
        assert!(meant.forbids([169, 254, 169, 254].into(), 443).is_some());
    }

    #[test]
    fn answers_are_kept() {
        let mut gate = gate(&[], &["no.test"], Unlisted::Ask);
        assert_eq!(gate.name("new.test", 443), Verdict::Ask);
        gate.answer("new.test", 443, true);
        assert_eq!(gate.name("new.test", 443), Verdict::Allow);
        assert_eq!(gate.name("new.test", 80), Verdict::Ask);
        gate.answer("old.test", 443, false);
        assert_eq!(gate.name("old.test", 443), Verdict::Refuse(Why::Answered));
        assert_eq!(gate.name("no.test", 443), Verdict::Refuse(Why::Denied));
    }
}
