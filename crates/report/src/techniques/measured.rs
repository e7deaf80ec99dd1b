//! Measured savings and prices of a technique: two configurations of one study that differ in its keys alone.

use std::collections::BTreeSet;

use cell::Cell;
use options::Stack;
use results::columns::{is_of_free_map, is_optional, key_kinds};
use results::setting;
use serde_json::json;
use techniques::Technique;

use super::super::entry::Entry;
use super::super::group::{Group, groups};
use super::super::speeds::{self, Speed};

/// The rows of a study's frame.
#[derive(Debug)]
pub struct StudyRows {
    /// The study's name.
    pub name: String,
    /// The cells.
    pub rows: Vec<Entry>,
}

/// Two configurations of a study, measured: the one that needs more memory, and the one that needs less.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Saving {
    /// The study.
    pub study: String,
    /// The technique's key in both: `none → full`.
    pub change: String,
    /// Peak memory of both, in bytes.
    pub bytes: [f64; 2],
    /// The time a token of the second over that of the first; `None` if a speed is too noisy to compare.
    pub slower: Option<f64>,
}

impl Saving {
    /// The saved part of the first peak.
    pub(super) fn share(&self) -> f64 {
        1.0 - self.bytes[1] / self.bytes[0]
    }
}

/// The largest measured saving of each study, in the order of the studies.
pub(super) fn savings(technique: &Technique, studies: &[StudyRows]) -> Vec<Saving> {
    studies.iter().filter_map(|study| of_study(technique, study)).collect()
}

fn of_study(technique: &Technique, study: &StudyRows) -> Option<Saving> {
    let ran: Vec<Entry> = study
        .rows
        .iter()
        .filter(|row| row.is_ok() && row.stack() == Stack::Candle)
        .cloned()
        .collect();
    let keys = keys(&ran);
    let groups = groups(&ran, &[]);
    let speed = speeds::speeds(&groups).of;
    let column = match technique.is_of_tensors {
        true => "allocated_peak_bytes",
        false => "process_peak_bytes",
    };
    let mut best: Option<Saving> = None;
    for (index, one) in groups.iter().enumerate() {
        for other in &groups[index + 1..] {
            let differing = differing(one, other, &keys);
            if !is_alone(technique, one, other, &differing) {
                continue;
            }
            let (Some(bytes), Some(others)) = (one.mean(column), other.mean(column)) else {
                continue;
            };
            let (without, with, bytes) = match bytes >= others {
                true => (one, other, [bytes, others]),
                false => (other, one, [others, bytes]),
            };
            let saving = Saving {
                study: study.name.clone(),
                change: format!(
                    "{} → {}",
                    values(technique, without, &differing),
                    values(technique, with, &differing)
                ),
                bytes,
                slower: slower(without, with, speed),
            };
            if best.as_ref().is_none_or(|best| saving.share() > best.share()) {
                best = Some(saving);
            }
        }
    }
    best
}

/// The columns of the configuration but the seed, those of free names included.
fn keys(rows: &[Entry]) -> BTreeSet<String> {
    let known = key_kinds().into_iter().filter_map(|(name, kind)| kind.map(|_| name));
    let is_free = |column: &&str| is_of_free_map(column);
    let free = rows.first().into_iter().flat_map(Entry::columns).filter(is_free);
    let free: Vec<String> = free.map(str::to_owned).collect();
    known.chain(free).filter(|key| key != "seed").collect()
}

/// The keys in which two configurations differ.
fn differing<'k>(one: &Group, other: &Group, keys: &'k BTreeSet<String>) -> Vec<&'k str> {
    let (one, other) = (&one.cells[0], &other.cells[0]);
    let differs = |key: &&str| {
        let (a, b) = (one.get(key), other.get(key));
        // Elsewhere null says that the key does not apply.
        a != b && (is_optional(key) || !(a.is_null() || b.is_null()))
    };
    keys.iter().map(String::as_str).filter(differs).collect()
}

/// True if the technique's key differs, and no other but those that follow it, in the way in which they follow.
fn is_alone(technique: &Technique, one: &Group, other: &Group, differing: &[&str]) -> bool {
    let is_changed = differing.iter().any(|key| is_below(key, technique.key));
    let is_own = |key: &&str| technique.keys().any(|own| is_below(key, own));
    is_changed && differing.iter().all(is_own) && follows(technique, &one.cells[0], &other.cells[0])
}

