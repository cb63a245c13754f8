//! Measures what the jail costs; see `sjail_tests::bench`.

fn main() -> std::process::ExitCode {
    let attacker = std::env::current_exe().map(|path| path.with_file_name("attacker"));
    sjail_tests::bench::main(&attacker.unwrap_or_default().display().to_string())
}
