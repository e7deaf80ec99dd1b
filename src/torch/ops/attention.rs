//! Attention: step by step with all scores (eager), or in one kernel (sdpa, flash_attention_2).

use crate::memory::Category;
use crate::torch::configuration::{Backend, SdpaKernel};
use crate::torch::dtype::Dtype;
use crate::torch::layout::Layout;
use crate::torch::tape::{Backward, Gradients, Tape, Tensor};

/// The memory-efficient kernel rounds each row of its log-sum-exp up to this.
const LSE_ALIGNMENT: u32 = 32;
/// Queries and columns of one tile of the memory-efficient kernel's backward pass.
const EFFICIENT_TILE: u64 = 64;
/// Overhead of a tile: a lock, a counter and padding.
const EFFICIENT_TILE_HEADER: u64 = 16;
/// FlashAttention-2 rounds queries up to this, and head widths to [`FLASH_WIDTH`].
const FLASH_ROWS: u32 = 128;
const FLASH_WIDTH: u32 = 32;

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
            [Some(result), None, None]
        }
        // On a GPU one kernel reads halves and writes float32.
        let input = match self.tape.backend {
            Backend::Cpu => self.to(Dtype::Float32),
            Backend::Cuda => self.clone(),
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
        has_softcap: bool,
    ) -> (Tensor<'t>, Tensor<'t>) {
        let groups = self.dims()[1] / key.dims()[1];
        let keys = key.repeat_heads(groups);
        let values = value.repeat_heads(groups);
        let mut weights = self.matmul(&keys.transpose(2, 3)).scale();
        if has_softcap {
            weights = weights.soft_capped();
        }
        if let Some(mask) = mask {
            weights = weights.add(mask);
        }
        weights = weights.softmax_float32().to(self.dtype());
        let output = weights.matmul(&values);
        let output = output.transpose(1, 2).contiguous();
        drop((values, keys));
        (output, weights)
    }

    /// `scaled_dot_product_attention` by `kernel`: (batch, heads, length, width).
    pub(crate) fn fused_attention(
        &self,
        key: &Self,
        value: &Self,
        mask: Option<&Self>,
        kernel: SdpaKernel,
    ) -> Tensor<'t> {
        if kernel == SdpaKernel::Math {
            return self.math_attention(key, value, mask);
        }
        let tape = self.tape;
        let [query, key, value] = [self, key, value].map(|tensor| tensor.cast_for_autocast());
        let mask = mask.map(|mask| mask.additive(query.dtype()));
        let derivative = match kernel {
            SdpaKernel::Portable | SdpaKernel::Math => portable,
            SdpaKernel::Efficient => efficient,
            SdpaKernel::Flash => flash,
        };
        let mut record = tape.record(&[&query, &key, &value], derivative);
        for tensor in [&query, &key, &value].into_iter().chain(&mask) {
            record.save(tensor);
        }
        let &[batch, heads, length, _] = query.dims() else {
            return query;
        };
        // The others lay it out as the queries are.
        let output = match kernel {
            SdpaKernel::Efficient => query.by_position(heads, query.dtype()),
            SdpaKernel::Portable | SdpaKernel::Flash | SdpaKernel::Math => query.like(query.dtype()),
        };
        let length = match kernel {
            SdpaKernel::Efficient => length.next_multiple_of(LSE_ALIGNMENT),
            SdpaKernel::Portable | SdpaKernel::Flash | SdpaKernel::Math => length,
        };
        let log_sum = tape.empty(&[batch, heads, length], Dtype::Float32);
        record.save(&output);
        record.save(&log_sum);
        record.finish(output)
    }

    /// `flash_attn_varlen_func` on one row of samples that begin at `starts`: (1, heads, length, width). The row is a view for it
    /// (`_flash_attention_forward` in `modeling_flash_attention_utils.py`).
    pub(crate) fn flash_attention_apart(&self, key: &Self, value: &Self, starts: &Self) -> Tensor<'t> {
        let tape = self.tape;
        let [query, key, value] = [self, key, value].map(|tensor| tensor.cast_for_autocast());
        let mut record = tape.record(&[&query, &key, &value], flash_apart);
        for tensor in [&query, &key, &value] {
            record.save(tensor);
        }
        let &[_, heads, length, _] = query.dims() else {
            return query;
        };
        let output = query.like(query.dtype());
        let log_sum = tape.empty(&[heads, length], Dtype::Float32);
        for tensor in [&output, &log_sum, starts] {
            record.save(tensor);
        }
        record.finish(output)
    }

    /// `scaled_dot_product_attention` step by step in float32, where no kernel takes the format
    /// (`_scaled_dot_product_attention_math` in `aten/src/ATen/native/transformers/attention.cpp`): (batch, heads, length, width).
    fn math_attention(&self, key: &Self, value: &Self, mask: Option<&Self>) -> Tensor<'t> {
        let tape = self.tape;
        let [query, key, value] = [self, key, value].map(|tensor| tensor.cast_for_autocast());
        let (dtype, groups) = (query.dtype(), query.dims()[1] / key.dims()[1]);
        // The operation is one of autocast's, those that it is made of are not.
        let autocast = tape.autocast.take();
        let mask = mask.map(|mask| mask.additive(dtype));
        let [query, key, value] = [query, key, value].map(|tensor| tensor.to(Dtype::Float32));
        let query = query.scale();
        let mask = mask.unwrap_or_else(|| tape.lower_triangle(query.dim_from_last(1)));
        let (keys, values) = (key.repeat_heads(groups), value.repeat_heads(groups));
        drop((key, value));
        let scores = query.matmul(&keys.transpose(2, 3).scale());
        drop(mask);
        let weights = scores.safe_softmax();
        drop(scores);
        let output = weights.matmul(&values).to(dtype);
        // The weights are an output, too, which nobody takes.
        drop(weights.to(dtype));
        tape.autocast.set(autocast);
        output
    }

    /// `_safe_softmax(self, dim=-1)`: rows without a finite score are zeros.
    fn safe_softmax(&self) -> Tensor<'t> {
        let softmax = self.like(self.dtype());
        let is_masked = self.like(Dtype::Bool);
        let result = self.softmax_plain();
        drop((softmax, is_masked));
        result
    }

    /// `scaled_dot_product_attention` step by step, as the CPU computes it with dropout: (batch, heads, length, width).
    pub(crate) fn composed_attention(&self, key: &Self, value: &Self, dropout: bool) -> Tensor<'t> {
        let [query, key, value] = [self, key, value].map(|tensor| tensor.cast_for_autocast());
        let query = query.scale();
        let mut weights = {
            let keys = key.transpose(2, 3).scale();
            let scores = query.matmul(&keys);
            drop(keys);
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
            [Some(result), None, None]
        }
        let mut record = self.tape.record(&[self], derivative);
        if self.tape.pytorch.saves_softmax_inputs {
            record.save(self);
        }
        let result = self.like(self.dtype());
        record.save(&result);
        record.finish(result)
    }

    /// Eager attention of the encoders: (batch, length, heads, width), and the weights.
    pub(crate) fn eager_encoder_attention(
        &self,
        key: &Self,
        value: &Self,
        mask: Option<&Self>,
        dropout: bool,
    ) -> (Tensor<'t>, Tensor<'t>) {
        let mut weights = self.matmul(&key.transpose(2, 3)).scale();
        if let Some(mask) = mask {
            weights = weights.add(mask);
        }
        // On a GPU autocast has it in float32.
        weights = match (self.tape.backend, self.tape.autocast_dtype()) {
            (Backend::Cuda, Some(_)) => weights.softmax_float32(),
            _ => weights.softmax_plain(),
        };
        if dropout {
            weights = weights.dropout();
        }
        let output = weights.matmul(value);
        (output.transpose(1, 2).contiguous(), weights)
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

/// The gradients of queries, keys and values, one head for each query head.
fn all_heads<'t>(backward: &Backward<'t>) -> [Tensor<'t>; 3] {
    let heads = backward.attributes.inputs[0].0[1];
    [0, 1, 2].map(|input| {
        let saved = backward.saved(input);
        saved.by_position(if input == 0 { heads } else { saved.dims()[1] }, saved.dtype())
    })
}

