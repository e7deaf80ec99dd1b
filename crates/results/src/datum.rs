//! Values of frames.

use polars_core::prelude::AnyValue;
use serde::Serialize;
use serde_json::Value as Json;
use serde_saphyr::{FlowMap, FlowSeq};

/// A value of a frame.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Datum {
    /// No value.
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(u64),
    /// Any number.
    Float(f64),
    /// Text, also for lists and maps.
    Text(String),
}

impl Datum {
    /// A list or a map as YAML flow text: `[q_proj, v_proj]`, `{every: 2}`.
    pub fn flow(value: &Json) -> Self {
        let text = match value {
            Json::Array(list) => serde_saphyr::to_string(&FlowSeq(list)),
            Json::Object(map) => serde_saphyr::to_string(&FlowMap(map)),
            value => serde_saphyr::to_string(value),
        };
        // JSON is YAML too.
        Self::Text(text.map_or_else(|_| value.to_string(), |text| text.trim_end().to_string()))
    }

    /// True for null.
    pub fn is_null(&self) -> bool {
        *self == Self::Null
    }

    /// The value of a boolean.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// The value of a whole number.
    pub fn as_int(&self) -> Option<u64> {
        match self {
            Self::Int(value) => Some(*value),
            _ => None,
        }
    }

    /// Any number, as a float.
    pub fn as_number(&self) -> Option<f64> {
        match self {
            Self::Int(value) => Some(*value as f64),
            Self::Float(value) => Some(*value),
            _ => None,
        }
    }

    /// The value of a text.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(value) => Some(value),
            _ => None,
        }
    }
}

impl From<u64> for Datum {
    fn from(value: u64) -> Self {
        Self::Int(value)
    }
}

impl From<usize> for Datum {
    fn from(value: usize) -> Self {
        Self::Int(value as u64)
    }
}

impl From<f64> for Datum {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl From<&str> for Datum {
    fn from(value: &str) -> Self {
        Self::Text(value.to_string())
    }
}

impl From<String> for Datum {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl<T: Into<Datum>> From<Option<T>> for Datum {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl From<Json> for Datum {
    fn from(value: Json) -> Self {
        match value {
            Json::Null => Self::Null,
            Json::Bool(value) => Self::Bool(value),
            Json::Number(number) => number.as_u64().map_or_else(|| number.as_f64().into(), Self::Int),
            Json::String(text) => Self::Text(text),
            value => Self::flow(&value),
        }
    }
}

impl From<AnyValue<'_>> for Datum {
    fn from(value: AnyValue<'_>) -> Self {
        match value {
            AnyValue::Boolean(value) => Self::Bool(value),
            AnyValue::Int64(value) => u64::try_from(value).map_or(Self::Null, Self::Int),
            AnyValue::UInt64(value) => Self::Int(value),
            AnyValue::Float64(value) => Self::Float(value),
            AnyValue::String(value) => value.into(),
            AnyValue::StringOwned(value) => value.as_str().into(),
            // Frames have no columns of other types.
            _ => Self::Null,
        }
    }
}
