//! Attention: step by step with all scores (eager), or in one kernel (sdpa, flash_attention_2).

use trace::Category;

use crate::configuration::Backend;
use crate::dtype::Dtype;
use crate::layout::Layout;
use crate::ops::sdpa_kernel::{Operands, SdpaKernel};
use crate::tape::{Backward, Gradients, Tape, Tensor};
use crate::versions::AttentionSoftmax;

/// The memory-efficient kernel rounds each row of its log-sum-exp up to this.
const LSE_ALIGNMENT: u32 = 32;
/// Queries and columns of one tile of the memory-efficient kernel's backward pass.
const EFFICIENT_TILE: u64 = 64;
/// Overhead of a tile: a lock, a counter and padding.
const EFFICIENT_TILE_HEADER: u64 = 16;
/// The least workspace of cuDNN's kernel.
const CUDNN_WORKSPACE: u64 = 256;
/// FlashAttention-2 rounds queries up to this, and head widths to [`FLASH_WIDTH`].
const FLASH_ROWS: u32 = 128;
const FLASH_WIDTH: u32 = 32;

/// What eager attention does with its scores.
#[derive(Clone, Copy)]
pub(crate) struct Scores {
    /// It divides them, and then multiplies their hyperbolic tangents.
    pub has_softcap: bool,
    /// It adds the mask to them in place.
    pub masks_in_place: bool,
    /// It clamps them at the lowest number.
    pub clamps: bool,
}

