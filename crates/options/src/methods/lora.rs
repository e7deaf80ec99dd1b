//! LoRA (Hu et al. 2021, arXiv:2106.09685), with its variants.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::interface::{
    Context, Facts, Field, Layer, Method, Of, OwnScales, SavedTensor, Tensor, fixed, key, other_start, word,
};
use crate::invalid::{Invalid, number};
use crate::{Bias, Dtype, LoraATraining, Patterns, Stack, Task, matching};

/// LoRA's A, `[rank, input features]`.
pub const LORA_A: &str = "lora_A.weight";
/// LoRA's B, `[output features, rank]`.
pub const LORA_B: &str = "lora_B.weight";
/// DoRA's magnitudes, `[output features]`.
pub const MAGNITUDE: &str = "lora_magnitude_vector";

pub(super) const FACTS: Facts = Facts {
    title: "LoRA",
    peft_type: "LORA",
    mark: None,
    of: Of::Layers,
    is_chosen_by_family: false,
    keys: &KEYS,
    fields: &FIELDS,
    tensors: &[A, B],
};

pub(super) const KEYS: [&str; 6] = ["rank", "lora_alpha", "lora_dropout", "lora_fa", "lora", "adapter_dtype"];
pub(super) const A: SavedTensor = SavedTensor::matrix(LORA_A).rank_at(0);
pub(super) const B: SavedTensor = SavedTensor::matrix(LORA_B).rank_at(1);

