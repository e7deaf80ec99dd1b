//! Linear layers as the model has them: a base weight, and LoRA beside it as PEFT computes it.

use super::bitsandbytes::{EightBit, FourBit};
use super::dtype::Dtype;
use super::tape::Tape;
use super::tape::Tensor;
use crate::options::LoraATraining;

/// The weight of a linear layer.
pub(super) enum Base<'t> {
    Dense(Tensor<'t>),
    FourBit(FourBit<'t>),
    EightBit(EightBit<'t>),
}

/// LoRA's two factors.
pub(super) struct Adapter<'t> {
    pub(super) a: Tensor<'t>,
    pub(super) b: Tensor<'t>,
    pub(super) dropout: bool,
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
        let result = self.base(input);
        let Some(adapter) = &self.adapter else {
            return result;
        };
        let tape = input.tape;
        let expected = result.dtype();
        match &self.base {
            Base::Dense(_) => {
                let cast = input.to(adapter.a.dtype());
                let sum = {
                    let delta = adapter.delta(&cast);
                    let sum = result.add(&delta);
                    drop(delta);
                    drop(result);
                    sum
                };
                let output = sum.to(expected);
                drop(sum);
                output
            }
            Base::FourBit(_) | Base::EightBit(_) => {
                let result = match &self.base {
                    Base::FourBit(_) => {
                        let copy = result.copy();
                        drop(result);
                        copy
                    }
                    _ => result,
                };
                // Autocast does what is left out under it.
                let convert = tape.autocast_dtype().is_none();
                let cast = if convert {
                    input.to(adapter.a.dtype())
                } else {
                    input.clone()
                };
                let mut delta = adapter.delta(&cast);
                if convert {
                    delta = delta.to(expected);
                }
                result.add(&delta)
            }
        }
    }

    fn base(&self, input: &Tensor<'t>) -> Tensor<'t> {
        match &self.base {
            Base::Dense(weight) => input.linear(weight, self.bias.as_ref()),
            Base::FourBit(weight) => weight.forward(input, self.bias.as_ref()),
            Base::EightBit(weight) => weight.forward(input, self.bias.as_ref()),
        }
    }
}

impl<'t> Adapter<'t> {
    /// `lora_B(lora_A(dropout(input))) * scaling`.
    fn delta(&self, input: &Tensor<'t>) -> Tensor<'t> {
        let dropped = if self.dropout { input.dropout() } else { input.clone() };
        let inner = dropped.linear(&self.a, None);
        drop(dropped);
        let outer = inner.linear(&self.b, None);
        drop(inner);
        outer.scale()
    }
}

impl Tape {
    /// An adapter of `rank` on a layer of (out, in), whose B wants gradients, and A unless it is frozen.
    pub(super) fn adapter<'t>(
        &'t self,
        dims: [u32; 2],
        rank: u32,
        dtype: Dtype,
        lora_a: LoraATraining,
        dropout: bool,
    ) -> Adapter<'t> {
        let make = |dims: [u32; 2]| {
            let layout = super::layout::Layout::contiguous(&dims);
            self.empty_as(layout, dtype, crate::memory::Category::Adapter)
        };
        let (a, b) = (make([rank, dims[1]]), make([dims[0], rank]));
        Adapter {
            a: if lora_a == LoraATraining::Frozen {
                a
            } else {
                self.leaf(a)
            },
            b: self.leaf(b),
            dropout,
        }
    }
}
