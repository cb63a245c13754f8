//! What one connection to the agent may have: the keys that the policy names, and signatures
//! for one ssh session with a host that is allowed, and nothing else.
//!
//! A signature that logs in somewhere is one over the session's id, which both ends of a
//! connection make up together. Before it asks for one, ssh tells the agent which session it
//! means and proves whose it is (`session-bind@openssh.com`): the host has signed the id with
//! its own key. Without that proof whoever is inside could pass an id of somebody else's
//! session with another host to the agent, and the signature on.

use ed25519_dalek::{Signature, VerifyingKey};
use sjail_policy::plan::SshKey;

use super::digest::fingerprint;
use super::known_hosts::Known;
use super::wire::{Reader, put_string};

const FAILURE: u8 = 5;
const SUCCESS: u8 = 6;
const LIST: u8 = 11;
const LISTED: u8 = 12;
const SIGN: u8 = 13;
const SIGNED: u8 = 14;
const EXTENSION: u8 = 27;
const BIND: &[u8] = b"session-bind@openssh.com";

/// `SSH_MSG_USERAUTH_REQUEST`.
const LOGIN: u8 = 50;
const PLAIN: &[u8] = b"publickey";
/// The same with the host's key in it.
const BOUND: &[u8] = b"publickey-hostbound-v00@openssh.com";

/// The only kind of host key whose proof is read here.
pub const KIND: &str = "ssh-ed25519";

/// What the policy allows.
#[derive(Debug)]
pub struct Allowed {
    /// Keys of the owner's agent.
    pub keys: Vec<SshKey>,
    /// Host keys, each with the host that is allowed.
    pub hosts: Vec<Known>,
}

/// One connection.
#[derive(Debug, Default)]
pub struct Session {
    /// The keys that were shown.
    shown: Vec<Vec<u8>>,
    bound: Option<Bound>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Bound {
    id: Vec<u8>,
    host_key: Vec<u8>,
    host: Host,
}

/// The host that a session is with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// The port.
    pub port: u16,
}

/// What becomes of a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Act {
    /// It goes to the owner's agent.
    Pass(Then),
    /// It does not; why.
    Refuse(Refused),
}

/// A request that was refused.
#[derive(Debug, PartialEq, Eq)]
pub struct Refused {
    /// For which host it was, where that is known.
    pub host: Option<Host>,
    /// As it goes on behind "it".
    pub why: String,
}

/// What is done with the answer of the owner's agent.
#[derive(Debug, PartialEq, Eq)]
pub enum Then {
    /// Keys that are not named are left out.
    Show,
    /// The session is known now, whether that agent knows of such things or not.
    Bind,
    /// Passed on, and written down.
    Sign {
        /// With which key.
        key: String,
        /// As whom.
        user: String,
        /// Where.
        host: Host,
    },
}

/// The answer to everything that is refused.
pub fn failure() -> Vec<u8> {
    vec![FAILURE]
}

impl Session {
    /// Judges a request.
    pub fn judge(&mut self, request: &[u8], allowed: &Allowed) -> Act {
        let mut rest = Reader(request);
        let judged = match rest.byte() {
            Some(LIST) if rest.is_empty() => Ok(Then::Show),
            Some(EXTENSION) => self.extension(rest, allowed),
            Some(SIGN) => self.sign(rest),
            _ => Err("was asked for what no ssh needs to log in"),
        };
        match judged {
            Ok(then) => Act::Pass(then),
            Err(why) => Act::Refuse(Refused {
                host: self.bound.as_ref().map(|bound| bound.host.clone()),
                why: why.to_owned(),
            }),
        }
    }

    /// Judges what the owner's agent answered: what goes on, and whether a signature is in it.
    pub fn answer(&mut self, then: &Then, answer: &[u8], allowed: &Allowed) -> (Vec<u8>, bool) {
        match then {
            Then::Show => (self.show(answer, allowed).unwrap_or_else(failure), false),
            Then::Bind => (vec![SUCCESS], false),
            Then::Sign { .. } if answer.first() == Some(&SIGNED) => (answer.to_vec(), true),
            Then::Sign { .. } => (failure(), false),
        }
    }

    fn show(&mut self, answer: &[u8], allowed: &Allowed) -> Option<Vec<u8>> {
        let mut rest = Reader(answer);
        if rest.byte()? != LISTED {
            return None;
        }
        let count = rest.number()?;
        let mut list = Vec::new();
        self.shown.clear();
        for _ in 0..count {
            let (blob, comment) = (rest.string()?, rest.string()?);
            let print = fingerprint(blob);
            if allowed.keys.iter().any(|key| key.means(&print, comment)) {
                put_string(&mut list, blob);
                put_string(&mut list, comment);
                self.shown.push(blob.to_vec());
            }
        }
        let mut shown = vec![LISTED];
        shown.extend_from_slice(&(self.shown.len() as u32).to_be_bytes());
        shown.extend(list);
        Some(shown)
    }

