//! What the policy says about asking and recording.

use sjail_policy::config::{OnFailure, Policy, Preview};

/// What the policy says about asking and recording.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How long a caller waits, in milliseconds.
    pub wait_ms: u64,
    /// Seconds until a request or an approval lapses.
    pub ttl: i64,
    /// So many requests may wait.
    pub queue_limit: u64,
    /// Whether a person may answer at the requester's own terminal.
    pub inline: bool,
    /// The command that tells the owner.
    pub on_ask: Vec<String>,
    /// Whether a command is tried out before somebody is asked.
    pub preview: Preview,
    /// What happens when the log cannot be written.
    pub on_failure: OnFailure,
    /// So many bytes of a run's output are recorded.
    pub recorded_output: u64,
}

impl Settings {
    /// Those of a policy.
    pub fn of(policy: &Policy) -> Settings {
        Settings {
            wait_ms: policy.wait.value.millis(),
            ttl: i64::try_from(policy.ttl.value.millis() / 1000).unwrap_or(i64::MAX),
            queue_limit: u64::from(policy.queue_limit.value),
            inline: policy.inline.value,
            on_ask: policy.on_ask.value.clone(),
            preview: policy.preview.value,
            on_failure: policy.on_failure.value,
            recorded_output: policy.audit_output.value.bytes(),
        }
    }
}
