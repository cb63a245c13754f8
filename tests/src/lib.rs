//! End-to-end suites that drive the real binaries on the real kernel.
