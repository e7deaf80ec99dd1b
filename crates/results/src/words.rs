//! Values of columns in words.

use base::text::Dimension;
use base::text::format::{self, ABSENT};
use cell::is_size;

use super::columns::dimension;
use super::datum::Datum;

/// The text of a key's value in tables, labels and messages.
pub fn setting(key: &str, value: &Datum) -> String {
    match value {
        Datum::Null if key.starts_with("env.") || key.starts_with("allocator.env.") => "unset".into(),
        Datum::Null => ABSENT.into(),
        Datum::Bool(value) => value.to_string(),
        Datum::Int(bytes) if is_size(key) => format::bytes((*bytes).into()),
        Datum::Int(value) => value.to_string(),
        Datum::Float(value) if *value != 0.0 && value.abs() < 1e-2 => format!("{value:e}"),
        Datum::Float(value) => value.to_string(),
        Datum::Text(value) => value.clone(),
    }
}

/// The text of a measured or predicted number, with the unit of its column.
pub fn figure(column: &str, number: f64) -> String {
    match dimension(column) {
        Dimension::Memory => format::bytes(number.into()),
        Dimension::Time => format::seconds(number.into()),
        Dimension::Speed => format::rate(number.into()),
        Dimension::Share | Dimension::Number => {
            let decimals = if number.fract() == 0.0 { 0 } else { 4 };
            format::number(number.into(), decimals)
        }
    }
}
