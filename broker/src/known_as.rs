//! A request as it is printed: in our own words, and beside them the names that other tools
//! have for the same things.

use serde_json::{Map, Value, json};
use sjail_policy::wire::control::{Listed, Request, RequestStatus};

use crate::audit::query::timestamp;

/// One request.
pub fn request(request: &Request) -> Value {
    let mut shown = json!(request);
    if let Some(fields) = shown.as_object_mut() {
        fields.extend(names(request));
    }
    shown
}

/// A listing.
pub fn listed(listed: &Listed) -> Value {
    let requests: Vec<Value> = listed.requests.iter().map(request).collect();
    json!({ "requests": requests, "total": listed.total })
}

fn names(request: &Request) -> Map<String, Value> {
    let micros = request.created.saturating_mul(1_000_000);
    let mut names = Map::new();
    let mut name = |name: &str, value: Value| names.insert(name.to_owned(), value);
    name("risk_level", json!(request.risk));
    name("risk_reasons", json!(request.reasons));
    name(
        "requires_approval",
        json!(request.status == RequestStatus::Pending),
    );
    name("timestamp", json!(timestamp(micros)));
    // Who the kernel says it was; the name that they gave is in the log, as a claim.
    match request.status {
        RequestStatus::Approved | RequestStatus::Used => {
            name("approved_by", json!(request.approver));
            name("notes", json!(request.note));
        }
        RequestStatus::Rejected => {
            name("rejected_by", json!(request.approver));
            name("reason", json!(request.note));
        }
        RequestStatus::Pending | RequestStatus::Expired => {}
    }
    names
}
