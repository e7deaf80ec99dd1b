//! The JSON Schema of specs, for editors: keys are completed, documented and checked while they are typed.

use std::sync::LazyLock;

use cell::keys::{self, Key};
use schemars::generate::SchemaSettings;
use serde_json::Value;

use super::study::Study;

/// Draft 7, which editors' YAML plugins know best.
static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    let generator = SchemaSettings::draft07().into_generator();
    let mut schema = generator.into_root_schema_for::<Study>().to_value();
    cell::mark_stacks(&mut schema["definitions"]);
    schema["title"] = "expctl spec".into();
    schema["description"] = "A study: one configuration, and how it is varied.".into();
    schema
});

/// The JSON Schema of a spec's file.
pub fn schema() -> Value {
    SCHEMA.clone()
}

/// True for the name of a section of a spec.
pub(super) fn is_section(name: &str) -> bool {
    SCHEMA["properties"].get(name).is_some()
}

/// The keys of a spec that an override can set, apart from those of a cell.
pub(crate) fn settable() -> &'static [Key] {
    static SETTABLE: LazyLock<Vec<Key>> = LazyLock::new(|| {
        const ONLY_IN_THE_FILE: [&str; 4] = ["defaults", "sweep", "published", "claims"];
        let mut keys = keys::collect(&SCHEMA, &SCHEMA["definitions"]);
        keys.retain(|key| {
            let section = key.path.split('.').next().unwrap_or_default();
            let is_of_a_cell = ["report.baseline.", "fit.vary."]
                .iter()
                .any(|map| key.path.starts_with(map));
            !ONLY_IN_THE_FILE.contains(&section) && !is_of_a_cell
        });
        keys
    });
    &SETTABLE
}

#[cfg(test)]
mod tests {
    use cell::keys::keys;

    use super::*;

    #[test]
    fn axes_have_every_key_dotted_ones_too() {
        let schema = schema();
        let grid = &schema["definitions"]["SweepSection"]["properties"]["grid"];
        let properties = &grid["properties"];
        for key in [
            "rank",
            "dtype",
            "data.synthetic.lengths",
            "gradient_checkpointing.every",
            "allocator.env",
        ] {
            assert_eq!(properties[key]["type"], "array", "{key}");
            assert!(properties[key]["description"].is_string(), "{key}");
        }
        assert!(grid["patternProperties"][r"^allocator\.env\..+$"].is_object());
    }

    #[test]
    fn every_reference_has_its_definition() {
        fn check(value: &Value, definitions: &Value) {
            match value {
                Value::Object(map) => {
                    if let Some(name) = map.get("$ref").and_then(Value::as_str) {
                        let name = name.strip_prefix("#/definitions/").unwrap();
                        assert!(definitions[name].is_object(), "{name}");
                    }
                    map.values().for_each(|value| check(value, definitions));
                }
                Value::Array(list) => list.iter().for_each(|value| check(value, definitions)),
                _ => {}
            }
        }
        let schema = schema();
        check(&schema, &schema["definitions"]);
    }

    #[test]
    fn every_key_is_documented() {
        for key in keys().iter().chain(settable()) {
            assert!(!key.doc.is_empty() || key.path.ends_with('*'), "{}", key.path);
        }
    }

    #[test]
    fn overrides_set_what_is_neither_a_cells_nor_a_list() {
        let settable: Vec<&str> = settable().iter().map(|key| key.path.as_str()).collect();
        let expected = [
            "name",
            "description",
            "requires",
            "requires.path",
            "requires.command",
            "repeats",
            "python",
            "jobs",
            "jobs_memory",
            "speeds",
            "limits",
            "limits.timeout",
            "limits.retries",
            "on_oom",
            "on_oom.ladder",
            "skip_larger",
            "record",
            "record.timeline",
            "record.timeline_steps",
            "record.model",
            "record.save_steps",
            "record.save_total_limit",
            "record.log_interval",
            "report",
            "report.template",
            "report.output",
            "report.publish",
            "report.baseline",
            "report.columns",
            "report.answer",
            "fit",
            "fit.budget",
            "fit.keep",
            "fit.vary",
        ];
        assert_eq!(settable, expected);
    }
}
