//! Lists of a study's cells by the values of its axes.

use std::fmt::Write as _;

use base::text::{Table, to_flow_yaml};
use indexmap::IndexMap;
use results::setting;
use serde_json::Value;
use spec::{Study, StudyCell};

use super::Format;

/// A table of cells: the axes, and then `columns`.
pub(super) fn cell_table(study: &Study, columns: &[&str]) -> Table {
    let names = std::iter::once("cell_id").chain(axis_names(study));
    Table::new(names.chain(columns.iter().copied()))
}

/// The row of the cell at `index`, which ends with `values`.
pub(super) fn cell_row(
    study: &Study,
    index: usize,
    format: Format,
    values: impl IntoIterator<Item = Value>,
) -> Vec<Value> {
    let study_cell = &study.cells[index];
    let id = Value::from(study_cell.id.as_str());
    let axes = axis_cells(study, study_cell, format);
    std::iter::once(id).chain(axes).chain(values).collect()
}

/// The columns that tell cells apart.
pub(super) fn axis_names(study: &Study) -> impl Iterator<Item = &str> {
    let seed = study.shows_seeds().then_some("seed");
    study.axes.iter().map(String::as_str).chain(seed)
}

/// A cell's values in the columns that tell cells apart.
pub(super) fn axis_cells(study: &Study, study_cell: &StudyCell, format: Format) -> impl Iterator<Item = Value> {
    let axis = move |axis: &String| {
        let value = match format {
            Format::Table => study_cell.shown_axis(axis),
            _ => study_cell.axes.get(axis).cloned().unwrap_or_default(),
        };
        let (text, plain) = (setting(axis, &value.clone().into()), value.to_string());
        // A number stays a number, which is aligned to the right.
        if format == Format::Table && text != plain {
            text.into()
        } else {
            value
        }
    };
    let seed = study.shows_seeds().then(|| study_cell.cell.seed.into());
    study.axes.iter().map(axis).chain(seed)
}

/// The cell's values of the axes that it heeds: `rank 16`.
pub(super) fn axis_values(study_cell: &StudyCell) -> impl Iterator<Item = String> + '_ {
    study_cell
        .heeded_axes()
        .map(|(axis, _)| format!("{axis} {}", setting(axis, &study_cell.shown_axis(axis).into())))
}

/// The keys and values of a cell that names stand for, in lines of some width.
pub(super) fn configuration_for_people(configuration: &IndexMap<String, Value>) -> String {
    const WIDTH: usize = 77;
    let mut text = String::from("\nplanned with (change it with --set KEY=VALUE)\n");
    let mut line = String::new();
    for (key, value) in configuration {
        let setting = format!("{key}={}", to_flow_yaml(value));
        if !line.is_empty() && line.len() + setting.len() > WIDTH {
            let _ = writeln!(text, " {line}");
            line.clear();
        }
        let _ = write!(line, " {setting}");
    }
    let _ = writeln!(text, " {line}");
    text
}
