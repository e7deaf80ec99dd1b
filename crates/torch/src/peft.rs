//! Linear layers as the model has them: a base layer, and a PEFT method beside it; and what stands before the tokens of
//! sequences. One file a method.

mod base;
mod dora;
mod ia3;
mod interface;
mod loha;
mod lokr;
mod lora;
mod miss;
mod oft;
mod place;
mod prefix_tuning;
mod prompt_tuning;
mod start;
mod vera;

use options::AdapterMethod;

use super::tape::Tensor;
pub(super) use base::{Base, BaseLayer};
use ia3::Ia3;
use interface::Adapter;
use loha::Loha;
use lokr::Lokr;
use lora::Lora;
use miss::Miss;
use oft::Oft;
pub(super) use place::{Place, Register};
pub(super) use prefix_tuning::Prefix;
pub(super) use prompt_tuning::Prompt;
use vera::Vera;

/// Puts the adapter of the options' method beside a layer, if it is one of layers. A new method gets its line here.
pub(super) fn put<'t>(place: &mut Place<'_, 't>) -> Option<Box<dyn Adapter<'t> + 't>> {
    Some(match &place.options.method {
        AdapterMethod::Lora(lora) => Box::new(Lora::new(lora, place)),
        AdapterMethod::Dora(lora) => Box::new(Lora::with_magnitude(lora, place)),
        AdapterMethod::Ia3(_) => Box::new(Ia3::new(place)),
        AdapterMethod::Miss(miss) => Box::new(Miss::new(miss, place)),
        AdapterMethod::Vera(vera) => Box::new(Vera::new(vera, place)),
        AdapterMethod::Oft(oft) => Box::new(Oft::new(oft, place)),
        AdapterMethod::Loha(_) => Box::new(Loha::new(place)),
        AdapterMethod::Lokr(lokr) => Box::new(Lokr::new(lokr, place)),
        AdapterMethod::PromptTuning(_) | AdapterMethod::PrefixTuning(_) | AdapterMethod::LnTuning(_) => return None,
    })
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
    pub(super) adapter: Option<Box<dyn Adapter<'t> + 't>>,
}

impl<'t> Linear<'t> {
    pub(super) fn forward(&self, input: &Tensor<'t>) -> Tensor<'t> {
        match &self.adapter {
            None => self.base.forward(input),
            Some(adapter) => adapter.forward(&self.base, input),
        }
    }
}
