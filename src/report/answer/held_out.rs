//! The lowest held-out loss, and the least forgetting.

use super::evidence::Evidence;
use super::figures::Figures;
use super::naming::part;
use super::sentence::Sentence;
use crate::report::group::{Group, Stat};
use crate::report::markdown::line_code as code;
use crate::report::methods::{FORGETTING, HELD_OUT};
use crate::text::format::number;

/// Digits behind the point.
const DECIMALS: usize = 3;

/// Smaller differences read as zero.
const EQUAL: f64 = 0.0005;

/// The losses of a column of which less is better.
struct Losses<'g> {
    /// The lowest of them, in words.
    lowest: &'static str,
    groups: Vec<(&'g Group, Stat)>,
}

/// The configuration with the lowest held-out loss of all, and for each axis the value with the lowest, all else equal; the
/// same for forgetting. Models with random weights have no losses that say something.
pub(super) fn sentences(evidence: &Evidence<'_>) -> Vec<Sentence> {
    let columns = [
        (HELD_OUT, "the lowest held-out loss"),
        (FORGETTING, "the least forgetting"),
    ];
    let of_column = |(column, lowest)| {
        let groups = evidence.groups.iter();
        let trained = groups.filter(|group| group.cells[0].text("weights") != Some("random"));
        let known = trained.filter_map(|group| Some((group, Figures::Measured.stat(group, column)?)));
        let losses = Losses {
            lowest,
            groups: known.collect(),
        };
        let of_axes = evidence.axes.iter().filter_map(|axis| losses.by_axis(evidence, axis));
        let of_axes: Vec<Sentence> = of_axes.collect();
        let is_said = evidence.axes.len() == 1 && !of_axes.is_empty();
        let overall = losses.overall(evidence).filter(|_| !is_said);
        overall.into_iter().chain(of_axes).collect::<Vec<_>>()
    };
    columns.into_iter().flat_map(of_column).collect()
}

impl<'g> Losses<'g> {
    /// The configuration with the lowest loss, compared with the next.
    fn overall(&self, evidence: &Evidence<'_>) -> Option<Sentence> {
        let [(group, best), (next, second), ..] = self.sorted(self.groups.clone())[..] else {
            return None;
        };
        let (name, other) = (evidence.name(group), evidence.name(next));
        let text = format!("{name} has {}, {}.", self.lowest, self.compared(best, &other, second));
        Some(Sentence::about(text, Figures::Measured, [group, next]))
    }

    /// The value of an axis with the lowest loss among configurations that differ in it alone.
    fn by_axis(&self, evidence: &Evidence<'_>, axis: &String) -> Option<Sentence> {
        let mut sets: Vec<Vec<(&Group, Stat)>> = Vec::new();
        for &(group, stat) in &self.groups {
            let others = evidence.axes.iter().filter(|other| *other != axis);
            let is_alike = |set: &&mut Vec<(&Group, Stat)>| {
                others
                    .clone()
                    .all(|other| set[0].0.axes.get(other) == group.axes.get(other))
            };
            match sets.iter_mut().find(is_alike) {
                Some(set) => set.push((group, stat)),
                None => sets.push(vec![(group, stat)]),
            }
        }
        sets.retain(|set| set.len() > 1);
        let sets: Vec<_> = sets.into_iter().map(|set| self.sorted(set)).collect();
        let value = |group: &Group| code(&part(group, axis));
        match &sets[..] {
            [] => None,
            [set] => {
                let [(group, best), (next, second), ..] = set[..] else {
                    return None;
                };
                let compared = self.compared(best, &value(next), second);
                let elsewhere = if evidence.axes.len() > 1 {
                    ", all else equal"
                } else {
                    ""
                };
                let text = format!("{} has {}{elsewhere}, {compared}.", value(group), self.lowest);
                Some(Sentence::about(text, Figures::Measured, [group, next]))
            }
            several => {
                let mut wins: Vec<(String, usize)> = Vec::new();
                for set in several {
                    let name = value(set[0].0);
                    match wins.iter_mut().find(|(known, _)| *known == name) {
                        Some((_, count)) => *count += 1,
                        None => wins.push((name, 1)),
                    }
                }
                let (name, count) = wins.into_iter().reduce(|a, b| if b.1 > a.1 { b } else { a })?;
                let beyond = several
                    .iter()
                    .filter(|set| set[0].1.is_beyond_noise(set[1].1) == Some(true));
                let text = format!(
                    "{name} has {} in {count} of {} comparisons that differ in {} alone; in {} of them the lowest is beyond \
                     the spread over seeds.",
                    self.lowest,
                    several.len(),
                    code(axis),
                    beyond.count(),
                );
                let groups = several.iter().flatten().map(|(group, _)| *group);
                Some(Sentence::about(text, Figures::Measured, groups))
            }
        }
    }

