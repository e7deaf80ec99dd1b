//! Linear layers as the model has them: a base layer, and a PEFT method beside it. One file a method.

mod base;
mod dora;
pub(super) mod lora;
mod start;

use super::tape::Tensor;
pub(super) use base::{Base, BaseLayer};
use lora::Lora;

/// What PEFT puts beside a linear layer.
pub(super) enum Adapter<'t> {
    Lora(Lora<'t>),
}

/// A linear layer.
pub(super) struct Linear<'t> {
    /// Its place in the block, or in the model where it is in none, such as `self_attn.q_proj`.
    pub(super) path: &'static str,
    pub(super) base: BaseLayer<'t>,
    pub(super) adapter: Option<Adapter<'t>>,
}

impl<'t> Linear<'t> {
    pub(super) fn forward(&self, input: &Tensor<'t>) -> Tensor<'t> {
        match &self.adapter {
            None => self.base.forward(input),
            Some(Adapter::Lora(lora)) => lora.forward(&self.base, input),
        }
    }
}