fn wanted<'t>(backward: &Backward<'t>, gradients: [Tensor<'t>; 3]) -> Gradients<'t> {
    let mut needs = backward.needs.into_iter();
    gradients.map(|gradient| (needs.next() == Some(true)).then_some(gradient))
}

/// The CPU's kernel: nothing but the gradients.
fn portable<'t>(backward: &mut Backward<'t>, _: &Tensor<'t>) -> Gradients<'t> {
    wanted(backward, all_heads(backward))
}

/// The memory-efficient kernel: halves are summed up for the queries in a workspace of float32.
fn efficient<'t>(backward: &mut Backward<'t>, grad: &Tensor<'t>) -> Gradients<'t> {
    let tape = backward.tape;
    let query = backward.saved(0);
    let gradients = all_heads(backward);
    let &[batch, heads, length, width] = query.dims() else {
        return [None, None, None];
    };
    if query.dtype() == Dtype::Float32 {
        let products = grad.like(Dtype::Float32);
        let delta = tape.empty(&[batch, length, heads], Dtype::Float32);
        drop(products);
        let delta = tape.empty(delta.dims(), Dtype::Float32);
        drop(delta);
    } else {
        let delta = tape.empty(&[batch, heads, length], Dtype::Float32);
        let tiles = u64::from(length).div_ceil(EFFICIENT_TILE) * u64::from(width).div_ceil(EFFICIENT_TILE);
        let tile = EFFICIENT_TILE_HEADER + EFFICIENT_TILE * EFFICIENT_TILE * Dtype::Float32.size();
        let workspace = tape.bytes(u64::from(batch * heads) * tiles * tile, Category::Temporary);
        drop((workspace, delta));
    }
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

/// FlashAttention-2: the queries' gradients are summed up in float32, and the keys' and values' of heads that share them.
fn flash_gradients<'t>(backward: &mut Backward<'t>, rows: impl Fn(u32) -> u32) -> Gradients<'t> {
    let tape = backward.tape;
    let query = backward.saved(0);
    let gradients = [0, 1, 2].map(|input| {
        let saved = backward.saved(input);
        saved.like(saved.dtype())
    });
    let &[batch, heads, length, width] = query.dims() else {
        return [None, None, None];
    };
    let rows = rows(length);
    let sums = tape.empty(&[batch, heads, rows], Dtype::Float32);
    let queries = tape.empty(
        &[batch, rows, heads, width.next_multiple_of(FLASH_WIDTH)],
        Dtype::Float32,
    );
    let shared = backward.attributes.inputs[1].0[1] != heads;
    let expanded = shared.then(|| [1, 2].map(|input| backward.saved(input).by_position(heads, query.dtype())));
    drop((sums, queries, expanded));
    wanted(backward, gradients)
}
