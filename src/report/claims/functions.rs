//! The functions that a claim's expressions have beside minijinja's own filters.
//!
//! Cells are picked by their keys: `mean('allocated_peak_bytes', rank=16)`, with a map for dotted ones:
//! `mean('reserved_peak_bytes', {'allocator.backend': 'system'})`.

use minijinja::value::{Kwargs, Rest, ValueKind};
use minijinja::{Environment, Error, Value};

use super::scope::Scope;
use crate::report::published::{COLUMNS_ARE, measured_columns};
use crate::spec;
use crate::text::quoted;

pub const NAMES: [&str; 4] = ["mean", "means", "status", "between"];

pub fn add(environment: &mut Environment<'_>, scope: &Scope) {
    let of = scope.clone();
    // The mean of a measured column over the repeats of one cell.
    environment.add_function("mean", move |column: &str, maps: Rest<Value>, keys: Kwargs| {
        check_column(&of, column)?;
        let group = of.one(&selection(&of, &maps, &keys)?)?;
        Ok::<f64, Error>(of.measured(group, column)?.mean)
    });
    let of = scope.clone();
    // The same for every cell that is picked, in the study's order.
    environment.add_function("means", move |column: &str, maps: Rest<Value>, keys: Kwargs| {
        check_column(&of, column)?;
        let chosen = of.choose(&selection(&of, &maps, &keys)?)?;
        let means = chosen.into_iter().map(|group| Ok(of.measured(group, column)?.mean));
        means.collect::<Result<Vec<f64>, Error>>()
    });
    let of = scope.clone();
    // How one cell ended: `ok`, `oom` and so on.
    environment.add_function("status", move |maps: Rest<Value>, keys: Kwargs| {
        of.status(of.one(&selection(&of, &maps, &keys)?)?)
    });
    // Whether a number lies between two others, or is one of them.
    environment.add_function("between", |number: f64, low: f64, high: f64| {
        low <= number && number <= high
    });
}

fn check_column(scope: &Scope, column: &str) -> Result<(), Error> {
    let columns = measured_columns();
    if columns.iter().any(|known| known == column) {
        return Ok(());
    }
    let known: Vec<&str> = columns.iter().map(String::as_str).collect();
    let help = spec::suggestion(column, &known).unwrap_or_else(|| COLUMNS_ARE.into());
    Err(scope.wrong(
        format!("{} is no column of numbers that are measured", quoted(column)),
        Some(help),
    ))
}

/// The values by which cells are picked: those of maps, then those of keywords.
fn selection(scope: &Scope, maps: &[Value], keys: &Kwargs) -> Result<Vec<(String, Value)>, Error> {
    let mut wanted = Vec::new();
    for map in maps {
        if map.kind() != ValueKind::Map {
            let message = format!("cells are picked by `key=value`, not by {}", quoted(&map.to_string()));
            return Err(scope.wrong(
                message,
                Some("a dotted key stands in a map: `{'allocator.backend': 'system'}`".into()),
            ));
        }
        for key in map.try_iter()? {
            wanted.push((key.to_string(), map.get_item(&key)?));
        }
    }
    for key in keys.args() {
        wanted.push((key.to_owned(), keys.get(key)?));
    }
    Ok(wanted)
}
