//! Groups: cells that differ in the seed alone, as one line of a report.

use std::collections::BTreeSet;

use base::text::format::Quantity;
use indexmap::IndexMap;
use options::Stack;
use results::columns::{Kind, PREDICTED, outcomes, predictions};
use results::setting;
use serde::Serialize;

use super::claims::Basis;
use super::entry::Entry;
use super::front::{Fronts, Place, front};

/// The statistic of a measured column over the repeats that ended well.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Stat {
    /// The mean.
    pub mean: f64,
    /// Sample standard deviation; `None` for a single value.
    pub deviation: Option<f64>,
    /// The lowest value.
    pub min: f64,
    /// The highest value.
    pub max: f64,
    /// The number of values.
    pub n: usize,
}

impl Stat {
    /// The statistic of these values; `None` without values.
    pub fn of(values: &[f64]) -> Option<Self> {
        if values.is_empty() {
            return None;
        }
        let n = values.len();
        let mean = values.iter().sum::<f64>() / n as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Some(Self {
            mean,
            deviation: (n > 1).then(|| (squares / (n - 1) as f64).sqrt()),
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            n,
        })
    }
}

/// Means that differ by more deviations than these do not differ by noise.
pub(super) const BEYOND_NOISE: f64 = 2.0;

impl Stat {
    /// True if two means differ by more than twice the larger deviation over repeats; `None` without repeats of both.
    pub fn is_beyond_noise(self, other: Self) -> Option<bool> {
        let deviation = self.deviation?.max(other.deviation?);
        Some((self.mean - other.mean).abs() > BEYOND_NOISE * deviation)
    }
}

impl From<Stat> for Quantity {
    fn from(stat: Stat) -> Self {
        Self {
            mean: stat.mean,
            deviation: stat.deviation,
        }
    }
}

/// One configuration with all its repeats.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Group {
    /// The values of the axes in short, such as `16 · int4`.
    pub label: String,
    /// The text of each axis' value.
    pub axes: IndexMap<String, String>,
    /// The rows; the first one represents the configuration.
    pub cells: Vec<Entry>,
    /// `ok`, another status, `not run`, or the number of each: `2 ok, 1 failed`.
    pub status: String,
    /// The number of repeats that ended well, which `stats` is over.
    pub ok: usize,
    /// Every measured column; `None` without a measurement.
    pub stats: IndexMap<String, Option<Stat>>,
    /// Every predicted column over all repeats, under its measured column's name; `None` without a prediction.
    pub predicted: IndexMap<String, Option<Stat>>,
    /// The mean of every measured column over the baseline's; `None` if either is missing.
    pub ratio: IndexMap<String, Option<f64>>,
    /// True for the group that the others are compared with.
    pub baseline: bool,
    /// Its places on the Pareto fronts.
    pub pareto: Fronts,
}

/// What a method leaves on disk.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct SavedFile {
    /// Its size.
    pub bytes: f64,
    /// True if the size is predicted: a checkpoint's follows from its shapes, and it is not written.
    pub is_predicted: bool,
}

impl Group {
    /// The stack of its cells.
    pub(crate) fn stack(&self) -> Stack {
        self.cells[0].stack()
    }

    /// What its figures rest on. `is_plan` is true in a report of predictions alone.
    pub(crate) fn basis(&self, is_plan: bool) -> Basis {
        Basis::of(self.stack(), self.cells[0].engine(), is_plan)
    }

    /// The file that training leaves: the adapter's, or the checkpoint of a model that is trained itself.
    pub(crate) fn file(&self) -> Option<SavedFile> {
        let measured = |bytes| SavedFile {
            bytes,
            is_predicted: false,
        };
        let predicted = self.predicted.get("checkpoint_file_bytes").copied().flatten();
        let predicted = predicted.filter(|_| self.ok > 0).map(|stat| SavedFile {
            bytes: stat.mean,
            is_predicted: true,
        });
        self.mean("adapter_file_bytes").map(measured).or(predicted)
    }

    /// The mean of a measured column.
    pub(crate) fn mean(&self, column: &str) -> Option<f64> {
        self.stats.get(column).copied().flatten().map(|stat| stat.mean)
    }
}

