//! Lines judged as the corpus's user would type them.

use sjail_policy::classify::{Classification, Context, classify};
use sjail_policy::risk::Risk;

pub fn judged(line: &str) -> Classification {
    classify(
        line.as_bytes(),
        &Context::new("/home/user/project", "/home/user", "user"),
    )
}

#[track_caller]
pub fn all(risk: Risk, lines: &[&str]) {
    for line in lines {
        let answer = judged(line);
        assert_eq!(answer.risk, risk, "{line}: {:?}", answer.reasons);
    }
}

#[track_caller]
pub fn at_least(risk: Risk, lines: &[&str]) {
    for line in lines {
        let answer = judged(line);
        assert!(
            answer.risk >= risk,
            "{line}: {} {:?}",
            answer.risk,
            answer.reasons
        );
    }
}
