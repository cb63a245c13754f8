//! `e2e`: every suite, by theme. See the documentation of `sjail_tests`.

mod escape;
mod run;

fn main() -> std::process::ExitCode {
    let suites = vec![("run", run::suite()), ("escape", escape::suite())];
    sjail_tests::main(suites, env!("CARGO_BIN_EXE_attacker"))
}
