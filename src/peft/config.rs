//! `adapter_config.json`.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::formats::format;
use crate::options::{Adapter, Bias, InitLoraWeights, LoraOptions, Patterns, TargetModules, Task, matching};

/// The content of `adapter_config.json`. Missing keys have PEFT's defaults.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Config {
    peft_type: PeftType,
    task_type: String,
    /// The name or the folder of the model that the adapter belongs to.
    pub base_model_name_or_path: String,
    /// Rank of the factors.
    pub r: usize,
    /// The product of the factors is scaled by `lora_alpha / r`.
    pub lora_alpha: f64,
    /// Dropout on the adapter's input while it was trained.
    pub lora_dropout: f64,
    /// The modules that have an adapter.
    pub target_modules: Targets,
    /// The blocks that have them; all without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layers_to_transform: Option<Layers>,
    /// Suffixes of the names of modules that are trained and saved whole, besides the adapters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modules_to_save: Option<Vec<String>>,
    /// DoRA in place of LoRA.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    use_dora: bool,
    /// The product is scaled by `lora_alpha / √r`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub use_rslora: bool,
    /// The start values of the factors. PEFT takes those of PiSSA and OLoRA out of the weight again when it loads the adapter.
    #[serde(default)]
    pub init_lora_weights: Init,
    /// Other ranks of some modules.
    #[serde(default, skip_serializing_if = "Patterns::is_empty")]
    pub rank_pattern: Patterns<usize>,
    /// Another alpha of some modules.
    #[serde(default, skip_serializing_if = "Patterns::is_empty")]
    pub alpha_pattern: Patterns<f64>,
    /// The biases that are saved with the adapters.
    pub bias: Bias,
    fan_in_fan_out: bool,
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

/// PEFT's `init_lora_weights`: a word, or true for the default.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Init {
    /// The default, if true.
    Usual(bool),
    /// A named one.
    Named(InitLoraWeights),
}

impl Default for Init {
    fn default() -> Self {
        Self::Usual(true)
    }
}

impl From<InitLoraWeights> for Init {
    fn from(init: InitLoraWeights) -> Self {
        match init {
            InitLoraWeights::Default => Self::Usual(true),
            named => Self::Named(named),
        }
    }
}

impl Init {
    /// The start values; PEFT's `false` has none of its own.
    pub fn init(self) -> InitLoraWeights {
        match self {
            Self::Usual(_) => InitLoraWeights::Default,
            Self::Named(named) => named,
        }
    }
}

/// PEFT's type of adapter; DoRA is a kind of LoRA.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum PeftType {
    Lora,
}

impl Config {
    /// The configuration of a model's adapters. PEFT saves the head of a classifier with it.
    pub fn new(task: Task, base_model: impl Into<String>, lora: &LoraOptions) -> Self {
        let (task_type, modules_to_save) = match task {
            Task::CausalLm => ("CAUSAL_LM", None),
            Task::SequenceClassification => ("SEQ_CLS", Some(["classifier", "score"].map(String::from).to_vec())),
        };
        Self {
            peft_type: PeftType::Lora,
            task_type: task_type.into(),
            base_model_name_or_path: base_model.into(),
            r: lora.rank,
            lora_alpha: lora.alpha,
            lora_dropout: lora.dropout,
            target_modules: match &lora.target_modules {
                TargetModules::Pattern(pattern) => Targets::Pattern(pattern.to_string()),
                TargetModules::AllLinear | TargetModules::Names(_) => Targets::Names(BTreeSet::new()),
            },
            layers_to_transform: lora.layers_to_transform.clone().map(Layers::Several),
            modules_to_save,
            use_dora: format(lora.adapter).use_dora,
            use_rslora: lora.use_rslora,
            init_lora_weights: lora.init.into(),
            rank_pattern: lora.rank_pattern.clone(),
            alpha_pattern: lora.alpha_pattern.clone(),
            bias: lora.bias,
            fan_in_fan_out: false,
            inference_mode: true,
        }
    }

    /// The rank of a module's factors.
    pub(super) fn rank_of(&self, module: &str) -> usize {
        matching(&self.rank_pattern, module).unwrap_or(self.r)
    }

    /// The method of the adapters.
    ///
    /// # Errors
    /// If none is saved with these settings.
    pub fn adapter(&self) -> Result<Adapter, String> {
        let mut adapters = Adapter::ALL.into_iter();
        let found = adapters.find(|adapter| format(*adapter).use_dora == self.use_dora);
        found.ok_or_else(|| format!("no known adapter is saved with `use_dora: {}`", self.use_dora))
    }

    /// True if a tensor belongs to a module that is saved whole, or is a trained bias.
    pub(super) fn saves_whole(&self, name: &str) -> bool {
        if self.bias != Bias::None && name.ends_with(".bias") {
            return true;
        }
        let module = name.rsplit_once('.').map_or("", |(module, _)| module);
        let mut saved = self.modules_to_save.iter().flatten();
        saved.any(|suffix| module.ends_with(suffix.as_str()))
    }
}
