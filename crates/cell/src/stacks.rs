//! The stacks that heed each key, for the checks and for the JSON Schema.

use serde_json::Value;

use super::{Allocator, Cell, Facts, FsdpConfig, Stack, Torch, ZeroOptimization};

/// The stacks that heed the key `path`, such as `rank` or `torch.use_cache`.
pub fn stacks(path: &str) -> &'static [Stack] {
    let of = Facts::of(path);
    let single = of.iter().find(|facts| facts.stacks.len() == 1);
    single.map_or(Facts::NONE.stacks, |facts| facts.stacks)
}

/// The keys of the maps of a cell that `stack` does not heed, with their facts. A map's name stands for its keys.
pub(super) fn of_others(stack: Stack) -> impl Iterator<Item = (String, &'static Facts)> {
    let maps = [
        ("", Cell::FACTS),
        ("torch.", Torch::FACTS),
        ("fsdp_config.", FsdpConfig::FACTS),
        ("zero_optimization.", ZeroOptimization::FACTS),
        ("allocator.", Allocator::FACTS),
    ];
    let keys = maps.into_iter().flat_map(|(prefix, facts)| {
        facts
            .iter()
            .map(move |(name, facts)| (format!("{prefix}{name}"), facts))
    });
    keys.filter(move |(_, facts)| !facts.stacks.contains(&stack))
}

/// Writes the stacks of each of a cell's keys into the definitions of a schema, as `x-stacks`.
pub fn mark_stacks(definitions: &mut Value) {
    mark(definitions, "Cell", "");
}

/// Writes those of a map's keys, whose names begin with `prefix`, and of the maps in it.
fn mark(definitions: &mut Value, map: &str, prefix: &str) {
    let mut maps = Vec::new();
    mark_properties(&mut definitions[map], prefix, &mut maps);
    for (name, prefix) in maps {
        mark(definitions, &name, &prefix);
    }
}

/// Marks the properties of a map and of its forms, and finds the definitions of the maps in it.
fn mark_properties(map: &mut Value, prefix: &str, maps: &mut Vec<(String, String)>) {
    let properties = map.get_mut("properties").and_then(Value::as_object_mut);
    for (name, property) in properties.into_iter().flatten() {
        let path = format!("{prefix}{name}");
        property["x-stacks"] = serde_json::json!(stacks(&path));
        // A key with a doc of its own refers to its map by `allOf`.
        let reference = property["$ref"].as_str().or(property["allOf"][0]["$ref"].as_str());
        let name = reference.and_then(|reference| reference.rsplit('/').next());
        maps.extend(name.map(|name| (name.to_owned(), format!("{path}."))));
    }
    for form in map.get_mut("oneOf").and_then(Value::as_array_mut).into_iter().flatten() {
        mark_properties(form, prefix, maps);
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
        assert_eq!(*of("/Synthetic/properties/between"), json!(["torch"]));
        let properties = schema["Cell"]["properties"].as_object().unwrap();
        assert!(properties.values().all(|key| key["x-stacks"].is_array()));
    }
}
