//! Tables, for people and for programs.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::flow_yaml::to_flow_yaml;

/// Rows of values under column names.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// The columns' names.
    pub columns: Vec<String>,
    /// Rows with a value for each column.
    pub rows: Vec<Vec<Value>>,
}

impl Table {
    /// A table without rows.
    pub fn new<N: Into<String>>(columns: impl IntoIterator<Item = N>) -> Self {
        Self {
            columns: columns.into_iter().map(Into::into).collect(),
            rows: Vec::new(),
        }
    }

    /// Columns of equal width, numbers to the right.
    pub fn aligned(&self) -> String {
        self.within(usize::MAX)
    }

    /// The same in lines of at most `width` characters, as far as two columns allow: what is too wide follows in blocks of its
    /// own, each beginning with the first column.
    pub fn within(&self, width: usize) -> String {
        let mut cells: Vec<Vec<String>> = vec![self.columns.clone()];
        cells.extend(self.rows.iter().map(|row| row.iter().map(text).collect()));
        let longest = |column: usize| cells.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<_> = (0..self.columns.len()).map(longest).collect();
        let numeric = |column: usize| {
            self.rows
                .iter()
                .all(|row| row[column].is_number() || row[column].is_null())
        };
        let right: Vec<_> = (0..self.columns.len())
            .map(|column| !self.rows.is_empty() && numeric(column))
            .collect();
        let mut out = String::new();
        for block in blocks(&widths, width) {
            if !out.is_empty() {
                out.push('\n');
            }
            for row in &cells {
                let mut line = String::new();
                for &column in &block {
                    let (cell, width) = (&row[column], widths[column]);
                    let _ = if right[column] {
                        write!(line, "{cell:>width$}  ")
                    } else {
                        write!(line, "{cell:<width$}  ")
                    };
                }
                out.push_str(line.trim_end());
                out.push('\n');
            }
        }
        out
    }

    /// An array of objects.
    pub fn json(&self) -> String {
        let object = |row: &Vec<Value>| -> Value {
            Value::Object(Map::from_iter(self.columns.iter().cloned().zip(row.iter().cloned())))
        };
        let array = Value::Array(self.rows.iter().map(object).collect());
        format!("{array:#}\n")
    }

    /// A header and a line for each row, by RFC 4180.
    pub fn csv(&self) -> String {
        let line = |cells: Vec<String>| cells.iter().map(|cell| csv_field(cell)).collect::<Vec<_>>().join(",") + "\n";
        let rows = self.rows.iter().map(|row| line(row.iter().map(text).collect()));
        std::iter::once(line(self.columns.clone())).chain(rows).collect()
    }
}

/// The columns of each block of a table. Every block but the first repeats the first column.
fn blocks(widths: &[usize], most: usize) -> Vec<Vec<usize>> {
    let mut blocks: Vec<Vec<usize>> = vec![Vec::new()];
    for column in 0..widths.len() {
        let Some(block) = blocks.last_mut() else { break };
        let taken: usize = block.iter().map(|&column| widths[column] + 2).sum();
        if block.len() > 1 && taken + widths[column] > most {
            blocks.push(vec![0, column]);
        } else {
            block.push(column);
        }
    }
    blocks
}

/// A value without JSON's quotes; empty for null.
fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        value => to_flow_yaml(value),
    }
}

/// A CSV field by RFC 4180.
fn csv_field(field: &str) -> String {
    if field.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.into()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn table() -> Table {
        let mut table = Table::new(["cell", "rank", "note"]);
        table.rows.push(vec![json!("ab"), json!(4), json!("a, \"b\"")]);
        table.rows.push(vec![json!("cdef"), json!(64), Value::Null]);
        table
    }

    #[test]
    fn people_get_columns() {
        assert_eq!(
            table().aligned(),
            "cell  rank  note\nab       4  a, \"b\"\ncdef    64\n"
        );
    }

    #[test]
    fn a_wide_table_goes_on_below() {
        assert_eq!(table().within(80), table().aligned());
        assert_eq!(table().within(18), table().aligned());
        assert_eq!(
            table().within(17),
            "cell  rank\nab       4\ncdef    64\n\ncell  note\nab    a, \"b\"\ncdef\n"
        );
        assert_eq!(
            table().within(1),
            table().within(17),
            "two columns are a block in any width"
        );
    }

    #[test]
    fn programs_get_values() {
        assert_eq!(table().csv(), "cell,rank,note\nab,4,\"a, \"\"b\"\"\"\ncdef,64,\n");
        let parsed: Value = serde_json::from_str(&table().json()).unwrap();
        assert_eq!(parsed[1], json!({"cell": "cdef", "rank": 64, "note": null}));
    }
}
