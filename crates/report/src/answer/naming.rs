//! Words for configurations, categories and amounts.

use std::cmp::Ordering;

use base::text::format::{bytes, rate};

use crate::axes::last_part;
use crate::group::Group;
use crate::markdown::line_code as code;

/// Axes whose values speak for themselves.
const PLAIN: [&str; 2] = ["model", "dtype"];

/// The most axes in a name, unless others have the same name; the cell's id says the rest.
const MOST_AXES: usize = 4;

/// The longest value in a name, in characters. A longer one, such as a list of lengths, would hide the others.
const LONGEST_VALUE: usize = 40;

/// A configuration by the axes that it sets: `int4, rank 16`, as code. If another of `groups` has the same name, the
/// first axes that tell the two apart follow.
pub(super) fn name<'a>(group: &Group, groups: &[Group], axes: impl IntoIterator<Item = &'a String>) -> String {
    let axes = in_order(axes);
    let mut parts = usual_parts(group, &axes);
    let usual = text(group, &axes, &parts);
    let has_its_name = |other: &&Group| text(other, &axes, &usual_parts(other, &axes)) == usual;
    let mut alike: Vec<&Group> = groups.iter().filter(has_its_name).collect();
    for axis in &axes {
        let (same, different): (Vec<&Group>, Vec<&Group>) =
            alike.iter().partition(|other| value(other, axis) == value(group, axis));
        if !different.is_empty() {
            parts.push(part(group, axis));
            alike = same;
        }
    }
    code(&text(group, &axes, &parts))
}

/// A configuration by the first axes that it sets, as code.
pub(super) fn short_name(group: &Group, axes: &[String]) -> String {
    let axes = in_order(axes);
    code(&text(group, &axes, &usual_parts(group, &axes)))
}

/// The axes, those first that need no name.
fn in_order<'a>(axes: impl IntoIterator<Item = &'a String>) -> Vec<&'a String> {
    let mut axes: Vec<&String> = axes.into_iter().collect();
    axes.sort_by_key(|axis| position(axis).unwrap_or(PLAIN.len()));
    axes
}

/// The place of an axis that needs no name.
fn position(axis: &str) -> Option<usize> {
    PLAIN.iter().position(|plain| *plain == axis)
}

/// The value of an axis as text; `None` if the group leaves it unset.
fn value<'g>(group: &'g Group, axis: &str) -> Option<&'g str> {
    let is_set = group.cells.first().is_some_and(|cell| !cell.get(axis).is_null());
    let value = group.axes.get(axis).map(String::as_str);
    value.filter(|_| is_set)
}

/// `rank 16`, `int4` or `rank unset`.
pub(super) fn part(group: &Group, axis: &str) -> String {
    match value(group, axis) {
        Some(value) if position(axis).is_some() => value.to_owned(),
        value => format!("{} {}", last_part(axis), value.unwrap_or("unset")),
    }
}

/// The first axes with short values.
fn usual_parts(group: &Group, axes: &[&String]) -> Vec<String> {
    let is_short = |axis: &&&String| value(group, axis).is_some_and(|value| value.chars().count() <= LONGEST_VALUE);
    let short = axes.iter().filter(is_short).take(MOST_AXES);
    short.map(|axis| part(group, axis)).collect()
}

/// The parts as one text, or the group's label without any.
fn text(group: &Group, axes: &[&String], parts: &[String]) -> String {
    match (parts.is_empty(), axes.first()) {
        (false, _) => parts.join(", "),
        (true, Some(axis)) if value(group, axis).is_none() => part(group, axis),
        (true, _) => group.label.clone(),
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
pub(crate) fn listed(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// Each distinct text with the number of its repeats, the most frequent first: `a (6 of 10) and b (4 of 10)`. After
/// `most` texts the rest are counted, by the word `others`.
pub(super) fn tally(texts: &[String], most: usize, others: &str) -> String {
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
        parts.push(format!("{others} ({rest} of {})", texts.len()));
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
        assert_eq!(tally(&texts, 3, "others"), "b (2 of 4), a (1 of 4) and c (1 of 4)");
        assert_eq!(tally(&texts, 1, "others"), "b (2 of 4) and others (2 of 4)");
        assert_eq!(tally(&texts, 1, "elsewhere"), "b (2 of 4) and elsewhere (2 of 4)");
        assert_eq!(tally(&texts[1..3], 3, "others"), "b");
    }

    #[test]
    fn changes_of_both_signs_have_no_direction() {
        assert_eq!(direction(&[1.0, 0.0]), "rises");
        assert_eq!(direction(&[-1.0]), "falls");
        assert_eq!(direction(&[-1.0, 2.0]), "changes");
    }
}
