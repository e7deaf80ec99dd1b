//! LoHa (Hyeon-Woo et al. 2021, arXiv:2108.06098): the element-wise product of two low-rank products is added to the
//! weight.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::interface::{Context, Facts, Field, Layer, Method, Of, OwnScales, SavedTensor, Tensor, fixed, key, start};
use crate::invalid::Invalid;
use crate::{Dtype, Patterns, Stack};

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

impl Method for Loha {
    fn own_scales(&self) -> Option<OwnScales<'_>> {
        Some(OwnScales {
            map: "loha",
            ranks: &self.rank_pattern,
            alphas: &self.alpha_pattern,
            alpha_key: "loha.alpha",
            alpha: Some(self.alpha),
        })
    }

    fn tensors(&self, layer: &Layer<'_>) -> Vec<Tensor> {
        let (rank, left, right) = (layer.rank, layer.rows, layer.columns);
        let shapes = [[left, rank], [rank, right]];
        let shapes = shapes.iter().cycle();
        HADA.iter()
            .zip(shapes)
            .map(|(name, shape)| Tensor::new(name, *shape))
            .collect()
    }

    fn check(&self, context: &Context<'_>, found: &mut Vec<Invalid>) {
        self.check_patterns(context.rank, context.lora_alpha, found);
        check_four_bits(context, found);
    }
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
