//! A study without a file: one cell, from the names of a model and a GPU.

use std::path::Path;
use std::sync::Arc;

use arch::{ArchError, ModelConfig, Preset, check, locate};
use base::text::to_flow_yaml;
use cell::{Cell, Dtype, Stack, Task};
use hub::Roots;
use indexmap::IndexMap;
use serde_json::{Value, json};
use torch::gpu::{Gpu, NATIVE_BFLOAT16};
use yaml::diagnostic::Diagnostic;
use yaml::place::SourceKind;

use super::error::SpecError;
use super::giving_way::GivingWay;
use super::load::parse_of;
use super::overrides::{Flag, Overrides};
use super::recipes::Recipe;
use super::study::Study;

/// What the command line names in place of a spec.
#[derive(Debug, Clone)]
pub struct Names {
    /// A preset, a directory in Hugging Face's layout, relative to the current directory, or a name of the hub.
    pub model: String,
    /// The data: `sample`, `synthetic`, a path, a pattern or a name of the hub. Default: synthetic data.
    pub data: Option<String>,
    /// The GPU of a plan of PyTorch's stack.
    pub gpu: Option<&'static Gpu>,
    /// The stack.
    pub stack: Stack,
    /// The configuration that the names stand for.
    pub recipe: &'static Recipe,
    /// What the model's name leads to.
    pub roots: Roots,
}

/// The keys that names stand for.
struct Chosen {
    /// A map of a cell's keys.
    keys: Value,
    /// What of the recipe is not as its source has it.
    notes: Vec<String>,
}

impl Names {
    /// A study of one cell with the overrides.
    ///
    /// # Errors
    /// Everything that is wrong with the names or the overrides; the user's mistakes, so exit code 2.
    pub fn study(&self, overrides: &Overrides) -> Result<Study, SpecError> {
        self.check_stack()?;
        self.check_overrides(overrides)?;
        let Chosen { mut keys, notes } = self.chosen(overrides);
        if !overrides.sets("max_steps") {
            keys["num_train_epochs"] = json!(1);
        }
        let study = json!({
            "name": self.study_name(),
            "defaults": keys,
            "report": { "template": "plan" },
        });
        let overrides = overrides.clone().with_flags(self.flags()).with_data(self.data.clone());
        // Mistakes are shown where they were made: in an option.
        let recipe = format!("--recipe {}", self.recipe);
        let mut study = parse_of(SourceKind::Generated, Path::new(&recipe), &to_yaml(&study), &overrides)?;
        study.notes.splice(0..0, notes);
        study.file.clear();
        study.invocation.spec.clear();
        study.invocation.names = self.arguments();
        Ok(study)
    }

    /// The keys of the recipe for this model and stack, as `run` writes them into a spec: none that an override sets.
    pub(super) fn recipe_keys(&self, overrides: &Overrides) -> Vec<(String, Value)> {
        let keys = self.chosen(overrides).keys;
        let keys = keys.as_object().cloned().unwrap_or_default().into_iter();
        let is_default = |key: &str, value: &Value| Cell::default().value(key) == *value;
        keys.filter(|(key, value)| !overrides.sets(key) && !is_default(key, value))
            .collect()
    }

    /// The keys that options stand for.
    fn flags(&self) -> Vec<Flag> {
        let flag = |option, key, value: &str| Flag {
            option,
            key,
            value: value.to_owned(),
        };
        let mut flags = vec![
            flag("--model", "model", &self.model),
            flag("--stack", "stack", self.stack.name()),
        ];
        flags.extend(self.gpu.map(|gpu| flag("--gpu", "gpu", gpu.name)));
        flags
    }

    /// The name of the study, which may become that of a folder.
    fn study_name(&self) -> String {
        let model = self.model.rsplit(['/', '\\']).find(|part| !part.is_empty());
        let words = [model, self.gpu.map(|gpu| gpu.name)].into_iter().flatten();
        safe_name(&words.collect::<Vec<_>>().join("-"))
    }

    /// Makes sure that our trainer trains the model, and is asked for a recipe that it has.
    pub(super) fn check_stack(&self) -> Result<(), SpecError> {
        if self.stack == Stack::Torch {
            return Ok(());
        }
        if !self.recipe.is_of_both_stacks() {
            let message = format!(
                "--recipe {}: describes PyTorch's stack, and our trainer is asked for, by `run` or --stack candle",
                self.recipe
            );
            return Err(SpecError::without_place(message));
        }
        let Ok(config) = self.config() else { return Ok(()) };
        check::check(&config, Stack::Candle).map_err(|unsupported| {
            SpecError::without_place(format!(
                "--model {}: {unsupported}; without --stack candle PyTorch's stack is planned",
                self.model
            ))
        })
    }

