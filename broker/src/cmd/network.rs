//! The network's use in a record, a line for each connection or each kind of them.

use serde_json::Value;

/// The lines of one record; none where nothing was reached or refused.
pub fn lines(record: &Value) -> Vec<String> {
    let entries = record["detail"]["more"]["network"].as_array();
    entries.into_iter().flatten().map(line).collect()
}

fn line(entry: &Value) -> String {
    let text = |key: &str| entry[key].as_str().unwrap_or_default();
    let number = |key: &str| entry[key].as_u64().unwrap_or(0);
    let host = text("host");
    let place = match entry["port"].as_u64() {
        Some(port) if host.contains(':') => format!("[{host}]:{port}"),
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    };
    let mut line = format!("{} {place}", text("decision"));
    let mut add = |part: String| {
        line.push_str(", ");
        line.push_str(&part);
    };
    if number("count") > 1 {
        add(format!("{} times", number("count")));
    }
    if entry["address"].is_string() {
        add(format!("at {}", text("address")));
        add(format!(
            "{} bytes sent, {} received, {} ms",
            number("sent"),
            number("received"),
            number("duration_ms")
        ));
    }
    for (key, before) in [
        ("published", "came in at "),
        ("signed", "signed in by "),
        ("reason", ""),
    ] {
        if entry[key].is_string() {
            add(format!("{before}{}", text(key)));
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_for_each() {
        let record = serde_json::json!({ "detail": { "more": { "network": [
            { "host": "www.test", "port": 443, "decision": "allow", "address": "203.0.113.10",
              "count": 1, "sent": 5, "received": 7, "duration_ms": 3 },
            { "host": "evil.test", "port": null, "decision": "refuse", "count": 2,
              "reason": "is not on the list" },
        ] } } });
        assert_eq!(
            lines(&record),
            [
                "allow www.test:443, at 203.0.113.10, 5 bytes sent, 7 received, 3 ms",
                "refuse evil.test, 2 times, is not on the list",
            ]
        );
        assert!(lines(&serde_json::json!({})).is_empty());
    }
}
