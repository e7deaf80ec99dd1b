//! Words for configurations, categories and amounts.

use std::cmp::Ordering;

use crate::report::axes::last_part;
use crate::report::group::Group;
use crate::report::markdown::code;
use crate::text::format::{bytes, rate};

/// Axes whose values speak for themselves.
const PLAIN: [&str; 2] = ["model", "dtype"];

/// The most axes in a name; the cell's id says the rest.
const MOST_AXES: usize = 4;

/// The longest value in a name, in characters. A longer one, such as a list of lengths, would hide the others.
const LONGEST_VALUE: usize = 40;

/// A configuration by the axes that it sets: `int4, rank 16`, as code.
pub(super) fn name<'a>(group: &Group, axes: impl IntoIterator<Item = &'a String>) -> String {
    let mut axes: Vec<&String> = axes.into_iter().collect();
    let position = |axis: &String| PLAIN.iter().position(|plain| plain == axis);
    axes.sort_by_key(|axis| position(axis).unwrap_or(PLAIN.len()));
    let is_set = |axis: &&&String| group.cells.first().is_some_and(|cell| !cell.get(axis).is_null());
    let text = |axis: &&String| group.axes.get(*axis).cloned().unwrap_or_default();
    let part = |axis: &&String| match text(axis) {
        value if position(axis).is_some() => value,
        value => format!("{} {value}", last_part(axis)),
    };
    let short = |axis: &&&String| text(axis).chars().count() <= LONGEST_VALUE;
    let parts: Vec<String> = axes
        .iter()
        .filter(is_set)
        .filter(short)
        .take(MOST_AXES)
        .map(part)
        .collect();
    match (parts.is_empty(), axes.first()) {
        (false, _) => code(&parts.join(", ")),
        (true, Some(axis)) if !is_set(&axis) => code(&format!("{} unset", last_part(axis))),
        (true, _) => code(&group.label),
    }
}

/// The plural of a category's name.
pub(super) fn category_words(category: &str) -> String {
    match category {
        "optimizer_state" | "input" => category.replace('_', " "),
        "temporary" => "temporaries".into(),
        _ => format!("{}s", category.replace('_', " ")),
    }
}

/// A phase with its article.
pub(super) fn phase_words(phase: &str) -> &str {
    match phase {
        "forward" => "the forward pass",
        "backward" => "the backward pass",
        "optimizer" => "the optimizer's step",
        "load" => "loading",
        "idle" => "the time between steps",
        other => other,
    }
}

/// Bytes with three digits, also for a few of them: `12 bytes`, `12.4 bytes`, `1.5 KiB`.
pub(super) fn amount(n: f64) -> String {
    if n.abs() >= 1024.0 {
        return bytes(n.into());
    }
    let text = rate(n.into());
    let whole = text
        .split_once('.')
        .filter(|(_, fraction)| fraction.bytes().all(|digit| digit == b'0'));
    format!("{} bytes", whole.map_or(text.as_str(), |(whole, _)| whole))
}

/// Two amounts in one unit, or one if they read the same: `12 to 16 bytes`.
pub(super) fn amounts(low: f64, high: f64) -> String {
    let (low, high) = (amount(low), amount(high));
    if low == high {
        return high;
    }
    let unit = |text: &str| text.rsplit_once(' ').map(|(_, unit)| unit.to_owned());
    match low.rsplit_once(' ') {
        Some((number, of)) if unit(&high).as_deref() == Some(of) => format!("{number} to {high}"),
        _ => format!("{low} to {high}"),
    }
}

/// `a`, `a and b`, `a, b and c`.
pub(super) fn listed(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// Each distinct text with the number of its repeats, the most frequent first: `a (6 of 10) and b (4 of 10)`. After
/// `most` texts the rest are counted.
pub(super) fn tally(texts: &[String], most: usize) -> String {
    let mut counts: Vec<(&String, usize)> = Vec::new();
    for text in texts {
        match counts.iter_mut().find(|(known, _)| *known == text) {
            Some((_, n)) => *n += 1,
            None => counts.push((text, 1)),
        }
    }
    if let [(only, _)] = counts[..] {
        return only.clone();
    }
    counts.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    let of = |(text, n): &(&String, usize)| format!("{text} ({n} of {})", texts.len());
    let mut parts: Vec<String> = counts.iter().take(most).map(of).collect();
    let rest: usize = counts.iter().skip(most).map(|(_, n)| n).sum();
    if rest > 0 {
        parts.push(format!("elsewhere ({rest} of {})", texts.len()));
    }
    listed(&parts)
}

/// `rises by`, `falls by` or `changes by`, for changes of one sign or both.
pub(super) fn direction(changes: &[f64]) -> &'static str {
    let has = |order: Ordering| changes.iter().any(|change| change.partial_cmp(&0.0) == Some(order));
    match (has(Ordering::Greater), has(Ordering::Less)) {
        (true, false) => "rises",
        (false, true) => "falls",
        _ => "changes",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_three_digits() {
        assert_eq!(amount(12.0), "12 bytes");
        assert_eq!(amount(12.44), "12.4 bytes");
        assert_eq!(amount(1536.0), "1.5 KiB");
        assert_eq!(amount(-12.0), "-12 bytes");
        assert_eq!(amount(0.0), "0 bytes");
        assert_eq!(amounts(12.0, 16.0), "12 to 16 bytes");
        assert_eq!(amounts(12.0, 12.001), "12 bytes");
        assert_eq!(amounts(12.0, 1536.0), "12 bytes to 1.5 KiB");
    }

    #[test]
    fn the_most_frequent_is_named_first() {
        let texts = ["a", "b", "b", "c"].map(String::from);
        assert_eq!(tally(&texts, 3), "b (2 of 4), a (1 of 4) and c (1 of 4)");
        assert_eq!(tally(&texts, 1), "b (2 of 4) and elsewhere (2 of 4)");
        assert_eq!(tally(&texts[1..3], 3), "b");
    }

    #[test]
    fn changes_of_both_signs_have_no_direction() {
        assert_eq!(direction(&[1.0, 0.0]), "rises");
        assert_eq!(direction(&[-1.0]), "falls");
        assert_eq!(direction(&[-1.0, 2.0]), "changes");
    }
}
