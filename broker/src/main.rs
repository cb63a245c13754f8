//! `sjail-broker`: owns decisions, the approval queue and the audit log.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    sjail_policy::failure::end_process_on_panic();
    sjail_broker::cli::main()
}
