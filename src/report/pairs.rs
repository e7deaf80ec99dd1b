//! Cells that are compared two by two: a profile with a training, and trainings that differ in their accumulation. What
//! lies between two peaks is split by category, so that the parts add up to the byte.

use serde::Serialize;

use super::axes::{key_columns, ran_on};
use super::entry::Entry;
use super::group::Group;
use crate::memory::Category;
use crate::results::columns::{category_column, profile_column};
use crate::results::setting;

/// What a training has and a profile cannot have, or what only says how much goes through the model at a time.
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

/// What trainings of equal micro-batches may differ in.
const ACCUMULATION: [&str; 3] = ["gradient_accumulation_steps", "max_steps", "num_train_epochs"];

/// Two cells and what lies between their peaks.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Pair {
    pub from: Entry,
    pub to: Entry,
    /// Keys whose values are not the same.
    pub differs: Vec<Difference>,
    /// Every category of tensors that held anything in either; their sums are the peaks.
    pub parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    pub key: String,
    pub from: String,
    pub to: String,
}

/// Live bytes of a category.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Part {
    pub category: &'static str,
    /// The profile's component; none where the first cell is no profile, or a profile has no such component.
    pub component: Option<f64>,
    /// At the instant of the first cell's peak.
    pub from: f64,
    /// At the instant of the second cell's peak.
    pub to: f64,
    /// `to - from`.
    pub rise: f64,
}

/// Each profile with each training that differs from it in [`FREE`] keys alone.
pub fn profiles(groups: &[Group]) -> Vec<Pair> {
    pairs(groups, |from, to, differs| {
        let measure = |cell: &Entry| cell.text("measure").map(str::to_string);
        measure(from).as_deref() == Some("profile")
            && measure(to).as_deref() == Some("epoch")
            && differs.iter().all(|difference| FREE.contains(&difference.key.as_str()))
    })
}

/// Each training with each other one that accumulates over more micro-batches, and is else the same.
pub fn accumulations(groups: &[Group]) -> Vec<Pair> {
    pairs(groups, |from, to, differs| {
        let steps = |cell: &Entry| cell.number("gradient_accumulation_steps");
        steps(from) < steps(to)
            && [from, to].iter().all(|cell| cell.text("measure") == Some("epoch"))
            && differs
                .iter()
                .all(|difference| ACCUMULATION.contains(&difference.key.as_str()))
    })
}

/// The pairs of groups that are wanted, each by its first cell that ended well.
fn pairs(groups: &[Group], wanted: impl Fn(&Entry, &Entry, &[Difference]) -> bool) -> Vec<Pair> {
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
                pairs.push(Pair {
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

fn differences(from: &Entry, to: &Entry) -> Vec<Difference> {
    let keys = key_columns(std::slice::from_ref(from));
    let differ = keys
        .into_iter()
        .filter(|key| !ran_on(key) && from.get(key) != to.get(key));
    differ
        .map(|key| Difference {
            from: setting(&key, from.get(&key)),
            to: setting(&key, to.get(&key)),
            key,
        })
        .collect()
}

/// Empty where a peak was not measured.
fn parts(from: &Entry, to: &Entry) -> Vec<Part> {
    let part = |category: Category| {
        let column = category_column(category.name());
        let component = from.number(&profile_column(category.name()));
        let (from, to) = (from.number(&column)?, to.number(&column)?);
        Some(Part {
            category: category.name(),
            component,
            from,
            to,
            rise: to - from,
        })
    };
    let tensors = Category::ALL.into_iter().filter(|category| category.is_tensor());
    let parts: Option<Vec<Part>> = tensors.map(part).collect();
    let held = |part: &Part| part.from + part.to + part.component.unwrap_or(0.0) > 0.0;
    parts.unwrap_or_default().into_iter().filter(held).collect()
}
