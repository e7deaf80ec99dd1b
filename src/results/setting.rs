//! Values of keys in words.

use super::datum::Datum;
use crate::text::format;

/// The text of a key's value in tables, labels and messages.
pub fn setting(key: &str, value: &Datum) -> String {
    match value {
        Datum::Null if key.starts_with("env.") || key.starts_with("allocator.env.") => "unset".into(),
        Datum::Null => format::ABSENT.into(),
        Datum::Bool(value) => value.to_string(),
        Datum::Int(bytes) if key == "device_memory" => format::bytes((*bytes as f64).into()),
        Datum::Int(value) => value.to_string(),
        Datum::Float(value) if *value != 0.0 && value.abs() < 1e-2 => format!("{value:e}"),
        Datum::Float(value) => value.to_string(),
        Datum::Text(value) => value.clone(),
    }
}
