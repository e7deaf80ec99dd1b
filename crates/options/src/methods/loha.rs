//! LoHa (Hyeon-Woo et al. 2021, arXiv:2108.06098): the element-wise product of two low-rank products is added to the
//! weight.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::interface::{Context, Facts, Field, Layer, Method, Of, OwnScales, SavedTensor, Tensor, fixed, key, start};
use crate::invalid::{self, Invalid};
use crate::{Dtype, Patterns, Stack, matching};

/// The first product's factors, `[output features, rank]` and `[rank, input features]`, and the second's.
pub const HADA: [&str; 4] = ["hada_w1_a", "hada_w1_b", "hada_w2_a", "hada_w2_b"];

pub(super) const FACTS: Facts = Facts {
    title: "LoHa",
    peft_type: "LOHA",
    mark: None,
    of: Of::Layers,
    is_chosen_by_family: false,
    keys: &["rank", "loha", "adapter_dtype"],
    fields: &[
        key("r", "rank").default("8").decides().field(),
        key("alpha", "loha.alpha").decides().field(),
        DROPOUTS[0],
        DROPOUTS[1],
        fixed("use_effective_conv2d", "false"),
        start("init_weights", "true"),
        key("rank_pattern", "loha.rank_pattern").decides().field(),
        key("alpha_pattern", "loha.alpha_pattern").decides().field(),
    ],
    tensors: &[
        SavedTensor::matrix(HADA[0]).rank_at(1),
        SavedTensor::matrix(HADA[1]).rank_at(0),
        SavedTensor::matrix(HADA[2]).rank_at(1),
        SavedTensor::matrix(HADA[3]).rank_at(0),
    ],
};

/// Dropout of rows, and of whole layers.
pub(super) const DROPOUTS: [Field; 2] = [fixed("rank_dropout", "0.0"), fixed("module_dropout", "0.0")];

/// Options of LoHa.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Loha {
    /// The product is scaled by alpha / rank.
    pub alpha: f64,
    /// Other ranks of some modules, by a regular expression for the end of their names.
    #[schemars(with = "BTreeMap<String, usize>")]
    pub rank_pattern: Patterns<usize>,
    /// Other values of alpha for some modules, by patterns as in rank_pattern.
    #[schemars(with = "BTreeMap<String, f64>")]
    pub alpha_pattern: Patterns<f64>,
}

impl Default for Loha {
    fn default() -> Self {
        Self {
            alpha: 8.0,
            rank_pattern: Patterns::new(),
            alpha_pattern: Patterns::new(),
        }
    }
}

impl Loha {
    fn own_scales(&self) -> OwnScales<'_> {
        OwnScales {
            map: "loha",
            ranks: &self.rank_pattern,
            alphas: &self.alpha_pattern,
            alpha_key: "loha.alpha",
        }
    }
}

impl Method for Loha {
    fn tensors(&self, layer: &Layer<'_>) -> Vec<Tensor> {
        let (rank, left, right) = (layer.rank, layer.rows, layer.columns);
        let shapes = [[left, rank], [rank, right]];
        let shapes = shapes.iter().cycle();
        HADA.iter()
            .zip(shapes)
            .map(|(name, shape)| Tensor::new(name, *shape))
            .collect()
    }

    fn shorter_side(&self, rank: usize) -> usize {
        self.rank_pattern.values().fold(rank, |most, of| most.max(*of))
    }

    fn rank_pattern(&self) -> Option<&Patterns<usize>> {
        Some(&self.rank_pattern)
    }

    fn scale(&self, rank: usize, _lora_alpha: f64, module: &str) -> f64 {
        scale(rank, self.alpha, &self.alpha_pattern, module)
    }

    fn alpha_pattern(&self) -> Option<&Patterns<f64>> {
        Some(&self.alpha_pattern)
    }

    fn check_values(&self, found: &mut Vec<Invalid>) {
        found.extend(invalid::alpha("loha.alpha", self.alpha).err());
        self.own_scales().check_values(found);
    }

    fn check_patterns(&self, rank: usize, _lora_alpha: f64, found: &mut Vec<Invalid>) {
        self.own_scales().check_idle(rank, self.alpha, found);
    }

    fn check(&self, context: &Context<'_>, found: &mut Vec<Invalid>) {
        self.check_patterns(context.rank, context.lora_alpha, found);
        check_four_bits(context, found);
    }
}

/// The factor of a product of a module whose adapter has this rank: its alpha, or that of all, over the rank.
pub(super) fn scale(rank: usize, alpha: f64, alphas: &Patterns<f64>, module: &str) -> f64 {
    matching(alphas, module).unwrap_or(alpha) / rank as f64
}

/// What PEFT does not do beside weights of 4 bits, whose shape it takes for the layer's.
pub(super) fn check_four_bits(context: &Context<'_>, found: &mut Vec<Invalid>) {
    if context.stack == Stack::Torch && context.model.dtype == Dtype::Int4 {
        let title = context.facts.title;
        let message = format!("PEFT's {title} takes the packed shape of weights in 4 bits for the layer's, and fails");
        let invalid = Invalid::new("adapter", message).with("dtype");
        found.push(invalid.help("use `dtype: int8` or `bfloat16`, or another `adapter`"));
    }
}
