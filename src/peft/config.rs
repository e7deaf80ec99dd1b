//! `adapter_config.json`.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{formats::SavedTensor, lora::LoraConfig, method::MethodConfig};
use crate::options::{Adapter, AdapterOptions, Bias, TargetModules, Task};

/// The content of `adapter_config.json`. Missing keys have PEFT's defaults.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Config {
    task_type: String,
    /// The name or the folder of the model that the adapter belongs to.
    pub base_model_name_or_path: String,
    /// `peft_type`, and the keys of that type.
    #[serde(flatten)]
    pub method: MethodConfig,
    /// The modules that have an adapter.
    pub target_modules: Targets,
    /// The blocks that have them; all without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layers_to_transform: Option<Layers>,
    /// Suffixes of the names of modules that are trained and saved whole, besides the adapters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modules_to_save: Option<Vec<String>>,
    inference_mode: bool,
}

/// PEFT's `target_modules`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Targets {
    /// Last components of the modules' names, or the names in full.
    Names(BTreeSet<String>),
    /// A regular expression for names in full.
    Pattern(String),
}

impl Targets {
    /// The last components of the names; none of a regular expression.
    pub fn last_components(&self) -> BTreeSet<String> {
        let names = match self {
            Self::Names(names) => names.iter(),
            Self::Pattern(_) => return BTreeSet::new(),
        };
        names
            .filter_map(|name| name.rsplit('.').next())
            .map(str::to_owned)
            .collect()
    }
}

/// PEFT's `layers_to_transform`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Layers {
    /// One block.
    One(usize),
    /// Some blocks.
    Several(Vec<usize>),
}

impl Config {
    /// The configuration of a model's adapters. PEFT saves the head of a classifier with it.
    pub fn new(task: Task, base_model: impl Into<String>, adapter: &AdapterOptions) -> Self {
        let (task_type, heads): (_, &[&str]) = match task {
            Task::CausalLm => ("CAUSAL_LM", &[]),
            Task::SequenceClassification => ("SEQ_CLS", &["classifier", "score"]),
        };
        let saved = adapter.modules_to_save.iter().cloned();
        let saved: Vec<String> = saved.chain(heads.iter().map(ToString::to_string)).collect();
        Self {
            task_type: task_type.into(),
            base_model_name_or_path: base_model.into(),
            method: MethodConfig::new(&adapter.method),
            target_modules: match &adapter.target_modules {
                TargetModules::Pattern(pattern) => Targets::Pattern(pattern.to_string()),
                TargetModules::AllLinear | TargetModules::Names(_) => Targets::Names(BTreeSet::new()),
            },
            layers_to_transform: adapter.layers_to_transform.clone().map(Layers::Several),
            modules_to_save: (!saved.is_empty()).then_some(saved),
            inference_mode: true,
        }
    }

    /// The method of the adapters.
    pub fn adapter(&self) -> Adapter {
        self.method.adapter()
    }

    /// The keys of LoRA and DoRA, if it is one of them.
    pub fn lora(&self) -> Option<&LoraConfig> {
        match &self.method {
            MethodConfig::Lora(lora) => Some(lora),
        }
    }

    /// The tensors of one module's adapter.
    pub(super) fn tensors(&self) -> &'static [SavedTensor] {
        self.method.tensors()
    }

    /// The rank of a module's adapter.
    pub(super) fn rank_of(&self, module: &str) -> usize {
        self.method.rank_of(module)
    }

    /// True if a tensor belongs to a module that is saved whole, or is a trained bias.
    pub(super) fn saves_whole(&self, name: &str) -> bool {
        if self.method.bias() != Bias::None && name.ends_with(".bias") {
            return true;
        }
        let module = name.rsplit_once('.').map_or("", |(module, _)| module);
        // `classifier` is DistilBERT's `pre_classifier`, too: PEFT compares letters.
        let ends = module.match_indices('.').map(|(at, _)| at).chain([module.len()]);
        let mut outer = ends.map(|end| &module[..end]);
        outer.any(|outer| {
            let mut saved = self.modules_to_save.iter().flatten();
            saved.any(|name| outer.ends_with(name.as_str()))
        })
    }
}
