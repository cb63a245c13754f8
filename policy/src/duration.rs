//! Spans of time and points in time as people write them: `30s`, `5m`, `7d`,
//! `1h30m`, `30 days`, `2026-11-16`, `2026-11-16T08:30:00Z`.

use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A span of time in whole milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(u64);

/// A point in time, said as an age (`7d` ago) or as a date.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// So long before now.
    Ago(Duration),
    /// Seconds since 1970-01-01 00:00 UTC.
    At(i64),
}

/// Why a time could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TimeError {
    /// Not numbers with known units.
    #[error(
        "`{0}` is not a duration: write a whole number and a unit, such as 500ms, 30s, 5m, 2h or 7d"
    )]
    Duration(String),
    /// A bare number could be seconds or milliseconds.
    #[error("`{0}` has no unit: write {0}ms, {0}s, {0}m, {0}h or {0}d")]
    NoUnit(String),
    /// Neither an age nor a date that exists.
    #[error(
        "`{0}` is not a time: write an age such as 7d, or a date such as 2026-11-16 or 2026-11-16T08:30:00Z"
    )]
    Moment(String),
    /// Larger than can be counted.
    #[error("`{0}` is too long")]
    TooLong(String),
}

impl Duration {
    /// So many milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// So many seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1000))
    }

    /// The number of whole milliseconds.
    pub const fn millis(self) -> u64 {
        self.0
    }

    /// The same span in the standard library's type.
    pub const fn to_std(self) -> std::time::Duration {
        std::time::Duration::from_millis(self.0)
    }
}

impl FromStr for Duration {
    type Err = TimeError;

    fn from_str(text: &str) -> Result<Self, TimeError> {
        let wrong = || TimeError::Duration(text.to_owned());
        let mut rest = text.trim();
        if !rest.is_empty() && rest != "0" && rest.bytes().all(|b| b.is_ascii_digit()) {
            return Err(TimeError::NoUnit(rest.to_owned()));
        }
        if rest == "0" {
            return Ok(Self(0));
        }
        let mut total: u64 = 0;
        let mut smallest_unit = u64::MAX;
        if rest.is_empty() {
            return Err(wrong());
        }
        while !rest.is_empty() {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let (number, after) = rest.split_at(digits);
            let after = after.trim_start();
            let letters = after.bytes().take_while(u8::is_ascii_alphabetic).count();
            let (unit, after) = after.split_at(letters);
            let unit = unit_millis(unit)
                .filter(|unit| *unit < smallest_unit)
                .ok_or_else(wrong)?;
            if number.is_empty() {
                return Err(wrong());
            }
            total = number
                .parse::<u64>()
                .ok()
                .and_then(|number| number.checked_mul(unit))
                .and_then(|part| total.checked_add(part))
                .ok_or_else(|| TimeError::TooLong(text.to_owned()))?;
            smallest_unit = unit;
            rest = after.trim_start();
        }
        Ok(Self(total))
    }
}

const SECOND: u64 = 1000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

fn unit_millis(unit: &str) -> Option<u64> {
    Some(match unit.to_ascii_lowercase().as_str() {
        "ms" | "millisecond" | "milliseconds" => 1,
        "s" | "sec" | "secs" | "second" | "seconds" => SECOND,
        "m" | "min" | "mins" | "minute" | "minutes" => MINUTE,
        "h" | "hour" | "hours" => HOUR,
        "d" | "day" | "days" => DAY,
        "w" | "week" | "weeks" => 7 * DAY,
        _ => return None,
    })
}

impl std::fmt::Display for Duration {
    /// The largest unit that is exact: `30s`, `5m`, `7d`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (name, unit) in [("d", DAY), ("h", HOUR), ("m", MINUTE), ("s", SECOND)] {
            if self.0.is_multiple_of(unit) && (self.0 != 0 || name == "s") {
                return write!(f, "{}{name}", self.0 / unit);
            }
        }
        write!(f, "{}ms", self.0)
    }
}

impl Serialize for Duration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(de::Error::custom)
    }
}

impl Moment {
    /// The moment in seconds since 1970, given what time it is now.
    pub fn resolve(self, now: i64) -> i64 {
        match self {
            Moment::Ago(age) => now.saturating_sub(i64::try_from(age.0 / 1000).unwrap_or(i64::MAX)),
            Moment::At(seconds) => seconds,
        }
    }
}

impl FromStr for Moment {
    type Err = TimeError;

    fn from_str(text: &str) -> Result<Self, TimeError> {
        let trimmed = text.trim();
        if trimmed.as_bytes().get(4) == Some(&b'-') {
            return iso_seconds(trimmed)
                .map(Moment::At)
                .ok_or_else(|| TimeError::Moment(text.to_owned()));
        }
        match trimmed.parse() {
            Ok(age) => Ok(Moment::Ago(age)),
            Err(TimeError::Duration(_)) => Err(TimeError::Moment(text.to_owned())),
            Err(other) => Err(other),
        }
    }
}

