//! The columns of how a cell came into its study.

use cell::Cell;
use serde_json::Value as Json;
use spec::Lineage;

use super::kind::Kind;
use crate::datum::Datum;

/// The columns of how a cell came into its study. They follow those that identify a row.
///
/// `asked` has the keys that the spec leaves open, `found` what they came to, and `trials` the real steps that the
/// search took. `fallback_of` is the cell before this one on a ladder, and `fallback_step` the rung between them.
pub const LINEAGE: [(&str, Kind); 6] = [
    ("asked", Kind::Text),
    ("found", Kind::Text),
    ("trials", Kind::Int),
    ("trial_seconds", Kind::Float),
    ("fallback_of", Kind::Text),
    ("fallback_step", Kind::Text),
];

/// The value of the column `name` for a cell with this lineage.
pub fn lineage(name: &str, cell: &Cell, lineage: &Lineage) -> Datum {
    match (name, lineage) {
        ("asked", Lineage::Resolved(resolved)) => {
            let (open, _) = keys(&resolved.asked);
            values(&resolved.asked, open)
        }
        ("found", Lineage::Resolved(resolved)) => {
            let (_, closed) = keys(&resolved.asked);
            values(cell, closed)
        }
        ("trials", Lineage::Resolved(resolved)) => u64::from(resolved.trials.count).into(),
        ("trial_seconds", Lineage::Resolved(resolved)) => resolved.trials.seconds.into(),
        ("fallback_of", Lineage::Fallback(fallback)) => fallback.of.as_str().into(),
        ("fallback_step", Lineage::Fallback(fallback)) => fallback.step.name().into(),
        _ => Datum::Null,
    }
}

/// The key that is open in a cell, and those that are set for it.
fn keys(asked: &Cell) -> (&'static [&'static str], &'static [&'static str]) {
    match asked.auto_batch_size {
        Some(_) => (&["auto_batch_size"], &["batch_size", "gradient_accumulation_steps"]),
        None => (&["gradient_checkpointing"], &["gradient_checkpointing"]),
    }
}

/// `{batch_size: 4, gradient_accumulation_steps: 2}`.
fn values(cell: &Cell, keys: &[&str]) -> Datum {
    let values = keys.iter().map(|key| ((*key).to_owned(), cell.value(key)));
    Datum::flow(&Json::Object(values.collect()))
}
