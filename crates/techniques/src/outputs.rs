//! A training loop that lets a micro-batch's outputs go.

use options::OutputLifetime;

use super::technique::Technique;
use super::toggle::toggle;

pub(super) const OUTPUTS: Technique = toggle!(
    "torch.keep_outputs", keep_outputs: OutputLifetime::None,
    does: "Lets a micro-batch's logits go before the backward pass ends.",
    avoid: "Where the loop reads the logits after the loss.",
    meaning: "logits are let go after the loss, as in transformers' Trainer"
);
