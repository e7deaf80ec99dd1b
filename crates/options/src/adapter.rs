//! The options that decide the adapters of a model.

use super::{
    Adapter, Bias, Dtype, Ia3Options, LoraOptions, MissOptions, PrefixTuningOptions, PromptTuningOptions,
    TargetModules, VeraOptions, ends_in,
};

/// Adapters: of linear layers, virtual tokens, or trained norms.
#[derive(Debug, Clone, PartialEq)]
pub struct AdapterOptions {
    /// The method, with its own options.
    pub method: AdapterMethod,
    /// The linear layers that get an adapter; PEFT's for the method and the family without.
    pub target_modules: Option<TargetModules>,
    /// The blocks in which they get one; all, and what lies outside, without.
    pub layers_to_transform: Option<Vec<usize>>,
    /// The modules that are trained and saved whole: their names, or the ends of them.
    pub modules_to_save: Vec<String>,
    /// Number format of what is trained, its gradients and its optimizer states.
    pub dtype: Dtype,
}

/// A method with its own options.
#[derive(Debug, Clone, PartialEq)]
pub enum AdapterMethod {
    /// LoRA.
    Lora(LoraOptions),
    /// DoRA, which has LoRA's options.
    Dora(LoraOptions),
    /// IA3.
    Ia3(Ia3Options),
    /// MiSS.
    Miss(MissOptions),
    /// VeRA.
    Vera(VeraOptions),
    /// Prompt tuning.
    PromptTuning(PromptTuningOptions),
    /// Prefix tuning.
    PrefixTuning(PrefixTuningOptions),
    /// LayerNorm tuning.
    LnTuning,
}

impl AdapterMethod {
    /// The method without its options.
    pub fn adapter(&self) -> Adapter {
        match self {
            Self::Lora(_) => Adapter::Lora,
            Self::Dora(_) => Adapter::Dora,
            Self::Ia3(_) => Adapter::Ia3,
            Self::Miss(_) => Adapter::Miss,
            Self::Vera(_) => Adapter::Vera,
            Self::PromptTuning(_) => Adapter::PromptTuning,
            Self::PrefixTuning(_) => Adapter::PrefixTuning,
            Self::LnTuning => Adapter::LnTuning,
        }
    }
}

impl AdapterOptions {
    /// LoRA on every linear layer, with `scale = alpha / rank` and no options of its own.
    pub fn lora(rank: usize, alpha: f64) -> Self {
        Self::new(AdapterMethod::Lora(LoraOptions::new(rank, alpha)))
    }

    /// The method on every linear layer, in float32.
    pub fn new(method: AdapterMethod) -> Self {
        Self {
            method,
            target_modules: Some(TargetModules::AllLinear),
            layers_to_transform: None,
            modules_to_save: Vec::new(),
            dtype: Dtype::Float32,
        }
    }

    /// The options of LoRA and DoRA.
    pub fn lora_options(&self) -> Option<&LoraOptions> {
        match &self.method {
            AdapterMethod::Lora(lora) | AdapterMethod::Dora(lora) => Some(lora),
            AdapterMethod::Ia3(_)
            | AdapterMethod::Miss(_)
            | AdapterMethod::Vera(_)
            | AdapterMethod::PromptTuning(_)
            | AdapterMethod::PrefixTuning(_)
            | AdapterMethod::LnTuning => None,
        }
    }

    /// The rank of the adapter of the module called `module` in full; 0 of a method without ranks.
    pub fn rank_of(&self, module: &str) -> usize {
        match &self.method {
            AdapterMethod::Lora(lora) | AdapterMethod::Dora(lora) => lora.rank_of(module),
            AdapterMethod::Ia3(_)
            | AdapterMethod::PromptTuning(_)
            | AdapterMethod::PrefixTuning(_)
            | AdapterMethod::LnTuning => 0,
            AdapterMethod::Miss(miss) => miss.rank,
            AdapterMethod::Vera(vera) => vera.rank,
        }
    }

    /// Virtual tokens before each sequence, which have positions.
    pub fn virtual_tokens(&self) -> usize {
        match &self.method {
            AdapterMethod::PrefixTuning(prefix) => prefix.num_virtual_tokens,
            _ => self.prompt_tokens(),
        }
    }

    /// Those of them that go through the blocks as tokens do.
    pub fn prompt_tokens(&self) -> usize {
        match &self.method {
            AdapterMethod::PromptTuning(prompt) => prompt.num_virtual_tokens,
            _ => 0,
        }
    }

    /// True if the module called `module` in full, or one around it, is trained and saved whole.
    pub fn saves_whole(&self, module: &str) -> bool {
        saves_whole(&self.modules_to_save, module)
    }

    /// Probability of dropout on the adapters' inputs.
    pub fn dropout(&self) -> f64 {
        match &self.method {
            AdapterMethod::Lora(lora) | AdapterMethod::Dora(lora) => lora.dropout,
            AdapterMethod::Ia3(_)
            | AdapterMethod::PromptTuning(_)
            | AdapterMethod::PrefixTuning(_)
            | AdapterMethod::LnTuning => 0.0,
            AdapterMethod::Miss(miss) => miss.dropout,
            AdapterMethod::Vera(vera) => vera.dropout,
        }
    }

    /// The biases that are trained beside the adapters.
    pub fn bias(&self) -> Bias {
        self.lora_options().map_or(Bias::None, |lora| lora.bias)
    }

    /// The learning rate of trained vectors over the step's.
    pub fn lr_ratio(&self) -> f64 {
        self.lora_options().map_or(1.0, |lora| lora.lr_ratio)
    }
}

/// True if `block` is one of `blocks`, or there is no such list.
pub fn is_in(blocks: Option<&[usize]>, block: Option<usize>) -> bool {
    blocks.is_none_or(|blocks| block.is_some_and(|block| blocks.contains(&block)))
}

/// True if the module called `module` in full, or one around it, is called by one of `names`.
pub fn saves_whole(names: &[String], module: &str) -> bool {
    let ends = module.match_indices('.').map(|(at, _)| at).chain([module.len()]);
    let mut outer = ends.map(|end| &module[..end]);
    outer.any(|outer| names.iter().any(|name| ends_in(outer, name)))
}
