//! Lists of a study's cells by what varies.

use serde_json::Value;

use super::{Format, Table};
use crate::results::setting;
use crate::spec::Study;

/// A table of cells: what varies, and then `columns`.
pub fn cell_table(study: &Study, columns: &[&str]) -> Table {
    let axes = study.axes.iter().map(String::as_str);
    let seed = study.shows_seeds().then_some("seed");
    let what_varies = std::iter::once("cell_id").chain(axes).chain(seed);
    Table::new(what_varies.chain(columns.iter().copied()))
}

pub fn cell_row(study: &Study, index: usize, format: Format, values: impl IntoIterator<Item = Value>) -> Vec<Value> {
    let planned = &study.cells[index];
    let axis = |axis: &String| {
        let value = planned.axes.get(axis).cloned().unwrap_or_default();
        let (text, plain) = (setting(axis, &value.clone().into()), value.to_string());
        // A number stays one, to be aligned as such.
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