    fn extension(&mut self, mut rest: Reader<'_>, allowed: &Allowed) -> Result<Then, &'static str> {
        let malformed = "said which session it means in a way that cannot be read";
        if rest.string() != Some(BIND) {
            return Err("was asked for what no ssh needs to log in");
        }
        let (Some(host_key), Some(id), Some(proof), Some(forwarded)) =
            (rest.string(), rest.string(), rest.string(), rest.byte())
        else {
            return Err(malformed);
        };
        if !rest.is_empty() || id.is_empty() {
            return Err(malformed);
        }
        if forwarded != 0 {
            return Err("was to be forwarded to another host");
        }
        if self.bound.is_some() {
            return Err("was used for a second session");
        }
        let Some(known) = allowed.hosts.iter().find(|known| known.blob == host_key) else {
            return Err(match kind(host_key) {
                Some(kind) if kind != KIND.as_bytes() => {
                    "was used for a host whose key is not of the kind ssh-ed25519"
                }
                _ => "was used for a host whose key is not in known_hosts, or that is not allowed",
            });
        };
        if !proves(host_key, id, proof) {
            return Err("was used for a session that its host has not signed");
        }
        self.bound = Some(Bound {
            id: id.to_vec(),
            host_key: host_key.to_vec(),
            host: Host {
                name: known.name.clone(),
                port: known.port,
            },
        });
        Ok(Then::Bind)
    }

    fn sign(&self, mut rest: Reader<'_>) -> Result<Then, &'static str> {
        let malformed = "was asked for a signature that cannot be read";
        let (Some(key), Some(data), Some(_flags)) = (rest.string(), rest.string(), rest.number())
        else {
            return Err(malformed);
        };
        if !rest.is_empty() {
            return Err(malformed);
        }
        if !self.shown.iter().any(|shown| shown == key) {
            return Err("was asked for a signature of a key that is not on the list");
        }
        let Some(bound) = &self.bound else {
            return Err(
                "was asked for a signature without a word for which host (OpenSSH 8.9 or newer says so)",
            );
        };
        let login = Login::read(data).ok_or("was asked for a signature that is no login")?;
        let right = login.session == bound.id
            && login.key == key
            && login.host_key.is_none_or(|own| own == bound.host_key);
        if !right {
            return Err("was asked for a signature for another session");
        }
        Ok(Then::Sign {
            key: fingerprint(key),
            user: String::from_utf8_lossy(login.user).into_owned(),
            host: bound.host.clone(),
        })
    }
}

/// What is signed to log in.
struct Login<'a> {
    session: &'a [u8],
    user: &'a [u8],
    key: &'a [u8],
    host_key: Option<&'a [u8]>,
}

impl<'a> Login<'a> {
    fn read(data: &'a [u8]) -> Option<Login<'a>> {
        let mut rest = Reader(data);
        let session = rest.string()?;
        if rest.byte()? != LOGIN {
            return None;
        }
        let (user, service, method) = (rest.string()?, rest.string()?, rest.string()?);
        let with_host = match method {
            PLAIN => false,
            BOUND => true,
            _ => return None,
        };
        if service != b"ssh-connection" || rest.byte()? != 1 {
            return None;
        }
        let (_algorithm, key) = (rest.string()?, rest.string()?);
        let host_key = match with_host {
            true => Some(rest.string()?),
            false => None,
        };
        rest.is_empty().then_some(Login {
            session,
            user,
            key,
            host_key,
        })
    }
}

fn kind(blob: &[u8]) -> Option<&[u8]> {
    Reader(blob).string()
}

/// Whether the host has signed the session's id with its key.
fn proves(host_key: &[u8], id: &[u8], proof: &[u8]) -> bool {
    let part = |blob, length: usize| {
        let mut rest = Reader(blob);
        let kind = rest.string()?;
        let part = rest.string()?;
        (kind == KIND.as_bytes() && part.len() == length && rest.is_empty()).then_some(part)
    };
    let key = part(host_key, 32)
        .and_then(|bytes| <[u8; 32]>::try_from(bytes).ok())
        .and_then(|bytes| VerifyingKey::from_bytes(&bytes).ok());
    let proof = part(proof, 64)
        .and_then(|bytes| <[u8; 64]>::try_from(bytes).ok())
        .map(|bytes| Signature::from_bytes(&bytes));
    match (key, proof) {
        (Some(key), Some(proof)) => key.verify_strict(id, &proof).is_ok(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use ed25519_dalek::{Signer, SigningKey};

    fn strings(parts: &[&[u8]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for part in parts {
            put_string(&mut bytes, part);
        }
        bytes
    }

    fn host(seed: u8) -> (SigningKey, Vec<u8>) {
        let key = SigningKey::from_bytes(&[seed; 32]);
        let blob = strings(&[b"ssh-ed25519", key.verifying_key().as_bytes()]);
        (key, blob)
    }

    fn bind(seed: u8, id: &[u8], forwarded: u8) -> Vec<u8> {
        let (key, blob) = host(seed);
        let proof = strings(&[b"ssh-ed25519", &key.sign(id).to_bytes()]);
        let mut bytes = vec![EXTENSION];
        bytes.extend(strings(&[BIND, &blob, id, &proof]));
        bytes.push(forwarded);
        bytes
    }

    fn sign(key: &[u8], id: &[u8], method: &[u8], host_key: Option<&[u8]>) -> Vec<u8> {
        let mut data = strings(&[id]);
        data.push(LOGIN);
        data.extend(strings(&[b"git", b"ssh-connection", method]));
        data.push(1);
        data.extend(strings(&[b"ssh-ed25519", key]));
        if let Some(host_key) = host_key {
            put_string(&mut data, host_key);
        }
        let mut bytes = vec![SIGN];
        bytes.extend(strings(&[key, &data]));
        bytes.extend_from_slice(&[0; 4]);
        bytes
    }

    fn allowed() -> Allowed {
        let network = "git.test ssh-ed25519 ";
        let (_, blob) = host(1);
        let text = format!("{network}{}\n", super::super::digest::base64(&blob));
        Allowed {
            keys: vec!["me".parse().unwrap()],
            hosts: super::super::known_hosts::tests::known(&text, &["git.test:22"]),
        }
    }

    /// A session that was shown the keys `mine` (named) and `other` (not).
    fn session(allowed: &Allowed) -> Session {
        let mut session = Session::default();
        let mut list = vec![LISTED, 0, 0, 0, 2];
        list.extend(strings(&[b"mine", b"me", b"other", b"you"]));
        assert_eq!(session.judge(&[LIST], allowed), Act::Pass(Then::Show));
        let (shown, _) = session.answer(&Then::Show, &list, allowed);
        let mut expected = vec![LISTED, 0, 0, 0, 1];
        expected.extend(strings(&[b"mine", b"me"]));
        assert_eq!(shown, expected);
        session
    }

    fn passes(session: &mut Session, request: &[u8], allowed: &Allowed) -> bool {
        matches!(session.judge(request, allowed), Act::Pass(_))
    }

    #[test]
    fn a_login_at_an_allowed_host_is_signed() {
        let allowed = allowed();
        let mut session = session(&allowed);
        assert!(passes(&mut session, &bind(1, b"id", 0), &allowed));
        let (_, blob) = host(1);
        for request in [
            sign(b"mine", b"id", PLAIN, None),
            sign(b"mine", b"id", BOUND, Some(&blob)),
        ] {
            let Act::Pass(Then::Sign { user, host, .. }) = session.judge(&request, &allowed) else {
                unreachable!();
            };
            assert_eq!((user.as_str(), host.name.as_str()), ("git", "git.test"));
        }
    }

    #[test]
    fn everything_else_is_not() {
        let allowed = allowed();
        let (_, other) = host(2);
        // Without a session.
        let mut unbound = session(&allowed);
        assert!(!passes(
            &mut unbound,
            &sign(b"mine", b"id", PLAIN, None),
            &allowed
        ));
        // With one of a host that is not allowed, forwarded, or that the host has not signed.
        let mut forged = bind(1, b"id", 0);
        let (key, _) = host(2);
        let end = forged.len() - 1;
        forged[end - 64..end].copy_from_slice(&key.sign(b"id").to_bytes());
        for request in [bind(2, b"id", 0), bind(1, b"id", 1), forged] {
            let mut session = session(&allowed);
            assert!(!passes(&mut session, &request, &allowed));
            assert!(!passes(
                &mut session,
                &sign(b"mine", b"id", PLAIN, None),
                &allowed
            ));
        }
        // Another session, another host in it, another key, another method, no login at all.
        let mut bound = session(&allowed);
        assert!(passes(&mut bound, &bind(1, b"id", 0), &allowed));
        let mut no_login = vec![SIGN];
        no_login.extend(strings(&[b"mine", b"SSHSIG and so on"]));
        no_login.extend_from_slice(&[0; 4]);
        for request in [
            sign(b"mine", b"other", PLAIN, None),
            sign(b"mine", b"id", BOUND, Some(&other)),
            sign(b"other", b"id", PLAIN, None),
            sign(b"mine", b"id", b"hostbased", None),
            sign(b"mine", b"id", PLAIN, Some(&other)),
            no_login,
            bind(1, b"second", 0),
            vec![],
            vec![LIST, 0],
            vec![17],
            vec![19],
            vec![EXTENSION, 0, 0, 0, 5, b'q', b'u', b'e', b'r', b'y'],
        ] {
            assert!(!passes(&mut bound, &request, &allowed), "{request:?}");
        }
    }

    #[test]
    fn cut_off_requests_are_survived() {
        let allowed = allowed();
        for request in [bind(1, b"id", 0), sign(b"mine", b"id", PLAIN, None)] {
            for end in 0..request.len() {
                let mut session = session(&allowed);
                let _ = session.judge(&request[..end], &allowed);
                assert!(session.bound.is_none());
                let _ = session.answer(&Then::Show, &request[..end], &allowed);
            }
        }
    }
}
