//! The enemy: tries one named way out of where it was put.

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    std::process::exit(sjail_tests::attack::main(&words));
}
