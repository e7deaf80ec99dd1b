//! Studies that change one thing at a time.

use base::text::format::ABSENT;

use super::axes::last_part;
use super::group::Group;

/// The order of a study's changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// Each group keeps the changes of those before it.
    Cumulative,
    /// Each group differs from the first one alone.
    FromBase,
}

/// The axes that each group after the first one changes, and the order; `None` if the study is not of this kind. At
/// least two axes change, and no cumulative change takes an earlier one back.
pub(crate) fn changes(groups: &[&Group]) -> Option<(Order, Vec<Vec<String>>)> {
    let [first, ..] = groups else {
        return None;
    };
    let steps: Vec<Vec<String>> = groups.windows(2).map(|pair| differing(pair[0], pair[1])).collect();
    let from_base: Vec<Vec<String>> = groups[1..].iter().map(|group| differing(first, group)).collect();
    let all = || steps.iter().flatten();
    let is_once = all().all(|axis| all().filter(|other| *other == axis).count() == 1);
    if is_once && steps.len() > 1 && steps.iter().all(|step| !step.is_empty()) {
        return Some((Order::Cumulative, steps));
    }
    let changed: std::collections::BTreeSet<&String> = from_base.iter().flatten().collect();
    (changed.len() > 1 && from_base.iter().all(|step| step.len() == 1)).then_some((Order::FromBase, from_base))
}

fn differing(from: &Group, to: &Group) -> Vec<String> {
    let differs = |axis: &&String| from.axes[*axis] != to.axes[*axis];
    from.axes.keys().filter(differs).cloned().collect()
}

/// A change in words: `dtype float32 → bfloat16`.
pub(crate) fn words(from: &Group, to: &Group, axes: &[String]) -> String {
    let value = |group: &Group, axis: &String| match group.axes[axis].as_str() {
        ABSENT => "unset".to_owned(),
        value => value.to_owned(),
    };
    // Spaces that do not break keep a change on one line.
    let change = |axis: &String| {
        let words = format!("{} {} → {}", last_part(axis), value(from, axis), value(to, axis));
        words.replace(' ', "\u{a0}")
    };
    axes.iter().map(change).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charts::study;

    fn digit(n: u64) -> &'static str {
        ["0", "1", "2"][n as usize]
    }

    fn found(rows: &[[u64; 3]]) -> Option<(Order, Vec<String>)> {
        let rows: Vec<Vec<(&str, &str)>> = rows
            .iter()
            .map(|row| ["a", "b", "c"].into_iter().zip(row.map(digit)).collect())
            .collect();
        let groups = study(&rows, &["a", "b", "c"]);
        let groups: Vec<&Group> = groups.iter().collect();
        let (order, steps) = changes(&groups)?;
        Some((order, steps.into_iter().map(|step| step.concat()).collect()))
    }

    #[test]
    fn cumulative_changes_are_each_of_their_own_axes() {
        let rows = [[0, 0, 0], [1, 0, 0], [1, 1, 0], [1, 1, 1]];
        assert_eq!(
            found(&rows),
            Some((Order::Cumulative, vec!["a".into(), "b".into(), "c".into()]))
        );
        let two_keys = [[0, 0, 0], [1, 1, 0], [1, 1, 1]];
        assert_eq!(
            found(&two_keys),
            Some((Order::Cumulative, vec!["ab".into(), "c".into()]))
        );
    }

    #[test]
    fn changes_of_the_base_are_of_one_axis_each() {
        let rows = [[0, 0, 0], [1, 0, 0], [2, 0, 0], [0, 1, 0]];
        assert_eq!(
            found(&rows),
            Some((Order::FromBase, vec!["a".into(), "a".into(), "b".into()]))
        );
    }

    #[test]
    fn a_sweep_and_a_grid_are_neither() {
        assert_eq!(found(&[[0, 0, 0], [1, 0, 0], [2, 0, 0]]), None);
        assert_eq!(found(&[[0, 0, 0], [0, 1, 0], [1, 0, 0], [1, 1, 0]]), None);
        assert_eq!(found(&[[0, 0, 0], [1, 1, 0]]), None);
        assert_eq!(found(&[[0, 0, 0]]), None);
        assert_eq!(found(&[]), None);
    }
}
