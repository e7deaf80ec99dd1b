//! The values of a cell for the axes of its study.

use cell::Cell;
use indexmap::IndexMap;
use serde_json::{Map, Value as Json};

/// The values that a cell has for `axes`, null for those that it does not heed. `keys` are all of its keys.
pub(crate) fn axis_values(axes: &[String], cell: &Cell, keys: &Map<String, Json>) -> IndexMap<String, Json> {
    let mut values = values_of(axes, keys);
    for (axis, value) in &mut values {
        if !cell.heeds(axis) {
            *value = Json::Null;
        }
    }
    values
}

/// The values of these dotted keys; null where there is none.
pub(crate) fn values_of(names: &[String], keys: &Map<String, Json>) -> IndexMap<String, Json> {
    let value = |name: &String| {
        let mut segments = name.split('.');
        let first = segments.next().and_then(|segment| keys.get(segment));
        first
            .and_then(|first| segments.try_fold(first, |value, segment| value.get(segment)))
            .cloned()
            .unwrap_or(Json::Null)
    };
    names.iter().map(|name| (name.clone(), value(name))).collect()
}