/// True for a key, and for a key of the map that it names.
fn is_below(key: &str, of: &str) -> bool {
    key.strip_prefix(of)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// True if the keys that follow have the values that the technique gives them: a smaller batch has more accumulation.
fn follows(technique: &Technique, one: &Entry, other: &Entry) -> bool {
    let cell = |row: &Entry| {
        let mut given = technique.keys().filter(|key| !row.get(key).is_null());
        given.try_fold(Cell::default(), |cell, key| cell.with(key, &json!(row.get(key))))
    };
    let (Some(from), Some(to)) = (cell(one), cell(other)) else {
        return technique.follows.is_empty();
    };
    let changed = technique.changed(&from, &to.value(technique.key));
    let is_known = |key: &&&str| !(one.get(key).is_null() || other.get(key).is_null());
    changed.is_some_and(|changed| {
        let mut known = technique.follows.iter().filter(is_known);
        known.all(|key| changed.value(key) == to.value(key))
    })
}

/// The values of the keys that differ; of those that follow, the accumulation alone, which keeps the effective batch.
fn values(technique: &Technique, group: &Group, differing: &[&str]) -> String {
    let shown = differing
        .iter()
        .filter(|key| is_below(key, technique.key) || **key == ACCUMULATION);
    let text = |key: &&str| {
        let value = setting(key, group.cells[0].get(key));
        match key.strip_prefix(technique.key).and_then(|rest| rest.strip_prefix('.')) {
            Some(part) => format!("{part}: {value}"),
            None => value,
        }
    };
    shown.map(text).collect::<Vec<_>>().join(" × ")
}

const ACCUMULATION: &str = "gradient_accumulation_steps";

fn slower(without: &Group, with: &Group, speed: Speed) -> Option<f64> {
    let is_quiet = |group: &Group| speeds::noise(group, speed).is_some_and(|noise| noise <= speeds::MOST_NOISE);
    let (before, after) = (without.mean(speed.column)?, with.mean(speed.column)?);
    (is_quiet(without) && is_quiet(with) && after > 0.0).then(|| before / after)
}

#[cfg(test)]
mod tests {
    use results::datum::Datum;
    use techniques::TECHNIQUES;

    use super::*;

    fn row(id: &str, checkpointing: &str, rank: u64, peak: u64, speed: f64) -> Entry {
        let values: [(&str, Datum); 9] = [
            ("group_id", id.into()),
            ("status", "ok".into()),
            ("stack", "candle".into()),
            ("gradient_checkpointing", checkpointing.into()),
            ("rank", rank.into()),
            ("allocated_peak_bytes", peak.into()),
            ("process_peak_bytes", peak.into()),
            ("tokens_per_second", speed.into()),
            ("step_seconds_spread", 0.01.into()),
        ];
        values
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }

    fn technique(key: &str) -> &'static Technique {
        TECHNIQUES.into_iter().find(|technique| technique.key == key).unwrap()
    }

    #[test]
    fn a_saving_is_of_two_cells_that_differ_in_its_key_alone() {
        let study = StudyRows {
            name: "s".into(),
            rows: vec![
                row("a", "none", 8, 1000, 300.0),
                row("b", "{every: 2}", 8, 700, 250.0),
                row("c", "full", 4, 200, 200.0),
                row("d", "full", 8, 400, 200.0),
            ],
        };
        let studies = [study];
        let found = savings(technique("gradient_checkpointing"), &studies);
        let expected = Saving {
            study: "s".into(),
            change: "none → full".into(),
            bytes: [1000.0, 400.0],
            slower: Some(1.5),
        };
        assert_eq!(found, [expected]);
        assert_eq!(savings(technique("rank"), &studies)[0].change, "8 → 4");
        assert_eq!(savings(technique("dtype"), &studies), []);
    }

    #[test]
    fn a_noisy_speed_is_no_price() {
        let mut noisy = row("b", "full", 8, 400, 200.0);
        noisy.set("step_seconds_spread", 0.3.into());
        let studies = [StudyRows {
            name: "s".into(),
            rows: vec![row("a", "none", 8, 1000, 300.0), noisy],
        }];
        assert_eq!(savings(technique("gradient_checkpointing"), &studies)[0].slower, None);
    }
}
