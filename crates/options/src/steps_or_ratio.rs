//! A number of steps, or a share of all steps, as transformers' keys have it.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize, Serializer};

/// Whole steps from 1 on, or a share of all steps below it, as transformers reads `warmup_steps` and `save_steps`.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct StepsOrRatio(pub f64);

impl StepsOrRatio {
    /// The steps, of so many in all. A share is rounded up.
    pub fn of(self, steps: usize) -> usize {
        match self.0 >= 1.0 {
            true => self.0 as usize,
            false => (steps as f64 * self.0).ceil() as usize,
        }
    }
}

/// Whole numbers are written as such.
impl Serialize for StepsOrRatio {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.fract() == 0.0 && self.0 >= 0.0 {
            true => serializer.serialize_u64(self.0 as u64),
            false => serializer.serialize_f64(self.0),
        }
    }
}

impl JsonSchema for StepsOrRatio {
    fn schema_name() -> Cow<'static, str> {
        "StepsOrRatio".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number", "minimum": 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_below_one_is_a_share() {
        let of_ten = |number| StepsOrRatio(number).of(10);
        assert_eq!([of_ten(3.0), of_ten(25.0), of_ten(0.25), of_ten(1.0)], [3, 25, 3, 1]);
    }
}
