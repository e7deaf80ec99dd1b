//! The start values of LoRA's factors.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The start values of LoRA's factors, by PEFT's `init_lora_weights`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum InitLoraWeights {
    /// A is uniform in ±1/√(input features), B is zero: PEFT's `true`.
    #[default]
    Default,
    /// A is normal with the standard deviation 1/r, B is zero.
    Gaussian,
    /// PiSSA (Meng et al. 2024, arXiv:2404.02948): the leading singular vectors and values of the weight, which keeps the
    /// rest.
    Pissa,
    /// OLoRA (Büyükakyüz 2024, arXiv:2406.01775): the first columns of the weight's QR decomposition; the weight keeps the
    /// rest.
    Olora,
}

impl InitLoraWeights {
    /// The name in specs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Gaussian => "gaussian",
            Self::Pissa => "pissa",
            Self::Olora => "olora",
        }
    }

    /// True if the factors are taken out of the weight.
    pub fn changes_weight(self) -> bool {
        matches!(self, Self::Pissa | Self::Olora)
    }
}
