//! The envelope of Varlink: a call names a method, a reply carries parameters or an
//! error's name.

use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One method call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// `interface.Method`.
    pub method: String,
    /// The method's parameters, an object.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub parameters: Value,
    /// The caller takes several replies, each but the last marked `continues`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub more: bool,
    /// The caller wants no reply at all.
    #[serde(default, skip_serializing_if = "is_false")]
    pub oneway: bool,
}

impl Call {
    /// A call that expects one reply.
    pub fn new<T: Serialize>(method: &str, parameters: &T) -> Result<Call, serde_json::Error> {
        Ok(Call {
            method: method.to_owned(),
            parameters: serde_json::to_value(parameters)?,
            more: false,
            oneway: false,
        })
    }
}

/// One answer to a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// What the method returns, or what its error carries.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub parameters: Value,
    /// Further replies to the same call follow.
    #[serde(default, skip_serializing_if = "is_false")]
    pub continues: bool,
    /// `interface.Error`, when the call failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl Reply {
    /// What a method returns, read in one go where the call did not fail. Without this a
    /// long plan would be read twice: into a value, and out of it.
    pub fn read<T: DeserializeOwned>(
        message: &[u8],
    ) -> Result<Result<T, Reply>, serde_json::Error> {
        #[derive(Deserialize)]
        struct Returned<T> {
            parameters: Option<T>,
            error: Option<IgnoredAny>,
        }
        if let Ok(Returned {
            parameters: Some(returned),
            error: None,
        }) = serde_json::from_slice(message)
        {
            return Ok(Ok(returned));
        }
        let reply: Reply = serde_json::from_slice(message)?;
        match reply.error {
            Some(_) => Ok(Err(reply)),
            None => serde_json::from_value(reply.parameters).map(Ok),
        }
    }
}

fn is_false(flag: &bool) -> bool {
    !*flag
}

/// The errors that Varlink itself names.
pub mod service {
    /// The interface that every Varlink service answers.
    pub const INTERFACE: &str = "org.varlink.service";
    /// Its description, as the Varlink specification gives it.
    pub const DESCRIPTION: &str = include_str!("org.varlink.service.varlink");
    /// Who is this, and which interfaces does it speak?
    pub const GET_INFO: &str = "org.varlink.service.GetInfo";
    /// The text of one interface.
    pub const GET_INTERFACE_DESCRIPTION: &str = "org.varlink.service.GetInterfaceDescription";
    /// No such interface on this socket.
    pub const INTERFACE_NOT_FOUND: &str = "org.varlink.service.InterfaceNotFound";
    /// No such method in the interface.
    pub const METHOD_NOT_FOUND: &str = "org.varlink.service.MethodNotFound";
    /// A parameter is missing, of the wrong type, or out of bounds.
    pub const INVALID_PARAMETER: &str = "org.varlink.service.InvalidParameter";
    /// The peer may not call this.
    pub const PERMISSION_DENIED: &str = "org.varlink.service.PermissionDenied";
    /// The method answers only a call that takes several replies.
    pub const EXPECTED_MORE: &str = "org.varlink.service.ExpectedMore";
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_call_is_spelled_as_varlink_wants() {
        let call = Call::new(
            "io.sjail.Broker.Status",
            &serde_json::json!({"id": "cmd_1"}),
        )
        .unwrap();
        assert_eq!(
            serde_json::to_string(&call).unwrap(),
            r#"{"method":"io.sjail.Broker.Status","parameters":{"id":"cmd_1"}}"#
        );
    }

    #[test]
    fn a_reply_is_read_into_what_was_expected_or_into_its_error() {
        let read = |text: &str| Reply::read::<Vec<u32>>(text.as_bytes());
        assert_eq!(read(r#"{"parameters":[1,2]}"#).unwrap(), Ok(vec![1, 2]));
        assert_eq!(
            read(r#"{"parameters":[3],"continues":true,"error":null}"#).unwrap(),
            Ok(vec![3])
        );
        let failed = read(r#"{"error":"a.B","parameters":{"message":"no"}}"#).unwrap();
        assert_eq!(failed.unwrap_err().error.as_deref(), Some("a.B"));
        // An error is one whatever it carries.
        let failed = read(r#"{"parameters":[4],"error":"a.B"}"#).unwrap();
        assert_eq!(failed.unwrap_err().error.as_deref(), Some("a.B"));
        for wrong in ["", "{}", "[]", r#"{"parameters":{"x":1}}"#] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_answer_without_parameters_is_an_empty_object() {
        let reply: Reply = serde_json::from_str("{}").unwrap();
        assert_eq!(reply.error, None);
        assert!(!reply.continues);
    }
}
