//! Studies for the tests of charts.

use results::datum::Datum;

use crate::entry::Entry;
use crate::group::{Group, groups};

/// A group for each row of columns and values; what reads as a number is one.
pub(crate) fn study(rows: &[Vec<(&str, &str)>], axes: &[&str]) -> Vec<Group> {
    let axes: Vec<String> = axes.iter().map(ToString::to_string).collect();
    let entry = |(at, row): (usize, &Vec<(&str, &str)>)| {
        let mut entry = Entry::default();
        entry.set("group_id", at.to_string().as_str().into());
        for (column, value) in row {
            let datum = match (value.parse::<u64>(), value.parse::<f64>()) {
                (Ok(count), _) => Datum::Int(count),
                (_, Ok(number)) => Datum::Float(number),
                _ => (*value).into(),
            };
            entry.set(column, datum);
        }
        entry
    };
    let entries: Vec<Entry> = rows.iter().enumerate().map(entry).collect();
    groups(&entries, &axes)
}