impl<'t> Tensor<'t> {
    /// (batch, heads, length, width) laid out as (batch, length, heads, width), as the kernels want it.
    fn by_position(&self, heads: u32, dtype: Dtype) -> Tensor<'t> {
        let &[batch, _, length, width] = self.dims() else {
            return self.clone();
        };
        let layout = Layout::contiguous(&[batch, length, heads, width]).transpose(1, 2);
        self.tape.empty_as(layout, dtype, Category::Temporary)
    }

    /// `softmax(self, dim=-1, dtype=torch.float32)`.
    pub(crate) fn softmax_float32(&self) -> Tensor<'t> {
        fn derivative<'t>(backward: &mut Backward<'t>, grad: &Tensor<'t>) -> Gradients<'t> {
            let (_, dtype) = backward.attributes.inputs[0];
            let result = grad.like(dtype);
            // On a GPU the product of the gradient and the result is made first.
            let product = (grad.tape.backend == Backend::Cuda).then(|| grad.like(grad.dtype()));
            drop(product);
            [Some(result), None, None, None]
        }
        // On a GPU one kernel reads float16 and writes float32: `softmax` in `aten/src/ATen/native/SoftMax.cpp`.
        let input = match (self.tape.backend, self.dtype()) {
            (Backend::Cuda, Dtype::Float16) => self.clone(),
            _ => self.to(Dtype::Float32),
        };
        let mut record = self.tape.record(&[&input], derivative);
        if self.tape.pytorch.saves_softmax_inputs {
            record.save(&input);
        }
        let result = input.like(Dtype::Float32);
        record.save(&result);
        record.finish(result)
    }

    /// transformers' eager attention, of queries, keys and values (batch, heads, length, width): (batch, length, heads,
    /// width), and the weights.
    pub(crate) fn eager_attention(
        &self,
        key: &Self,
        value: &Self,
        mask: Option<&Self>,
        Scores {
            has_softcap,
            masks_in_place,
            clamps,
        }: Scores,
    ) -> (Tensor<'t>, Tensor<'t>) {
        let groups = self.dims()[1] / key.dims()[1];
        let keys = key.repeat_heads(groups);
        let values = value.repeat_heads(groups);
        let mut weights = self.matmul(&keys.transpose(2, 3)).scale();
        if has_softcap {
            weights = weights.soft_capped();
        }
        // In place, nothing is made and nothing saved.
        if let Some(mask) = mask.filter(|_| !masks_in_place) {
            weights = weights.add(mask);
        }
        if clamps {
            weights = weights.clamped();
        }
        weights = weights.softmax_float32().to(self.dtype());
        let output = weights.matmul(&values);
        let output = output.transpose(1, 2).contiguous();
        drop((values, keys));
        (output, weights)
    }

    /// `scaled_dot_product_attention`: (batch, heads, length, width).
    pub(crate) fn scaled_dot_product_attention(
        &self,
        key: &Self,
        value: &Self,
        mask: Option<&Self>,
        dropout: f64,
    ) -> Tensor<'t> {
        // Autocast casts its arguments from the last to the first.
        let mask = mask.map(|mask| mask.cast_for_autocast());
        let mask = mask.as_ref();
        let [value, key, query] = [value, key, self].map(|tensor| tensor.cast_for_autocast());
        let operands = Operands {
            dtype: query.dtype(),
            width: query.dim_from_last(0),
            keys: key.dim_from_last(1),
            is_grouped: key.dims()[1] != query.dims()[1],
            has_mask: mask.is_some(),
            dropout,
        };
        match self.tape.sdpa_kernel(operands) {
            SdpaKernel::Math => query.math_attention(&key, &value, mask),
            kernel => query.fused_attention(&key, &value, mask, dropout, kernel),
        }
    }

    /// `flash_attn_func`: (batch, heads, length, width).
    pub(crate) fn flash_attention(&self, key: &Self, value: &Self) -> Tensor<'t> {
        let [query, key, value] = [self, key, value].map(|tensor| tensor.cast_for_autocast());
        query.fused_attention(&key, &value, None, 0.0, SdpaKernel::Flash)
    }

    /// Attention in one kernel.
    fn fused_attention(
        &self,
        key: &Self,
        value: &Self,
        mask: Option<&Self>,
        dropout: f64,
        kernel: SdpaKernel,
    ) -> Tensor<'t> {
        let (tape, query) = (self.tape, self);
        let mask = mask.map(|mask| mask.additive(query.dtype()));
        let derivative = match kernel {
            SdpaKernel::Portable | SdpaKernel::Math => portable,
            SdpaKernel::Cudnn => cudnn,
            SdpaKernel::Efficient => efficient,
            SdpaKernel::Flash => flash,
        };
        let record = tape.record(&[query, key, value], derivative);
        let mut record = record.axis(usize::from(mask.is_some()));
        for tensor in mask.iter().chain([key, query, value]) {
            record.save(tensor);
        }
        let &[batch, heads, length, _] = query.dims() else {
            return query.clone();
        };
        // cuDNN has the seed and the offset of random numbers on the GPU.
        let random = (kernel == SdpaKernel::Cudnn).then(|| [0, 1].map(|_| tape.empty(&[], Dtype::Int64)));
        // The others lay it out as the queries are.
        let output = match kernel {
            SdpaKernel::Efficient => query.by_position(heads, query.dtype()),
            _ => query.like(query.dtype()),
        };
        let length = match kernel {
            SdpaKernel::Efficient => length.next_multiple_of(LSE_ALIGNMENT),
            _ => length,
        };
        let log_sum = tape.empty(&[batch, heads, length], Dtype::Float32);
        match kernel {
            SdpaKernel::Cudnn => drop(tape.bytes(CUDNN_WORKSPACE, Category::Temporary)),
            SdpaKernel::Flash if dropout == 0.0 => query.use_flash_splits(key.dim_from_last(1)),
            SdpaKernel::Portable | SdpaKernel::Flash | SdpaKernel::Efficient | SdpaKernel::Math => {}
        }
        record.save(&log_sum);
        record.save(&output);
        for number in random.iter().flatten().rev() {
            record.save(number);
        }
        record.finish(output)
    }

    /// FlashAttention-2 without dropout splits the keys where queries are too few to fill the GPU, and then adds up
    /// (`set_params_splitkv` in `csrc/flash_attn/flash_api.cpp`).
    fn use_flash_splits(&self, keys: u32) {
        let &[batch, heads, length, width] = self.dims() else {
            return;
        };
        let key_block = match width {
            0..=64 => 256,
            65..=128 => 128,
            _ => 64,
        };
        let blocks = [batch, heads, length.div_ceil(64)].map(u64::from).iter().product();
        // Two blocks of 128 threads for each multiprocessor.
        let splits = flash_splits(blocks, 2 * self.tape.multiprocessors, keys.div_ceil(key_block).into());
        if splits > 1 {
            let log_sums = self.tape.empty(&[splits as u32, batch, heads, length], Dtype::Float32);
            let rounded = width.next_multiple_of(FLASH_WIDTH);
            let rows = splits as u32 * batch * heads * length;
            let outputs = self.tape.empty(&[rows, rounded], Dtype::Float32);
            drop((log_sums, outputs));
        }
    }

    /// `flash_attn_varlen_func` on one row of samples that begin at `starts`: (1, heads, length, width). The row is a
    /// view for it (`_flash_attention_forward` in `modeling_flash_attention_utils.py`).
    pub(crate) fn flash_attention_apart(&self, key: &Self, value: &Self, starts: &Self) -> Tensor<'t> {
        let tape = self.tape;
        let [query, key, value] = [self, key, value].map(|tensor| tensor.cast_for_autocast());
        let mut record = tape.record(&[&query, &key, &value], flash_apart);
        for tensor in [&key, &query, &value] {
            record.save(tensor);
        }
        let &[_, heads, length, _] = query.dims() else {
            return query;
        };
        let output = query.like(query.dtype());
        let log_sum = tape.empty(&[heads, length], Dtype::Float32);
        for tensor in [&log_sum, &output, starts] {
            record.save(tensor);
        }
        record.finish(output)
    }

    /// `flash_attn_varlen_func` on the `tokens` that are no padding: (batch, heads, length, width). They are taken out,
    /// and what it gives is put among zeros (`_flash_attention_forward` and `_upad_input` in
    /// `modeling_flash_attention_utils.py`, and before 4.43 in each model).
    pub(crate) fn flash_attention_unpadded(&self, key: &Self, value: &Self, tokens: u32) -> Tensor<'t> {
        let tape = self.tape;
        let &[batch, _, length, _] = self.dims() else {
            return self.clone();
        };
        let lengths = tape.empty(&[batch], Dtype::Int32);
        let places = tape.empty(&[tokens], Dtype::Int64);
        let starts = tape.empty(&[batch + 1], Dtype::Int32);
        drop(lengths);
        let [key, value, query] = [key, value, self].map(|states| states.taken_out(&places));
        let output = query.flash_attention_apart(&key, &value, &starts);
        drop((key, value, query, starts));
        output.put_among_zeros(&places, [batch, length])
    }

    /// The rows of (batch, heads, length, width) at `places`, as (1, heads, places, width).
    fn taken_out(&self, places: &Self) -> Tensor<'t> {
        fn derivative<'t>(backward: &mut Backward<'t>, grad: &Tensor<'t>) -> Gradients<'t> {
            let (dims, dtype) = backward.attributes.inputs[0];
            // The gradient among zeros.
            let &[batch, heads, length, width] = &*dims else {
                return [Some(grad.clone()), None, None, None];
            };
            let layout = Layout::contiguous(&[batch, length, heads, width]).transpose(1, 2);
            [
                Some(grad.tape.empty_as(layout, dtype, Category::Temporary)),
                None,
                None,
                None,
            ]
        }
        let mut record = self.tape.record(&[self], derivative);
        record.save(places);
        record.finish(self.rows_by_position(1, places.dims()[0]))
    }

    /// (1, heads, places, width) among zeros, as (batch, heads, length, width).
    fn put_among_zeros(&self, places: &Self, [batch, length]: [u32; 2]) -> Tensor<'t> {
        fn derivative<'t>(backward: &mut Backward<'t>, grad: &Tensor<'t>) -> Gradients<'t> {
            let places = backward.saved(0).dims()[0];
            [Some(grad.rows_by_position(1, places)), None, None, None]
        }
        let mut record = self.tape.record(&[self], derivative);
        record.save(places);
        record.finish(self.rows_by_position(batch, length))
    }

    /// A new tensor with these heads and so many rows, laid out as (batch, length, heads, width).
    fn rows_by_position(&self, batch: u32, length: u32) -> Tensor<'t> {
        let (heads, width) = (self.dims()[1], self.dim_from_last(0));
        let layout = Layout::contiguous(&[batch, length, heads, width]).transpose(1, 2);
        self.tape.empty_as(layout, self.dtype(), Category::Temporary)
    }

    /// `scaled_dot_product_attention` step by step in float32, where no kernel takes the format
    /// (`_scaled_dot_product_attention_math` in `aten/src/ATen/native/transformers/attention.cpp`): (batch, heads,
    /// length, width).
    fn math_attention(&self, key: &Self, value: &Self, mask: Option<&Self>) -> Tensor<'t> {
        let tape = self.tape;
        let [query, key, value] = [self, key, value];
        let (dtype, groups) = (query.dtype(), query.dims()[1] / key.dims()[1]);
        // The operation is one of autocast's, those that it is made of are not.
        let autocast = tape.autocast.take();
        let mask = mask.map(|mask| mask.additive(dtype));
        let [query, key, value] = [query, key, value].map(|tensor| tensor.to(Dtype::Float32));
        let query = query.scale();
        let mask = mask.unwrap_or_else(|| tape.lower_triangle(query.dim_from_last(1)));
        let (keys, values) = (key.repeat_interleaved(groups), value.repeat_interleaved(groups));
        drop((key, value));
        let scores = query.matmul(&keys.transpose(2, 3).scale());
        let weights = scores.safe_softmax();
        drop(scores);
        let output = weights.matmul(&values).to(dtype);
        // The weights are an output, too, which nobody takes.
        drop((weights.to(dtype), keys, mask));
        tape.autocast.set(autocast);
        output
    }

    /// `_safe_softmax(self, dim=-1)`: rows without a finite score are made zeros, in place or in a copy.
    fn safe_softmax(&self) -> Tensor<'t> {
        let masks = || {
            let is_masked = self.like(Dtype::Bool);
            let is_row_masked = self.tape.empty(&self.view.layout.dims.with_last(1), Dtype::Bool);
            (is_row_masked, is_masked)
        };
        match self.tape.pytorch.attention_softmax {
            AttentionSoftmax::Plain => self.softmax_plain(),
            AttentionSoftmax::InPlace => {
                let result = self.softmax_plain();
                drop(masks());
                result
            }
            AttentionSoftmax::Copied => {
                let softmax = self.like(self.dtype());
                let masks = masks();
                let result = self.softmax_plain();
                drop((masks, softmax));
                result
            }
        }
    }

    /// `scaled_dot_product_attention` step by step, as the CPU computes it with dropout: (batch, heads, length, width).
    pub(crate) fn composed_attention(
        &self,
        key: &Self,
        value: &Self,
        mask: Option<&Self>,
        dropout: bool,
    ) -> Tensor<'t> {
        let mask = mask.map(|mask| mask.cast_for_autocast());
        let [query, key, value] = [self, key, value].map(|tensor| tensor.cast_for_autocast());
        let query = query.scale();
        let mut weights = {
            let keys = key.transpose(2, 3).scale();
            let mut scores = query.matmul(&keys);
            drop(keys);
            if let Some(mask) = &mask {
                scores = scores.add(mask);
            }
            scores.softmax_plain()
        };
        if dropout {
            weights = weights.dropout();
        }
        let output = weights.matmul(&value);
        drop((weights, query));
        output
    }

    /// `softmax(self, dim=-1)`.
    pub(crate) fn softmax_plain(&self) -> Tensor<'t> {
        fn derivative<'t>(_: &mut Backward<'t>, grad: &Tensor<'t>) -> Gradients<'t> {
            let result = grad.like(grad.dtype());
            let product = (grad.tape.backend == Backend::Cuda).then(|| grad.like(grad.dtype()));
            drop(product);
            [Some(result), None, None, None]
        }
        let mut record = self.tape.record(&[self], derivative);
        if self.tape.pytorch.saves_softmax_inputs {
            record.save(self);
        }
        let result = self.like(self.dtype());
        record.save(&result);
        record.finish(result)
    }

    /// The scores of an encoder's eager attention, to which the mask is added, or whose padding is filled.
    pub(crate) fn encoder_scores(&self, key: &Self, mask: Option<&Self>, fills: bool) -> Tensor<'t> {
        let scores = self.matmul(&key.transpose(2, 3));
        if fills {
            return scores.filled();
        }
        let scaled = scores.scale();
        drop(scores);
        match mask {
            Some(mask) => scaled.add(mask),
            None => scaled,
        }
    }

    /// `self.masked_fill(mask == 0, lowest)` by a mask (batch, keys).
    fn filled(&self) -> Tensor<'t> {
        fn derivative<'t>(_: &mut Backward<'t>, grad: &Tensor<'t>) -> Gradients<'t> {
            [Some(grad.like(grad.dtype())), None, None, None]
        }
        let is_padding = self.tape.empty(&[self.dims()[0], self.dim_from_last(0)], Dtype::Bool);
        let mut record = self.tape.record(&[self], derivative);
        record.save(&is_padding);
        record.finish(self.like(self.dtype()))
    }

    /// The softmax of an encoder's eager attention, which autocast has in float32 on a GPU.
    pub(crate) fn encoder_softmax(&self) -> Tensor<'t> {
        match (self.tape.backend, self.tape.autocast_dtype()) {
            (Backend::Cuda, Some(_)) => self.softmax_float32(),
            _ => self.softmax_plain(),
        }
    }

    /// A boolean mask as numbers to add to the scores.
    fn additive(&self, dtype: Dtype) -> Tensor<'t> {
        if self.dtype() != Dtype::Bool {
            return self.clone();
        }
        let tape = self.tape;
        let (zero, infinity) = (tape.empty(&[], dtype), tape.empty(&[], dtype));
        let mask = tape.empty(self.dims(), dtype);
        drop((zero, infinity));
        mask
    }
}

