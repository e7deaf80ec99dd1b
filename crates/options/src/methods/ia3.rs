//! IA3 (Liu et al. 2022, arXiv:2205.05638).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::interface::{Context, Facts, Layer, Method, Of, SavedTensor, Tensor, fixed, key, start};
use crate::{Autocast, Invalid, Stack, Upcast};

/// The factors of outputs, `[output features, 1]`, or of inputs, `[1, input features]`.
pub const IA3: &str = "ia3_l";

pub(super) const FACTS: Facts = Facts {
    title: "IA3",
    peft_type: "IA3",
    mark: None,
    of: Of::Layers,
    is_chosen_by_family: true,
    keys: &["ia3", "adapter_dtype"],
    fields: &[
        key("feedforward_modules", "ia3.feedforward_modules").field(),
        fixed("fan_in_fan_out", "false"),
        start("init_ia3_weights", "true"),
    ],
    tensors: &[SavedTensor::matrix(IA3)],
};

/// Options of IA3.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Ia3 {
    /// The layers of target_modules whose inputs are scaled, by the ends of their names; the outputs of the others are.
    /// Default: PEFT's for the model's family, such as [down_proj].
    pub feedforward_modules: Option<Vec<String>>,
}

impl Method for Ia3 {
    fn tensors(&self, layer: &Layer<'_>) -> Vec<Tensor> {
        let shape = match layer.is_feedforward {
            true => [1, layer.columns],
            false => [layer.rows, 1],
        };
        vec![Tensor::new(IA3, shape)]
    }

    fn named_layers(&self) -> Option<(&'static str, &[String])> {
        let names = self.feedforward_modules.as_deref()?;
        Some(("ia3.feedforward_modules", names))
    }

    fn check(&self, context: &Context<'_>, found: &mut Vec<Invalid>) {
        let model = context.model;
        check_int8_inputs(context, "IA3's scaled inputs", found);
        if context.stack == Stack::Candle {
            return;
        }
        if context.layers_to_transform.is_some() {
            let message = "PEFT's IA3Config has no such key";
            let invalid = Invalid::new("layers_to_transform", message).with("adapter");
            found.push(invalid.help("name the layers with a regular expression in `target_modules`"));
        }
        if model.dtype.is_quantised() && model.upcast == Upcast::None && model.autocast == Autocast::None {
            let message = "PEFT's IA3 gives float32 beside quantised weights, which fails in the layers behind it";
            let invalid = Invalid::new("adapter", message).with("dtype").with("upcast");
            found.push(invalid.help("use `upcast: peft`, or `autocast: bfloat16`"));
        }
    }
}

/// Inputs that a method changes are not quantised by our trainer.
pub(super) fn check_int8_inputs(context: &Context<'_>, inputs: &str, found: &mut Vec<Invalid>) {
    let has_threshold = context
        .model
        .llm_int8_threshold
        .is_some_and(|threshold| threshold > 0.0);
    if context.stack == Stack::Candle && has_threshold {
        let message = format!("{inputs} are not multiplied as integers yet");
        let invalid = Invalid::new("llm_int8_threshold", message).with("adapter");
        found.push(invalid.help("leave the key out, or use another `adapter`"));
    }
}
