//! Intermediate results shared by both halves of the backward pass.

use super::scales::Scales;
use crate::tensor::Tensor;

/// Intermediate results of `input_gradient` that `accumulate` needs too.
#[derive(Debug)]
pub struct Carried<const N: usize> {
    /// The gradients of the low-rank terms' inner products `scale · dropout(x) Aᵀ`, side by side. Plain ops compute
    /// them again.
    pub(super) dh: Option<Tensor>,
    /// The factors of inputs and outputs.
    pub(super) scales: Scales<N>,
    /// See [`Carried::with_column_dots`].
    pub(super) column_dots: Option<Tensor>,
}

impl<const N: usize> Carried<N> {
    pub(super) fn new(dh: Option<Tensor>, scales: Scales<N>) -> Self {
        Self {
            dh,
            scales,
            column_dots: None,
        }
    }

    /// With the dot products of the outputs' columns with those of their gradients, side by side: `[sum of widths]`,
    /// float32. From them follow the gradients of outputs' factors; without them the outputs are computed again.
    #[must_use]
    pub fn with_column_dots(self, column_dots: Option<Tensor>) -> Self {
        Self { column_dots, ..self }
    }
}
