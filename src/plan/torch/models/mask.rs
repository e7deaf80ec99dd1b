//! Attention masks as transformers makes them, where it makes any.

use crate::plan::torch::Backend;
use crate::plan::torch::tape::Tape;
use crate::plan::torch::tensor::{Dtype, Tensor};

/// What a batch's mask depends on.
pub(in crate::plan::torch) struct Shape {
    pub(in crate::plan::torch) batch: u32,
    pub(in crate::plan::torch) len: u32,
    /// Some samples are shorter than the batch.
    pub(in crate::plan::torch) padded: bool,
    /// Keys and values are cached, so that no search for packed samples is made.
    pub(in crate::plan::torch) cached: bool,
}

impl Tape {
    /// 0 to `len`.
    fn arange(&self, len: u32) -> Tensor<'_> {
        self.empty(&[len], Dtype::Int64)
    }

    /// Positions from an offset on.
    pub(in crate::plan::torch) fn positions(&self, len: u32) -> Tensor<'_> {
        let range = self.arange(len);
        let shifted = self.arange(len);
        drop(range);
        shifted
    }

    /// Which of the samples that might be packed into a row each token is of.
    fn packed(&self, shape: &Shape) -> Tensor<'_> {
        let first = self.empty(&[shape.batch, 1], Dtype::Int64);
        let joined = self.empty(&[shape.batch, shape.len + 1], Dtype::Int64);
        let difference = self.empty(&[shape.batch, shape.len], Dtype::Int64);
        drop(joined);
        let jumps = self.empty(&[shape.batch, shape.len], Dtype::Bool);
        let sums = self.empty(&[shape.batch, shape.len], Dtype::Int64);
        drop((jumps, first, difference));
        sums
    }

    /// The boolean mask (batch, 1, len, len); none where the kernel's own causal one will do, unless `always`.
    pub(in crate::plan::torch) fn causal_mask(&self, shape: &Shape, always: bool) -> Option<Tensor<'_>> {
        // Without values, as here on the CPU, packed samples can't be ruled out.
        let blind = self.backend == Backend::Cpu;
        let packed = (!shape.cached && !shape.padded).then(|| self.packed(shape));
        let packed = packed.filter(|_| blind);
        if packed.is_none() && !shape.padded && !always && !blind {
            return None;
        }
        let (rows, heads) = (self.arange(shape.batch), self.arange(1));
        let queries = self.positions(shape.len);
        let keys = self.positions(shape.len);
        let square = [shape.batch, 1, shape.len, shape.len];
        let gathered = || {
            let query = self.empty(&[shape.batch, 1, shape.len, 1], Dtype::Int64);
            let key = self.empty(&[shape.batch, 1, 1, shape.len], Dtype::Int64);
            let compared = self.empty(&square, Dtype::Bool);
            drop((query, key));
            compared
        };
        let mask = if packed.is_some() || shape.padded {
            let all = self.empty(&[], Dtype::Bool);
            let same = gathered();
            let both = self.empty(&square, Dtype::Bool);
            drop((same, all));
            let causal = gathered();
            let mask = self.empty(&square, Dtype::Bool);
            drop((causal, both));
            mask
        } else {
            gathered()
        };
        drop((rows, heads, queries, keys, packed));
        Some(mask)
    }

    /// The mask as numbers for eager attention.
    pub(in crate::plan::torch) fn eager_mask(&self, shape: &Shape, dtype: Dtype) -> Option<Tensor<'_>> {
        let mask = self.causal_mask(shape, true)?;
        let zero = self.empty(&[], dtype);
        let numbers = self.empty(mask.dims(), dtype);
        drop((zero, mask));
        Some(numbers)
    }
}
