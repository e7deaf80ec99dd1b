//! The interface of an activation.

use std::fmt::Debug;

use candle_core::Result;

use crate::tensor::Tensor;

/// An activation of `N` inputs of one shape, element by element.
pub trait Activation<const N: usize>: Debug + Sync {
    /// The value, in the dtype of the inputs.
    fn forward(&self, inputs: &[Tensor; N]) -> Result<Tensor>;

    /// The gradients of the inputs from that of the value, and the value again, all in the dtype of the inputs. On the
    /// CPU they are computed in the memory of the operands.
    fn backward(&self, inputs: [Tensor; N], dy: Tensor) -> Result<([Tensor; N], Tensor)>;

    /// The dot products of each input's columns with those of its gradient, the inputs side by side, float32; `None` if
    /// there is no kernel.
    fn column_dots(&self, inputs: &[Tensor; N], dy: &Tensor) -> Result<Option<Tensor>> {
        let _ = (inputs, dy);
        Ok(None)
    }
}
