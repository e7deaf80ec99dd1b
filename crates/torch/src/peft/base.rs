//! The layer that an adapter is beside: PEFT's `base_layer`.

use trace::Category;

use crate::bitsandbytes::{EightBit, FourBit};
use crate::dtype::Dtype;
use crate::layout::Layout;
use crate::tape::{Tape, Tensor};

/// The weight of a linear layer.
pub(crate) enum Base<'t> {
    Dense(Tensor<'t>),
    FourBit(FourBit<'t>),
    EightBit(EightBit<'t>),
}

/// A linear layer without an adapter.
pub(crate) struct BaseLayer<'t> {
    pub weight: Base<'t>,
    pub bias: Option<Tensor<'t>>,
    /// (out, in).
    pub dims: [u32; 2],
}

impl<'t> BaseLayer<'t> {
    pub(crate) fn forward(&self, input: &Tensor<'t>) -> Tensor<'t> {
        let bias = self.bias.as_ref();
        match &self.weight {
            Base::Dense(weight) => {
                let parameters = [Some(weight), bias];
                let tape = input.tape;
                tape.in_module(parameters, input.requires_grad(), || input.linear(weight, bias))
            }
            Base::FourBit(weight) => weight.forward(input, bias),
            Base::EightBit(weight) => weight.forward(input, bias),
        }
    }

    /// The format of an adapter's tensors of `dtype` until all adapters are there: that of the weight or of its
    /// products (`_get_base_layer_device_and_dtype` in `tuners/tuners_utils.py`).
    pub(crate) fn start_dtype(&self, dtype: Dtype) -> Dtype {
        match &self.weight {
            _ if dtype != Dtype::Float32 => dtype,
            Base::Dense(weight) => weight.dtype(),
            Base::FourBit(weight) => weight.compute(),
            Base::EightBit(_) => dtype,
        }
    }

    /// The layer's output beside an adapter: PEFT copies what a 4-bit layer gives.
    pub(super) fn forward_copied(&self, input: &Tensor<'t>) -> Tensor<'t> {
        let result = self.forward(input);
        match self.weight {
            Base::FourBit(_) => result.copy(),
            Base::Dense(_) | Base::EightBit(_) => result,
        }
    }

    /// The layer's output and that of another weight, as LyCORIS' adapters add it (`forward` and
    /// `_get_delta_activations` in `tuners/loha/layer.py` and `tuners/lokr/layer.py`).
    pub(super) fn forward_beside(&self, input: &Tensor<'t>, delta_weight: impl FnOnce() -> Tensor<'t>) -> Tensor<'t> {
        let result = self.forward(input);
        let activations = {
            let delta = delta_weight();
            let cast = input.to(delta.dtype());
            cast.linear(&delta, None)
        };
        let sum = result.add(&activations);
        drop((activations, result));
        let output = sum.to(input.dtype());
        drop(sum);
        output
    }
}

impl<'t> Base<'t> {
    /// `dequantize_module_weight` in `utils/integrations.py`: the weight as numbers.
    pub(super) fn dequantised(&self, tape: &'t Tape) -> Tensor<'t> {
        match self {
            Self::Dense(weight) => weight.clone().detach(),
            Self::FourBit(weight) => weight.dequantised(tape),
            Self::EightBit(weight) => weight.dequantised(tape),
        }
    }
}

impl Tape {
    /// Another weight in place of one of this format, with the numbers of `tensor`.
    pub(super) fn parameter<'t>(&'t self, tensor: &Tensor<'t>, dtype: Dtype) -> Tensor<'t> {
        if tensor.dtype() == dtype {
            self.label_parameter(tensor.view.storage);
            return tensor.clone();
        }
        self.empty_as(Layout::contiguous(tensor.dims()), dtype, Category::Parameter)
    }

    /// A tensor of an adapter, which has the format `start` until [`Tape::cast_adapters`].
    pub(crate) fn factor(&self, dims: &[u32], dtype: Dtype, start: Dtype) -> Tensor<'_> {
        if self.is_sharded {
            return self.weight(Layout::contiguous(dims), dtype, Category::Adapter);
        }
        let mut factor = self.empty_as(Layout::contiguous(dims), start, Category::Adapter);
        factor.view.dtype = dtype;
        if start != dtype {
            self.uncast.borrow_mut().push(factor.view);
        }
        factor
    }

    /// Brings the tensors of adapters to their formats, one after the other: `cast_adapter_dtype` in
    /// `tuners/tuners_utils.py`.
    pub(crate) fn cast_adapters(&self) {
        for view in self.uncast.take() {
            self.reallocate(view.storage, view.layout.numel() * view.dtype.size());
        }
    }
}