    /// Makes sure that no override changes what an option has decided the recipe by.
    fn check_overrides(&self, overrides: &Overrides) -> Result<(), SpecError> {
        if let (Some(gpu), Some(other)) = (self.gpu, overrides.value("gpu")) {
            let message = format!("`--set gpu={other}` stands beside `--gpu {gpu}`");
            let error = Diagnostic::new(message).help("leave one of them out");
            return Err(SpecError::new(error, &Arc::default()));
        }
        let stacks = [Stack::Candle, Stack::Torch];
        let other = stacks.into_iter().find(|stack| *stack != self.stack);
        let Some(other) = other.filter(|other| overrides.value("stack") == Some(other.name())) else {
            return Ok(());
        };
        let from = match other {
            Stack::Candle => "our trainer's defaults",
            Stack::Torch => "a recipe of PyTorch's stack",
        };
        let message = format!(
            "`--set stack={other}` does not change the recipe of --model, which is for the {own} stack",
            other = other.name(),
            own = self.stack.name()
        );
        let help = format!("write `--stack {}`, which starts from {from}", other.name());
        Err(SpecError::new(Diagnostic::new(message).help(help), &Arc::default()))
    }

    /// The keys of the cell that its names decide, and those of the recipe.
    fn chosen(&self, overrides: &Overrides) -> Chosen {
        let config = self.config().ok();
        let task = match config.as_ref().is_some_and(|config| config.family.is_encoder()) {
            true => Task::SequenceClassification,
            false => Task::CausalLm,
        };
        let mut keys = json!({ "task": task });
        match self.stack {
            Stack::Torch => set_all(&mut keys, self.recipe.keys()),
            Stack::Candle => set_all(&mut keys, self.recipe.keys_of_both_stacks()),
        }
        if let (Some(config), Some(length)) = (&config, keys["max_seq_length"].as_u64()) {
            keys["max_seq_length"] = json!(length.min(config.max_position_embeddings as u64));
        }
        // All weights are trained in a format that gradients have.
        if overrides.value("rank").is_some_and(|rank| rank == "0") && !overrides.sets("dtype") {
            keys["dtype"] = json!(Dtype::Bfloat16);
            // These are of quantised weights.
            if let Some(keys) = keys.as_object_mut() {
                keys.retain(|key, _| key != "upcast" && !key.starts_with("bnb_4bit_"));
            }
        }
        let gpu = self.gpu.or_else(|| Gpu::named(overrides.value("gpu")?).ok());
        let giving_way = GivingWay {
            recipe: self.recipe,
            model: &self.model,
            config: config.as_ref(),
            gpu,
            overrides,
        };
        let notes = giving_way.change(&mut keys);
        if gpu.is_some_and(|gpu| gpu.capability < NATIVE_BFLOAT16) {
            for key in ["dtype", "autocast", "bnb_4bit_compute_dtype"] {
                if keys[key] == json!(Dtype::Bfloat16) {
                    keys[key] = json!(Dtype::Float16);
                }
            }
        }
        Chosen { keys, notes }
    }

    /// The model's shape; an error is reported where the cell is checked or planned.
    fn config(&self) -> Result<ModelConfig, ArchError> {
        match Preset::of_hub_name(&self.model) {
            Some(preset) => Ok(preset.config()),
            None => locate(&self.model, &self.roots)?.config(),
        }
    }

    /// The arguments of the command line that give these names.
    fn arguments(&self) -> Vec<String> {
        let mut arguments = vec![format!("--model={}", self.model)];
        arguments.extend(self.data.as_ref().map(|data| format!("--data={data}")));
        arguments.extend(self.gpu.map(|gpu| format!("--gpu={gpu}")));
        if self.stack == Stack::Candle {
            arguments.push("--stack=candle".into());
        }
        if self.recipe != Recipe::frugal() {
            arguments.push(format!("--recipe={}", self.recipe));
        }
        arguments
    }
}

impl Study {
    /// The configuration that names stand for: each key that is not a spec's default, and those that decide most of the
    /// memory. `None` for a study of a file.
    pub fn named_configuration(&self) -> Option<IndexMap<String, Value>> {
        const ALWAYS: [&str; 19] = [
            "model",
            "stack",
            "gpu",
            "dtype",
            "bnb_4bit_use_double_quant",
            "upcast",
            "adapter",
            "rank",
            "target_modules",
            "adapter_dtype",
            "batch_size",
            "gradient_accumulation_steps",
            "max_seq_length",
            "padding",
            "gradient_checkpointing",
            "attn_implementation",
            "autocast",
            "loss",
            "optim",
        ];
        let [study_cell] = self.cells.as_slice() else {
            return None;
        };
        if self.invocation.names.is_empty() {
            return None;
        }
        let (cell, default) = (&study_cell.cell, Cell::default());
        let shown = Cell {
            target_modules: cell.target_modules(),
            ..cell.clone()
        };
        let named = ALWAYS.into_iter().map(|key| (key.to_owned(), shown.value(key)));
        let mut keys: IndexMap<String, Value> = named
            .filter(|(key, value)| !value.is_null() && (key == "rank" && cell.method().is_none() || cell.heeds(key)))
            .collect();
        for (key, value) in cell.to_map() {
            match (value, default.value(&key)) {
                (Value::Object(map), Value::Object(defaults)) => {
                    let differing = map
                        .into_iter()
                        .filter(|(name, value)| defaults.get(name) != Some(value));
                    keys.extend(differing.map(|(name, value)| (format!("{key}.{name}"), value)));
                }
                (value, default) if value != default => drop(keys.insert(key, value)),
                _ => {}
            }
        }
        Some(keys)
    }
}