/// Groups rows by configuration, in the order of their first row.
pub(crate) fn groups(entries: &[Entry], axes: &[String]) -> Vec<Group> {
    let mut by_configuration: IndexMap<&str, Vec<Entry>> = IndexMap::new();
    for entry in entries {
        let id = entry.text("group_id").unwrap_or_default();
        by_configuration.entry(id).or_default().push(entry.clone());
    }
    let measured: Vec<String> = outcomes()
        .into_iter()
        .filter(|outcome| matches!(outcome.kind, Kind::Int | Kind::Float))
        .map(|outcome| outcome.name)
        .collect();
    let predicted: Vec<String> = predictions()
        .into_iter()
        .filter(|column| matches!(column.kind, Kind::Int | Kind::Float))
        .map(|column| column.name)
        .collect();
    by_configuration
        .into_values()
        .map(|cells| {
            let prediction = |column: &String| {
                let values: Vec<f64> = cells.iter().filter_map(|cell| cell.number(column)).collect();
                let name = column.strip_prefix(PREDICTED).unwrap_or(column);
                (name.to_owned(), Stat::of(&values))
            };
            let first = &cells[0];
            Group {
                label: label(first, axes),
                axes: axes
                    .iter()
                    .map(|axis| (axis.clone(), setting(axis, first.get(axis))))
                    .collect(),
                status: status(&cells),
                ok: ok(&cells).count(),
                stats: stats(&cells, &measured),
                predicted: predicted.iter().map(prediction).collect(),
                ratio: measured.iter().map(|column| (column.clone(), None)).collect(),
                baseline: false,
                pareto: Fronts::default(),
                cells,
            }
        })
        .collect()
}

/// For each seed, the groups with the repeat of that seed alone. A group that lacks the seed stays whole, and `ratio`
/// and `pareto` stay those of the means. Empty if no group has repeats.
pub(crate) fn repeats(groups: &[Group]) -> Vec<Vec<Group>> {
    if groups.iter().all(|group| group.cells.len() < 2) {
        return Vec::new();
    }
    let cells = groups.iter().flat_map(|group| &group.cells);
    let seeds: BTreeSet<u64> = cells.filter_map(|cell| cell.get("seed").as_int()).collect();
    let alone = |seed: u64| groups.iter().map(|group| of_seed(group, seed)).collect();
    seeds.into_iter().map(alone).collect()
}

fn of_seed(group: &Group, seed: u64) -> Group {
    let is_seeds = |cell: &&Entry| cell.get("seed").as_int() == Some(seed);
    let cells: Vec<Entry> = group.cells.iter().filter(is_seeds).cloned().collect();
    if cells.is_empty() {
        return group.clone();
    }
    Group {
        status: status(&cells),
        ok: ok(&cells).count(),
        stats: stats(&cells, group.stats.keys()),
        cells,
        ..group.clone()
    }
}

fn ok(cells: &[Entry]) -> impl Iterator<Item = &Entry> {
    cells.iter().filter(|cell| cell.is_ok())
}

fn stats<'c>(cells: &[Entry], columns: impl IntoIterator<Item = &'c String>) -> IndexMap<String, Option<Stat>> {
    let stat = |column: &String| {
        let values: Vec<f64> = ok(cells).filter_map(|cell| cell.number(column)).collect();
        (column.clone(), Stat::of(&values))
    };
    columns.into_iter().map(stat).collect()
}

fn label(first: &Entry, axes: &[String]) -> String {
    match axes {
        [] => first.text("model").unwrap_or_default().to_string(),
        [axis] => {
            let name = axis.rsplit('.').next().unwrap_or(axis);
            format!("{name} {}", setting(axis, first.get(axis)))
        }
        _ => {
            let values: Vec<String> = axes.iter().map(|axis| setting(axis, first.get(axis))).collect();
            values.join(" · ")
        }
    }
}

fn status(cells: &[Entry]) -> String {
    let mut counts: IndexMap<&str, usize> = IndexMap::new();
    for cell in cells {
        *counts.entry(cell.text("status").unwrap_or("not run")).or_default() += 1;
    }
    if counts.len() == 1 {
        return counts.keys().copied().collect();
    }
    let parts: Vec<String> = counts.iter().map(|(status, n)| format!("{n} {status}")).collect();
    parts.join(", ")
}

