//! Lists of a study's cells by the values of its axes.

use serde_json::Value;

use super::Format;
use crate::results::setting;
use crate::spec::Study;
use crate::text::Table;

/// A table of cells: the axes, and then `columns`.
pub(super) fn cell_table(study: &Study, columns: &[&str]) -> Table {
    let axes = study.axes.iter().map(String::as_str);
    let seed = study.shows_seeds().then_some("seed");
    let names = std::iter::once("cell_id").chain(axes).chain(seed);
    Table::new(names.chain(columns.iter().copied()))
}

/// The row of the cell at `index`, which ends with `values`.
pub(super) fn cell_row(
    study: &Study,
    index: usize,
    format: Format,
    values: impl IntoIterator<Item = Value>,
) -> Vec<Value> {
    let planned = &study.cells[index];
    let axis = |axis: &String| {
        let value = planned.axes.get(axis).cloned().unwrap_or_default();
        let (text, plain) = (setting(axis, &value.clone().into()), value.to_string());
        // A number stays a number, which is aligned to the right.
        if format == Format::Table && text != plain {
            text.into()
        } else {
            value
        }
    };
    let id = Value::from(planned.id.as_str());
    std::iter::once(id)
        .chain(study.axes.iter().map(axis))
        .chain(study.shows_seeds().then(|| planned.cell.seed.into()))
        .chain(values)
        .collect()
}
