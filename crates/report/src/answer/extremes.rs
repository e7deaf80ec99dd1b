//! The cheapest and the dearest configuration.

use base::text::format::{bytes, number};

use super::evidence::Evidence;
use super::figures::{ALLOCATED, Figures};
use super::sentence::Sentence;
use crate::group::{Group, Stat};

/// Columns of memory, and the words for them. The first is exact; the others matter where it hardly differs, as in a
/// study of allocators.
pub(super) const MEMORY: [(&str, &str); 3] = [
    (ALLOCATED, "allocated memory"),
    ("reserved_peak_bytes", "memory that the allocator holds"),
    ("process_peak_bytes", "memory of the process"),
];

/// A smaller ratio of the dearest to the cheapest is no reason to choose one.
const NOTABLE: f64 = 1.02;

/// The first column of memory with a notable difference between these configurations that is no noise, and the words
/// for it.
pub(super) fn telling_memory(groups: &[&Group], figures: Figures) -> Option<(&'static str, &'static str)> {
    let tells = |(column, _): &(&str, &str)| {
        let known: Vec<&Group> = groups
            .iter()
            .copied()
            .filter(|group| figures.mean(group, column).is_some_and(|n| n > 0.0))
            .collect();
        let extremes = Extremes::of(&known, figures, column);
        extremes.is_some_and(|extremes| extremes.ratio() >= NOTABLE && !extremes.is_noise())
    };
    MEMORY.into_iter().find(tells)
}

/// The cheapest and the dearest configuration in allocated memory, or else in what the allocator and the process hold.
/// `name` writes the configurations.
pub(super) fn sentences(evidence: &Evidence<'_>, figures: Figures, name: impl Fn(&Group) -> String) -> Vec<Sentence> {
    let known: Vec<&Group> = having(evidence, figures, ALLOCATED);
    let (Some(first), Some(extremes)) = (known.first(), Extremes::of(&known, figures, ALLOCATED)) else {
        return Vec::new();
    };
    let (column, words) = MEMORY[0];
    if known.len() == 1 {
        let kind = figures.peak();
        let text = format!("The {kind} of {words} is {}.", bytes(extremes.least.into()));
        return vec![Sentence::about(text, figures, [*first])];
    }
    if extremes.ratio() >= NOTABLE {
        return extremes.sentence(&name, figures, column, words).into_iter().collect();
    }
    let peak = bytes(extremes.most.mean.into());
    let text = match (extremes.ratio() > 1.0, figures) {
        (false, Figures::Measured) => format!("All peaks of allocated memory are equal, {peak}."),
        (false, Figures::Predicted) => format!("All predicted peaks of allocated memory are equal, {peak}."),
        (true, Figures::Measured) => {
            format!("The peaks of allocated memory differ by less than 2%; the highest is {peak}.")
        }
        (true, Figures::Predicted) => {
            format!("The predicted peaks of allocated memory differ by less than 2%; the highest is {peak}.")
        }
    };
    let others = MEMORY[1..].iter().filter_map(|(column, words)| {
        let known = having(evidence, figures, column);
        Extremes::of(&known, figures, column)?.sentence(&name, figures, column, words)
    });
    let first = Sentence::about(text, figures, known.iter().copied());
    std::iter::once(first).chain(others).collect()
}

fn having<'g>(evidence: &Evidence<'g>, figures: Figures, column: &str) -> Vec<&'g Group> {
    let groups = evidence.groups.iter();
    groups
        .filter(|group| figures.mean(group, column).is_some_and(|n| n > 0.0))
        .collect()
}

/// The lowest and the highest of a column.
struct Extremes<'g> {
    low: &'g Group,
    high: &'g Group,
    least: Stat,
    most: Stat,
}

impl<'g> Extremes<'g> {
    fn of(groups: &[&'g Group], figures: Figures, column: &str) -> Option<Self> {
        let at = |group: &Group| figures.mean(group, column).unwrap_or_default();
        let low = groups.iter().min_by(|a, b| at(a).total_cmp(&at(b)))?;
        // The first of equals, as for the lowest.
        let high = groups.iter().rev().max_by(|a, b| at(a).total_cmp(&at(b)))?;
        Some(Self {
            low,
            high,
            least: figures.stat(low, column)?,
            most: figures.stat(high, column)?,
        })
    }

    fn ratio(&self) -> f64 {
        self.most.mean / self.least.mean
    }

    /// True if repeats of the two overlap.
    fn is_noise(&self) -> bool {
        self.least.max >= self.most.min
    }

    fn sentence(
        &self,
        name: impl Fn(&Group) -> String,
        figures: Figures,
        column: &str,
        words: &str,
    ) -> Option<Sentence> {
        if self.ratio() <= 1.0 {
            return None;
        }
        let kind = figures.peak();
        let mut text = format!(
            "Cheapest is {} with a {kind} of {} of {words}; dearest is {} with {}, {} times as much.",
            name(self.low),
            bytes(self.least.into()),
            name(self.high),
            bytes(self.most.into()),
            number(self.ratio().into(), 2),
        );
        if figures == Figures::Measured {
            if self.is_noise() {
                text += " Repeats differ by as much, so this is noise.";
            } else if column != ALLOCATED && (self.least.n == 1 || self.most.n == 1) {
                // Allocated memory is counted, so a run of it is as good as several.
                text += " Each is a single run.";
            }
        }
        Some(Sentence::about(text, figures, [self.low, self.high]))
    }
}