/// `YYYY-MM-DD[(T| )HH:MM[:SS[.fff]][Z|±HH[:]MM]]`; without a zone it is UTC.
fn iso_seconds(text: &str) -> Option<i64> {
    let (date, clock) = match text.find(['T', 't', ' ']) {
        Some(at) => (text.get(..at)?, Some(text.get(at + 1..)?)),
        None => (text, None),
    };
    let mut parts = date.split('-');
    let year = digits(parts.next()?, 4)?;
    let month = digits(parts.next()?, 2)?;
    let day = digits(parts.next()?, 2)?;
    if parts.next().is_some() || !(1..=12).contains(&month) {
        return None;
    }
    if day < 1 || day > days_in_month(year, month) {
        return None;
    }
    let midnight = days_from_civil(year, month, day) * 86_400;
    let Some(clock) = clock else {
        return Some(midnight);
    };
    let (clock, offset) = match clock.find(['Z', 'z', '+', '-']) {
        Some(at) => (clock.get(..at)?, zone_seconds(clock.get(at..)?)?),
        None => (clock, 0),
    };
    let mut parts = clock.split(':');
    let hour = digits(parts.next()?, 2)?;
    let minute = digits(parts.next()?, 2)?;
    let second = match parts.next() {
        Some(second) => {
            let (whole, fraction) = second.split_once('.').unwrap_or((second, "0"));
            if fraction.is_empty() || !fraction.bytes().all(|b| b.is_ascii_digit()) {
                return None;
            }
            digits(whole, 2)?
        }
        None => 0,
    };
    if parts.next().is_some() || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    Some(midnight + hour * 3600 + minute * 60 + second - offset)
}

fn zone_seconds(zone: &str) -> Option<i64> {
    if zone.eq_ignore_ascii_case("z") {
        return Some(0);
    }
    let sign = if zone.starts_with('-') { -1 } else { 1 };
    let zone = zone.get(1..)?;
    let (hours, minutes) = match zone.split_once(':') {
        Some((hours, minutes)) => (digits(hours, 2)?, digits(minutes, 2)?),
        None if zone.len() == 4 => (digits(zone.get(..2)?, 2)?, digits(zone.get(2..)?, 2)?),
        None => (digits(zone, 2)?, 0),
    };
    (hours <= 14 && minutes <= 59).then_some(sign * (hours * 3600 + minutes * 60))
}

fn digits(text: &str, count: usize) -> Option<i64> {
    (text.len() == count && text.bytes().all(|b| b.is_ascii_digit()))
        .then(|| text.parse().ok())
        .flatten()
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Days since 1970-01-01 in the proleptic Gregorian calendar. Years start in
/// March here, so that the leap day is the last one of a year.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations() {
        for (text, millis) in [
            ("30s", 30_000),
            ("5m", 300_000),
            ("7d", 7 * 86_400_000),
            ("1h30m", 5_400_000),
            ("500ms", 500),
            ("30 days", 30 * 86_400_000),
            ("1 hour 5 min", 3_900_000),
            ("0", 0),
            ("2W", 14 * 86_400_000),
        ] {
            assert_eq!(text.parse::<Duration>().unwrap().millis(), millis, "{text}");
        }
        for bad in [
            "",
            "s",
            "60",
            "5x",
            "-5m",
            "1.5h",
            "5m5m",
            "5s1h",
            "5m3",
            "99999999999999999999s",
        ] {
            assert!(bad.parse::<Duration>().is_err(), "{bad}");
        }
        assert_eq!(
            "60".parse::<Duration>(),
            Err(TimeError::NoUnit("60".into()))
        );
    }

    #[test]
    fn moments() {
        for (text, seconds) in [
            ("1970-01-01", 0),
            ("2000-02-29", 951_782_400),
            ("2026-11-16T08:30:00Z", 1_794_817_800),
            ("2026-11-16 08:30", 1_794_817_800),
            ("2026-11-16T10:30:00.250+02:00", 1_794_817_800),
            ("2026-11-16T03:30:00-0500", 1_794_817_800),
            ("1969-12-31T23:59:59Z", -1),
        ] {
            assert_eq!(
                text.parse::<Moment>().unwrap(),
                Moment::At(seconds),
                "{text}"
            );
        }
        assert_eq!(
            "7d".parse::<Moment>().unwrap().resolve(1_000_000),
            1_000_000 - 7 * 86_400
        );
        for bad in [
            "2026-13-01",
            "2025-02-29",
            "2026-1-1",
            "2026-01-01T25:00",
            "2026-01-01Tx",
            "yesterday",
            "",
        ] {
            assert!(bad.parse::<Moment>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_reads_back(millis in 0u64..u64::MAX / 2) {
            let span = Duration::from_millis(millis);
            prop_assert_eq!(span.to_string().parse::<Duration>().unwrap(), span);
        }

        #[test]
        fn never_panics(text in ".{0,30}", date in "[0-9]{4}-[-0-9T:+Z. é]{0,20}") {
            let _ = text.parse::<Duration>();
            let _ = text.parse::<Moment>();
            let _ = date.parse::<Moment>();
        }
    }
}
