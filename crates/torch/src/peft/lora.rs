//! LoRA, as PEFT computes it (`tuners/lora/layer.py` and `bnb.py`).

use options::LoraATraining;

use super::base::{Base, BaseLayer};
use crate::dtype::Dtype;
use crate::tape::{Tape, Tensor};

/// LoRA's two factors.
pub(crate) struct Lora<'t> {
    pub a: Tensor<'t>,
    pub b: Tensor<'t>,
    /// DoRA's.
    pub magnitude: Option<Tensor<'t>>,
    pub dropout: bool,
}

impl<'t> Lora<'t> {
    pub(super) fn forward(&self, layer: &BaseLayer<'t>, input: &Tensor<'t>) -> Tensor<'t> {
        let tape = input.tape;
        let result = layer.forward_copied(input);
        let expected = result.dtype();
        // Beside a quantised weight, autocast does what is left out under it.
        let is_dense = matches!(layer.weight, Base::Dense(_));
        let converts = is_dense || tape.autocast_dtype().is_none();
        let cast = if converts {
            input.to(self.a.dtype())
        } else {
            input.clone()
        };
        let sum = {
            let mut delta = match &self.magnitude {
                None => self.delta(&cast),
                Some(magnitude) => self.dora_delta(magnitude, layer, &cast, &result),
            };
            if converts && !is_dense && self.magnitude.is_none() {
                delta = delta.to(expected);
            }
            let sum = result.add(&delta);
            drop(delta);
            drop(result);
            sum
        };
        if !converts {
            return sum;
        }
        let output = sum.to(expected);
        drop(sum);
        output
    }

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
    /// The factors of `rank` for a layer, whose B wants gradients, and A unless it is frozen.
    pub(crate) fn lora<'t>(
        &'t self,
        layer: &BaseLayer<'t>,
        rank: u32,
        dtype: Dtype,
        lora_a: LoraATraining,
        dropout: bool,
    ) -> Lora<'t> {
        let ([rows, columns], start) = (layer.dims, layer.start_dtype(dtype));
        let (a, b) = (
            self.factor(&[rank, columns], dtype, start),
            self.factor(&[rows, rank], dtype, start),
        );
        Lora {
            a: if lora_a == LoraATraining::Frozen {
                a
            } else {
                self.leaf(a)
            },
            b: self.leaf(b),
            magnitude: None,
            dropout,
        }
    }
}
