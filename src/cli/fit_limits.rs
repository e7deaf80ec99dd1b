//! The largest values of keys that fit, and the smallest or fewest GPUs, for people and for programs.

use std::fmt::Write as _;

use base::text::format;
use base::text::{Table, to_flow_yaml};
use cell::Cell;
use indexmap::IndexSet;
use plan::advice::changes;
use plan::fit::{Bound, Found, Most};
use serde_json::{Value, json};
use spec::{Published, Study, StudyCell};
use techniques::Harm;
use torch::gpu::Gpu;

use super::Format;
use super::cells::{axis_values, configuration_for_people};
use super::plan_answer::subject;
use super::prediction_view::verdict;
use super::screen::wrapped;

/// The largest values of keys, or the smallest or fewest GPUs: the rows of each cell.
pub(super) struct Limits(pub Vec<Vec<LimitRow>>);

/// The largest value of a key, or the smallest GPU.
pub(super) struct LimitRow {
    /// The key.
    pub key: &'static str,
    /// The worst harm of the changes that may be made; `None` if none may.
    pub worst: Option<Harm>,
    /// The value, if one fits.
    pub limit: Option<Limit>,
    /// Bytes of its budget that stay free.
    pub headroom: u64,
}

/// A value that fits, with the cell that has it.
pub(super) struct Limit {
    value: Value,
    bound: Option<Bound>,
    found: Found,
}

impl Limit {
    /// The cell that has it.
    pub(super) fn cell(&self) -> &Cell {
        &self.found.cell
    }

    /// The value for people.
    fn shown(&self) -> String {
        match self.value.as_u64() {
            Some(number) => format::number((number as f64).into(), 0),
            None => to_flow_yaml(&self.value),
        }
    }

    /// What is set besides the key.
    fn settings(&self, key: &str) -> Vec<String> {
        let cell = self.cell();
        let of_sharing = match key == "world_size" && cell.world_size > 1 {
            true => &["distributed", "gradient_accumulation_steps"][..],
            false => &[],
        };
        let is_changed = |key: &str| self.found.keys().any(|(changed, _)| *changed == key);
        let unchanged = of_sharing.iter().filter(|key| !is_changed(key));
        let unchanged = unchanged.map(|key| format!("{key}: {}", to_flow_yaml(&cell.value(key))));
        unchanged.chain(changes(&self.found)).collect()
    }
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

impl From<(usize, Found)> for Limit {
    fn from((gpus, found): (usize, Found)) -> Self {
        Self {
            value: gpus.into(),
            bound: None,
            found,
        }
    }
}

impl Limits {
    /// A row for each limit.
    pub(super) fn render(&self, study: &Study, format: Format) -> String {
        match format {
            Format::Table => self.for_people(study),
            format => format.render(&self.for_programs(study)),
        }
    }

    fn for_people(&self, study: &Study) -> String {
        let mut text = String::new();
        for (rows, study_cell) in self.0.iter().zip(&study.cells) {
            if !text.is_empty() {
                text.push('\n');
            }
            let subject = std::iter::once(subject(&study_cell.cell)).chain(axis_values(study_cell));
            let subject = subject.collect::<Vec<_>>().join(" · ");
            let answers: Vec<String> = rows.chunk_by(|row, next| row.key == next.key).map(in_short).collect();
            let _ = writeln!(text, "{}", wrapped(&format!("{subject}: {}", answers.join("; ")), 2));
            let mut last = "";
            for row in rows {
                if row.key != last {
                    let published = published(study, study_cell, row.key);
                    let _ = writeln!(text, "\n{}{published}", row.question());
                    last = row.key;
                }
                let line = wrapped(&format!("  {}", row.answer()), 6);
                let _ = writeln!(text, "{line}");
            }
            let notes: IndexSet<&String> = rows.iter().flat_map(LimitRow::notes).collect();
            for (index, note) in notes.into_iter().enumerate() {
                let gap = if index == 0 { "\n" } else { "" };
                let _ = writeln!(text, "{gap}{}", wrapped(&format!("note: {note}"), 2));
            }
            if let Some(configuration) = study.named_configuration() {
                text += &configuration_for_people(&configuration);
            }
            let _ = writeln!(text, "\ncell {}; all figures are predicted", study_cell.id);
        }
        text
    }

