//! The page that explains risk is right: every example on it gets the answer it claims.

use sjail_policy::classify::{Context, classify};

const PAGE: &str = include_str!("../../packaging/docs/risk.md");

#[test]
fn every_example_on_the_page_holds() {
    let context = Context::new("/home/user/project", "/home/user", "user");
    let mut examples = 0;
    for row in PAGE.lines().filter(|line| line.starts_with("| `")) {
        let Some((command, rest)) = row[3..].split_once("` | ") else {
            continue;
        };
        let cells: Vec<&str> = rest.split('|').map(str::trim).collect();
        let [level, reasons, ..] = cells.as_slice() else {
            continue;
        };
        // The table of levels has names in its first column, too.
        if !["safe", "normal", "dangerous", "critical"].contains(level) {
            continue;
        }
        let command = command.replace("\\|", "|");
        let answer = classify(command.as_bytes(), &context);
        let found = (answer.risk.name(), answer.reasons.join("; "));
        assert_eq!(found, (*level, (*reasons).to_owned()), "{command}");
        examples += 1;
    }
    assert!(examples >= 12, "only {examples} examples were found");
}
