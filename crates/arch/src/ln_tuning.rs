//! PEFT's choice of norms for LayerNorm tuning, by family.

use options::{Adapter, AdapterOptions, ends_in};

use super::config::ModelConfig;
use super::family::Family;

/// The norms that PEFT tunes (`TRANSFORMERS_MODELS_TO_LNTUNING_TARGET_MODULES_MAPPING`), by the ends of their names;
/// `None` where it has no choice.
fn tuned_norms(family: Family) -> Option<&'static [&'static str]> {
    Some(match family {
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

/// PEFT's choices of norms for LayerNorm tuning, one for each family that has one.
pub fn norm_choices() -> impl Iterator<Item = &'static [&'static str]> {
    Family::ALL.iter().filter_map(|family| tuned_norms(*family))
}

impl ModelConfig {
    /// The norms that PEFT tunes, by the ends of their names; `None` where it has no choice.
    pub fn tuned_norms(&self) -> Option<&'static [&'static str]> {
        tuned_norms(self.family)
    }

    /// True if the norm called `module` in full is tuned.
    pub fn tunes_norm(&self, adapter: &AdapterOptions, module: &str) -> bool {
        let is_tuned = |names: &[&str]| names.iter().any(|name| ends_in(module, name));
        let is_method = adapter.adapter() == Adapter::LnTuning && !adapter.saves_whole(module);
        is_method && self.tuned_norms().is_some_and(is_tuned)
    }
}
