//! The functions of expressions over a study's cells, besides minijinja's own filters.
//!
//! Keys pick cells: `mean('allocated_peak_bytes', rank=16)`, with a map for dotted ones:
//! `mean('reserved_peak_bytes', {'allocator.backend': 'system'})`.

use base::text::quoted;
use expression::mistake;
use minijinja::value::{Kwargs, Rest, ValueKind};
use minijinja::{Environment, Error, Value};

use super::scope::Scope;

/// The functions' names.
pub(crate) const NAMES: [&str; 4] = ["mean", "means", "status", "between"];

/// The names of rows in expressions, as in templates.
pub(crate) const ROWS: [&str; 2] = ["groups", "cells"];

/// The names whose values depend on cells: functions and rows.
pub(super) const ABOUT_CELLS: [&str; 5] = ["mean", "means", "status", "groups", "cells"];

/// Adds the functions, which read the groups of `scope`.
pub(crate) fn add(environment: &mut Environment<'_>, scope: &Scope) {
    let of = scope.clone();
    // The mean of a column over the repeats of one cell.
    environment.add_function("mean", move |column: &str, maps: Rest<Value>, keys: Kwargs| {
        let group = of.one(&selection(&maps, &keys)?)?;
        Ok::<f64, Error>(of.figure(group, column)?.mean)
    });
    let of = scope.clone();
    // The means of all chosen cells, in the study's order.
    environment.add_function("means", move |column: &str, maps: Rest<Value>, keys: Kwargs| {
        let chosen = of.choose(&selection(&maps, &keys)?)?;
        let means = chosen.into_iter().map(|group| Ok(of.figure(group, column)?.mean));
        means.collect::<Result<Vec<f64>, Error>>()
    });
    let of = scope.clone();
    // The status of one cell: `ok`, `oom` and so on.
    environment.add_function("status", move |maps: Rest<Value>, keys: Kwargs| {
        of.status(of.one(&selection(&maps, &keys)?)?)
    });
    // True if a number lies between two others, or is one of them.
    environment.add_function("between", |number: f64, low: f64, high: f64| {
        low <= number && number <= high
    });
}

/// The values that pick cells: those of maps, then those of keywords.
fn selection(maps: &[Value], keys: &Kwargs) -> Result<Vec<(String, Value)>, Error> {
    let mut wanted = Vec::new();
    for map in maps {
        if map.kind() != ValueKind::Map {
            let message = format!("cells are picked by `key=value`, not by {}", quoted(&map.to_string()));
            let help = "a dotted key stands in a map: `{'allocator.backend': 'system'}`";
            return Err(mistake(message, Some(help.into())));
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
