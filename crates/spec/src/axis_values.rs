//! The values of a cell for the axes of its study.

use indexmap::IndexMap;
use serde_json::{Map, Value as Json};

/// The values that a cell has for `axes`.
pub(crate) fn axis_values(axes: &[String], keys: &Map<String, Json>) -> IndexMap<String, Json> {
    let value = |axis: &String| {
        let mut segments = axis.split('.');
        let first = segments.next().and_then(|segment| keys.get(segment));
        first
            .and_then(|first| segments.try_fold(first, |value, segment| value.get(segment)))
            .cloned()
            .unwrap_or(Json::Null)
    };
    axes.iter().map(|axis| (axis.clone(), value(axis))).collect()
}
