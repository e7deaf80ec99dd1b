//! PEFT's types of adapters, each with its own keys of `adapter_config.json`.

use options::{Adapter, AdapterMethod, Bias};
use serde::{Deserialize, Serialize};

use super::{
    formats::SavedTensor, ia3::Ia3Config, ln_tuning::LnTuningConfig, lora::LoraConfig, miss::MissConfig,
    prefix_tuning::PrefixTuningConfig, prompt_tuning::PromptTuningConfig, vera::VeraConfig,
};

/// The names of PEFT's types that are read and written.
pub(super) const TYPES: [&str; 7] = [
    "LORA",
    "IA3",
    "MISS",
    "VERA",
    "PROMPT_TUNING",
    "PREFIX_TUNING",
    "LN_TUNING",
];

/// The keys of one type. DoRA is a kind of LoRA.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "peft_type")]
pub enum MethodConfig {
    /// LoRA and DoRA.
    #[serde(rename = "LORA")]
    Lora(LoraConfig),
    /// IA3.
    #[serde(rename = "IA3")]
    Ia3(Ia3Config),
    /// MiSS.
    #[serde(rename = "MISS")]
    Miss(MissConfig),
    /// VeRA.
    #[serde(rename = "VERA")]
    Vera(VeraConfig),
    /// Prompt tuning.
    #[serde(rename = "PROMPT_TUNING")]
    PromptTuning(PromptTuningConfig),
    /// Prefix tuning.
    #[serde(rename = "PREFIX_TUNING")]
    PrefixTuning(PrefixTuningConfig),
    /// LayerNorm tuning.
    #[serde(rename = "LN_TUNING")]
    LnTuning(LnTuningConfig),
}

impl MethodConfig {
    pub(super) fn new(method: &AdapterMethod, base_model: &str) -> Self {
        match method {
            AdapterMethod::Lora(lora) => Self::Lora(LoraConfig::new(lora, false)),
            AdapterMethod::Dora(lora) => Self::Lora(LoraConfig::new(lora, true)),
            AdapterMethod::Ia3(_) => Self::Ia3(Ia3Config::default()),
            AdapterMethod::Miss(miss) => Self::Miss(MissConfig::new(miss)),
            AdapterMethod::Vera(vera) => Self::Vera(VeraConfig::new(vera)),
            AdapterMethod::PromptTuning(prompt) => Self::PromptTuning(PromptTuningConfig::new(prompt, base_model)),
            AdapterMethod::PrefixTuning(prefix) => Self::PrefixTuning(PrefixTuningConfig::new(prefix)),
            AdapterMethod::LnTuning => Self::LnTuning(LnTuningConfig {}),
        }
    }

    /// The method of the adapters.
    pub(super) fn adapter(&self) -> Adapter {
        match self {
            Self::Lora(lora) if lora.use_dora => Adapter::Dora,
            Self::Lora(_) => Adapter::Lora,
            Self::Ia3(_) => Adapter::Ia3,
            Self::Miss(_) => Adapter::Miss,
            Self::Vera(_) => Adapter::Vera,
            Self::PromptTuning(_) => Adapter::PromptTuning,
            Self::PrefixTuning(_) => Adapter::PrefixTuning,
            Self::LnTuning(_) => Adapter::LnTuning,
        }
    }

    /// The tensors of one module's adapter.
    pub(super) fn tensors(&self) -> &'static [SavedTensor] {
        match self {
            Self::Lora(lora) => lora.tensors(),
            Self::Ia3(_) => Ia3Config::tensors(),
            Self::Miss(_) => MissConfig::tensors(),
            Self::Vera(_) => VeraConfig::tensors(),
            Self::PromptTuning(_) | Self::PrefixTuning(_) => PromptTuningConfig::tensors(),
            Self::LnTuning(_) => LnTuningConfig::tensors(),
        }
    }

    /// The rank of a module's adapter; 0 of a method without ranks.
    pub(super) fn rank_of(&self, module: &str) -> usize {
        match self {
            Self::Lora(lora) => lora.rank_of(module),
            Self::Ia3(_) => 0,
            Self::Miss(miss) => miss.r,
            Self::Vera(vera) => vera.r,
            Self::PromptTuning(_) | Self::PrefixTuning(_) | Self::LnTuning(_) => 0,
        }
    }

    /// The biases that are saved with the adapters.
    pub(super) fn bias(&self) -> Bias {
        match self {
            Self::Lora(lora) => lora.bias,
            Self::Ia3(_)
            | Self::Miss(_)
            | Self::Vera(_)
            | Self::PromptTuning(_)
            | Self::PrefixTuning(_)
            | Self::LnTuning(_) => Bias::None,
        }
    }
}
