//! PEFT's types of adapters, each with its own keys of `adapter_config.json`.

use serde::{Deserialize, Serialize};

use super::{formats::SavedTensor, lora::LoraConfig};
use crate::options::{Adapter, AdapterMethod, Bias};

/// The keys of one type. DoRA is a kind of LoRA.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "peft_type")]
pub enum MethodConfig {
    /// LoRA and DoRA.
    #[serde(rename = "LORA")]
    Lora(LoraConfig),
}

impl MethodConfig {
    pub(super) fn new(method: &AdapterMethod) -> Self {
        match method {
            AdapterMethod::Lora(lora) => Self::Lora(LoraConfig::new(lora, false)),
            AdapterMethod::Dora(lora) => Self::Lora(LoraConfig::new(lora, true)),
        }
    }

    /// The method of the adapters.
    pub(super) fn adapter(&self) -> Adapter {
        match self {
            Self::Lora(lora) if lora.use_dora => Adapter::Dora,
            Self::Lora(_) => Adapter::Lora,
        }
    }

    /// The tensors of one module's adapter.
    pub(super) fn tensors(&self) -> &'static [SavedTensor] {
        match self {
            Self::Lora(lora) => lora.tensors(),
        }
    }

    /// The rank of a module's adapter.
    pub(super) fn rank_of(&self, module: &str) -> usize {
        match self {
            Self::Lora(lora) => lora.rank_of(module),
        }
    }

    /// The biases that are saved with the adapters.
    pub(super) fn bias(&self) -> Bias {
        match self {
            Self::Lora(lora) => lora.bias,
        }
    }
}
