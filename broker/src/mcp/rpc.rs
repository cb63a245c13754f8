//! JSON-RPC 2.0 as the protocol frames it on standard input and output: one object a line.

use std::io::{self, BufRead, Read, Write};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

/// The longest line that is read; a longer one is answered as an error and skipped.
const LONGEST: u64 = 8 << 20;

/// Not JSON.
pub const PARSE_ERROR: i64 = -32700;
/// JSON, but no request.
pub const INVALID_REQUEST: i64 = -32600;
/// A method that is not offered.
pub const UNKNOWN_METHOD: i64 = -32601;
/// Parameters that do not fit.
pub const INVALID_PARAMS: i64 = -32602;
/// A version of the protocol that is not spoken.
pub const UNKNOWN_VERSION: i64 = -32022;

/// One message of the client.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// Wants an answer under its id.
    Request {
        /// A number or a text.
        id: Value,
        /// What is asked for.
        method: String,
        /// With what.
        params: Value,
    },
    /// Wants none.
    Notification {
        /// What happened.
        method: String,
        /// To what.
        params: Value,
    },
    /// An answer to something that we never asked: ignored.
    Response,
}

/// What could not be read, as it is answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Wrong {
    /// The request's id, as far as it could be read.
    pub id: Value,
    /// The number of the error.
    pub code: i64,
    /// In words.
    pub message: String,
    /// What a program needs to know about it; null for nothing.
    pub data: Value,
}

/// Reads one line; nothing at the end of the input.
pub fn read_line(input: &mut impl BufRead) -> io::Result<Option<Result<Vec<u8>, Wrong>>> {
    let mut line = Vec::new();
    let count = input.by_ref().take(LONGEST).read_until(b'\n', &mut line)?;
    if count == 0 {
        return Ok(None);
    }
    if line.last() != Some(&b'\n') && line.len() as u64 >= LONGEST {
        skip(input)?;
        return Ok(Some(Err(Wrong {
            id: Value::Null,
            code: INVALID_REQUEST,
            message: format!("a message is longer than {LONGEST} bytes"),
            data: Value::Null,
        })));
    }
    Ok(Some(Ok(line)))
}

fn skip(input: &mut impl BufRead) -> io::Result<()> {
    loop {
        let buffer = input.fill_buf()?;
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let length = end.map_or(buffer.len(), |at| at + 1);
        input.consume(length);
        if end.is_some() || length == 0 {
            return Ok(());
        }
    }
}

/// What a line holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Line {
    /// No message.
    Empty,
    /// One message.
    One(Result<Message, Wrong>),
    /// A batch, which is answered by one, too.
    Batch(Vec<Result<Message, Wrong>>),
}

/// The messages of a line.
pub fn messages(line: &[u8]) -> Line {
    if line.iter().all(u8::is_ascii_whitespace) {
        return Line::Empty;
    }
    match serde_json::from_slice(line) {
        Ok(Value::Array(all)) if !all.is_empty() => {
            Line::Batch(all.into_iter().map(message).collect())
        }
        Ok(value) => Line::One(message(value)),
        Err(error) => Line::One(Err(Wrong {
            id: Value::Null,
            code: PARSE_ERROR,
            message: format!("that is no JSON: {error}"),
            data: Value::Null,
        })),
    }
}

fn message(mut value: Value) -> Result<Message, Wrong> {
    let id = take(&mut value, "id");
    let known_id = id.is_number() || id.is_string();
    let wrong = |id: Value, message: &str| Wrong {
        id,
        code: INVALID_REQUEST,
        message: message.to_owned(),
        data: Value::Null,
    };
    if !value.is_object() || value["jsonrpc"] != "2.0" {
        let id = if known_id { id } else { Value::Null };
        return Err(wrong(id, "not a JSON-RPC 2.0 object"));
    }
    let Some(method) = value["method"].as_str().map(str::to_owned) else {
        let answer = value.get("result").is_some() || value.get("error").is_some();
        return match answer {
            true => Ok(Message::Response),
            false => Err(wrong(id, "`method` is missing")),
        };
    };
    let params = take(&mut value, "params");
    if known_id {
        Ok(Message::Request { id, method, params })
    } else if id.is_null() {
        Ok(Message::Notification { method, params })
    } else {
        Err(wrong(Value::Null, "`id` is neither a number nor a text"))
    }
}

