//! PEFT's types of adapters, each with its own keys of `adapter_config.json`.

use serde::{Deserialize, Serialize};

use super::{formats::SavedTensor, ia3::Ia3Config, lora::LoraConfig, miss::MissConfig, vera::VeraConfig};
use crate::options::{Adapter, AdapterMethod, Bias};

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
}

impl MethodConfig {
    pub(super) fn new(method: &AdapterMethod) -> Self {
        match method {
            AdapterMethod::Lora(lora) => Self::Lora(LoraConfig::new(lora, false)),
            AdapterMethod::Dora(lora) => Self::Lora(LoraConfig::new(lora, true)),
            AdapterMethod::Ia3(_) => Self::Ia3(Ia3Config::new()),
            AdapterMethod::Miss(miss) => Self::Miss(MissConfig::new(miss)),
            AdapterMethod::Vera(vera) => Self::Vera(VeraConfig::new(vera)),
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
        }
    }

    /// The tensors of one module's adapter.
    pub(super) fn tensors(&self) -> &'static [SavedTensor] {
        match self {
            Self::Lora(lora) => lora.tensors(),
            Self::Ia3(_) => Ia3Config::tensors(),
            Self::Miss(_) => MissConfig::tensors(),
            Self::Vera(_) => VeraConfig::tensors(),
        }
    }

    /// The rank of a module's adapter; 0 of a method without ranks.
    pub(super) fn rank_of(&self, module: &str) -> usize {
        match self {
            Self::Lora(lora) => lora.rank_of(module),
            Self::Ia3(_) => 0,
            Self::Miss(miss) => miss.r,
            Self::Vera(vera) => vera.r,
        }
    }

    /// The biases that are saved with the adapters.
    pub(super) fn bias(&self) -> Bias {
        match self {
            Self::Lora(lora) => lora.bias,
            Self::Ia3(_) | Self::Miss(_) | Self::Vera(_) => Bias::None,
        }
    }
}
