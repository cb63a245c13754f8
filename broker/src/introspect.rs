//! `org.varlink.service`: what every Varlink service says of itself.

use serde_json::{Value, json};
use sjail_policy::wire::message::service;
use sjail_policy::wire::{control, request};

/// Which of the two sockets is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Door {
    /// Where commands are submitted.
    Request,
    /// Where the owner answers.
    Control,
}

impl Door {
    /// The interface that is answered here.
    pub fn interface(self) -> &'static str {
        match self {
            Door::Request => request::INTERFACE,
            Door::Control => control::INTERFACE,
        }
    }

    fn description(self) -> &'static str {
        match self {
            Door::Request => request::DESCRIPTION,
            Door::Control => control::DESCRIPTION,
        }
    }
}

/// The answer to a call of `org.varlink.service`, or an error's name and parameters.
pub fn answer(
    door: Door,
    method: &str,
    parameters: &Value,
) -> Result<Value, (&'static str, Value)> {
    match method {
        service::GET_INFO => Ok(json!({
            "vendor": "sjail",
            "product": "sjail-broker",
            "version": env!("CARGO_PKG_VERSION"),
            "url": "",
            "interfaces": [service::INTERFACE, door.interface()],
        })),
        service::GET_INTERFACE_DESCRIPTION => {
            let Some(wanted) = parameters["interface"].as_str() else {
                return Err((
                    service::INVALID_PARAMETER,
                    json!({ "parameter": "interface" }),
                ));
            };
            let description = if wanted == service::INTERFACE {
                service::DESCRIPTION
            } else if wanted == door.interface() {
                door.description()
            } else {
                return Err((service::INTERFACE_NOT_FOUND, json!({ "interface": wanted })));
            };
            Ok(json!({ "description": description }))
        }
        _ => Err(unknown_method(door, method)),
    }
}

/// The error for a method that nobody here answers.
pub fn unknown_method(door: Door, method: &str) -> (&'static str, Value) {
    let interface = method
        .rsplit_once('.')
        .map_or("", |(interface, _)| interface);
    if interface == door.interface() || interface == service::INTERFACE {
        (service::METHOD_NOT_FOUND, json!({ "method": method }))
    } else {
        (
            service::INTERFACE_NOT_FOUND,
            json!({ "interface": interface }),
        )
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn each_door_speaks_of_itself_alone() {
        let info = answer(Door::Request, service::GET_INFO, &Value::Null).unwrap();
        assert_eq!(
            info["interfaces"],
            json!(["org.varlink.service", "io.sjail.Broker"])
        );
        let asked = json!({ "interface": "io.sjail.Control" });
        let (error, _) =
            answer(Door::Request, service::GET_INTERFACE_DESCRIPTION, &asked).unwrap_err();
        assert_eq!(error, service::INTERFACE_NOT_FOUND);
        let text = answer(Door::Control, service::GET_INTERFACE_DESCRIPTION, &asked).unwrap();
        assert!(
            text["description"]
                .as_str()
                .unwrap()
                .contains("interface io.sjail.Control")
        );
    }
}
