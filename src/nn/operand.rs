//! What the products of a linear layer are taken of: tensors, weights in few bits, and inputs under a dropout mask.

use std::ops::Range;

use candle_core::{Result, Tensor};
use half::bf16;

use super::{host, weight::Weight};
use crate::{
    kernels::{
        Element,
        dropout::Mask,
        gemm::{Source, operand::Number},
    },
    quant::Quantized,
};

/// A matrix as it is stored.
pub(super) enum Stored<'a> {
    Dense(host::Matrix<'a>),
    Quantized(&'a Quantized),
}

impl<'a> Stored<'a> {
    pub(super) fn tensor(tensor: &'a Tensor) -> Result<Self> {
        host::matrix(tensor).map(Self::Dense)
    }

    pub(super) fn weight(weight: &'a Weight) -> Result<Self> {
        match weight {
            Weight::Dense(param) => Self::tensor(&param.value),
            Weight::Quantized(matrix) => Ok(Self::Quantized(matrix)),
            Weight::OnDevice(_) => candle_core::bail!("a CPU kernel was given a weight of another device"),
        }
    }
}

impl Source<bf16> for Stored<'_> {
    fn row<'a>(&'a self, row: usize, cols: Range<usize>, buffer: &'a mut [bf16]) -> &'a [bf16] {
        match self {
            Self::Dense(matrix) => matrix.row(row, cols, buffer),
            Self::Quantized(matrix) => {
                matrix.dequantize_serial(row * matrix.cols() + cols.start, buffer);
                buffer
            }
        }
    }

    fn lend(&self) -> Option<(&[bf16], usize)> {
        match self {
            Self::Dense(matrix) => matrix.lend(),
            Self::Quantized(_) => None,
        }
    }

    fn prefetch(&self, row: usize, cols: Range<usize>) {
        if let Self::Dense(matrix) = self {
            Source::<bf16>::prefetch(matrix, row, cols);
        }
    }
}

/// Quantised values are rounded to bfloat16 here too: that is the format that bitsandbytes computes their products from
/// (`bnb_4bit_compute_dtype`).
impl Source<f32> for Stored<'_> {
    fn row<'a>(&'a self, row: usize, cols: Range<usize>, buffer: &'a mut [f32]) -> &'a [f32] {
        match self {
            Self::Dense(matrix) => matrix.row(row, cols, buffer),
            Self::Quantized(matrix) => {
                matrix.dequantize_serial(row * matrix.cols() + cols.start, buffer);
                for value in buffer.iter_mut() {
                    *value = <bf16 as Element>::narrow(*value).widen();
                }
                buffer
            }
        }
    }

    fn lend(&self) -> Option<(&[f32], usize)> {
        match self {
            Self::Dense(matrix) => matrix.lend(),
            Self::Quantized(_) => None,
        }
    }

    fn prefetch(&self, row: usize, cols: Range<usize>) {
        if let Self::Dense(matrix) = self {
            Source::<f32>::prefetch(matrix, row, cols);
        }
    }
}

/// Matrices of as many columns, one below the other.
pub(super) struct Stack<'a> {
    parts: Vec<(usize, Stored<'a>)>,
}

impl<'a> Stack<'a> {
    /// Takes each matrix with its number of rows.
    pub(super) fn new(parts: Vec<(usize, Stored<'a>)>) -> Self {
        Self { parts }
    }
}

impl<P: Number> Source<P> for Stack<'_>
where
    for<'s> Stored<'s>: Source<P>,
{
    fn row<'a>(&'a self, mut row: usize, cols: Range<usize>, buffer: &'a mut [P]) -> &'a [P] {
        for (rows, part) in &self.parts {
            if row < *rows {
                return part.row(row, cols, buffer);
            }
            row -= rows;
        }
        unreachable!("a product reads no row that its operand has not got")
    }
}

/// `[tokens, features]` under the masks of its samples.
pub(super) struct Masked<'a> {
    pub x: &'a Stored<'a>,
    pub masks: Masks,
}

/// The masks of a micro-batch's samples.
pub(super) struct Masks {
    pub samples: Vec<Mask>,
    /// Tokens of a sample.
    pub len: usize,
    pub features: usize,
}

impl Masks {
    /// What an element is multiplied by.
    pub(super) fn factor(&self, token: usize, feature: usize) -> f32 {
        self.samples[token / self.len].factor((token % self.len * self.features + feature) as u64)
    }
}

impl<P: Number> Source<P> for Masked<'_>
where
    for<'s> Stored<'s>: Source<P>,
{
    fn row<'a>(&'a self, row: usize, cols: Range<usize>, buffer: &'a mut [P]) -> &'a [P] {
        let mut unmasked = vec![P::ZERO; cols.len()];
        let unmasked = self.x.row(row, cols.clone(), &mut unmasked);
        for ((masked, value), col) in buffer.iter_mut().zip(unmasked).zip(cols) {
            *masked = P::narrow(value.widen() * self.masks.factor(row, col));
        }
        buffer
    }
}
