//! The addresses that stand for names inside the jail.
//!
//! Nothing of the network is looked up when the command asks for a name: it is given the
//! next address of a range that is nobody's, and the name is found again by it.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::rc::Rc;

/// The resolver's own address, also the one that makes programs believe in IPv4.
pub const RESOLVER: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);

/// The same for IPv6.
pub const RESOLVER_V6: Ipv6Addr = Ipv6Addr::new(0xfd73, 0x6a61, 0x696c, 0, 0, 0, 0, 1);

/// Names begin here in both ranges.
const FIRST: u32 = 0x100;

/// So many names are known at once; what a run asks for beyond that is refused.
const MOST: u32 = 0x1_0000;

/// Names and their addresses.
#[derive(Debug, Default)]
pub struct Names {
    list: Vec<Rc<str>>,
    numbers: HashMap<Rc<str>, u32>,
}

/// Which address is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// An A record.
    V4,
    /// An AAAA record.
    V6,
}

impl Names {
    /// The address of a canonical name; `None` when there are too many names.
    pub fn address(&mut self, name: &str, family: Family) -> Option<IpAddr> {
        let number = match self.numbers.get(name) {
            Some(number) => *number,
            None => {
                let number = u32::try_from(self.list.len()).ok()?;
                if number >= MOST {
                    return None;
                }
                let name: Rc<str> = name.into();
                self.list.push(Rc::clone(&name));
                self.numbers.insert(name, number);
                number
            }
        };
        Some(match family {
            Family::V4 => Ipv4Addr::from(base_v4() + FIRST + number).into(),
            Family::V6 => Ipv6Addr::from(base_v6() + u128::from(FIRST + number)).into(),
        })
    }

    /// The name that an address stands for.
    pub fn name(&self, address: IpAddr) -> Option<&str> {
        let offset = match address {
            IpAddr::V4(v4) => u32::from(v4).checked_sub(base_v4())?,
            IpAddr::V6(v6) => u128::from(v6).checked_sub(base_v6())?.try_into().ok()?,
        };
        let number = offset.checked_sub(FIRST)?;
        self.list
            .get(usize::try_from(number).ok()?)
            .map(AsRef::as_ref)
    }
}

/// The first address of the range, `198.18.0.0/15`.
fn base_v4() -> u32 {
    u32::from(RESOLVER) - 1
}

fn base_v6() -> u128 {
    u128::from(RESOLVER_V6) - 1
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_name_has_one_address_and_is_found_by_it() {
        let mut names = Names::default();
        let one = names.address("one.test", Family::V4).unwrap();
        let two = names.address("two.test", Family::V4).unwrap();
        let six = names.address("one.test", Family::V6).unwrap();
        assert_ne!(one, two);
        assert_eq!(names.address("one.test", Family::V4), Some(one));
        assert_eq!(names.name(one), Some("one.test"));
        assert_eq!(names.name(six), Some("one.test"));
        assert_eq!(names.name(two), Some("two.test"));
        for nobody in [
            "198.18.0.1",
            "198.18.1.9",
            "203.0.113.7",
            "0.0.0.0",
            "255.255.255.255",
            "::1",
            "ffff::",
        ] {
            assert_eq!(names.name(nobody.parse().unwrap()), None, "{nobody}");
        }
    }

    #[test]
    fn names_have_an_end() {
        let mut names = Names::default();
        for number in 0..MOST {
            assert!(names.address(&format!("n{number}"), Family::V4).is_some());
        }
        assert_eq!(names.address("more", Family::V4), None);
        let last = names.address("n65535", Family::V4).unwrap();
        assert_eq!(names.name(last), Some("n65535"));
        assert_eq!(last.to_string(), "198.19.0.255");
    }
}
