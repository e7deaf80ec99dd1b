//! The stacks that heed each key: one table, for the checks and for the JSON Schema.

use serde_json::Value;

use super::Stack;

/// The keys that one stack alone heeds, with that stack. All other keys are for both. A map's name stands for its keys.
pub(super) const SINGLE_STACK: [(&str, Stack); 18] = [
    ("gpu", Stack::Torch),
    ("torch", Stack::Torch),
    ("init_adapter", Stack::Candle),
    ("max_tokens_per_batch", Stack::Candle),
    ("longest_first", Stack::Candle),
    ("packing_separator", Stack::Candle),
    ("packing_attention", Stack::Candle),
    ("loss_scaling", Stack::Candle),
    ("galore_scale", Stack::Candle),
    ("measure", Stack::Candle),
    ("device", Stack::Candle),
    ("threads", Stack::Candle),
    ("instruction_set", Stack::Candle),
    ("device_memory", Stack::Candle),
    ("host_memory", Stack::Candle),
    ("offload", Stack::Candle),
    ("env", Stack::Candle),
    ("allocator.backend", Stack::Candle),
];

/// The stacks that heed the key `path`, such as `rank` or `torch.use_cache`.
pub fn stacks(path: &str) -> &'static [Stack] {
    let covers = |key: &str| {
        path.strip_prefix(key)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    // Nobody else reads PyTorch's variables.
    if path.starts_with("allocator.env.PYTORCH_") {
        return &[Stack::Torch];
    }
    match SINGLE_STACK.iter().find(|(key, _)| covers(key)) {
        Some((_, Stack::Candle)) => &[Stack::Candle],
        Some((_, Stack::Torch)) => &[Stack::Torch],
        None => &[Stack::Candle, Stack::Torch],
    }
}

/// Writes the stacks of each of a cell's keys into the definitions of a schema, as `x-stacks`.
pub fn mark_stacks(definitions: &mut Value) {
    mark(definitions, "Cell", "");
}

/// Writes those of a map's keys, whose names begin with `prefix`, and of the maps in it.
fn mark(definitions: &mut Value, map: &str, prefix: &str) {
    let mut maps = Vec::new();
    let properties = definitions[map]["properties"].as_object_mut();
    for (name, property) in properties.into_iter().flatten() {
        let path = format!("{prefix}{name}");
        property["x-stacks"] = serde_json::json!(stacks(&path));
        // A key with a doc of its own refers to its map by `allOf`.
        let reference = property["$ref"].as_str().or(property["allOf"][0]["$ref"].as_str());
        let name = reference.and_then(|reference| reference.rsplit('/').next());
        maps.extend(name.map(|name| (name.to_owned(), format!("{path}."))));
    }
    for (name, prefix) in maps {
        mark(definitions, &name, &prefix);
    }
}

#[cfg(test)]
mod tests {
    use schemars::generate::SchemaSettings;
    use serde_json::json;

    use super::*;
    use crate::Cell;

    #[test]
    fn the_schema_names_the_stacks_of_every_key() {
        let mut generator = SchemaSettings::draft07().into_generator();
        generator.subschema_for::<Cell>();
        let mut schema = Value::Object(generator.take_definitions(true));
        mark_stacks(&mut schema);
        let of = |path: &str| &schema.pointer(path).unwrap_or(&Value::Null)["x-stacks"];
        assert_eq!(*of("/Cell/properties/rank"), json!(["candle", "torch"]));
        assert_eq!(*of("/Cell/properties/measure"), json!(["candle"]));
        assert_eq!(*of("/Cell/properties/torch"), json!(["torch"]));
        assert_eq!(*of("/Torch/properties/use_cache"), json!(["torch"]));
        assert_eq!(*of("/Allocator/properties/backend"), json!(["candle"]));
        let properties = schema["Cell"]["properties"].as_object().unwrap();
        assert!(properties.values().all(|key| key["x-stacks"].is_array()));
    }

    #[test]
    fn every_key_of_the_table_is_a_key() {
        let defaults = serde_json::to_value(Cell::default()).unwrap();
        for (key, _) in SINGLE_STACK {
            let path = format!("/{}", key.replace('.', "/"));
            assert!(defaults.pointer(&path).is_some(), "{key}");
        }
    }
}