impl Tape {
    /// Numbers to add to the scores of `length` queries and keys, float32: made of booleans.
    fn lower_triangle(&self, length: u32) -> Tensor<'_> {
        let ones = self.empty(&[length, length], Dtype::Bool);
        let lower = self.empty(ones.dims(), Dtype::Bool);
        drop(ones);
        lower.additive(Dtype::Float32)
    }
}

/// The splits of the keys that keep a GPU busy which takes `at_once` blocks (`num_splits_heuristic` in
/// `csrc/flash_attn/flash_api.cpp`).
fn flash_splits(blocks: u64, at_once: u64, key_blocks: u64) -> u64 {
    if blocks as f64 >= 0.8 * at_once as f64 {
        return 1;
    }
    let efficiency = |splits: u64| {
        let waves = (blocks * splits) as f64 / at_once as f64;
        waves / waves.ceil()
    };
    let differs = |splits: &u64| *splits == 1 || key_blocks.div_ceil(*splits) != key_blocks.div_ceil(splits - 1);
    let splits = || (1..=at_once.min(key_blocks).min(128)).filter(differs);
    let best = splits().map(efficiency).fold(0.0, f64::max);
    splits().find(|&splits| efficiency(splits) >= 0.85 * best).unwrap_or(1)
}

/// What a kernel saved of queries, keys and values. Generated code saves arguments in the order of their names, of
/// which a mask's is the first.
fn arguments<'t>(backward: &Backward<'t>) -> [Tensor<'t>; 3] {
    let first = usize::from(backward.attributes.axis);
    [first + 1, first, first + 2].map(|at| backward.saved(at))
}