/// Sets the ratio of every group to the baseline: the wanted group, or the first one with an ok cell.
pub(crate) fn compare_with_baseline(groups: &mut [Group], wanted: Option<&str>) {
    let found = match wanted {
        Some(id) => groups
            .iter()
            .position(|group| group.cells[0].text("group_id") == Some(id)),
        None => groups.iter().position(|group| group.ok > 0),
    };
    let Some(found) = found else {
        return;
    };
    groups[found].baseline = true;
    let stats = groups[found].stats.clone();
    for group in groups {
        let ratio = |(column, stat): (&String, &Option<Stat>)| {
            let base = stats.get(column).copied().flatten().map(|stat| stat.mean);
            let ratio = stat
                .zip(base)
                .filter(|(_, base)| *base != 0.0)
                .map(|(stat, base)| stat.mean / base);
            (column.clone(), ratio)
        };
        group.ratio = group.stats.iter().map(ratio).collect();
    }
}

/// Sets the places of all groups on the Pareto fronts of this loss.
pub(crate) fn mark_pareto(groups: &mut [Group], loss: &str) {
    let repeats = repeats(groups);
    let memory = places(groups, &repeats, |group| {
        group.mean("allocated_peak_bytes").zip(group.mean(loss))
    });
    let file = places(groups, &repeats, |group| {
        group.file().map(|file| file.bytes).zip(group.mean(loss))
    });
    for ((group, memory), file) in groups.iter_mut().zip(memory).zip(file) {
        group.pareto = Fronts { memory, file };
    }
}

fn places(groups: &[Group], repeats: &[Vec<Group>], at: impl Fn(&Group) -> Option<(f64, f64)>) -> Vec<Place> {
    let of = |groups: &[Group]| front(&groups.iter().map(&at).collect::<Vec<_>>());
    let mut places: Vec<Place> = of(groups)
        .into_iter()
        .map(|on| Place {
            on,
            seeds: 0,
            of: repeats.len(),
        })
        .collect();
    for repeat in repeats {
        for (place, on) in places.iter_mut().zip(of(repeat)) {
            place.seeds += usize::from(on);
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use results::datum::Datum;

    use super::*;

    #[test]
    fn deviation_is_the_samples() {
        let stat = Stat::of(&[1.0, 2.0, 3.0, 4.0]).unwrap();
        assert_eq!((stat.mean, stat.n), (2.5, 4));
        assert!((stat.deviation.unwrap() - (5.0_f64 / 3.0).sqrt()).abs() < 1e-15);
        assert_eq!(Stat::of(&[7.0]).unwrap().deviation, None);
        assert_eq!(Stat::of(&[]), None);
    }

    #[test]
    fn a_place_is_counted_by_seeds() {
        let cell = |(id, peak, loss, seed): (&str, u64, f64, u64)| {
            let mut entry = Entry::default();
            entry.set("group_id", id.into());
            entry.set("status", "ok".into());
            entry.set("allocated_peak_bytes", Datum::Int(peak));
            entry.set("loss_eval", Datum::Float(loss));
            entry.set("seed", Datum::Int(seed));
            entry
        };
        // b needs more, and is better in the mean and with one of two seeds.
        let cells = [
            ("a", 1, 4.0, 0),
            ("a", 1, 4.0, 1),
            ("b", 2, 3.0, 0),
            ("b", 2, 4.5, 1),
            ("c", 3, 5.0, 0),
            ("c", 3, 5.0, 1),
        ];
        let mut groups = groups(&cells.map(cell), &[]);
        mark_pareto(&mut groups, "loss_eval");
        let places = [0, 1, 2].map(|at: usize| groups[at].pareto.memory);
        let place = |on, seeds| Place { on, seeds, of: 2 };
        assert_eq!(places, [place(true, 2), place(true, 1), place(false, 0)]);
        assert_eq!(places.map(Place::is_uncertain), [false, true, false]);
        assert!(groups.iter().all(|group| !group.pareto.file.on), "no file is known");
    }
}