const FIELDS: [Field; 9] = [
    RANK,
    ALPHA,
    DROPOUT,
    USE_RSLORA,
    INIT,
    RANK_PATTERN,
    ALPHA_PATTERN,
    BIAS,
    fixed("fan_in_fan_out", "false"),
];
/// The fields of DoRA, which is LoRA with `use_dora`.
pub(super) const FIELDS_OF_DORA: [Field; 10] = [
    RANK,
    ALPHA,
    DROPOUT,
    fixed("use_dora", "true"),
    USE_RSLORA,
    INIT,
    RANK_PATTERN,
    ALPHA_PATTERN,
    BIAS,
    fixed("fan_in_fan_out", "false"),
];
const RANK: Field = key("r", "rank").default("8").decides().field();
const ALPHA: Field = key("lora_alpha", "lora_alpha").default("8").decides().field();
const DROPOUT: Field = key("lora_dropout", "lora_dropout").field();
const USE_RSLORA: Field = key("use_rslora", "lora.use_rslora").decides().optional();
const INIT: Field = key("init_lora_weights", "lora.init_lora_weights")
    .words(&[word("true", r#""default""#), other_start("false", r#""default""#)])
    .alike(&[r#""default""#, r#""gaussian""#])
    .decides()
    .field();
const RANK_PATTERN: Field = key("rank_pattern", "lora.rank_pattern").decides().optional();
const ALPHA_PATTERN: Field = key("alpha_pattern", "lora.alpha_pattern").decides().optional();
const BIAS: Field = key("bias", "lora.bias").decides().field();

/// Options of LoRA and DoRA.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
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

impl Method for Lora {
    fn own_scales(&self) -> Option<OwnScales<'_>> {
        Some(OwnScales {
            map: "lora",
            ranks: &self.rank_pattern,
            alphas: &self.alpha_pattern,
            alpha_key: "lora_alpha",
            alpha: None,
        })
    }

    fn tensors(&self, layer: &Layer<'_>) -> Vec<Tensor> {
        let a = Tensor {
            is_trained: layer.lora_fa == LoraATraining::Trained,
            ..Tensor::new(LORA_A, [layer.rank, layer.columns])
        };
        let b = Tensor::new(LORA_B, [layer.rows, layer.rank]);
        let is_dora = layer.facts.has_tensor(MAGNITUDE);
        let magnitude = is_dora.then(|| Tensor::new(MAGNITUDE, [layer.rows]));
        [a, b].into_iter().chain(magnitude).collect()
    }

    fn scale(&self, rank: usize, lora_alpha: f64, module: &str) -> f64 {
        let rank = rank as f64;
        let divisor = if self.use_rslora { rank.sqrt() } else { rank };
        matching(&self.alpha_pattern, module).unwrap_or(lora_alpha) / divisor
    }

    fn bias(&self) -> Bias {
        self.bias
    }

    fn lr_ratio(&self) -> f64 {
        self.loraplus_lr_ratio()
    }

    fn check_layer(&self, layer: &Layer<'_>) -> Result<(), String> {
        let (rank, most, module) = (layer.rank, layer.rows.min(layer.columns), layer.name);
        if !self.init_lora_weights.changes_weight() || rank <= most {
            return Ok(());
        }
        let init = self.init_lora_weights.name();
        Err(format!(
            "`lora.init_lora_weights`: {init} finds {most} directions in {module}, fewer than the rank {rank}"
        ))
    }

    fn check_values(&self, found: &mut Vec<Invalid>) {
        if let Some(own) = self.own_scales() {
            own.check_values(found);
        }
        if let Some(ratio) = self.loraplus_lr_ratio {
            let holds = ratio > 0.0 && ratio <= 1e6;
            let range = "more than 0 and at most 1e6";
            found.extend(number("lora.loraplus_lr_ratio", ratio, holds, range).err());
        }
    }

    fn check(&self, context: &Context<'_>, found: &mut Vec<Invalid>) {
        let model = context.model;
        self.check_patterns(context.rank, context.lora_alpha, found);
        let is_dora = context.facts.has_tensor(MAGNITUDE);
        if context.stack == Stack::Candle && is_dora && context.lora_dropout > 0.0 {
            let message = "DoRA is not trained with dropout yet: PEFT then needs a second product with the weight";
            let invalid = Invalid::new("lora_dropout", message).with("adapter");
            found.push(invalid.help("leave the key out, or use `adapter: lora`"));
        }
        if context.stack == Stack::Candle && context.lora_fa == LoraATraining::Unstepped {
            let message = "the candle stack computes no gradients that nothing uses; supported: `none` and `frozen`";
            let invalid = Invalid::new("lora_fa", message).with("stack");
            found.push(invalid.help("use `lora_fa: frozen`"));
        }
        let is_classifier = model.task == Task::SequenceClassification;
        if self.bias != Bias::None && is_classifier {
            let message = "a classifier's biases are not trained beside adapters yet";
            let invalid = Invalid::new("lora.bias", message).with("task");
            found.push(invalid.help("leave the key out, or use `rank: 0` with `trainable: [bias]`"));
        }
        if self.loraplus_lr_ratio.is_some() && context.weight_decay > 0.0 {
            if self.bias != Bias::None || is_classifier {
                let message = "PEFT decays no bias with LoRA+, and all that is trained is decayed here";
                let invalid = Invalid::new("lora.loraplus_lr_ratio", message).with("weight_decay");
                found.push(invalid.help("use `weight_decay: 0`"));
            }
            if !context.modules_to_save.is_empty() {
                let message = "PEFT decays no vector with LoRA+, and all that is trained is decayed here";
                let invalid = Invalid::new("modules_to_save", message).with("weight_decay");
                found.push(invalid.with("lora.loraplus_lr_ratio").help("use `weight_decay: 0`"));
            }
        }
        if self.init_lora_weights.changes_weight() {
            self.check_start(context, is_dora, found);
        }
    }
}

impl Lora {
    /// Factors that are taken out of the weight.
    fn check_start(&self, context: &Context<'_>, is_dora: bool, found: &mut Vec<Invalid>) {
        let (init, dtype) = (self.init_lora_weights, context.model.dtype);
        let invalid = |message: &str| Invalid::new("lora.init_lora_weights", message);
        let help = "use `init_lora_weights: default` or `gaussian`";
        if init == InitLoraWeights::Pissa && dtype.is_quantised() {
            let message = "PiSSA's rest of a weight cannot be taken out of quantised numbers, as in PEFT";
            let invalid = invalid(message).with("dtype");
            found.push(invalid.help("use `init_lora_weights: olora`, or `dtype: bfloat16`"));
        }
        if dtype.is_quantised() && context.is_on_gpu {
            let message = "quantised weights are changed on the CPU only so far";
            found.push(invalid(message).with("dtype").with("device").help(help));
        }
        if context.stack == Stack::Candle && is_dora {
            let message = "DoRA's magnitudes are not computed from factors that were taken out of the weight yet";
            found.push(invalid(message).with("adapter").help(help));
        }
        if context.lora_fa != LoraATraining::Trained {
            let message = "LoRA-FA is defined with a random A, and a B of zeros";
            found.push(invalid(message).with("lora_fa").help(help));
        }
        if context.stack == Stack::Torch && init == InitLoraWeights::Olora && dtype == Dtype::Int8 {
            let message = "PEFT leaves weights of int8 in float32 after it, which is not planned";
            found.push(invalid(message).with("dtype").help(help));
        }
    }
}

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
