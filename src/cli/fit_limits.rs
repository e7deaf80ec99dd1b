//! The largest values of keys that fit, and the smallest GPUs, for people and for programs.

use base::text::format;
use base::text::{Table, to_flow_yaml};
use plan::advice::changes;
use plan::fit::{Bound, Found, Most};
use records::prediction::Prediction;
use serde_json::{Value, json};
use spec::Study;
use techniques::Harm;
use torch::gpu::Gpu;

use super::Format;
use super::prediction_view::may_not_fit;

/// The largest values of keys, or the smallest GPUs: the rows of each cell.
pub(super) struct Limits(pub Vec<Vec<LimitRow>>);

/// The largest value of a key, or the smallest GPU.
pub(super) struct LimitRow {
    /// The key.
    pub key: &'static str,
    /// The worst harm of the changes that may be made; `None` if none may.
    pub worst: Option<Harm>,
    /// The value, if one fits.
    pub limit: Option<Limit>,
}

/// A value that fits, with the cell that has it.
pub(super) struct Limit {
    value: Value,
    bound: Option<Bound>,
    found: Found,
}

impl From<Most> for Limit {
    fn from(most: Most) -> Self {
        Self {
            value: most.value.into(),
            bound: Some(most.bound),
            found: most.found,
        }
    }
}

impl From<(&'static Gpu, Found)> for Limit {
    fn from((gpu, found): (&'static Gpu, Found)) -> Self {
        Self {
            value: gpu.name.into(),
            bound: None,
            found,
        }
    }
}

impl Limits {
    /// A row for each limit.
    pub(super) fn render(&self, study: &Study, format: Format) -> String {
        const COLUMNS: [&str; 6] = ["cell_id", "key", "value", "changes allowed", "needed", "changes"];
        let programs = [
            "cell_id",
            "key",
            "value",
            "bound",
            "changes_allowed",
            "needed_bytes",
            "needed_low_bytes",
            "needed_high_bytes",
            "range_reason",
            "changes",
        ];
        let is_for_people = format == Format::Table;
        let mut table = if is_for_people {
            Table::new(COLUMNS)
        } else {
            Table::new(programs)
        };
        for (rows, study_cell) in self.0.iter().zip(&study.cells) {
            for LimitRow { key, worst, limit } in rows {
                let allowed = match worst {
                    None => "none",
                    Some(harm) if harm.keeps_results() => "that keep the results",
                    Some(_) => "all",
                };
                let bound = limit.as_ref().and_then(|limit| limit.bound);
                let value = limit.as_ref().map(|limit| match bound.and_then(reason) {
                    Some(reason) if is_for_people => json!(format!("{} ({reason})", to_flow_yaml(&limit.value))),
                    _ => limit.value.clone(),
                });
                let found = limit.as_ref().map(|limit| &limit.found);
                let needed = found.map(|found| match is_for_people {
                    true => json!(needed(&found.prediction)),
                    false => json!(found.prediction.needed_bytes),
                });
                let changes = found.map(|found| json!(changes(found).join(", ")));
                let absent = || {
                    if is_for_people {
                        json!("nothing fits")
                    } else {
                        Value::Null
                    }
                };
                let mut row = vec![json!(study_cell.id), json!(key), value.unwrap_or_else(absent)];
                row.extend((!is_for_people).then(|| json!(bound.map(Bound::name))));
                row.extend([json!(allowed), needed.unwrap_or_default()]);
                if !is_for_people {
                    let prediction = found.map(|found| &found.prediction);
                    row.extend([
                        json!(prediction.and_then(|prediction| prediction.needed_low_bytes)),
                        json!(prediction.and_then(|prediction| prediction.needed_high_bytes)),
                        json!(prediction.and_then(|prediction| prediction.range_reason.as_deref())),
                    ]);
                }
                row.push(changes.unwrap_or_default());
                table.rows.push(row);
            }
        }
        let text = format.render(&table);
        match is_for_people {
            true => text + "\nall figures are predicted\n",
            false => text,
        }
    }
}

/// `5.2 GiB`, or `5.2 GiB, may not fit` if the range goes beyond the budget.
fn needed(prediction: &Prediction) -> String {
    let bytes = format::bytes(prediction.needed_bytes.into());
    match may_not_fit(prediction) {
        true => format!("{bytes}, may not fit"),
        false => bytes,
    }
}

/// The reason why no larger value was found, if that is not the memory.
fn reason(bound: Bound) -> Option<&'static str> {
    match bound {
        Bound::Memory => None,
        Bound::Data => Some("the data has no more samples"),
        Bound::Model => Some("the model takes no more"),
        Bound::Tried => Some("no more was tried"),
        Bound::Cell => Some("more does not go with the other keys"),
    }
}