/// Sets keys, of which some are in a section: `torch.keep_outputs`.
fn set_all<'k>(cell: &mut Value, keys: impl Iterator<Item = (&'k str, &'k Value)>) {
    for (key, value) in keys {
        match key.split_once('.') {
            Some((section, key)) => cell[section][key] = value.clone(),
            None => cell[key] = value.clone(),
        }
    }
}

/// A name that can be a study's and a file's.
pub(super) fn safe_name(text: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let name = text.to_lowercase();
    let name: String = name.chars().map(|c| if safe(c) { c } else { '-' }).take(100).collect();
    match name.trim_matches(['.', '-']) {
        "" => "model".into(),
        name => name.into(),
    }
}

/// A map as YAML, a key a line: errors show the line.
fn to_yaml(study: &Value) -> String {
    let mut text = String::new();
    for (section, value) in study.as_object().into_iter().flatten() {
        match value {
            Value::Object(keys) if section == "defaults" => {
                text += "defaults:\n";
                for (key, value) in keys {
                    add_line(&mut text, key, value, 2);
                }
            }
            value => text += &format!("{section}: {}\n", to_flow_yaml(value)),
        }
    }
    text
}

fn add_line(text: &mut String, key: &str, value: &Value, indent: usize) {
    match value.as_object().filter(|map| !map.is_empty()) {
        None => *text += &format!("{:indent$}{key}: {value}\n", ""),
        Some(map) => {
            *text += &format!("{:indent$}{key}:\n", "");
            map.iter()
                .for_each(|(key, value)| add_line(text, key, value, indent + 2));
        }
    }
}

#[cfg(test)]
mod tests {
    use cell::Autocast;

    use super::*;

    fn study(model: &str, gpu: Option<&str>, settings: &[&str]) -> Result<Study, String> {
        let names = Names {
            model: model.into(),
            data: None,
            gpu: gpu.and_then(|gpu| Gpu::named(gpu).ok()),
            stack: if gpu.is_some() { Stack::Torch } else { Stack::Candle },
            recipe: Recipe::frugal(),
            roots: Roots::from("."),
        };
        let settings = settings.iter().copied().map(str::to_owned).collect();
        let study = names.study(&Overrides::new([], settings));
        study.map_err(|error| error.to_string())
    }

    #[test]
    fn every_preset_is_a_study_by_its_name() {
        for preset in Preset::all() {
            let named = study(preset.name(), Some("t4"), &[]).unwrap();
            let cell = &named.cells[0].cell;
            assert_eq!((cell.stack, cell.model.as_str()), (Stack::Torch, preset.name()));
            assert!(cell.max_seq_length <= preset.config().max_position_embeddings);
            let opened = arch::open(&cell.model_options(), Stack::Torch, &Roots::from("."));
            assert!(opened.is_ok(), "{}: {opened:?}", preset.name());
            let ours = study(preset.name(), None, &[]);
            assert_eq!(ours.is_ok(), check::check(&preset.config(), Stack::Candle).is_ok());
        }
    }

    #[test]
    fn a_gpu_decides_the_format() {
        let format = |gpu| study("tiny", Some(gpu), &[]).unwrap().cells[0].cell.autocast;
        assert_eq!(
            (format("t4"), format("rtx-3090")),
            (Autocast::Float16, Autocast::Bfloat16)
        );
    }

    #[test]
    fn names_make_the_study_and_the_command() {
        let named = study("./models/A b", Some("RTX 3090"), &["rank=4"]).unwrap();
        assert_eq!((named.name.as_str(), named.cells[0].cell.rank), ("a-b-rtx-3090", 4));
        assert_eq!(
            named.invocation.command_of("plan", &[]),
            "expctl plan '--model=./models/A b' --gpu=rtx-3090 --set rank=4"
        );
        let overridden = study("tiny", None, &["name=mine"]).unwrap();
        assert_eq!(overridden.name, "mine");
    }

    #[test]
    fn the_configuration_names_what_matters_and_what_differs() {
        let set = [
            "torch.use_cache=true",
            "gradient_checkpointing=none",
            "rank=0",
            "dtype=float16",
        ];
        let named = study("tiny", Some("t4"), &set).unwrap();
        let keys = named.named_configuration().unwrap();
        assert_eq!(keys["torch.use_cache"], true);
        assert_eq!((&keys["rank"], &keys["dtype"]), (&json!(0), &json!("float16")));
        assert!(!keys.contains_key("target_modules") && !keys.contains_key("eval_fraction"));
        let oft = study("tiny", None, &["adapter=oft"]).unwrap();
        assert!(!oft.named_configuration().unwrap().contains_key("rank"));
        let of_file = crate::parse(Path::new("x.yaml"), "name: x", &Overrides::default()).unwrap();
        assert_eq!(of_file.named_configuration(), None);
    }
}
