//! Amounts as people write them: `512M`, `10M/s`, `150%`.

use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A number of bytes. `K`, `M`, `G`, `T` are powers of 1024, with or without a
/// trailing `B` or `iB`; a bare number is bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Size(u64);

/// A share of one processor or of the machine's memory, in whole percent, at least 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Percent(u32);

/// Why an amount could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AmountError {
    /// Not a number followed by a known unit.
    #[error("`{0}` is not a size: write a whole number and a unit, such as 512M, 2G or 65536")]
    Size(String),
    /// Not a whole number followed by `%`.
    #[error(
        "`{0}` is not a percentage: write a whole number from 1 and a percent sign, such as 150%"
    )]
    Percent(String),
    /// Larger than can be counted.
    #[error("`{0}` is too large")]
    TooLarge(String),
    /// Nothing at all would be allowed.
    #[error("`{0}` allows nothing: leave the limit out, or give it at least 1")]
    Zero(String),
}

impl Size {
    /// So many bytes.
    pub const fn from_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// The number of bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }

    /// Reads a rate: a size, with or without `/s` behind it.
    pub fn parse_rate(text: &str) -> Result<Self, AmountError> {
        text.trim().strip_suffix("/s").unwrap_or(text).parse()
    }
}

impl Percent {
    /// So many percent; none for zero, which would stop everything.
    pub const fn new(percent: u32) -> Option<Self> {
        if percent == 0 {
            None
        } else {
            Some(Self(percent))
        }
    }

    /// The whole number before the percent sign.
    pub const fn value(self) -> u32 {
        self.0
    }

    /// This share of an amount, rounded down.
    pub fn of(self, amount: u64) -> u64 {
        let share = u128::from(amount) * u128::from(self.0) / 100;
        u64::try_from(share).unwrap_or(u64::MAX)
    }
}

impl FromStr for Size {
    type Err = AmountError;

    fn from_str(text: &str) -> Result<Self, AmountError> {
        let trimmed = text.trim();
        let digits = trimmed.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = trimmed.split_at(digits);
        let shift = match unit.trim_start().to_ascii_lowercase().as_str() {
            "" | "b" => 0,
            "k" | "kb" | "kib" => 10,
            "m" | "mb" | "mib" => 20,
            "g" | "gb" | "gib" => 30,
            "t" | "tb" | "tib" => 40,
            _ => return Err(AmountError::Size(text.to_owned())),
        };
        if number.is_empty() {
            return Err(AmountError::Size(text.to_owned()));
        }
        let number: u64 = number
            .parse()
            .map_err(|_| AmountError::TooLarge(text.to_owned()))?;
        match number.checked_mul(1 << shift) {
            Some(0) => Err(AmountError::Zero(text.to_owned())),
            Some(bytes) => Ok(Self(bytes)),
            None => Err(AmountError::TooLarge(text.to_owned())),
        }
    }
}

impl std::fmt::Display for Size {
    /// The shortest exact form: `512M`, not `536870912`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (unit, shift) in [("T", 40), ("G", 30), ("M", 20), ("K", 10)] {
            if self.0 != 0 && self.0.is_multiple_of(1 << shift) {
                return write!(f, "{}{unit}", self.0 >> shift);
            }
        }
        write!(f, "{}", self.0)
    }
}

impl FromStr for Percent {
    type Err = AmountError;

    fn from_str(text: &str) -> Result<Self, AmountError> {
        let number = text
            .trim()
            .strip_suffix('%')
            .map(str::trim_end)
            .filter(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
            .ok_or_else(|| AmountError::Percent(text.to_owned()))?;
        let value: u32 = number
            .parse()
            .map_err(|_| AmountError::TooLarge(text.to_owned()))?;
        Self::new(value).ok_or_else(|| AmountError::Zero(text.to_owned()))
    }
}

impl std::fmt::Display for Percent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}%", self.0)
    }
}

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        u64::deserialize(deserializer).map(Self)
    }
}

impl Serialize for Percent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Percent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("512M", 512 << 20),
            ("1G", 1 << 30),
            ("64K", 64 << 10),
            ("65536", 65536),
            ("2 GiB", 2 << 30),
            ("1mb", 1 << 20),
            (" 3T ", 3 << 40),
        ] {
            assert_eq!(text.parse::<Size>().unwrap().bytes(), bytes, "{text}");
        }
        for bad in [
            "",
            "M",
            "-1",
            "1.5G",
            "12X",
            "0",
            "0M",
            "99999999999T",
            "1e3",
            "1 0",
        ] {
            assert!(bad.parse::<Size>().is_err(), "{bad}");
        }
        assert_eq!(
            Size::parse_rate("10M/s").unwrap(),
            Size::from_bytes(10 << 20)
        );
    }

    #[test]
    fn percentages() {
        assert_eq!("150%".parse::<Percent>().unwrap().value(), 150);
        assert_eq!("75%".parse::<Percent>().unwrap().of(1000), 750);
        for bad in ["", "%", "0%", "150", "-5%", "1.5%", "99999999999%"] {
            assert!(bad.parse::<Percent>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_reads_back(bytes in 1u64..) {
            let size = Size::from_bytes(bytes);
            prop_assert_eq!(size.to_string().parse::<Size>().unwrap(), size);
        }

        #[test]
        fn never_panics(text in ".{0,30}") {
            let _ = text.parse::<Size>();
            let _ = text.parse::<Percent>();
        }
    }
}
