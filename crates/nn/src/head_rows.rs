//! Rows of the head's weight for a product: where they lie, or copied from the host's memory.

use std::ops::Range;

use candle_core::Result;
use memory::Buffer;
use rayon::prelude::*;
use trace::Category;

use super::{
    embedding::rows,
    operand::Matrix,
    param::Param,
    tensor::{Tensor, for_format},
};

/// Elements that a thread copies at a time.
const PART: usize = 1 << 18;

/// Some rows of the head, one after the other or chosen.
pub(super) enum HeadRows<'a> {
    /// The head from one of its rows on.
    Here(Matrix<'a>),
    /// A copy.
    Copied(Tensor),
}

impl<'a> HeadRows<'a> {
    /// The rows of a range.
    pub(super) fn new(head: &'a Param, range: Range<usize>) -> Result<Self> {
        if !head.is_offloaded() {
            return Ok(Self::Here(Matrix::new(&head.value)?.skip_rows(range.start)));
        }
        head.count_rows(range.len());
        let cols = head.value.cols();
        let _scope = memory::scope(Category::Parameter);
        for_format!(head.value.dtype(), E => {
            let values = head.value.values::<E>()?;
            Ok(Self::Copied(Tensor::written((range.len(), cols), |out: &mut [E]| {
                let from = &values[range.start * cols..range.end * cols];
                let parts = out.par_chunks_mut(PART).zip(from.par_chunks(PART));
                parts.for_each(|(to, from)| to.copy_from_slice(from));
            })))
        })
    }

    /// Rows of these indices, and the indices that they have here.
    pub(super) fn chosen(head: &'a Param, indices: &'a Buffer<u32>) -> Result<(Self, Indices<'a>)> {
        if !head.is_offloaded() {
            return Ok((Self::Here(Matrix::new(&head.value)?), Indices::Given(indices)));
        }
        head.count_rows(indices.len());
        let copied = {
            let _scope = memory::scope(Category::Parameter);
            rows(&head.value, indices, head.value.dtype())?
        };
        let all = Buffer::from_fn(indices.len(), |at| at as u32);
        Ok((Self::Copied(copied), Indices::All(all)))
    }

    /// The matrix for a product.
    pub(super) fn matrix(&self) -> Result<Matrix<'_>> {
        match self {
            Self::Here(matrix) => Ok(*matrix),
            Self::Copied(tensor) => Matrix::new(tensor),
        }
    }
}

/// The rows of a matrix that are meant.
pub(super) enum Indices<'a> {
    /// Those with the given indices.
    Given(&'a Buffer<u32>),
    /// All, in their order.
    All(Buffer<u32>),
}

impl Indices<'_> {
    pub(super) fn buffer(&self) -> &Buffer<u32> {
        match self {
            Self::Given(indices) => indices,
            Self::All(indices) => indices,
        }
    }
}
