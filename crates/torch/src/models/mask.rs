//! Attention masks as transformers makes them, where it makes any.

use crate::configuration::Backend;
use crate::dtype::Dtype;
use crate::tape::Tape;
use crate::tape::Tensor;

/// The facts of a batch that its mask depends on.
pub(crate) struct Shape {
    pub batch: u32,
    pub len: u32,
    /// Keys that were cached before.
    pub past: u32,
    /// Some samples are shorter than the batch.
    pub padded: bool,
    /// Samples that are packed into a row are searched for: where no keys and values are cached, from transformers 4.53
    /// on.
    pub searched: bool,
    /// Tokens that a token sees, where it does not see all.
    pub window: Option<u32>,
}

impl Tape {
    /// 0 to `len`.
    fn arange(&self, len: u32) -> Tensor<'_> {
        self.empty(&[len], Dtype::Int64)
    }

    /// Positions from an offset on.
    pub(crate) fn positions(&self, len: u32) -> Tensor<'_> {
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
        if self.backend == Backend::Cuda {
            // What is added up, and the answer whether any token is of another sample.
            drop((self.empty(sums.dims(), Dtype::Int64), jumps));
            let last = self.empty(&[shape.batch], Dtype::Bool);
            let all = self.empty(&[], Dtype::Bool);
            drop((last, all));
        } else {
            drop(jumps);
        }
        drop((first, difference));
        sums
    }

    /// The boolean mask (batch, 1, len, past + len); none where the kernel's own causal one will do, unless `always`.
    pub(crate) fn causal_mask(&self, shape: &Shape, always: bool) -> Option<Tensor<'_>> {
        self.mask_after(shape, always, |mask| mask)
    }

    /// The mask as numbers to add to the scores, as eager attention always has it.
    pub(crate) fn number_mask(&self, shape: &Shape, always: bool, dtype: Dtype) -> Option<Tensor<'_>> {
        self.mask_after(shape, always, |mask| {
            let (zero, lowest) = (self.empty(&[], dtype), self.empty(&[], dtype));
            let numbers = self.empty(mask.dims(), dtype);
            drop((lowest, mask, zero));
            numbers
        })
    }

    /// Makes the mask and what `finish` makes of it, while the packed samples are still known.
    fn mask_after<'t>(
        &'t self,
        shape: &Shape,
        always: bool,
        finish: impl FnOnce(Tensor<'t>) -> Tensor<'t>,
    ) -> Option<Tensor<'t>> {
        // Without values, as here on the CPU, packed samples can't be ruled out.
        let packed = (shape.searched && !shape.padded).then(|| self.packed(shape));
        let packed = packed.filter(|_| self.backend == Backend::Cpu);
        let windowed = shape.window.is_some_and(|window| shape.past + shape.len >= window);
        let is_square = shape.past == 0 || shape.len == 1;
        if packed.is_none() && !shape.padded && !always && !windowed && is_square {
            return None;
        }
        let (rows, heads) = (self.arange(shape.batch), self.arange(1));
        let queries = self.positions(shape.len);
        let keys = self.positions(shape.past + shape.len);
        let mask = self.pairs(shape, packed.is_some() || shape.padded);
        drop((rows, heads, queries, keys));
        let mask = finish(mask);
        drop(packed);
        Some(mask)
    }

    /// The mask of an encoder's padded batch, (batch, 1, len, len): a token sees all that is not padding. Booleans, or
    /// numbers to add to the scores.
    pub(crate) fn padding_mask(&self, batch: u32, len: u32, numbers: Option<Dtype>) -> Tensor<'_> {
        let dims = [batch, 1, len, len];
        let mask = self.empty(&dims, Dtype::Bool);
        match numbers {
            Some(dtype) => {
                let (zero, lowest) = (self.empty(&[], dtype), self.empty(&[], dtype));
                let numbers = self.empty(&dims, dtype);
                drop((lowest, mask, zero));
                numbers
            }
            None => mask,
        }
    }

    /// A given mask as numbers to add to the scores of all queries (`get_extended_attention_mask` in `modeling_utils.py`).
    pub(crate) fn added_mask(&self, dims: &[u32], dtype: Dtype) -> Tensor<'_> {
        let kept = self.empty(dims, dtype);
        let inverted = self.empty(dims, dtype);
        let mask = self.empty(dims, dtype);
        drop((inverted, kept));
        mask
    }

    /// The same of each query, if there is padding (`_prepare_4d_attention_mask_for_sdpa` in `modeling_attn_mask_utils.py`).
    pub(crate) fn expanded_mask(&self, dims: &[u32], dtype: Dtype) -> Tensor<'_> {
        let kept = self.empty(dims, dtype);
        let inverted = self.empty(dims, dtype);
        let is_padding = self.empty(dims, Dtype::Bool);
        let mask = self.empty(dims, dtype);
        drop((is_padding, kept, inverted));
        mask
    }

    /// What a layer with a window makes of the mask of all scores (`Gemma2DecoderLayer.forward` before transformers 4.53):
    /// where the window ends, and the mask with it, copied once more if `copies`.
    pub(crate) fn own_window<'t>(&'t self, mask: &Tensor<'t>, copies: bool) -> [Tensor<'t>; 2] {
        let ones = mask.like(Dtype::Bool);
        let outside = mask.like(Dtype::Bool);
        drop(ones);
        let lowest = self.empty(&[], mask.dtype());
        let windowed = mask.like(mask.dtype());
        drop(lowest);
        let windowed = if copies { windowed.like(mask.dtype()) } else { windowed };
        [outside, windowed]
    }

    /// For each query and key, whether the key comes before; and whether they are of one sample, if that is asked.
    fn pairs(&self, shape: &Shape, same: bool) -> Tensor<'_> {
        let keys = shape.past + shape.len;
        // Of no sample in particular, one is made and seen as many.
        let rectangle = [if same { shape.batch } else { 1 }, 1, shape.len, keys];
        let table = || self.empty(&rectangle, Dtype::Bool);
        let indices = || {
            let query = self.empty(&[shape.batch, 1, shape.len, 1], Dtype::Int64);
            (query, self.empty(&[shape.batch, 1, 1, keys], Dtype::Int64))
        };
        let same = same.then(|| {
            let all = self.empty(&[], Dtype::Bool);
            let pair = indices();
            let compared = table();
            drop(pair);
            let both = table();
            drop((compared, all));
            both
        });
        let (query, key) = indices();
        let causal = if shape.window.is_some() {
            let all = self.empty(&[], Dtype::Bool);
            let first = query.like(Dtype::Int64);
            let near = table();
            drop(first);
            let both = table();
            drop((near, all));
            let before = table();
            let causal = table();
            drop((before, both));
            causal
        } else {
            table()
        };
        drop((query, key));
        let Some(same) = same else {
            let layout = causal.view.layout.expand(0, shape.batch);
            return causal.with_layout(layout);
        };
        let mask = table();
        drop((causal, same));
        mask
    }
}
