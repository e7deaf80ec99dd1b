//! A study without a file: one cell, from the names of a model and a GPU.

use std::path::Path;

use arch::{ArchError, ModelConfig, Preset, check, locate};
use base::text::to_flow_yaml;
use cell::{Attention, Autocast, Cell, Checkpointing, Dtype, Padding, Stack, Task};
use hub::Roots;
use indexmap::IndexMap;
use options::{Optimizer, OutputLifetime};
use serde_json::{Value, json};
use torch::gpu::{Gpu, NATIVE_BFLOAT16};

use super::error::SpecError;
use super::load::parse;
use super::overrides::Overrides;
use super::study::Study;

/// The samples of an optimizer step, in micro-batches of one: as in QLoRA's script for small GPUs.
const EFFECTIVE_BATCH: usize = 16;

/// Tokens of a sample, as in TRL's `SFTConfig`, or all that the model takes.
const TOKENS: usize = 1024;

/// What the command line names in place of a spec.
#[derive(Debug, Clone)]
pub struct Names {
    /// A preset, a directory in Hugging Face's layout, relative to the current directory, or a name of the hub.
    pub model: String,
    /// The data: `sample`, `synthetic`, a path, a pattern or a name of the hub. Default: synthetic data.
    pub data: Option<String>,
    /// The GPU of a plan of PyTorch's stack.
    pub gpu: Option<String>,
    /// The stack. Default: PyTorch's for a GPU, else our trainer.
    pub stack: Option<Stack>,
    /// The configuration that the names stand for.
    pub start: Start,
    /// What the model's name leads to.
    pub roots: Roots,
}

/// What a model without a spec is planned with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// QLoRA as people run it on a single GPU: 4 bits, every block checkpointed, one sample at once.
    Frugal,
    /// LoRA in which nothing is saved yet, for a search that does: 16 bits, no checkpointing, the effective batch at
    /// once.
    Roomy,
}

impl Names {
    /// A study of one cell with the overrides.
    ///
    /// # Errors
    /// Everything that is wrong with the names or the overrides; the user's mistakes, so exit code 2.
    pub fn study(&self, overrides: &Overrides) -> Result<Study, SpecError> {
        self.check_stack()?;
        let mut defaults = self.defaults(overrides.sets("dtype"));
        if !overrides.sets("max_steps") {
            defaults["num_train_epochs"] = json!(1);
        }
        let study = json!({
            "name": self.study_name(),
            "defaults": defaults,
            "report": { "template": "plan" },
        });
        let overrides = overrides.clone().with_data(self.data.clone());
        let mut study = parse(Path::new("--model"), &to_yaml(&study), &overrides)?;
        study.file.clear();
        study.invocation.spec.clear();
        study.invocation.names = self.arguments();
        Ok(study)
    }

    /// The name of the study, which may become that of a folder.
    fn study_name(&self) -> String {
        let model = self.model.rsplit(['/', '\\']).find(|part| !part.is_empty());
        let words = [model, self.gpu.as_deref()].into_iter().flatten();
        safe_name(&words.collect::<Vec<_>>().join("-"))
    }

    fn stack(&self) -> Stack {
        let of_gpu = if self.gpu.is_some() {
            Stack::Torch
        } else {
            Stack::Candle
        };
        self.stack.unwrap_or(of_gpu)
    }

    /// Makes sure that our trainer is not taken by default for a model that it does not train.
    fn check_stack(&self) -> Result<(), SpecError> {
        let (None, None, Ok(config)) = (&self.gpu, self.stack, self.config()) else {
            return Ok(());
        };
        check::check(&config, Stack::Candle).map_err(|unsupported| {
            SpecError::without_place(format!(
                "--model {}: {unsupported}; PyTorch's stack is planned with --gpu GPU or --stack torch",
                self.model
            ))
        })
    }

