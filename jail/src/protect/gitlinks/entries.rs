//! Entries of an index, one after the other, as git itself takes them apart: how long a name
//! is says a field before it, not the zero behind it, and only the longest names end at that.

use super::text::{Stop, Text};

/// In an entry's flags: more flags follow; how long the name is, or that it is longer.
const EXTENDED: u16 = 0x4000;
const LENGTH: u16 = 0x0fff;

/// Of a longer name nothing is kept: no path that the kernel takes has more bytes. It cannot
/// be left out, as the next one may begin like it.
const KEPT: usize = 4096;

/// What every entry begins with: times, device and inode; mode; owner, group and size.
const FIXED: usize = 40;

/// How the entries of an index are written.
#[derive(Debug, Clone, Copy)]
pub struct Format {
    pub version: u32,
    /// The length of its hashes.
    pub hash: usize,
}

/// A name, with the byte behind it, where git writes a zero.
#[derive(Debug, Default)]
struct Name {
    /// As much as is kept of both.
    bytes: Vec<u8>,
    length: usize,
}

/// Goes through so many entries: mode and names of each. Git hands names on as texts that end
/// at a zero. Where there is none, they end after the length that was said or a byte later.
pub fn walk(
    text: &mut Text,
    format: Format,
    count: u32,
    mut seen: impl FnMut(u32, &[u8]) -> Result<(), Stop>,
) -> Result<(), Stop> {
    let mut before = None;
    for _ in 0..count {
        let (mode, name) = entry(text, format, before.take())?;
        if name.length < KEPT || name.bytes.contains(&0) {
            let told = until_zero(name.bytes.get(..name.length).unwrap_or(&name.bytes));
            seen(mode, told)?;
            let longer = until_zero(&name.bytes);
            if longer != told {
                seen(mode, longer)?;
            }
        }
        before = Some(name);
    }
    Ok(())
}

fn entry(text: &mut Text, format: Format, before: Option<Name>) -> Result<(u32, Name), Stop> {
    let begin = text.position();
    let mut fixed = [0; FIXED];
    text.fill(&mut fixed)?;
    let mode = u32::from_be_bytes([fixed[24], fixed[25], fixed[26], fixed[27]]);
    text.go_to(text.position() + format.hash as u64)?;
    let mut flags = [0; 2];
    text.fill(&mut flags)?;
    let flags = u16::from_be_bytes(flags);
    if flags & EXTENDED != 0 {
        text.fill(&mut [0; 2])?;
    }
    let told = match flags & LENGTH {
        LENGTH => None,
        told => Some(usize::from(told)),
    };
    if format.version == 4 {
        return Ok((mode, shortened(text, told, before)?));
    }
    let mut name = before.unwrap_or_default();
    name.cut(0);
    let head = text.position() - begin;
    name.add(text, told.map(|told| told + 1))?;
    // Zeros up to a multiple of eight, at least the one that ends the name.
    let padded = (head + name.length as u64 + 8) & !7;
    text.go_to(begin + padded)?;
    Ok((mode, name))
}

/// A name of the last version: how much of the one before is not in it, and what is added.
fn shortened(text: &mut Text, told: Option<usize>, before: Option<Name>) -> Result<Name, Stop> {
    let begin = text.position();
    let dropped = match offset(text)? {
        Some(dropped) => dropped,
        // A number that is none is where the name begins.
        None => {
            text.go_to(begin)?;
            0
        }
    };
    let mut name = match before {
        None => Name::default(),
        Some(mut name) => {
            let dropped = usize::try_from(dropped).map_err(|_| Stop::End)?;
            let kept = name.length.checked_sub(dropped).ok_or(Stop::End)?;
            name.cut(kept);
            name
        }
    };
    let added = match told {
        Some(told) => Some((told + 1).checked_sub(name.length).ok_or(Stop::End)?),
        None => None,
    };
    name.add(text, added)?;
    Ok(name)
}

impl Name {
    fn cut(&mut self, length: usize) {
        self.length = length;
        self.bytes.truncate(length);
    }

    /// Adds so many bytes, the one behind the name included, or all to the zero.
    fn add(&mut self, text: &mut Text, count: Option<usize>) -> Result<(), Stop> {
        let Name { bytes, length } = self;
        text.pieces(count, |piece| {
            if *length == bytes.len() {
                let room = KEPT.saturating_sub(bytes.len());
                bytes.extend_from_slice(piece.get(..room).unwrap_or(piece));
            }
            *length += piece.len();
        })?;
        *length = length.saturating_sub(1);
        Ok(())
    }
}

/// A number in git's own form of seven bits a byte; `None` if it is too large for git, too.
fn offset(text: &mut Text) -> Result<Option<u64>, Stop> {
    let mut byte = text.byte()?;
    let mut value = u64::from(byte & 0x7f);
    while byte & 0x80 != 0 {
        value += 1;
        if value >> (u64::BITS - 7) != 0 {
            return Ok(None);
        }
        byte = text.byte()?;
        value = (value << 7) | u64::from(byte & 0x7f);
    }
    Ok(Some(value))
}

fn until_zero(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|byte| *byte == 0);
    bytes.get(..end.unwrap_or(bytes.len())).unwrap_or(bytes)
}
