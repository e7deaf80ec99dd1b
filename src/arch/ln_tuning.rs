//! PEFT's choice of norms for LayerNorm tuning, by family.

use super::config::ModelConfig;
use super::family::Family;
use crate::options::{AdapterMethod, AdapterOptions, ends_in};

impl ModelConfig {
    /// The norms that PEFT tunes (`TRANSFORMERS_MODELS_TO_LNTUNING_TARGET_MODULES_MAPPING`), by the ends of their names; `None`
    /// where it has no choice.
    pub fn tuned_norms(&self) -> Option<&'static [&'static str]> {
        Some(match self.family {
            Family::Llama | Family::Mistral => &["input_layernorm", "post_attention_layernorm", "norm"],
            Family::Gemma2 | Family::Gemma3 => &[
                "input_layernorm",
                "post_attention_layernorm",
                "pre_feedforward_layernorm",
                "post_feedforward_layernorm",
                "norm",
            ],
            Family::Qwen2 | Family::Qwen3 => &["post_attention_layernorm"],
            Family::Phi3 | Family::DistilBert | Family::Bert => return None,
        })
    }

    /// True if the norm called `module` in full is tuned.
    pub fn tunes_norm(&self, adapter: &AdapterOptions, module: &str) -> bool {
        let is_tuned = |names: &[&str]| names.iter().any(|name| ends_in(module, name));
        adapter.method == AdapterMethod::LnTuning && self.tuned_norms().is_some_and(is_tuned)
    }
}
