//! The key `adapter_config`: PEFT's `adapter_config.json`.

use arch::norm_choices;
use base::text::quoted;
use peft::{ConfigError, FieldError, FieldKey};
use yaml::diagnostic::Diagnostic;
use yaml::place::Place;
use yaml::tree::Node;

use super::interface::{Config, Key, Kind, Text, part};

pub(super) const KIND: Kind = Kind {
    key: KEY,
    yields: |_| false,
    file: |folder, name| {
        let path = hub::path_or_file(folder, name, peft::CONFIG_FILE);
        path.map(|path| peft::config_file(&path)).map_err(|error| {
            format!(
                "there is no {}; as a name of the hub: {error}",
                folder.join(name).display()
            )
        })
    },
    read,
};

const KEY: &str = "adapter_config";

/// What a file says.
#[derive(Debug)]
struct Adapter {
    name: String,
    config: peft::Config,
    keys: Vec<Key>,
    place_of_task: Place,
}

const TARGETS: &str = "target_modules";

fn read(text: &Text) -> Result<Box<dyn Config>, Diagnostic> {
    let diagnostic = |error: &FieldError| Diagnostic::of(KEY, &error.mistake).at(text.place(&error.field));
    let config = peft::parse_config(text.text.as_bytes());
    let config = config.map_err(|error| match error {
        ConfigError::Json(error) => {
            let place = text.place_of(&error);
            Diagnostic::new(format!("{KEY}: not an adapter's configuration: {error}")).at(place)
        }
        ConfigError::Field(error) => diagnostic(&error),
    })?;
    let norms: Vec<_> = norm_choices().collect();
    let checked = config.check_start().and_then(|()| config.check_norms(&norms));
    let keys = checked.and_then(|()| config.keys());
    let keys = keys.map_err(|error| diagnostic(&error))?;
    let stated = |(field, name, value): FieldKey| Key {
        name,
        field,
        value: Node::of_json(&value, text.place(field)),
    };
    Ok(Box::new(Adapter {
        name: text.name.clone(),
        keys: keys.into_iter().map(stated).collect(),
        config,
        place_of_task: text.place("task_type"),
    }))
}

impl Config for Adapter {
    fn keys(&self, cell: &Node) -> Vec<Key> {
        // Modules that the file leaves open may be written beside it.
        let is_open = self.config.target_modules.is_none();
        let is_written = |name: &str| cell.get(&[name]).is_some_and(|written| !written.is_null());
        let yields = |key: &Key| is_open && key.name == TARGETS && is_written(TARGETS);
        self.keys.iter().filter(|key| !yields(key)).cloned().collect()
    }

    fn unsuited(&self, cell: &Node, place: Place) -> Vec<Diagnostic> {
        self.other_task(cell, place).into_iter().collect()
    }
}

impl Adapter {
    /// The mistake of a configuration for another task than the cell's.
    fn other_task(&self, cell: &Node, place: Place) -> Option<Diagnostic> {
        let task_type = self.config.task_type()?;
        let task = part(cell, &["task"])?.task;
        if peft::task_type(task) == task_type {
            return None;
        }
        let message = format!(
            "task: {} is not `task_type: {task_type}` of {}",
            quoted(task.name()),
            self.name
        );
        let written = cell.get(&["task"]);
        let mistake = Diagnostic::new(message).label(written.map_or(place, |task| task.place), "");
        Some(mistake.label(self.place_of_task, "task_type"))
    }
}

#[cfg(test)]
mod tests {
    use base::text::hex;
    use sha2::{Digest, Sha256};

    use crate::{Overrides, parse};

    #[test]
    fn the_hash_is_that_of_the_text_that_the_keys_came_from() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config.json");
        let text = r#"{"peft_type": "LORA", "r": 3, "target_modules": ["q_proj"]}"#;
        std::fs::write(&file, text).unwrap();
        let spec = "name: x\ndefaults: {model: tiny}\nsweep: {grid: {adapter_config: [config.json, null]}}\n";
        let study = parse(&dir.path().join("x.yaml"), spec, &Overrides::default()).unwrap();
        std::fs::write(&file, text.replace('3', "4")).unwrap();
        let hashes = study.cells.iter().map(|cell| study.adapter_config_sha256(&cell.cell));
        let hashes: Vec<Option<String>> = hashes.collect();
        assert_eq!(hashes, [Some(hex(&Sha256::digest(text))), None]);
        assert_eq!(study.cells[0].cell.rank, 3);
    }
}
