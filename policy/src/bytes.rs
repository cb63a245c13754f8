//! Byte strings that survive serialisation: argv, paths and environment of a
//! Unix command need not be UTF-8.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::de::{self, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Bytes of an argument, a path or an environment entry.
///
/// Serialised as a plain string when they are UTF-8, else as `{"hex": "ff00"}`;
/// both forms read back to the same bytes.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteString(Cow<'static, [u8]>);

impl ByteString {
    /// Bytes that are part of the program: nothing is copied. A plan has hundreds of them, and
    /// is made at every start.
    pub const fn from_static(text: &'static str) -> Self {
        Self(Cow::Borrowed(text.as_bytes()))
    }

    /// The bytes as they are.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The bytes as the operating system's string.
    pub fn as_os_str(&self) -> &OsStr {
        OsStr::from_bytes(&self.0)
    }

    /// The bytes as a path.
    pub fn as_path(&self) -> &Path {
        Path::new(self.as_os_str())
    }

    /// The text, where the bytes are UTF-8.
    pub fn to_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }

    /// Gives up the bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0.into_owned()
    }

    /// Whether there are no bytes at all.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl std::fmt::Debug for ByteString {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "b\"{}\"", self.0.escape_ascii())
    }
}

impl From<Vec<u8>> for ByteString {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Cow::Owned(bytes))
    }
}

impl From<&[u8]> for ByteString {
    fn from(bytes: &[u8]) -> Self {
        Self(Cow::Owned(bytes.to_vec()))
    }
}

impl From<&str> for ByteString {
    fn from(text: &str) -> Self {
        Self(Cow::Owned(text.as_bytes().to_vec()))
    }
}

impl From<String> for ByteString {
    fn from(text: String) -> Self {
        Self(Cow::Owned(text.into_bytes()))
    }
}

impl From<OsString> for ByteString {
    fn from(text: OsString) -> Self {
        Self(Cow::Owned(text.into_vec()))
    }
}

impl From<&OsStr> for ByteString {
    fn from(text: &OsStr) -> Self {
        Self(Cow::Owned(text.as_bytes().to_vec()))
    }
}

impl From<PathBuf> for ByteString {
    fn from(path: PathBuf) -> Self {
        Self(Cow::Owned(path.into_os_string().into_vec()))
    }
}

impl From<&Path> for ByteString {
    fn from(path: &Path) -> Self {
        Self(Cow::Owned(path.as_os_str().as_bytes().to_vec()))
    }
}

impl AsRef<[u8]> for ByteString {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<OsStr> for ByteString {
    fn as_ref(&self) -> &OsStr {
        self.as_os_str()
    }
}

impl AsRef<Path> for ByteString {
    fn as_ref(&self) -> &Path {
        self.as_path()
    }
}

impl Serialize for ByteString {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.to_str() {
            Some(text) => serializer.serialize_str(text),
            None => {
                let hex: String = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
                let mut map = serializer.serialize_map(Some(1))?;
                map.serialize_entry("hex", &hex)?;
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for ByteString {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ByteStringVisitor)
    }
}

struct ByteStringVisitor;

impl<'de> Visitor<'de> for ByteStringVisitor {
    type Value = ByteString;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a string, or {\"hex\": \"…\"} for bytes that are not UTF-8")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<ByteString, E> {
        Ok(text.into())
    }

    fn visit_string<E: de::Error>(self, text: String) -> Result<ByteString, E> {
        Ok(text.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ByteString, A::Error> {
        let Some((key, hex)) = map.next_entry::<String, String>()? else {
            return Err(de::Error::missing_field("hex"));
        };
        if key != "hex" {
            return Err(de::Error::unknown_field(&key, &["hex"]));
        }
        if map.next_key::<String>()?.is_some() {
            return Err(de::Error::custom("nothing may stand beside `hex`"));
        }
        from_hex(&hex).ok_or_else(|| de::Error::custom("`hex` is not pairs of hexadecimal digits"))
    }
}

fn from_hex(hex: &str) -> Option<ByteString> {
    if !hex.len().is_multiple_of(2) {
        return None;
    }
    let digit = |byte: u8| {
        char::from(byte)
            .to_digit(16)
            .and_then(|d| u8::try_from(d).ok())
    };
    hex.as_bytes()
        .chunks_exact(2)
        .map(|pair| match pair {
            [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
            _ => None,
        })
        .collect::<Option<Vec<u8>>>()
        .map(ByteString::from)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn text_stays_text_and_other_bytes_become_hex() {
        assert_eq!(
            serde_json::to_string(&ByteString::from("a\nb")).unwrap(),
            r#""a\nb""#
        );
        assert_eq!(
            serde_json::to_string(&ByteString::from(vec![0xff, 0])).unwrap(),
            r#"{"hex":"ff00"}"#
        );
    }

    #[test]
    fn malformed_hex_is_refused() {
        for bad in [
            r#"{"hex":"f"}"#,
            r#"{"hex":"zz"}"#,
            r#"{"hax":"ff"}"#,
            "{}",
            "3",
        ] {
            assert!(serde_json::from_str::<ByteString>(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn every_byte_string_reads_back(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let value = ByteString::from(bytes);
            let json = serde_json::to_string(&value).unwrap();
            prop_assert_eq!(serde_json::from_str::<ByteString>(&json).unwrap(), value);
        }
    }
}
