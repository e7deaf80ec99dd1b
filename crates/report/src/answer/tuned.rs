//! The best configuration of each method, such as its learning rate.

use base::text::format::number;

use super::evidence::Evidence;
use super::figures::Figures;
use super::naming::listed;
use super::sentence::Sentence;
use crate::group::Group;
use crate::markdown::{escape, line_code as code};
use crate::methods::{HELD_OUT, Method};

/// The configurations of one method that differ in one number, in its order.
struct Tuned<'g> {
    method: String,
    axis: &'g String,
    best: &'g Group,
    /// True if no smaller or no larger number was tried than the best one.
    is_at_edge: bool,
}

/// The value that gives each method its lowest held-out loss, in a study that tries several for each. A value at the
/// edge of what was tried may not be the best one.
pub(super) fn sentence(evidence: &Evidence<'_>) -> Option<Sentence> {
    let mut methods: Vec<String> = evidence.groups.iter().map(Method::name_of).collect();
    methods.sort();
    methods.dedup();
    let mut tuned: Vec<Tuned<'_>> = methods
        .into_iter()
        .filter_map(|method| tune(evidence, method))
        .collect();
    let loss = |tuned: &Tuned<'_>| tuned.best.mean(HELD_OUT).unwrap_or(f64::NAN);
    tuned.sort_by(|a, b| loss(a).total_cmp(&loss(b)));
    let axis = tuned.first()?.axis;
    if !evidence.losses.rank || tuned.len() < 2 || tuned.iter().any(|other| other.axis != axis) {
        return None;
    }
    let of = |tuned: &Tuned<'_>| {
        let value = &tuned.best.axes[axis];
        format!(
            "{} at {value} ({})",
            escape(&tuned.method),
            number(loss(tuned).into(), 3)
        )
    };
    let each: Vec<String> = tuned.iter().map(of).collect();
    let mut text = format!("The {} with the lowest held-out loss: {}.", code(axis), each.join(", "));
    let at_edge: Vec<String> = tuned
        .iter()
        .filter(|tuned| tuned.is_at_edge)
        .map(|tuned| escape(&tuned.method))
        .collect();
    if !at_edge.is_empty() {
        text += &format!(" At the edge of what was tried: {}.", listed(&at_edge));
    }
    Some(Sentence::about(
        text,
        Figures::Measured,
        tuned.iter().map(|tuned| tuned.best),
    ))
}

/// The best of a method's configurations, if there are several and they differ in one number alone.
fn tune<'g>(evidence: &Evidence<'g>, method: String) -> Option<Tuned<'g>> {
    let groups = evidence.groups.iter().filter(|group| Method::name_of(group) == method);
    let mut groups: Vec<&Group> = groups.filter(|group| group.mean(HELD_OUT).is_some()).collect();
    let varies = |axis: &&String| groups.iter().any(|group| group.axes[*axis] != groups[0].axes[*axis]);
    let varying: Vec<&String> = evidence.axes.iter().filter(varies).collect();
    let [axis] = varying[..] else {
        return None;
    };
    let value = |group: &Group| group.cells[0].number(axis);
    if groups.iter().any(|group| value(group).is_none()) {
        return None;
    }
    groups.sort_by(|a, b| value(a).unwrap_or_default().total_cmp(&value(b).unwrap_or_default()));
    let loss = |group: &Group| group.mean(HELD_OUT).unwrap_or(f64::INFINITY);
    let (at, best) = groups
        .iter()
        .enumerate()
        .min_by(|(_, a), (_, b)| loss(a).total_cmp(&loss(b)))?;
    Some(Tuned {
        method,
        axis,
        best,
        is_at_edge: at == 0 || at + 1 == groups.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{answers, cell, with};
    use crate::entry::Entry;

    fn trained(id: &str, adapter: &str, learning_rate: f64, loss: f64, forgetting: f64) -> Entry {
        cell(
            id,
            [
                ("status", "ok".into()),
                ("weights", "pretrained".into()),
                ("rank", 8_u64.into()),
                ("adapter", adapter.into()),
                ("learning_rate", learning_rate.into()),
                ("loss_eval", loss.into()),
                ("forgetting", forgetting.into()),
            ],
        )
    }

    fn sentences(cells: &[Entry]) -> Vec<String> {
        let sentences = answers(cells, &["adapter", "learning_rate"]).methods;
        sentences.into_iter().map(|sentence| sentence.text).collect()
    }

    #[test]
    fn each_method_has_its_best_value_and_an_edge_is_said() {
        let mut cells = vec![
            trained("a", "lora", 4e-3, 4.3, 0.1),
            trained("b", "lora", 2e-3, 4.4, 0.1),
            trained("c", "lora", 8e-3, 4.5, 0.2),
            trained("d", "dora", 2e-3, 4.4, 0.1),
            trained("e", "dora", 4e-3, 4.2, 0.3),
        ];
        assert_eq!(
            with(&sentences(&cells), "lowest held-out loss"),
            "The `learning_rate` with the lowest held-out loss: DoRA at 4e-3 (4.200), LoRA at 4e-3 (4.300). At the edge of \
             what was tried: DoRA."
        );
        assert_eq!(
            with(&sentences(&cells), "forgets least"),
            "LoRA, learning\\_rate 4e-3 forgets least: the loss on other data changes by 0.100; DoRA, learning\\_rate 4e-3 \
             forgets most, 0.300."
        );
        // One method has nothing to be compared with.
        cells.truncate(3);
        assert!(
            sentences(&cells)
                .iter()
                .all(|text| !text.contains("The `learning_rate` with"))
        );
    }
}
