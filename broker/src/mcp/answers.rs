//! What each tool answers, as a schema: clients check every answer against it. Further fields
//! may come beside those that are named.

use serde_json::{Value, json};

/// The schema of what the tool of this name answers.
pub fn schema(tool: &str) -> Value {
    match tool {
        "sandbox_check" => answer(
            json!({
                "command": { "type": "string" },
                "risk_level": risk(),
                "risk_reasons": texts(),
                "requires_approval": { "type": "boolean" },
                "suggested_action": {
                    "type": "string",
                    "enum": ["execute", "queue_for_approval", "block"],
                },
            }),
            &[
                "command",
                "risk_level",
                "risk_reasons",
                "requires_approval",
                "suggested_action",
            ],
        ),
        "sandbox_exec" => answer(
            json!({
                "id": { "type": "string" },
                "status": {
                    "type": "string",
                    "enum": [
                        "completed", "signaled", "timed_out", "out_of_memory",
                        "too_many_processes", "too_much_output", "pending", "blocked", "failed",
                    ],
                },
                "command": { "type": "string" },
                "risk_level": maybe(risk()),
                "risk_reasons": texts(),
                "exit_code": { "type": "integer" },
                "signal": maybe(json!({ "type": "integer" })),
                "reason": maybe(json!({ "type": "string" })),
                "duration_ms": { "type": "integer" },
                "stdout": maybe(json!({ "type": "string" })),
                "stderr": maybe(json!({ "type": "string" })),
                "truncated": { "type": "boolean" },
                "changes": { "type": "array" },
                "approval": maybe(json!({ "type": "object" })),
                "next": { "type": "string", "description": "How it goes on" },
            }),
            &["id", "status", "command", "exit_code", "truncated"],
        ),
        "run_code" => answer(
            json!({
                "success": { "type": "boolean" },
                "output": { "type": "string" },
                "stderr": { "type": "string" },
                "exitCode": { "type": "integer" },
                "executionTime": { "type": "integer", "description": "Milliseconds" },
                "error": maybe(json!({ "type": "string" })),
                "truncated": { "type": "boolean" },
            }),
            &[
                "success",
                "output",
                "stderr",
                "exitCode",
                "executionTime",
                "error",
            ],
        ),
        "read" => answer(
            json!({
                "path": { "type": "string" },
                "text": { "type": "string" },
                "truncated": { "type": "boolean" },
            }),
            &["path", "text", "truncated"],
        ),
        "write" => answer(
            json!({ "path": { "type": "string" }, "bytes": { "type": "integer" } }),
            &["path", "bytes"],
        ),
        "edit" => answer(
            json!({ "path": { "type": "string" }, "replaced": { "type": "integer" } }),
            &["path", "replaced"],
        ),
        "sandbox_queue_list" => answer(
            json!({ "requests": objects(), "total": { "type": "integer" } }),
            &["requests"],
        ),
        "sandbox_audit_log" => answer(json!({ "records": objects() }), &["records"]),
        "sandbox_audit_stats" => {
            let counts = [
                "total_commands",
                "safe",
                "normal",
                "dangerous",
                "critical",
                "disallowed",
            ];
            let properties = counts.map(|name| (name.to_owned(), json!({ "type": "integer" })));
            answer(Value::Object(properties.into_iter().collect()), &counts)
        }
        "sandbox_allowlist_test" => answer(
            json!({
                "command": { "type": "string" },
                "allowed": { "type": "boolean" },
                "matching": texts(),
                "why_not": { "type": ["string", "null"] },
            }),
            &["command", "allowed", "matching"],
        ),
        _ => answer(json!({}), &[]),
    }
}

fn answer(properties: Value, required: &[&str]) -> Value {
    json!({ "type": "object", "properties": properties, "required": required })
}

fn risk() -> Value {
    json!({
        "type": "string",
        "enum": ["safe", "normal", "dangerous", "critical", "disallowed"],
    })
}

fn texts() -> Value {
    json!({ "type": "array", "items": { "type": "string" } })
}

fn objects() -> Value {
    json!({ "type": "array", "items": { "type": "object" } })
}

/// That, or nothing.
fn maybe(value: Value) -> Value {
    json!({ "anyOf": [value, { "type": "null" }] })
}