    /// The keys of the cell that its names decide, and those that are common practice on one GPU. With
    /// `is_other_dtype`, an override decides on the number format.
    fn defaults(&self, is_other_dtype: bool) -> Value {
        let config = self.config().ok();
        let task = match config.as_ref().is_some_and(|config| config.family.is_encoder()) {
            true => Task::SequenceClassification,
            false => Task::CausalLm,
        };
        let positions = config.as_ref().map_or(TOKENS, |config| config.max_position_embeddings);
        let (dtype, batch, accumulation, checkpointing) = match self.start {
            Start::Frugal => (Dtype::Int4, 1, EFFECTIVE_BATCH, Checkpointing::Full),
            Start::Roomy => (self.training_format(), EFFECTIVE_BATCH, 1, Checkpointing::None),
        };
        let mut keys = json!({
            "model": self.model,
            "stack": self.stack(),
            "task": task,
            "dtype": dtype,
            "rank": Cell::default().rank,
            "batch_size": batch,
            "gradient_accumulation_steps": accumulation,
            "max_seq_length": TOKENS.min(positions),
            "padding": Padding::Longest,
            "gradient_checkpointing": checkpointing,
        });
        if let Some(gpu) = &self.gpu {
            keys["gpu"] = json!(gpu);
        }
        if self.stack() == Stack::Torch {
            let format = self.training_format();
            // transformers' sdpa has no soft cap; its Gemma 2 is eager by default.
            let has_cap = config.is_some_and(|config| config.attention_softcap.is_some());
            keys["attn_implementation"] = json!(if has_cap { Attention::Eager } else { Attention::Sdpa });
            keys["autocast"] = json!(match format {
                Dtype::Float16 => Autocast::Float16,
                _ => Autocast::Bfloat16,
            });
            if dtype == Dtype::Int4 || is_other_dtype {
                keys["bnb_4bit_compute_dtype"] = json!(format);
            }
            // As in transformers' Trainer.
            keys["optim"] = json!(Optimizer::AdamwTorchFused);
            keys["torch"] = json!({ "keep_outputs": OutputLifetime::None });
            // The default of transformers' TrainingArguments, which decides the order of the samples.
            keys["seed"] = json!(42);
        }
        keys
    }

    /// The model's shape; an error is reported where the cell is checked or planned.
    fn config(&self) -> Result<ModelConfig, ArchError> {
        match Preset::of_hub_name(&self.model) {
            Some(preset) => Ok(preset.config()),
            None => locate(&self.model, &self.roots)?.config(),
        }
    }

    /// The 16-bit format that the GPU multiplies fast: bfloat16 from Ampere on.
    fn training_format(&self) -> Dtype {
        let gpu = self.gpu.as_deref().and_then(|name| Gpu::named(name).ok());
        match gpu {
            Some(gpu) if gpu.capability < NATIVE_BFLOAT16 => Dtype::Float16,
            _ => Dtype::Bfloat16,
        }
    }

    /// The arguments of the command line that give these names.
    fn arguments(&self) -> Vec<String> {
        let stack = self.stack.map(|stack| stack.name().to_owned());
        let options = [
            ("--model", Some(&self.model)),
            ("--data", self.data.as_ref()),
            ("--gpu", self.gpu.as_ref()),
            ("--stack", stack.as_ref()),
        ];
        let given = options.into_iter().filter_map(|(option, value)| Some((option, value?)));
        given.map(|(option, value)| format!("{option}={value}")).collect()
    }
}

impl Study {
    /// The configuration that names stand for: each key that is not a spec's default, and those that decide most of the
    /// memory. `None` for a study of a file.
    pub fn named_configuration(&self) -> Option<IndexMap<String, Value>> {
        const ALWAYS: [&str; 8] = [
            "model",
            "stack",
            "gpu",
            "dtype",
            "rank",
            "target_modules",
            "batch_size",
            "max_seq_length",
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
                let lines = keys.iter().map(|(key, value)| format!("  {key}: {value}\n"));
                text.extend(lines);
            }
            value => text += &format!("{section}: {}\n", to_flow_yaml(value)),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn study(model: &str, gpu: Option<&str>, settings: &[&str]) -> Result<Study, String> {
        let names = Names {
            model: model.into(),
            data: None,
            gpu: gpu.map(str::to_owned),
            stack: None,
            start: Start::Frugal,
            roots: Roots::from("."),
        };
        let settings = settings.iter().copied().map(str::to_owned).collect();
        let study = names.study(&Overrides::new([], settings));
        study.map_err(|error| error.to_string())
    }

    #[test]
    fn every_preset_is_a_study_by_its_name() {
        for preset in Preset::ALL {
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
            "expctl plan '--model=./models/A b' '--gpu=RTX 3090' --set rank=4"
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
        let of_file = parse(Path::new("x.yaml"), "name: x", &Overrides::default()).unwrap();
        assert_eq!(of_file.named_configuration(), None);
    }
}
