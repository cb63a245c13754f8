//! Which pairs of neighbouring bytes a text holds: most of several hundred patterns are out by
//! that, without a search each.

/// A bit for each pair of bytes.
pub(super) struct Pairs(Vec<u64>);

impl Pairs {
    pub(super) fn of(text: &str) -> Pairs {
        let mut bits = vec![0; 1 << 10];
        for pair in text.as_bytes().windows(2) {
            let (at, bit) = place(pair[0], pair[1]);
            bits[at] |= bit;
        }
        Pairs(bits)
    }

    /// False only where the text does not hold the pattern.
    pub(super) fn may_hold(&self, pattern: &str) -> bool {
        pattern.as_bytes().windows(2).all(|pair| {
            let (at, bit) = place(pair[0], pair[1]);
            self.0[at] & bit != 0
        })
    }
}

fn place(one: u8, two: u8) -> (usize, u64) {
    let number = usize::from(one) << 8 | usize::from(two);
    (number >> 6, 1 << (number & 63))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_never_ruled_out() {
        let text = "import os; os.system('rm é\u{ff}')";
        let pairs = Pairs::of(text);
        for start in 0..text.len() {
            for end in start..=text.len() {
                if let Some(part) = text.get(start..end) {
                    assert!(pairs.may_hold(part), "{part}");
                }
            }
        }
        assert!(!pairs.may_hold("subprocess"));
        assert!(Pairs::of("").may_hold("x"));
        assert!(!Pairs::of("").may_hold("xy"));
    }
}
