//! Linear layers as the model has them: a base weight, and a PEFT method beside it. One file a method.

mod dora;
pub(super) mod lora;
mod start;

use super::bitsandbytes::{EightBit, FourBit};
use super::dtype::Dtype;
use super::tape::Tape;
use super::tape::Tensor;
use lora::Lora;

/// The weight of a linear layer.
pub(super) enum Base<'t> {
    Dense(Tensor<'t>),
    FourBit(FourBit<'t>),
    EightBit(EightBit<'t>),
}

/// What PEFT puts beside a linear layer.
pub(super) enum Adapter<'t> {
    Lora(Lora<'t>),
}

/// A linear layer.
pub(super) struct Linear<'t> {
    /// Its place in the block, or in the model where it is in none, such as `self_attn.q_proj`.
    pub(super) path: &'static str,
    pub(super) base: Base<'t>,
    pub(super) bias: Option<Tensor<'t>>,
    pub(super) adapter: Option<Adapter<'t>>,
    pub(super) dims: [u32; 2],
}

impl<'t> Linear<'t> {
    pub(super) fn forward(&self, input: &Tensor<'t>) -> Tensor<'t> {
        match &self.adapter {
            None => self.base(input),
            Some(Adapter::Lora(lora)) => lora.forward(self, input),
        }
    }

    /// `self.base_layer(input)`.
    fn base(&self, input: &Tensor<'t>) -> Tensor<'t> {
        match &self.base {
            Base::Dense(weight) => input.linear(weight, self.bias.as_ref()),
            Base::FourBit(weight) => weight.forward(input, self.bias.as_ref()),
            Base::EightBit(weight) => weight.forward(input, self.bias.as_ref()),
        }
    }

    /// The same; PEFT copies what a 4-bit layer gives.
    fn base_copied(&self, input: &Tensor<'t>) -> Tensor<'t> {
        let result = self.base(input);
        match self.base {
            Base::FourBit(_) => result.copy(),
            Base::Dense(_) | Base::EightBit(_) => result,
        }
    }
}

impl<'t> Base<'t> {
    /// `dequantize_module_weight` in `utils/integrations.py`: the weight as numbers.
    fn dequantised(&self, tape: &'t Tape) -> Tensor<'t> {
        match self {
            Self::Dense(weight) => weight.clone().detach(),
            Self::FourBit(weight) => weight.dequantised(tape),
            Self::EightBit(weight) => weight.dequantised(tape),
        }
    }
}

impl Tape {
    /// Another weight in place of one of this format, with the numbers of `tensor`.
    fn parameter<'t>(&'t self, tensor: &Tensor<'t>, dtype: Dtype) -> Tensor<'t> {
        let layout = super::layout::Layout::contiguous(tensor.dims());
        match tensor.dtype() == dtype {
            true => {
                self.label_parameter(tensor.view.storage);
                tensor.clone()
            }
            false => self.empty_as(layout, dtype, crate::memory::Category::Parameter),
        }
    }

    /// A tensor of an adapter.
    pub(super) fn factor(&self, dims: &[u32], dtype: Dtype) -> Tensor<'_> {
        let layout = super::layout::Layout::contiguous(dims);
        self.empty_as(layout, dtype, crate::memory::Category::Adapter)
    }
}