/// The gradients of queries, keys and values, one head for each query head.
fn all_heads<'t>(backward: &Backward<'t>) -> [Tensor<'t>; 3] {
    arguments(backward).map(|saved| saved.by_position(saved.dims()[1], saved.dtype()))
}

fn wanted<'t>(backward: &Backward<'t>, gradients: [Tensor<'t>; 3]) -> Gradients<'t> {
    let mut needs = backward.needs.into_iter();
    let [queries, keys, values] = gradients.map(|gradient| (needs.next() == Some(true)).then_some(gradient));
    [queries, keys, values, None]
}

/// The CPU's kernel: nothing but the gradients.
fn portable<'t>(backward: &mut Backward<'t>, _: &Tensor<'t>) -> Gradients<'t> {
    wanted(backward, all_heads(backward))
}

/// cuDNN's kernel, all of whose memory is one workspace: the sums of the queries' gradients in float32, a number for
/// each row of scores, and the keys' and values' gradients of heads that share them. cuDNN 9.19 took so much on an H100
/// for heads of 64 to 256 numbers and for all lengths; other releases and B200 are assumed to take the same.
fn cudnn<'t>(backward: &mut Backward<'t>, _: &Tensor<'t>) -> Gradients<'t> {
    let tape = backward.tape;
    let saved = arguments(backward);
    let gradients = saved.each_ref().map(|saved| saved.like(saved.dtype()));
    let [query, key, _] = saved;
    let (&[batch, heads, length, width], &[_, shared, keys, _]) = (query.dims(), key.dims()) else {
        return [None, None, None, None];
    };
    let bytes = cudnn_workspace([batch, heads, shared, length, keys, width].map(u64::from));
    drop(tape.bytes(bytes, Category::Temporary));
    wanted(backward, gradients)
}

/// Bytes of cuDNN's workspace for a batch with so many heads of queries and of keys, queries, keys, and numbers of a
/// head.
fn cudnn_workspace([batch, heads, shared, length, keys, width]: [u64; 6]) -> u64 {
    let sums = batch * heads * length * (width + 1) * Dtype::Float32.size();
    let expanded = match shared == heads {
        true => 0,
        false => 2 * batch * heads * keys * width * Dtype::Bfloat16.size(),
    };
    sums + expanded + CUDNN_WORKSPACE
}

/// The memory-efficient kernel: the queries' gradients are summed up in a workspace of float32, before Volta only those
/// of halves (`kNeedsAccumGradQ` in `aten/src/ATen/native/transformers/cuda/mem_eff_attention/kernel_backward.h`).
fn efficient<'t>(backward: &mut Backward<'t>, grad: &Tensor<'t>) -> Gradients<'t> {
    let tape = backward.tape;
    let [query, key, value] = arguments(backward);
    let gradients = all_heads(backward);
    let &[batch, heads, length, width] = query.dims() else {
        return [None, None, None, None];
    };
    // Gradients of heads that share keys and values are added up by another kernel (pytorch/pytorch#191085).
    let shared = key.dims()[1] != heads;
    let expanded = shared.then(|| [&key, &value].map(|saved| saved.by_position(heads, query.dtype())));
    let is_float32 = query.dtype() == Dtype::Float32;
    let delta = if is_float32 {
        let products = grad.like(Dtype::Float32);
        let delta = tape.empty(&[batch, length, heads], Dtype::Float32);
        let contiguous = tape.empty(delta.dims(), Dtype::Float32);
        drop((delta, products));
        contiguous
    } else {
        tape.empty(&[batch, heads, length], Dtype::Float32)
    };
    let workspace = (!is_float32 || tape.capability.0 >= 7).then(|| {
        let tiles = u64::from(length).div_ceil(EFFICIENT_TILE) * u64::from(width).div_ceil(EFFICIENT_TILE);
        let tile = EFFICIENT_TILE_HEADER + EFFICIENT_TILE * EFFICIENT_TILE * Dtype::Float32.size();
        tape.bytes(u64::from(batch * heads) * tiles * tile, Category::Temporary)
    });
    drop((delta, workspace, expanded));
    wanted(backward, gradients)
}

fn flash<'t>(backward: &mut Backward<'t>, _: &Tensor<'t>) -> Gradients<'t> {
    flash_gradients(backward, |length| length.next_multiple_of(FLASH_ROWS))
}

/// Each sample has room for a block of rows of its own (`mha_varlen_bwd` in FlashAttention-2's
/// `csrc/flash_attn/flash_api.cpp`).
fn flash_apart<'t>(backward: &mut Backward<'t>, _: &Tensor<'t>) -> Gradients<'t> {
    let samples = backward.saved(5).dims()[0] - 1;
    flash_gradients(backward, |length| length + FLASH_ROWS * samples)
}

/// FlashAttention-2: the queries' gradients are summed up in float32, and the keys' and values' of heads that share
/// them.
fn flash_gradients<'t>(backward: &mut Backward<'t>, rows: impl Fn(u32) -> u32) -> Gradients<'t> {
    let tape = backward.tape;
    let [query, key, value] = arguments(backward);
    let gradients = [&query, &key, &value].map(|saved| saved.like(saved.dtype()));
    let &[batch, heads, length, width] = query.dims() else {
        return [None, None, None, None];
    };
    let rows = rows(length);
    let sums = tape.empty(&[batch, heads, rows], Dtype::Float32);
    let queries = tape.empty(
        &[batch, rows, heads, width.next_multiple_of(FLASH_WIDTH)],
        Dtype::Float32,
    );
    let shared = key.dims()[1] != heads;
    let expanded = shared.then(|| [&key, &value].map(|saved| saved.by_position(heads, query.dtype())));
    drop((sums, queries, expanded));
    wanted(backward, gradients)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What PyTorch took from its allocator on an H100 (torch 2.11, cuDNN 9.19).
    #[test]
    fn cudnn_takes_what_it_took() {
        for (batch, heads, shared, length, width, bytes) in [
            (2, 9, 9, 512, 64, 2_396_416),
            (2, 9, 3, 512, 64, 4_755_712),
            (1, 14, 2, 777, 64, 5_613_304),
            (1, 9, 3, 8192, 64, 38_043_904),
            (2, 32, 32, 333, 96, 8_269_312),
            (2, 12, 2, 1024, 128, 25_264_384),
            (8, 4, 1, 333, 256, 21_866_368),
        ] {
            let taken = cudnn_workspace([batch, heads, shared, length, length, width]);
            assert_eq!(taken, bytes, "{batch} x {length}, {heads}/{shared} heads of {width}");
        }
    }

    /// FlashAttention-2's splits, by what it took on an H100: 1 x 777 with 14 heads of 64, 2 x 512 with 9 of 64, 8 x
    /// 333 with 4 of 256.
    #[test]
    fn flash_attention_splits_keys_where_queries_are_few() {
        assert_eq!(flash_splits(14 * 13, 264, 4), 4);
        assert_eq!(flash_splits(2 * 9 * 8, 264, 2), 1);
        assert_eq!(flash_splits(8 * 4 * 6, 264, 6), 6);
    }
}