/// Takes a field out of a value; null where there is none, or no fields at all.
pub fn take(value: &mut Value, field: &str) -> Value {
    value
        .as_object_mut()
        .and_then(|fields| fields.remove(field))
        .unwrap_or_default()
}

/// Where lines go: whole, whoever writes.
#[derive(Debug, Clone)]
struct Lines(Arc<Mutex<io::Stdout>>);

impl Lines {
    fn send(&self, value: &Value) {
        let line = format!("{value}\n");
        let mut out = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A client that has gone away is noticed at the input.
        let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
    }
}

/// Where answers go.
#[derive(Debug, Clone)]
pub struct Out {
    lines: Lines,
    batch: Option<Arc<Batch>>,
}

/// The answers to a batch, sent when nobody has another one to give.
#[derive(Debug)]
struct Batch {
    lines: Lines,
    answers: Mutex<Vec<Value>>,
}

impl Drop for Batch {
    fn drop(&mut self) {
        let answers = std::mem::take(&mut self.answers);
        let answers = answers.into_inner().unwrap_or_else(PoisonError::into_inner);
        if !answers.is_empty() {
            self.lines.send(&Value::Array(answers));
        }
    }
}

impl Out {
    /// Standard output.
    pub fn standard() -> Out {
        Out {
            lines: Lines(Arc::new(Mutex::new(io::stdout()))),
            batch: None,
        }
    }

    /// The same for a batch: its answers go out together, when the last of these is gone.
    pub fn together(&self) -> Out {
        Out {
            lines: self.lines.clone(),
            batch: Some(Arc::new(Batch {
                lines: self.lines.clone(),
                answers: Mutex::default(),
            })),
        }
    }

    fn answer(&self, value: Value) {
        match &self.batch {
            None => self.lines.send(&value),
            Some(batch) => {
                let answers = batch.answers.lock();
                answers.unwrap_or_else(PoisonError::into_inner).push(value);
            }
        }
    }

    /// Answers a request.
    pub fn result(&self, id: &Value, result: Value) {
        self.answer(json!({ "jsonrpc": "2.0", "id": id, "result": result }));
    }

    /// Answers what cannot be done.
    pub fn error(&self, wrong: &Wrong) {
        let mut error = json!({ "code": wrong.code, "message": wrong.message });
        if !wrong.data.is_null() {
            error["data"] = wrong.data.clone();
        }
        self.answer(json!({ "jsonrpc": "2.0", "id": wrong.id, "error": error }));
    }

    /// Tells something.
    pub fn notify(&self, method: &str, params: Value) {
        self.lines
            .send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    #[test]
    fn messages_are_told_apart() {
        let one = |text: &str| match messages(text.as_bytes()) {
            Line::One(message) => message,
            other => panic!("{text}: {other:?}"),
        };
        assert!(matches!(
            one(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#),
            Ok(Message::Request { .. })
        ));
        assert!(matches!(
            one(r#"{"jsonrpc":"2.0","method":"x","params":{}}"#),
            Ok(Message::Notification { .. })
        ));
        assert_eq!(
            one(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#),
            Ok(Message::Response)
        );
        for (text, code) in [
            ("{", PARSE_ERROR),
            ("7", INVALID_REQUEST),
            ("[]", INVALID_REQUEST),
            (r#"{"id":1,"method":"x"}"#, INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":1}"#, INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":[],"method":"x"}"#, INVALID_REQUEST),
        ] {
            assert_eq!(one(text).unwrap_err().code, code, "{text}");
        }
        assert_eq!(messages(b" \n"), Line::Empty);
        let two = br#"[{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","method":"b"}]"#;
        assert!(matches!(messages(two), Line::Batch(all) if all.len() == 2));
    }

    #[test]
    fn a_line_without_end_is_skipped() {
        let mut long = vec![b'x'; (LONGEST + 10) as usize];
        long.extend_from_slice(b"\n{}\n");
        let mut input = io::BufReader::new(long.as_slice());
        assert!(read_line(&mut input).unwrap().unwrap().is_err());
        assert_eq!(read_line(&mut input).unwrap().unwrap().unwrap(), b"{}\n");
        assert!(read_line(&mut input).unwrap().is_none());
    }
}
