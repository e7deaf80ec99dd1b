//! The interface of an adapter.

use super::base::BaseLayer;
use crate::tape::Tensor;

/// What PEFT puts beside a linear layer.
pub(crate) trait Adapter<'t> {
    /// The layer's output.
    fn forward(&self, layer: &BaseLayer<'t>, input: &Tensor<'t>) -> Tensor<'t>;
}
