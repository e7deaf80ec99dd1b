//! `adapter_config.json`.

use std::collections::BTreeSet;

use options::{Adapter, AdapterMethod, AdapterOptions, Bias, TargetModules, Task};
use serde::{Deserialize, Serialize};

use super::{
    formats::SavedTensor,
    ia3::Ia3Config,
    lora::LoraConfig,
    method::MethodConfig,
    prompt_tuning::PROMPT_EMBEDDINGS,
    targets::{Layers, Targets},
    vera::VERA_SHARED,
};

/// The content of `adapter_config.json`. Missing keys have PEFT's defaults.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Config {
    #[serde(default)]
    task_type: Option<String>,
    /// The name or the folder of the model that the adapter belongs to.
    #[serde(default)]
    pub base_model_name_or_path: Option<String>,
    /// `peft_type`, and the keys of that type.
    #[serde(flatten)]
    pub method: MethodConfig,
    /// The modules that have an adapter; none of virtual tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_modules: Option<Targets>,
    /// The blocks that have them; all without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layers_to_transform: Option<Layers>,
    /// Suffixes of the names of modules that are trained and saved whole, besides the adapters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modules_to_save: Option<Vec<String>>,
    #[serde(default)]
    inference_mode: bool,
}

/// Names of a classifier's head, which PEFT saves with its adapter.
pub(super) const HEADS: [&str; 2] = ["classifier", "score"];

/// PEFT's name of a task.
pub fn task_type(task: Task) -> &'static str {
    match task {
        Task::CausalLm => "CAUSAL_LM",
        Task::SequenceClassification => "SEQ_CLS",
    }
}

impl Config {
    /// The configuration of a model's adapters. PEFT saves the head of a classifier with it.
    pub fn new(task: Task, base_model: impl Into<String>, adapter: &AdapterOptions) -> Self {
        let heads: &[&str] = match task {
            Task::CausalLm => &[],
            Task::SequenceClassification => &HEADS,
        };
        let saved = adapter.modules_to_save.iter().cloned();
        let saved: Vec<String> = saved.chain(heads.iter().map(ToString::to_string)).collect();
        let base_model = base_model.into();
        let method = MethodConfig::new(&adapter.method, &base_model);
        Self {
            task_type: Some(task_type(task).into()),
            base_model_name_or_path: Some(base_model),
            target_modules: (!method.adapter().has_virtual_tokens()).then(|| match &adapter.target_modules {
                Some(TargetModules::Pattern(pattern)) => Targets::Pattern(pattern.to_string()),
                None | Some(TargetModules::AllLinear) => Targets::Names(BTreeSet::new()),
                Some(TargetModules::Names(names)) => Targets::Names(names.iter().cloned().collect()),
            }),
            method,
            // Modules that are listed one by one need none.
            layers_to_transform: match &adapter.target_modules {
                _ if matches!(adapter.method, AdapterMethod::Ia3(_)) => None,
                Some(TargetModules::Names(names)) if names.iter().any(|name| name.contains('.')) => None,
                _ => adapter.layers_to_transform.clone().map(Layers::Several),
            },
            modules_to_save: (!saved.is_empty()).then_some(saved),
            inference_mode: true,
        }
    }

    /// PEFT's name of the task, if there is one.
    pub fn task_type(&self) -> Option<&str> {
        self.task_type.as_deref()
    }

    /// True if PEFT adds the names of heads to the modules that are saved whole.
    pub(super) fn is_of_classifier(&self) -> bool {
        self.task_type() == Some(task_type(Task::SequenceClassification))
    }

    /// The method of the adapters.
    pub fn adapter(&self) -> Adapter {
        self.method.adapter()
    }

    /// The keys of LoRA and DoRA, if it is one of them.
    pub fn lora(&self) -> Option<&LoraConfig> {
        match &self.method {
            MethodConfig::Lora(lora) => Some(lora),
            MethodConfig::Ia3(_)
            | MethodConfig::Miss(_)
            | MethodConfig::Vera(_)
            | MethodConfig::PromptTuning(_)
            | MethodConfig::PrefixTuning(_)
            | MethodConfig::LnTuning(_) => None,
        }
    }

    /// Lists the modules that have adapters, given by their names with their tensors' shapes.
    pub(super) fn list_modules(&mut self, modules: &[(&str, &[usize])]) {
        let listed: BTreeSet<String> = match &mut self.method {
            MethodConfig::Ia3(ia3) => {
                ia3.feedforward_modules = Some(Ia3Config::feedforward(modules));
                modules.iter().map(|(name, _)| (*name).to_owned()).collect()
            }
            MethodConfig::PromptTuning(_) | MethodConfig::PrefixTuning(_) => return,
            _ if self.target_modules.as_ref().is_some_and(Targets::are_single) => {
                modules.iter().map(|(name, _)| (*name).to_owned()).collect()
            }
            MethodConfig::Lora(_) | MethodConfig::Miss(_) | MethodConfig::Vera(_) | MethodConfig::LnTuning(_) => {
                let last = modules.iter().filter_map(|(name, _)| name.rsplit('.').next());
                last.map(str::to_owned).collect()
            }
        };
        self.target_modules = Some(Targets::Names(listed));
    }

    /// The tensors of one module's adapter.
    pub(super) fn tensors(&self) -> &'static [SavedTensor] {
        self.method.tensors()
    }

    /// The rank of a module's adapter.
    pub(super) fn rank_of(&self, module: &str) -> usize {
        self.method.rank_of(module)
    }

    /// True if a tensor belongs to a module that is saved whole, is a trained bias, or belongs to no module.
    pub(super) fn saves_whole(&self, name: &str) -> bool {
        if name == PROMPT_EMBEDDINGS {
            return self.adapter().has_virtual_tokens();
        }
        if VERA_SHARED.contains(&name) {
            return matches!(&self.method, MethodConfig::Vera(vera) if vera.save_projection);
        }
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
