//! Cutting a byte stream into messages, with a bound that a peer cannot pass.

use serde::Serialize;

/// The largest message a requester may send: a command line is capped at 64 KiB, an
/// environment at the kernel's 128 KiB per string; an outcome carries two output
/// excerpts of 64 KiB.
pub const MAX_REQUEST: usize = 1 << 20;

/// The largest message that either side accepts from the broker: a listing of ten
/// thousand requests is paged well below it.
pub const MAX_REPLY: usize = 16 << 20;

/// Why a stream cannot be read on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// No end of message within the bound.
    #[error("a message is longer than {limit} bytes")]
    TooLong {
        /// The bound that was passed.
        limit: usize,
    },
    /// A value that JSON cannot carry.
    #[error("a message cannot be written as JSON: {0}")]
    Unwritable(String),
}

/// Collects bytes as they arrive and gives them back message by message.
#[derive(Debug)]
pub struct Frames {
    buffer: Vec<u8>,
    /// Where the first unread message starts.
    start: usize,
    /// Up to where the buffer was searched for an end without finding one.
    searched: usize,
    limit: usize,
}

impl Frames {
    /// A collector that gives up on a message longer than `limit`.
    pub fn new(limit: usize) -> Frames {
        Frames {
            buffer: Vec::new(),
            start: 0,
            searched: 0,
            limit,
        }
    }

    /// Adds what was read from the peer.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.searched -= self.start;
            self.start = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole message without its NUL, `None` when more bytes are needed.
    pub fn next_message(&mut self) -> Result<Option<&[u8]>, FrameError> {
        let from = self.searched.max(self.start);
        let end = self.buffer[from..].iter().position(|byte| *byte == 0);
        match end {
            Some(offset) => {
                let (start, end) = (self.start, from + offset);
                if end - start > self.limit {
                    return Err(FrameError::TooLong { limit: self.limit });
                }
                self.start = end + 1;
                self.searched = end + 1;
                Ok(Some(&self.buffer[start..end]))
            }
            None if self.buffer.len() - self.start > self.limit => {
                Err(FrameError::TooLong { limit: self.limit })
            }
            None => {
                self.searched = self.buffer.len();
                Ok(None)
            }
        }
    }

    /// Whether a peer that ends here was cut off in the middle of a message.
    pub fn is_partial(&self) -> bool {
        self.start < self.buffer.len()
    }
}

/// One message with its closing NUL, ready to be sent.
pub fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, FrameError> {
    let mut bytes =
        serde_json::to_vec(message).map_err(|error| FrameError::Unwritable(error.to_string()))?;
    bytes.push(0);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn messages_come_back_whole_however_they_were_cut() {
        let mut frames = Frames::new(16);
        frames.push(b"{\"a\"");
        assert_eq!(frames.next_message(), Ok(None));
        assert!(frames.is_partial());
        frames.push(b":1}\0{}\0{");
        assert_eq!(frames.next_message(), Ok(Some(&b"{\"a\":1}"[..])));
        assert_eq!(frames.next_message(), Ok(Some(&b"{}"[..])));
        assert_eq!(frames.next_message(), Ok(None));
        frames.push(b"}\0");
        assert_eq!(frames.next_message(), Ok(Some(&b"{}"[..])));
        assert!(!frames.is_partial());
    }

    #[test]
    fn an_endless_message_is_refused_at_the_bound() {
        let mut frames = Frames::new(8);
        frames.push(&[b'x'; 8]);
        assert_eq!(frames.next_message(), Ok(None));
        frames.push(b"x");
        assert_eq!(frames.next_message(), Err(FrameError::TooLong { limit: 8 }));
        let mut frames = Frames::new(8);
        frames.push(b"xxxxxxxxx\0");
        assert_eq!(frames.next_message(), Err(FrameError::TooLong { limit: 8 }));
    }

    proptest! {
        #[test]
        fn any_cut_gives_the_same_messages(
            messages in proptest::collection::vec("[a-z]{0,20}", 0..8),
            step in 1_usize..7,
        ) {
            let stream: Vec<u8> = messages.iter().flat_map(|m| [m.as_bytes(), b"\0"].concat()).collect();
            let mut frames = Frames::new(64);
            let mut seen = Vec::new();
            for piece in stream.chunks(step) {
                frames.push(piece);
                while let Some(message) = frames.next_message().unwrap() {
                    seen.push(String::from_utf8(message.to_vec()).unwrap());
                }
            }
            prop_assert_eq!(seen, messages);
        }
    }
}
