//! The key `lora`: LoRA's own options, in PEFT's words.

use std::collections::BTreeMap;

use options::{Bias, InitLoraWeights, Patterns};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::stacks;

/// Options of LoRA and DoRA.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(transform = mark)]
pub struct Lora {
    /// rsLoRA: the product is scaled by alpha / √rank in place of alpha / rank.
    pub use_rslora: bool,
    /// The start values of the factors. pissa and olora take them out of the weight, which is then another: PEFT does
    /// the same when it loads the adapter. pissa needs weights of floating-point numbers, as in PEFT.
    pub init_lora_weights: InitLoraWeights,
    /// Other ranks of some modules, by a regular expression for the end of their names, such as {q_proj: 8,
    /// "layers.0.mlp.*": 2}. A module that two patterns match is an error.
    #[schemars(with = "BTreeMap<String, usize>")]
    pub rank_pattern: Patterns<usize>,
    /// Other values of lora_alpha for some modules, by patterns as in rank_pattern.
    #[schemars(with = "BTreeMap<String, f64>")]
    pub alpha_pattern: Patterns<f64>,
    /// The biases that are trained with the adapters: none, all, or lora_only (those of layers that have one). For decoders.
    pub bias: Bias,
    /// LoRA+: the learning rate of B, and of trained vectors, over that of A. Default: 1.
    #[schemars(range(min = 0.0))]
    pub loraplus_lr_ratio: Option<f64>,
}

impl Lora {
    /// The learning rate of B over that of A.
    pub fn loraplus_lr_ratio(&self) -> f64 {
        self.loraplus_lr_ratio.unwrap_or(1.0)
    }
}

/// Writes the stacks of the keys into the schema.
fn mark(schema: &mut schemars::Schema) {
    stacks::mark_below(schema, "lora.");
}
