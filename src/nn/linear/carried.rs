//! Intermediate results shared by both halves of the backward pass.

use super::scales::Scales;
use crate::nn::tensor::Tensor;

/// Intermediate results of `input_gradient` that `accumulate` needs too.
#[derive(Debug)]
pub struct Carried<const N: usize> {
    /// The gradients of the low-rank terms' inner products `scale · dropout(x) Aᵀ`, side by side. Plain ops compute them
    /// again.
    pub(super) dh: Option<Tensor>,
    /// The factors of inputs and outputs.
    pub(super) scales: Scales<N>,
}
