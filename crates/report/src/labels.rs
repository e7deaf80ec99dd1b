//! Short names of groups, by the axes in which they differ.

use std::collections::BTreeSet;

use base::text::format::ABSENT;

use super::axes::last_part;
use super::group::Group;

/// The most differences in a label: a table with longer ones is too wide to paste.
const MOST_DIFFERENCES: usize = 4;

/// The axes that name the groups of a chart.
///
/// A value stands for itself, and the subtitle says its axis. An axis that some groups leave unset stands with its
/// name, in the groups that set it.
pub(crate) struct Labels<'a> {
    axes: Vec<(&'a String, IsOptional)>,
    /// True if the only axis that always has a value needs its name.
    is_named: bool,
}

type IsOptional = bool;

impl<'a> Labels<'a> {
    /// Labels from the axes in which the groups differ. A failed group, which is not shown, may be the only different
    /// one.
    pub(crate) fn new(shown: &[&Group], axes: impl IntoIterator<Item = &'a String>) -> Self {
        let differing = axes.into_iter().filter(|axis| distinct(shown, axis) > 1);
        let axes: Vec<(&String, IsOptional)> = differing.map(|axis| (axis, is_optional(shown, axis))).collect();
        let always = axes.iter().filter(|(_, is_optional)| !is_optional).count();
        Self {
            is_named: always == 1,
            axes,
        }
    }

    /// True if the groups differ in none of the axes.
    pub(crate) fn is_empty(&self) -> bool {
        self.axes.is_empty()
    }

    /// The label of a group.
    pub(crate) fn of(&self, group: &Group) -> String {
        if self.axes.is_empty() {
            return group.label.clone();
        }
        self.of_set(group).unwrap_or_else(|| {
            let unset = self.axes.iter().map(|(axis, _)| format!("{} unset", last_part(axis)));
            unset.collect::<Vec<_>>().join(" · ")
        })
    }

    /// The label of a group; `None` if it leaves all axes unset.
    pub(crate) fn of_set(&self, group: &Group) -> Option<String> {
        let part = |(axis, is_optional): &(&String, IsOptional)| {
            let value = &group.axes[*axis];
            match is_optional {
                true if is_unset(value) => None,
                false if !self.is_named => Some(value.clone()),
                _ => Some(format!("{} {value}", last_part(axis))),
            }
        };
        let parts: Vec<String> = self.axes.iter().filter_map(part).collect();
        match &parts[..] {
            [] => None,
            [part] => Some(part.clone()),
            // Spaces that do not break keep a name with its value.
            _ => Some(
                parts
                    .iter()
                    .map(|part| part.replace(' ', "\u{a0}"))
                    .collect::<Vec<_>>()
                    .join(" · "),
            ),
        }
    }

    /// The sentence that names the axes of bare values, after another sentence; empty if there are none.
    pub(crate) fn explained(&self) -> String {
        let bare = self
            .axes
            .iter()
            .filter(|(_, is_optional)| !is_optional && !self.is_named);
        let names: Vec<&str> = bare.map(|(axis, _)| last_part(axis)).collect();
        if names.is_empty() {
            return String::new();
        }
        format!(" Labels: {}.", names.join(" · "))
    }
}

/// True if some of the groups leave the axis unset.
pub(crate) fn is_optional(shown: &[&Group], axis: &str) -> bool {
    shown.iter().any(|group| is_unset(&group.axes[axis]))
}

fn is_unset(value: &str) -> bool {
    value == ABSENT || value == "unset"
}

/// The number of different values of an axis.
pub(crate) fn distinct(shown: &[&Group], axis: &str) -> usize {
    let values: BTreeSet<&String> = shown.iter().map(|group| &group.axes[axis]).collect();
    values.len()
}

/// What differs from the base, by name: `attn_implementation: sdpa`; empty for the base.
pub(crate) fn differences(group: &Group, base: Option<&Group>, axes: &[String]) -> Vec<String> {
    let differs = |axis: &&String| base.is_some_and(|base| base.axes.get(*axis) != group.axes.get(*axis));
    let part = |axis: &String| format!("{}: {}", last_part(axis), group.axes[axis]);
    let differing: Vec<&String> = axes.iter().filter(differs).collect();
    // A key that the configuration does not heed says nothing beside others.
    let heeded = differing.iter().filter(|axis| group.axes[**axis] != ABSENT);
    let heeded: Vec<String> = heeded.map(|axis| part(axis)).collect();
    match heeded.is_empty() {
        false => heeded,
        true => differing.into_iter().map(part).collect(),
    }
}

/// The differences as a label, the first of them if there are many.
pub(crate) fn difference_label(differences: &[String]) -> String {
    match differences.len() {
        0 => "base".to_owned(),
        n if n > MOST_DIFFERENCES => {
            let (first, more) = differences.split_at(MOST_DIFFERENCES);
            format!("{} and {} more", first.join(", "), more.len())
        }
        _ => differences.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::difference_label as label;

    #[test]
    fn a_label_has_the_first_of_many_differences() {
        let differences = ["a: 1", "b: 2", "c: 3", "d: 4", "e: 5", "f: 6"].map(str::to_owned);
        assert_eq!(label(&[]), "base");
        assert_eq!(label(&differences[..4]), "a: 1, b: 2, c: 3, d: 4");
        assert_eq!(label(&differences), "a: 1, b: 2, c: 3, d: 4 and 2 more");
    }
}