    fn for_programs(&self, study: &Study) -> Table {
        let mut table = Table::new([
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
            "notes",
        ]);
        for (rows, study_cell) in self.0.iter().zip(&study.cells) {
            for row in rows {
                let limit = row.limit.as_ref();
                let prediction = limit.map(|limit| &limit.found.prediction);
                let changes = limit.map(|limit| limit.settings(row.key).join(", "));
                table.rows.push(vec![
                    json!(study_cell.id),
                    json!(row.key),
                    json!(limit.map(|limit| &limit.value)),
                    json!(limit.and_then(|limit| limit.bound).map(Bound::name)),
                    json!(row.allowed()),
                    json!(prediction.map(|prediction| prediction.needed_bytes)),
                    json!(prediction.and_then(|prediction| prediction.needed_low_bytes)),
                    json!(prediction.and_then(|prediction| prediction.needed_high_bytes)),
                    json!(prediction.and_then(|prediction| prediction.range_reason.as_deref())),
                    json!(changes),
                    json!(row.notes().join("; ")),
                ]);
            }
        }
        table
    }
}

impl LimitRow {
    /// The changes that may be made.
    fn allowed(&self) -> &'static str {
        match self.worst {
            None => "none",
            Some(harm) if harm.keeps_results() => "that keep the results",
            Some(_) => "formats and algorithms",
        }
    }

    fn question(&self) -> String {
        match self.key {
            "gpu" => "the smallest GPU that is enough".into(),
            "world_size" => "the fewest GPUs that are enough".into(),
            key => format!("the largest {key} that fits"),
        }
    }

    /// The changes that may be made, in a sentence.
    fn with(&self) -> &'static str {
        match self.worst {
            None => "as it is",
            Some(harm) if harm.keeps_results() => "with changes that keep the results",
            Some(_) => "with changes of formats and algorithms",
        }
    }

    /// The value, with the changes that it needs and what it comes to.
    fn answer(&self) -> String {
        let with = self.with();
        let Some(limit) = &self.limit else {
            return format!("{with}: none");
        };
        let Found { prediction, .. } = &limit.found;
        let (needed, verdict) = (
            format::bytes(prediction.needed_bytes.into()),
            verdict(prediction, self.headroom).0,
        );
        let mut text = format!("{with}: {}, {needed}, {verdict}", limit.shown());
        let changes = limit.settings(self.key);
        if !changes.is_empty() {
            let _ = write!(text, ", by {}", changes.join(", "));
        }
        if let Some(reason) = limit.bound.and_then(reason) {
            let _ = write!(text, "; {reason}");
        }
        text
    }

    /// The notes on the value.
    fn notes(&self) -> &[String] {
        self.limit.as_ref().map_or(&[], |limit| &limit.found.prediction.notes)
    }
}

/// The answers of one key in short: the value as the cell is, and those with changes that are better.
fn in_short(rows: &[LimitRow]) -> String {
    let value = |row: &LimitRow| row.limit.as_ref().map(Limit::shown);
    let Some((given, changed)) = rows.split_first() else {
        return String::new();
    };
    let as_it_is = value(given);
    let mut text = match (&as_it_is, given.key) {
        (Some(gpu), "gpu") => format!("{gpu} is the smallest GPU that is enough"),
        (None, "gpu") => "no GPU is enough".into(),
        (Some(count), "world_size") if count == "1" => "1 GPU is enough".into(),
        (Some(count), "world_size") => format!("{count} GPUs are enough"),
        (None, "world_size") => "64 GPUs are not enough as it is".into(),
        (Some(value), key) => format!("the largest {key} that fits is {value}"),
        (None, key) => format!("no {key} fits as it is"),
    };
    let mut last = as_it_is;
    for row in changed {
        let value = value(row);
        if let Some(value) = value.as_ref().filter(|_| value != last) {
            let or = if last.is_some() { ", or" } else { ";" };
            let _ = write!(text, "{or} {value} {}", row.with());
        }
        last = value.or(last);
    }
    text
}

/// What a source says is the largest value of a key that fits in a cell, if one does.
fn published(study: &Study, study_cell: &StudyCell, key: &str) -> String {
    let is_its = |published: &Published| {
        published.largest.is_some_and(|largest| largest.name() == key) && study_cell.has(&published.cell)
    };
    match study.published.iter().any(is_its) {
        true => format!(" (published: {})", study_cell.cell.value(key)),
        false => String::new(),
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