    fn sorted(&self, mut groups: Vec<(&'g Group, Stat)>) -> Vec<(&'g Group, Stat)> {
        groups.sort_by(|(_, a), (_, b)| a.mean.total_cmp(&b.mean));
        groups
    }

    /// `4.438: 0.268 less than X, beyond the spread over seeds (0.008)`.
    fn compared(&self, best: Stat, other: &str, next: Stat) -> String {
        let value = |n: f64| number(n.into(), DECIMALS);
        let difference = next.mean - best.mean;
        let mean = value(best.mean);
        if difference < EQUAL {
            return format!("{mean}, and so has {other}");
        }
        let spread = value(spread(best, next));
        let noise = match best.is_beyond_noise(next) {
            None => "from single seeds, so the noise is not known".into(),
            Some(true) => format!("beyond the spread over seeds ({spread})"),
            Some(false) => format!("within the spread over seeds ({spread})"),
        };
        format!("{mean}: {} less than {other}, {noise}", value(difference))
    }
}

/// The larger deviation of two.
fn spread(one: Stat, other: Stat) -> f64 {
    one.deviation.unwrap_or(0.0).max(other.deviation.unwrap_or(0.0))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{cell, measured, with};
    use crate::report::entry::Entry;
    use crate::results::datum::Datum;

    /// Repeats of a configuration with these held-out losses.
    fn repeats(name: &str, dtype: &str, rank: u64, losses: &[f64]) -> Vec<Entry> {
        let repeat = |(seed, loss): (usize, &f64)| {
            let mut cell = cell(
                &format!("{name}{seed}"),
                [
                    ("status", "ok".into()),
                    ("dtype", dtype.into()),
                    ("rank", rank.into()),
                    ("weights", "pretrained".into()),
                    ("loss_eval", (*loss).into()),
                    ("forgetting", Datum::from(*loss / 10.0)),
                ],
            );
            cell.set("group_id", name.into());
            cell
        };
        losses.iter().enumerate().map(repeat).collect()
    }

    #[test]
    fn a_value_is_the_best_beyond_the_noise_or_within_it() {
        let cells = [
            repeats("a", "float32", 8, &[4.40, 4.42]),
            repeats("b", "int4", 8, &[4.41, 4.43]),
            repeats("c", "float32", 16, &[4.1, 4.11]),
        ]
        .concat();
        let texts = measured(&cells, &["dtype", "rank"]);
        assert_eq!(
            with(&texts, "`float32, rank 16` has the lowest held-out loss"),
            "`float32, rank 16` has the lowest held-out loss, 4.105: 0.305 less than `float32, rank 8`, beyond the spread \
             over seeds (0.014)."
        );
        assert_eq!(
            with(&texts, "`float32` has the lowest held-out loss, all else equal"),
            "`float32` has the lowest held-out loss, all else equal, 4.410: 0.010 less than `int4`, within the spread over \
             seeds (0.014)."
        );
        assert!(
            with(&texts, "`rank 16` has the lowest held-out loss, all").contains("4.105: 0.305 less than `rank 8`")
        );
    }

    #[test]
    fn one_axis_is_said_once_and_single_seeds_say_so() {
        let cells = [repeats("a", "float32", 8, &[4.4]), repeats("b", "int4", 8, &[4.3])].concat();
        let texts = measured(&cells, &["dtype"]);
        let loss: Vec<_> = texts.iter().filter(|text| text.contains("held-out")).collect();
        let expected = "`int4` has the lowest held-out loss, 4.300: 0.100 less than `float32`, from single seeds, so the noise \
                        is not known.";
        assert_eq!(loss, [expected]);
        assert!(with(&texts, "the least forgetting").contains("0.430: 0.010 less than"));
        let equal = [repeats("a", "float32", 8, &[4.4]), repeats("b", "int4", 8, &[4.4001])].concat();
        let texts = measured(&equal, &["dtype"]);
        assert!(with(&texts, "held-out").ends_with("4.400, and so has `int4`."));
    }
}
