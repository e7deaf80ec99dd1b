//! Linear layers as the model has them: a base layer, and a PEFT method beside it; and what stands before the tokens of
//! sequences. One file a method.

mod base;
mod dora;
mod ia3;
mod lora;
mod miss;
mod prefix_tuning;
mod prompt_tuning;
mod start;
mod vera;

use super::tape::Tensor;
pub(super) use base::{Base, BaseLayer};
pub(super) use ia3::Ia3;
pub(super) use lora::Lora;
pub(super) use miss::Miss;
pub(super) use prefix_tuning::Prefix;
pub(super) use prompt_tuning::Prompt;
pub(super) use vera::Vera;

/// What PEFT puts beside a linear layer.
pub(super) enum Adapter<'t> {
    Lora(Lora<'t>),
    Ia3(Ia3<'t>),
    Miss(Miss<'t>),
    Vera(Vera<'t>),
}

/// What PEFT puts before the tokens of a sequence.
pub(super) enum VirtualTokens<'t> {
    Prompt(Prompt<'t>),
    Prefix(Prefix<'t>),
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
            Some(Adapter::Ia3(ia3)) => ia3.forward(&self.base, input),
            Some(Adapter::Miss(miss)) => miss.forward(&self.base, input),
            Some(Adapter::Vera(vera)) => vera.forward(&self.base, input),
        }
    }
}
