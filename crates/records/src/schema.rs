//! JSON Schemas of what a worker and its run write, for programs that take the place of one of them.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use super::prediction::Prediction;
use super::{Event, Oom, Record, Step, WorkerMachine};

/// The version of the protocol between a run and its worker, and of these schemas. It is raised when a program that
/// follows the older ones would fail.
pub const VERSION: u32 = 1;

/// What has a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// `record.json`, the outcome of a cell.
    Record,
    /// A line of `steps.jsonl`.
    Step,
    /// A line of a worker's stdout.
    Events,
    /// `oom.json`, the request that did not fit.
    Oom,
    /// `prediction.json`.
    Prediction,
    /// What a worker says of its machine.
    Machine,
}

impl Subject {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Record,
        Self::Step,
        Self::Events,
        Self::Oom,
        Self::Prediction,
        Self::Machine,
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Record => "record",
            Self::Step => "step",
            Self::Events => "events",
            Self::Oom => "oom",
            Self::Prediction => "prediction",
            Self::Machine => "machine",
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|subject| subject.name() == name)
    }

    /// Its JSON Schema (draft 7). The id has the version.
    pub fn schema(self) -> Value {
        let mut schema = match self {
            Self::Record => of::<Record>(),
            Self::Step => of::<Step>(),
            Self::Events => of::<Event>(),
            Self::Oom => of::<Oom>(),
            Self::Prediction => of::<Prediction>(),
            Self::Machine => of::<WorkerMachine>(),
        };
        if matches!(self, Self::Record | Self::Prediction) {
            schema["properties"]["sha256"] = json!({
                "description": "The SHA-256 of the file up to the comma before this key, and behind that of a prediction's cell id. The run writes it; a worker leaves it out.",
                "type": "string",
            });
        }
        schema["$id"] = format!("urn:expctl:{}:{VERSION}", self.name()).into();
        schema
    }
}

fn of<T: JsonSchema>() -> Value {
    SchemaSettings::draft07()
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value()
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};
    use sha2::{Digest, Sha256};

    use super::*;
    use crate::{Found, Machine, sample};

    /// What a value has that its schema does not name, and what the schema requires and the value lacks.
    fn differences(path: &str, value: &Value, schema: &Value, root: &Value) -> Vec<String> {
        let schema = match schema["$ref"].as_str() {
            Some(name) => &root["definitions"][name.trim_start_matches("#/definitions/")],
            None => schema,
        };
        let choices = ["anyOf", "oneOf", "allOf"]
            .iter()
            .filter_map(|key| schema[*key].as_array());
        let mut found: Option<Vec<String>> = None;
        for choice in choices.flatten() {
            let of_choice = differences(path, value, choice, root);
            if found.as_ref().is_none_or(|best| of_choice.len() < best.len()) {
                found = Some(of_choice);
            }
        }
        if let Some(found) = found {
            return found;
        }
        let (Some(map), Some(properties)) = (value.as_object(), schema["properties"].as_object()) else {
            return Vec::new();
        };
        let required = schema["required"].as_array().into_iter().flatten();
        let missing = required
            .filter_map(Value::as_str)
            .filter(|name| !map.contains_key(*name));
        let mut all: Vec<String> = missing.map(|name| format!("{path}.{name} is required")).collect();
        for (name, value) in map {
            let path = format!("{path}.{name}");
            match properties.get(name) {
                Some(schema) => all.extend(differences(&path, value, schema, root)),
                None => all.push(format!("{path} is not in the schema")),
            }
        }
        all
    }

    #[track_caller]
    fn agrees(subject: Subject, value: &Value) {
        let schema = subject.schema();
        assert_eq!(schema["$id"], format!("urn:expctl:{}:{VERSION}", subject.name()));
        assert_eq!(
            differences(subject.name(), value, &schema, &schema),
            Vec::<String>::new()
        );
        // The check can fail.
        let wrong: Map<String, Value> = Map::from_iter([("no_such_key".to_owned(), json!(1))]);
        assert!(!differences("", &wrong.into(), &schema, &schema).is_empty());
    }

    /// What reading says without each key, and what the schema requires.
    #[test]
    fn the_schema_requires_what_reading_requires() {
        let record = json!(sample::ok("0123456789ab"));
        let schema = Subject::Record.schema();
        let parts = [("", "Record"), ("/measured", "Measured"), ("/provenance", "Provenance")];
        for (pointer, name) in parts {
            let of_part = match pointer {
                "" => &schema,
                _ => &schema["definitions"][name],
            };
            let required: Vec<&str> = of_part["required"]
                .as_array()
                .unwrap()
                .iter()
                .filter_map(Value::as_str)
                .collect();
            for key in record.pointer(pointer).unwrap().as_object().unwrap().keys() {
                let mut without = record.clone();
                without
                    .pointer_mut(pointer)
                    .unwrap()
                    .as_object_mut()
                    .unwrap()
                    .remove(key);
                let is_read = serde_json::from_value::<Record>(without).is_ok();
                assert_eq!(is_read, !required.contains(&key.as_str()), "{name}.{key}");
            }
        }
    }

    /// Other programs follow the schemas: raise [`VERSION`] if one that follows the older ones would fail.
    #[test]
    fn a_schema_that_changes_is_looked_at() {
        fn without_words(value: &mut Value) {
            if let Some(map) = value.as_object_mut() {
                // A key may be called so, too: its value is then a schema.
                map.retain(|key, value| !(key == "description" && value.is_string()));
                map.values_mut().for_each(without_words);
            }
            value.as_array_mut().into_iter().flatten().for_each(without_words);
        }
        let schemas = Subject::ALL.map(|subject| {
            let mut schema = subject.schema();
            without_words(&mut schema);
            schema.to_string()
        });
        let hash = base::text::hex(&Sha256::digest(schemas.concat()));
        assert_eq!((VERSION, &hash[..16]), (1, "113c303eb6a7553b"));
    }

    #[test]
    fn schemas_describe_what_is_written() {
        agrees(Subject::Record, &json!(sample::ok("0123456789ab")));
        agrees(Subject::Step, &json!(sample::step(1)));
        agrees(Subject::Prediction, &json!(Prediction::default()));
        let machine = Machine {
            cpu: "A CPU".into(),
            cores: 2,
            memory_bytes: None,
            os: "Linux".into(),
        };
        let found = Found {
            engine: "another".into(),
            releases: [("torch".to_owned(), "2.15.0".to_owned())].into(),
            instruction_set: None,
            threads: 2,
            machine: machine.clone(),
        };
        agrees(Subject::Events, &json!(Event::Started(Box::new(found))));
        agrees(
            Subject::Events,
            &json!(Event::Training {
                steps: 2,
                tokens_per_step: 64
            }),
        );
        let offered = WorkerMachine {
            releases: [].into(),
            gpus: Vec::new(),
            available_bytes: None,
            import_error: None,
            protocol: VERSION,
            machine,
            engine: "another".into(),
            instruction_set: "avx2".into(),
            auto_instruction_set: "avx2".into(),
            allocators: vec!["system".into()],
            cuda: false,
        };
        agrees(Subject::Machine, &json!(offered));
        let oom = Oom {
            phase: "load".into(),
            category: "parameter".into(),
            requested_bytes: 1,
            allocated_bytes: 0,
            budget_bytes: None,
        };
        agrees(Subject::Oom, &json!(oom));
    }
}
