//! The lowest held-out loss, and the least forgetting.

use base::text::format::number;

use super::evidence::Evidence;
use super::figures::Figures;
use super::naming::part;
use super::sentence::Sentence;
use crate::group::{Group, Stat};
use crate::markdown::line_code as code;
use crate::methods::{FORGETTING, HELD_OUT};

/// Digits behind the point.
const DECIMALS: usize = 3;

/// Smaller differences read as zero.
const EQUAL: f64 = 0.0005;

/// The difference that repeats of one configuration may have, in words; see [`Stat::is_beyond_noise`].
const NOISE: &str = "twice the spread over seeds";

/// True for an axis whose values are evaluated on other texts, tokens or lengths: their losses are no comparison.
fn changes_evaluation(axis: &str) -> bool {
    let key = axis.split('.').next().unwrap_or(axis);
    matches!(
        key,
        "model" | "data" | "eval_fraction" | "max_seq_length" | "task" | "num_labels"
    )
}

/// The losses of a column of which less is better.
struct Losses<'g> {
    /// The lowest of them, in words.
    lowest: &'static str,
    groups: Vec<(&'g Group, Stat)>,
}

/// The configuration with the lowest held-out loss of all, and for each axis the value with the lowest, all else equal;
/// the same for forgetting. Models with random weights have no losses that say something.
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
        let comparable = evidence.axes.iter().filter(|axis| !changes_evaluation(axis));
        let of_axes = comparable.filter_map(|axis| losses.by_axis(evidence, axis));
        let of_axes: Vec<Sentence> = of_axes.collect();
        let is_said = evidence.axes.len() == 1 && !of_axes.is_empty();
        let is_one_measure = evidence.axes.iter().all(|axis| !changes_evaluation(axis));
        let overall = losses.overall(evidence).filter(|_| is_one_measure && !is_said);
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
                let text = match evidence.axes.len() {
                    1 => format!("{} has {}, {compared}.", value(group), self.lowest),
                    _ => format!(
                        "Of the configurations that differ in {} alone, {} has {}, {compared}.",
                        code(axis),
                        value(group),
                        self.lowest
                    ),
                };
                Some(Sentence::about(text, Figures::Measured, [group, next]))
            }
            several => self.most_often(several, axis),
        }
    }

    /// The value that has the lowest loss in most of several sets.
    fn most_often(&self, sets: &[Vec<(&'g Group, Stat)>], axis: &str) -> Option<Sentence> {
        let mut wins: Vec<(String, Vec<Option<bool>>)> = Vec::new();
        for set in sets {
            let [(group, best), (_, next), ..] = set[..] else {
                continue;
            };
            if next.mean - best.mean < EQUAL {
                continue;
            }
            let (name, noise) = (code(&part(group, axis)), best.is_beyond_noise(next));
            match wins.iter_mut().find(|(known, _)| *known == name) {
                Some((_, found)) => found.push(noise),
                None => wins.push((name, vec![noise])),
            }
        }
        wins.sort_by_key(|(_, found)| std::cmp::Reverse(found.len()));
        let (name, found) = wins.first()?;
        // Two that win as often are no answer.
        if wins.get(1).is_some_and(|(_, others)| others.len() == found.len()) {
            return None;
        }
        let noise = match found.iter().flatten().count() {
            0 => "from single seeds, so the noise is not known".to_owned(),
            _ => {
                let beyond = found.iter().filter(|noise| **noise == Some(true)).count();
                format!("by more than {NOISE} in {beyond}")
            }
        };
        let text = format!(
            "{name} has {} in {} of {} comparisons that differ in {} alone, {noise}.",
            self.lowest,
            found.len(),
            sets.len(),
            code(axis),
        );
        let groups = sets.iter().flatten().map(|(group, _)| *group);
        Some(Sentence::about(text, Figures::Measured, groups))
    }

    fn sorted(&self, mut groups: Vec<(&'g Group, Stat)>) -> Vec<(&'g Group, Stat)> {
        groups.sort_by(|(_, a), (_, b)| a.mean.total_cmp(&b.mean));
        groups
    }

    /// `4.438: 0.268 less than X, more than twice the spread over seeds (0.008)`.
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
            Some(true) => format!("more than {NOISE} ({spread})"),
            Some(false) => format!("not more than {NOISE} ({spread})"),
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
    use results::datum::Datum;

    use super::super::testing::{cell, measured, with};
    use crate::entry::Entry;

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
            "`float32, rank 16` has the lowest held-out loss, 4.105: 0.305 less than `float32, rank 8`, more than twice the \
             spread over seeds (0.014)."
        );
        assert_eq!(
            with(&texts, "`dtype` alone, `float32` has the lowest held-out loss"),
            "Of the configurations that differ in `dtype` alone, `float32` has the lowest held-out loss, 4.410: 0.010 less \
             than `int4`, not more than twice the spread over seeds (0.014)."
        );
        assert!(
            with(&texts, "alone, `rank 16` has the lowest held-out loss").contains("4.105: 0.305 less than `rank 8`")
        );
    }

    #[test]
    fn wins_are_counted_without_ties() {
        let cells = [
            repeats("a", "float32", 8, &[4.40, 4.42]),
            repeats("b", "int4", 8, &[4.60, 4.62]),
            repeats("c", "float32", 16, &[4.10, 4.12]),
            repeats("d", "int4", 16, &[4.11, 4.13]),
            repeats("e", "float32", 32, &[4.0, 4.0]),
            repeats("f", "int4", 32, &[4.0, 4.0]),
        ]
        .concat();
        let texts = measured(&cells, &["dtype", "rank"]);
        assert_eq!(
            with(&texts, "differ in `dtype` alone"),
            "`float32` has the lowest held-out loss in 2 of 3 comparisons that differ in `dtype` alone, by more than twice \
             the spread over seeds in 1."
        );
    }

    #[test]
    fn losses_on_other_texts_are_not_compared() {
        let mut cells = [repeats("a", "float32", 8, &[4.40]), repeats("b", "float32", 8, &[4.2])].concat();
        cells[0].set("max_seq_length", 128_u64.into());
        cells[1].set("max_seq_length", 256_u64.into());
        let texts = measured(&cells, &["max_seq_length"]);
        assert!(texts.iter().all(|text| !text.contains("held-out")), "{texts:?}");
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
