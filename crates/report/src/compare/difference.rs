//! The differences of two studies, besides their measurements.

use indexmap::IndexMap;
use results::datum::Datum;
use results::setting;
use serde::Serialize;

use super::pair::MatchedPair;
use crate::axes::key_columns;

/// A column in which paired cells differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ColumnDifference {
    /// `configuration`, `version`, `machine`, `data` or `outcome`.
    pub of: &'static str,
    /// The column.
    pub column: String,
    /// The value in A.
    pub a: String,
    /// The value in B.
    pub b: String,
    /// The number of pairs with this difference.
    pub cells: usize,
}

/// The columns that are not keys of the configuration.
const OTHER_COLUMNS: [(&str, &str); 14] = [
    ("outcome", "status"),
    ("version", "expctl_version"),
    ("version", "sources"),
    ("version", "git_commit"),
    ("version", "releases"),
    ("machine", "machine_cpu"),
    ("machine", "machine_cores"),
    ("machine", "machine_memory_bytes"),
    ("machine", "machine_os"),
    ("machine", "device"),
    ("machine", "instruction_set"),
    ("machine", "threads"),
    ("machine", "environment"),
    ("data", "data_sha256"),
];

/// All differences of the pairs: the keys of the cells first.
pub fn differences(pairs: &[MatchedPair<'_>]) -> Vec<ColumnDifference> {
    let Some(first) = pairs.first() else {
        return Vec::new();
    };
    let of_both = [first.a.clone(), first.b.clone()];
    let keys = key_columns(&of_both[..1]).into_iter().chain(key_columns(&of_both[1..]));
    let keys = keys
        .chain(["seed".to_owned()])
        .filter(|key| OTHER_COLUMNS.iter().all(|(_, column)| column != key));
    let keys: indexmap::IndexSet<String> = keys.collect();
    let columns = keys
        .iter()
        .map(|key| ("configuration", key.as_str()))
        .chain(OTHER_COLUMNS);
    columns.flat_map(|(of, column)| of_column(of, column, pairs)).collect()
}

fn of_column(of: &'static str, column: &str, pairs: &[MatchedPair<'_>]) -> Vec<ColumnDifference> {
    let mut counted: IndexMap<(String, String), usize> = IndexMap::new();
    for pair in pairs {
        let (a, b) = (pair.a.get(column), pair.b.get(column));
        // Cells of one id have one configuration. A frame that was kept leaves out columns without a value, and an older one
        // lacks keys.
        let is_same = of == "configuration" && pair.a.get("cell_id") == pair.b.get("cell_id");
        if a != b && !is_same {
            *counted.entry((text(of, column, a), text(of, column, b))).or_default() += 1;
        }
    }
    let difference = |((a, b), cells)| ColumnDifference {
        of,
        column: column.to_owned(),
        a,
        b,
        cells,
    };
    counted.into_iter().map(difference).collect()
}

fn text(of: &str, column: &str, value: &Datum) -> String {
    match value {
        Datum::Null if column == "status" => "not run".into(),
        Datum::Null if of != "configuration" => "unknown".into(),
        value => setting(column, value),
    }
}
