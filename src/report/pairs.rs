//! Pairs of cells: a profile with a training, and trainings that differ in their accumulation. The difference of two peaks
//! is split by category, and the parts add up to the byte.

use serde::Serialize;

use super::axes::{is_of_machine, key_columns};
use super::entry::Entry;
use super::group::Group;
use crate::memory::Category;
use crate::results::columns::{category_column, profile_column};
use crate::results::setting;

/// Keys that a profile cannot have, and keys of the size of a micro-batch.
const FREE: [&str; 11] = [
    "measure",
    "gradient_accumulation_steps",
    "max_steps",
    "num_train_epochs",
    "lr_scheduler_type",
    "warmup_ratio",
    "eval_fraction",
    "batch_size",
    "max_seq_length",
    "padding",
    "data",
];

/// Keys in which trainings of equal micro-batches may differ.
const ACCUMULATION: [&str; 3] = ["gradient_accumulation_steps", "max_steps", "num_train_epochs"];

/// Two cells and the difference of their peaks.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct CellPair {
    /// The first cell.
    pub from: Entry,
    /// The second cell.
    pub to: Entry,
    /// The keys whose values differ.
    pub differs: Vec<KeyDifference>,
    /// Every category of tensors that held bytes in either cell. The sums are the peaks.
    pub parts: Vec<CategoryChange>,
}

/// A key whose values differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct KeyDifference {
    /// The key.
    pub key: String,
    /// The first cell's value.
    pub from: String,
    /// The second cell's value.
    pub to: String,
}

/// The live bytes of a category in both cells.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct CategoryChange {
    /// The category's name.
    pub category: &'static str,
    /// The profile's component; `None` if the first cell is not a profile, or has no such component.
    pub component: Option<f64>,
    /// At the instant of the first cell's peak.
    pub from: f64,
    /// At the instant of the second cell's peak.
    pub to: f64,
    /// `to - from`.
    pub rise: f64,
}

/// Each profile with each training that differs from it in [`FREE`] keys alone.
pub(crate) fn profiles(groups: &[Group]) -> Vec<CellPair> {
    pairs(groups, |from, to, differs| {
        let measure = |cell: &Entry| cell.text("measure").map(str::to_string);
        measure(from).as_deref() == Some("profile")
            && measure(to).as_deref() == Some("epoch")
            && differs.iter().all(|difference| FREE.contains(&difference.key.as_str()))
    })
}

/// Each training with each other one that accumulates over more micro-batches and is otherwise equal.
pub(crate) fn accumulations(groups: &[Group]) -> Vec<CellPair> {
    pairs(groups, |from, to, differs| {
        let steps = |cell: &Entry| cell.number("gradient_accumulation_steps");
        steps(from) < steps(to)
            && [from, to].iter().all(|cell| cell.text("measure") == Some("epoch"))
            && differs
                .iter()
                .all(|difference| ACCUMULATION.contains(&difference.key.as_str()))
    })
}

/// The wanted pairs of groups. The first cell that ended well represents a group.
fn pairs(groups: &[Group], wanted: impl Fn(&Entry, &Entry, &[KeyDifference]) -> bool) -> Vec<CellPair> {
    let cells: Vec<&Entry> = groups
        .iter()
        .filter_map(|group| group.cells.iter().find(|cell| cell.is_ok()))
        .collect();
    let mut pairs = Vec::new();
    for to in &cells {
        for from in &cells {
            let differs = differences(from, to);
            let parts = parts(from, to);
            if !parts.is_empty() && wanted(from, to, &differs) {
                let (from, to) = ((*from).clone(), (*to).clone());
                pairs.push(CellPair {
                    from,
                    to,
                    differs,
                    parts,
                });
            }
        }
    }
    pairs
}

fn differences(from: &Entry, to: &Entry) -> Vec<KeyDifference> {
    let keys = key_columns(std::slice::from_ref(from));
    let differ = keys
        .into_iter()
        .filter(|key| !is_of_machine(key) && from.get(key) != to.get(key));
    differ
        .map(|key| KeyDifference {
            from: setting(&key, from.get(&key)),
            to: setting(&key, to.get(&key)),
            key,
        })
        .collect()
}

/// The peaks by category; empty if a peak was not measured.
fn parts(from: &Entry, to: &Entry) -> Vec<CategoryChange> {
    let part = |category: Category| {
        let column = category_column(category.name());
        let component = from.number(&profile_column(category.name()));
        let (from, to) = (from.number(&column)?, to.number(&column)?);
        Some(CategoryChange {
            category: category.name(),
            component,
            from,
            to,
            rise: to - from,
        })
    };
    let tensors = Category::ALL.into_iter().filter(|category| category.is_tensor());
    let parts: Option<Vec<CategoryChange>> = tensors.map(part).collect();
    let held = |part: &CategoryChange| part.from + part.to + part.component.unwrap_or(0.0) > 0.0;
    parts.unwrap_or_default().into_iter().filter(held).collect()
}
