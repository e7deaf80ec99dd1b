//! A number of elements, which DeepSpeed's files write as `5e8`, too.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};

/// From here on, not every whole number is one of 64-bit floating point.
const LARGEST_FLOAT: f64 = 9_007_199_254_740_992.0;

const EXPECTED: &str = "a whole number of 0 or more, such as 500000000 or 5e8";

const TOO_LARGE: &str = "more elements than any model has";

/// A number of elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Elements(pub u64);

impl<'de> Deserialize<'de> for Elements {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Number;

        impl de::Visitor<'_> for Number {
            type Value = Elements;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(EXPECTED)
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Elements, E> {
                // Python's `sys.maxsize` is no limit.
                match i64::try_from(value) {
                    Ok(_) => Ok(Elements(value)),
                    Err(_) => Err(E::custom(TOO_LARGE)),
                }
            }

            fn visit_f64<E: de::Error>(self, value: f64) -> Result<Elements, E> {
                match value.fract() == 0.0 && (0.0..LARGEST_FLOAT).contains(&value) {
                    true => Ok(Elements(value as u64)),
                    false => Err(E::invalid_value(de::Unexpected::Float(value), &self)),
                }
            }
        }

        deserializer.deserialize_any(Number)
    }
}

impl JsonSchema for Elements {
    fn schema_name() -> Cow<'static, str> {
        "Elements".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        // JSON Schema takes 5e8 for an integer.
        json_schema!({ "type": "integer", "minimum": 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_may_be_written_as_floats() {
        let of = |text: &str| serde_json::from_str::<Elements>(text).ok().map(|elements| elements.0);
        assert_eq!(of("5e8"), Some(500_000_000));
        assert_eq!(of("9223372036854775807"), Some(i64::MAX as u64));
        for wrong in ["9223372036854775808", "0.5", "-1", "1e300", "\"5e8\"", "true"] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }
}
