//! The few words of SSH that an agent speaks: numbers, strings, and messages behind their
//! length.

/// No message is longer.
pub const LONGEST: usize = 256 << 10;

/// Reads from the front of some bytes.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// So many bytes.
    pub fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    /// One byte.
    pub fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    /// A number of four bytes.
    pub fn number(&mut self) -> Option<u32> {
        let bytes = <[u8; 4]>::try_from(self.take(4)?).ok()?;
        Some(u32::from_be_bytes(bytes))
    }

    /// Bytes behind their length.
    pub fn string(&mut self) -> Option<&'a [u8]> {
        let length = self.number()?;
        self.take(usize::try_from(length).ok()?)
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Puts bytes behind their length.
pub fn put_string(into: &mut Vec<u8>, bytes: &[u8]) {
    into.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    into.extend_from_slice(bytes);
}

/// A message as it goes over the socket.
pub fn message(content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(content.len() + 4);
    put_string(&mut bytes, content);
    bytes
}

/// What stands at the front of what has come.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// Not yet a whole message.
    More,
    /// One that nobody sends.
    TooLong,
    /// A message, without its length; it is taken out.
    Message(Vec<u8>),
}

/// Takes the first message out of what has come.
pub fn next(came: &mut Vec<u8>) -> Next {
    let mut reader = Reader(came);
    let Some(length) = reader.number() else {
        return Next::More;
    };
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    if length > LONGEST {
        return Next::TooLong;
    }
    match reader.take(length) {
        None => Next::More,
        Some(content) => {
            let content = content.to_vec();
            came.drain(..4 + length);
            Next::Message(content)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_in_pieces() {
        let mut came = message(b"one");
        came.extend(message(b""));
        let last = came.split_off(9);
        assert_eq!(next(&mut came), Next::Message(b"one".to_vec()));
        assert_eq!(next(&mut came), Next::More);
        came.extend(last);
        assert_eq!(next(&mut came), Next::Message(Vec::new()));
        assert_eq!(next(&mut vec![0xff; 9]), Next::TooLong);
    }
}
