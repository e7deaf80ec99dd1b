//! The schema of keys that take floating-point formats alone.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Value, from_value};

use super::Dtype;

/// The schema of a [`Dtype`] without those that are quantised.
pub(super) fn floating_dtype(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = Dtype::json_schema(generator);
    let choices = schema.get_mut("oneOf").and_then(Value::as_array_mut);
    let is_floating =
        |choice: &Value| from_value(choice["const"].clone()).is_ok_and(|dtype: Dtype| !dtype.is_quantised());
    if let Some(choices) = choices {
        choices.retain(is_floating);
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_no_values() {
        let schema = floating_dtype(&mut SchemaGenerator::default()).to_value();
        let choices = schema["oneOf"].as_array().unwrap().iter();
        let names: Vec<&str> = choices.filter_map(|choice| choice["const"].as_str()).collect();
        assert_eq!(names, ["float32", "float16", "bfloat16"]);
    }
}
