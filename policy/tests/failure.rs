//! A panic outside of the classifier ends the process, whatever the build does with panics.

#![allow(clippy::expect_used, clippy::panic)]

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

const VICTIM: &str = "SJAIL_TEST_PANICS";

#[test]
fn a_panic_elsewhere_ends_the_process() {
    if std::env::var_os(VICTIM).is_some() {
        sjail_policy::failure::end_process_on_panic();
        // Without the hook this is caught, and the process goes on and ends well.
        let _ = std::panic::catch_unwind(|| panic!("on purpose"));
        std::process::exit(0);
    }
    let own = std::env::current_exe().expect("this program");
    let status = Command::new(own)
        .args(["--exact", "a_panic_elsewhere_ends_the_process"])
        .env(VICTIM, "1")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("this program, once more");
    const SIGABRT: i32 = 6;
    assert_eq!(status.signal(), Some(SIGABRT), "{status}");
}
