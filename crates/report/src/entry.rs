//! The rows of a frame, for templates and charts.

use cell::{Cell, Deciding};
use indexmap::IndexMap;
use options::{Engine, Stack};
use polars_core::prelude::{DataFrame, PolarsError};
use results::columns::PLANNED;
use results::datum::Datum;
use serde::Serialize;

/// One row: a value for each column of the frame, in its order.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Entry(IndexMap<String, Datum>);

impl Entry {
    /// The value of a column; null if the frame lacks the column.
    pub fn get(&self, column: &str) -> &Datum {
        self.0.get(column).unwrap_or(&Datum::Null)
    }

    /// The value of a column of numbers.
    pub fn number(&self, column: &str) -> Option<f64> {
        self.get(column).as_number()
    }

    /// The value of a column of text.
    pub fn text(&self, column: &str) -> Option<&str> {
        self.get(column).as_text()
    }

    /// Replaces the value of a column.
    pub(super) fn set(&mut self, column: &str, value: Datum) {
        self.0.insert(column.to_owned(), value);
    }

    /// The names of the columns.
    pub fn columns(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// True if the key `path` can change anything in the cell. A key that it heeds is null if it is left open.
    pub(super) fn heeds(&self, path: &str) -> bool {
        self.deciding().heeds(path)
    }

    /// A cell with the keys that decide which others it heeds; one that is null has its default.
    fn deciding(&self) -> Cell {
        let known = Deciding::KEYS.iter().filter(|key| !self.get(key).is_null());
        let keys: IndexMap<_, _> = known.map(|key| (*key, self.get(key))).collect();
        let cell = serde_json::to_value(keys).and_then(serde_json::from_value);
        cell.unwrap_or_default()
    }

    /// The stack of the cell.
    pub fn stack(&self) -> Stack {
        match self.text("stack") {
            Some("torch") => Stack::Torch,
            _ => Stack::Candle,
        }
    }

    /// What runs the cell; `None` if it is planned alone.
    pub fn engine(&self) -> Option<Engine> {
        let named = self.text("engine").and_then(Engine::named);
        named.or(self.stack().default_engine())
    }

    /// True if the cell has a record: it ran, however it ended.
    pub fn ran(&self) -> bool {
        self.text("status").is_some_and(|status| status != PLANNED)
    }

    /// True if the cell ended well.
    pub fn is_ok(&self) -> bool {
        self.text("status") == Some("ok")
    }
}

impl FromIterator<(String, Datum)> for Entry {
    fn from_iter<I: IntoIterator<Item = (String, Datum)>>(values: I) -> Self {
        Self(values.into_iter().collect())
    }
}

/// All rows of a frame.
///
/// # Errors
/// A column that cannot be read.
pub fn entries(frame: &DataFrame) -> Result<Vec<Entry>, PolarsError> {
    let row = |i: usize| {
        let values = frame
            .columns()
            .iter()
            .map(|column| Ok((column.name().to_string(), column.get(i)?.into())));
        values.collect()
    };
    (0..frame.height()).map(row).collect()
}

#[cfg(test)]
mod tests {
    use cell::{Adapter, Optimizer};
    use results::columns::keys;

    use super::*;

    #[test]
    fn a_row_heeds_the_keys_of_its_cell() {
        let cells = [
            Cell::default(),
            Cell {
                rank: 0,
                optim: Optimizer::Galore,
                ..Cell::default()
            },
            Cell {
                adapter: Adapter::Ia3,
                packing: true,
                ..Cell::default()
            },
            Cell {
                stack: Stack::Torch,
                dtype: cell::Dtype::Int8,
                ..Cell::default()
            },
        ];
        for cell in cells {
            let entry: Entry = keys(&cell).into_iter().collect();
            for key in entry.columns() {
                assert_eq!(entry.heeds(key), cell.heeds(key), "{key} of {cell:?}");
            }
        }
    }
}
