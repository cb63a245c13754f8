//! Brace expansion: `{a,b}` and `{1..3}`.

use super::ast::Span;
use super::word::{Part, PartKind, Word};

/// Whether a word has braces that make several of it.
pub fn has_braces(word: &Word) -> bool {
    word.parts.iter().any(is_brace)
}

/// The words that a word's braces make of it, as lists of parts; `None` if there are
/// more than `limit` or a range that is not modelled.
pub fn expand(word: &Word, limit: usize) -> Option<Vec<Vec<Part>>> {
    if !has_braces(word) {
        return Some(vec![word.parts.clone()]);
    }
    let mut budget = limit.saturating_mul(16);
    expand_parts(&word.parts, limit, &mut budget)
}

fn is_brace(part: &Part) -> bool {
    matches!(part.kind, PartKind::Braces(_) | PartKind::Range(_))
}

fn expand_parts(parts: &[Part], limit: usize, budget: &mut usize) -> Option<Vec<Vec<Part>>> {
    let mut results: Vec<Vec<Part>> = vec![Vec::new()];
    for part in parts {
        let choices = match &part.kind {
            PartKind::Braces(words) => {
                let mut choices = Vec::new();
                for word in words {
                    choices.append(&mut expand_parts(&word.parts, limit, budget)?);
                    if choices.len() > limit {
                        return None;
                    }
                }
                choices
            }
            PartKind::Range(text) => range(text, part.span, limit)?,
            _ => {
                results.iter_mut().for_each(|list| list.push(part.clone()));
                continue;
            }
        };
        let total = results.len().checked_mul(choices.len())?;
        *budget = budget.checked_sub(total)?;
        if total > limit {
            return None;
        }
        results = results
            .iter()
            .flat_map(|list| {
                choices.iter().map(move |choice| {
                    let mut joined = list.clone();
                    joined.extend_from_slice(choice);
                    joined
                })
            })
            .collect();
    }
    Some(results)
}

/// `1..9`, `01..10`, `a..e`, `9..1..2`.
fn range(text: &[u8], span: Span, limit: usize) -> Option<Vec<Vec<Part>>> {
    let text = std::str::from_utf8(text).ok()?;
    let mut ends = text.split("..");
    let (from, to) = (ends.next()?, ends.next()?);
    let step: i64 = match ends.next() {
        Some(step) => step.parse().ok()?,
        None => 1,
    };
    let step = step.checked_abs()?.max(1);
    let values: Vec<Vec<u8>> = match (from.as_bytes(), to.as_bytes()) {
        (&[a], &[b]) if a.is_ascii_alphabetic() && b.is_ascii_alphabetic() => {
            steps(a.into(), b.into(), step, limit)?
                .into_iter()
                .filter_map(|n| u8::try_from(n).ok().map(|b| vec![b]))
                .collect()
        }
        _ => {
            let padded = |s: &str| s.trim_start_matches('-').starts_with('0') && s.len() > 1;
            let width = if padded(from) || padded(to) {
                from.len().max(to.len())
            } else {
                0
            };
            steps(from.parse().ok()?, to.parse().ok()?, step, limit)?
                .into_iter()
                .map(|n| format!("{n:0width$}").into_bytes())
                .collect()
        }
    };
    Some(
        values
            .into_iter()
            .map(|value| {
                vec![Part {
                    kind: PartKind::Plain(value),
                    span,
                }]
            })
            .collect(),
    )
}

fn steps(from: i64, to: i64, step: i64, limit: usize) -> Option<Vec<i64>> {
    let count = usize::try_from(to.checked_sub(from)?.checked_abs()? / step).ok()?;
    if count >= limit {
        return None;
    }
    let signed = if from <= to { step } else { -step };
    let mut values = Vec::with_capacity(count + 1);
    let mut value = from;
    for _ in 0..=count {
        values.push(value);
        value = value.saturating_add(signed);
    }
    Some(values)
}
