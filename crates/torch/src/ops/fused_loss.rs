//! Losses that are fused with the head's product, so that no tensor has the logits of all tokens.
//!
//! Each is a `torch.autograd.Function`: nothing inside is recorded, and what it saves is named in its `forward`. Vectors
//! with a value per token that live for an instant are left out.

use crate::dtype::Dtype;
use crate::tape::{Backward, Gradients, Tape, Tensor};

/// Tokens and words of a tile of TRL's loss (`TOKEN_CHUNK_SIZE` in `trl/kernels/chunked_logprob.py`,
/// `_CHUNKED_LOGPROB_CHUNK_SIZE` in `trl/trainer/utils.py` of TRL 1.16).
const TILE: [u32; 2] = [4096, 32_768];

/// Vectors with a float32 value per token that TRL's forward pass holds: maxima, sums and the target's logit.
const RUNNING_VECTORS: u32 = 7;

/// Rows of a lock in cut cross-entropy (`cce_lse_forward.py`).
const ROWS_OF_A_LOCK: u32 = 128;

impl Tape {
    /// A copy of a tensor of these dimensions in `dtype`, if it is of another format.
    fn copy_to(&self, dims: &[u32], from: Dtype, dtype: Dtype) -> Option<Tensor<'_>> {
        (from != dtype).then(|| self.empty(dims, dtype))
    }
}

impl<'t> Tensor<'t> {
    /// The format in which this tensor is multiplied.
    fn product_dtype(&self) -> Dtype {
        self.tape.autocast_dtype().unwrap_or(self.dtype())
    }

    /// The loss of the tokens with these hidden states, (rows, width), by TRL since 1.15: tiles of 4,096 tokens and
    /// 32,768 words, which the backward pass computes again (`ChunkedLogProbFunction` in
    /// `trl/kernels/chunked_logprob.py` of 1.16). Gradients are summed in float32, by a product that needs PyTorch 2.8.
    pub(crate) fn tiled_loss(&self, weight: &Self, targets: &Self) -> Tensor<'t> {
        fn derivative<'t>(backward: &mut Backward<'t>, grad: &Tensor<'t>) -> Gradients<'t> {
            let tape = grad.tape;
            let [(hidden, hidden_dtype), (weight, weight_dtype), ..] = backward.attributes.inputs;
            // The format of the tiles is that of the saved log-partition's neighbour.
            let dtype = backward.saved(3).dtype();
            let [of_hidden, of_weight] = [(0, &hidden), (1, &weight)]
                .map(|(input, dims)| backward.needs[input].then(|| tape.empty(dims, Dtype::Float32)));
            let gradients = usize::from(of_hidden.is_some()) + usize::from(of_weight.is_some());
            let buffer = tiles(tape, [&hidden, &weight], [hidden_dtype, weight_dtype], dtype, gradients);
            // All of them live until the function returns.
            let result = [
                of_hidden.as_ref().map(|gradient| gradient.to(hidden_dtype)),
                of_weight.as_ref().map(|gradient| gradient.to(weight_dtype)),
                None,
                None,
            ];
            drop((of_hidden, of_weight, buffer));
            result
        }
        let (tape, dtype) = (self.tape, self.product_dtype());
        let rows = self.dims()[0];
        let mut record = tape.record(&[self, weight], derivative);
        let running = (0..RUNNING_VECTORS).map(|_| tape.empty(&[rows], Dtype::Float32));
        let running: Vec<_> = running.collect();
        let buffer = tiles(
            tape,
            [self.dims(), weight.dims()],
            [self.dtype(), weight.dtype()],
            dtype,
            0,
        );
        let log_z = tape.empty(&[rows], Dtype::Float32);
        let log_probabilities = tape.empty(&[rows], Dtype::Float32);
        drop((running, buffer));
        // No tensor of PyTorch's: it tells the derivative the format of the tiles.
        let format = tape.empty(&[0], dtype);
        record.save(self);
        record.save(weight);
        record.save(targets);
        record.save(&format);
        record.save(&log_z);
        let loss = record.finish(tape.empty(&[], Dtype::Float32));
        drop(log_probabilities);
        loss
    }

    /// The loss of the tokens with these hidden states by Liger's `LigerFusedLinearCrossEntropyFunction`
    /// (`ops/fused_linear_cross_entropy.py` of 0.8.5): chunks whose logits have about as many elements as the hidden states.
    /// The gradients are computed in the forward pass and kept.
    pub(crate) fn liger_loss(&self, weight: &Self) -> Tensor<'t> {
        fn derivative<'t>(backward: &mut Backward<'t>, _: &Tensor<'t>) -> Gradients<'t> {
            let of_weight = backward.needs[1].then(|| backward.saved(1));
            [Some(backward.saved(0)), of_weight, None, None]
        }
        let (tape, dtype) = (self.tape, self.product_dtype());
        let &[rows, width] = self.dims() else {
            return self.clone();
        };
        let words = weight.dims()[0];
        let chunk = rows.div_ceil(words.div_ceil(width)).next_power_of_two().min(rows);
        let mut record = tape.record(&[self, weight], derivative);
        let of_hidden = self.like(self.dtype());
        let of_weight = weight.requires_grad().then(|| weight.like(weight.dtype()));
        let losses = tape.empty(&[rows], Dtype::Float32);
        let mask = tape.empty(&[rows], Dtype::Bool);
        let is_direct = self.dtype() == dtype && weight.dtype() == dtype;
        let storage = is_direct.then(|| tape.empty(&[chunk, words], dtype));
        for start in (0..rows).step_by(chunk as usize) {
            let tokens = chunk.min(rows - start);
            // Autocast keeps no copy of a turned weight.
            let product = |dims: &[u32], inner: &[u32], from: Dtype| {
                let copies = (
                    tape.copy_to(inner, from, dtype),
                    tape.copy_to(weight.dims(), weight.dtype(), dtype),
                );
                let product = tape.product(dims, dtype);
                drop(copies);
                product
            };
            let logits = match &storage {
                Some(_) => {
                    tape.use_cublas();
                    None
                }
                None => Some(product(&[tokens, words], &[tokens, width], self.dtype())),
            };
            match storage.is_some() {
                true => tape.use_cublas(),
                false => drop(product(&[tokens, width], &[tokens, words], dtype)),
            }
            if of_weight.is_some() {
                // Added in place.
                let chunk = tape.copy_to(&[tokens, width], self.dtype(), dtype);
                tape.use_cublas();
                drop(chunk);
            }
            drop(logits);
        }
        drop((storage, mask));
        record.save(&of_hidden);
        if let Some(of_weight) = &of_weight {
            record.save(of_weight);
        }
        let loss = record.finish(tape.empty(&[], Dtype::Float32));
        drop(losses);
        loss
    }

    /// The loss of the tokens with these hidden states by cut cross-entropy (`LinearCrossEntropyFunction` in `cce.py` of
    /// cut-cross-entropy 25.1.1): no logits leave the kernels. Hidden states have the format of products.
    pub(crate) fn cut_loss(&self, weight: &Self, targets: &Self) -> Tensor<'t> {
        fn derivative<'t>(backward: &mut Backward<'t>, grad: &Tensor<'t>) -> Gradients<'t> {
            let tape = grad.tape;
            let [(hidden, dtype), (weight, weight_dtype), ..] = backward.attributes.inputs;
            let order = tape.empty(&[weight[0]], Dtype::Int64);
            let of_hidden = Some(tape.empty(&hidden, dtype));
            let of_weight = backward.needs[1].then(|| tape.empty(&weight, dtype));
            let locks = [hidden[0], weight[0]].map(|rows| tape.empty(&[rows.div_ceil(ROWS_OF_A_LOCK)], Dtype::Float32));
            let of_weight = of_weight.map(|gradient| gradient.to(weight_dtype));
            drop((order, locks));
            [of_hidden, of_weight, None, None]
        }
        let tape = self.tape;
        let hidden = self.cast_for_autocast();
        let (rows, words) = (hidden.dims()[0], weight.dims()[0]);
        let valid = tape.empty(&[rows], Dtype::Float32);
        let mut record = tape.record(&[&hidden, weight], derivative);
        let lse = tape.empty(&[rows], Dtype::Float32);
        let locks = tape.empty(&[rows.div_ceil(ROWS_OF_A_LOCK)], Dtype::Float32);
        let averages = tape.empty(&[words], Dtype::Float32);
        drop(locks);
        let losses = tape.empty(&[rows], Dtype::Float32);
        for saved in [&hidden, weight, &lse, targets, &valid, &averages] {
            record.save(saved);
        }
        let loss = record.finish(tape.empty(&[], Dtype::Float32));
        drop(losses);
        loss
    }
}

/// The tiles of a pass of TRL's loss, in `dtype`, with products for so many gradients; and their buffer. With gradients,
/// the copy of a slice of the head lives until the next is made.
fn tiles<'t>(
    tape: &'t Tape,
    [hidden, weight]: [&[u32]; 2],
    from: [Dtype; 2],
    dtype: Dtype,
    gradients: usize,
) -> Tensor<'t> {
    let ([rows, width], words) = ([hidden[0], hidden[1]], weight[0]);
    let buffer = tape.empty(&[rows.min(TILE[0]), TILE[1]], dtype);
    let mut kept = None;
    for start in (0..rows).step_by(TILE[0] as usize) {
        let chunk = tape.copy_to(&[TILE[0].min(rows - start), width], from[0], dtype);
        for start in (0..words).step_by(TILE[1] as usize) {
            let columns = tape.copy_to(&[TILE[1].min(words - start), width], from[1], dtype);
            for _ in 0..=gradients {
                tape.use_cublas();
            }
            kept = columns.filter(|_| gradients > 0);
        }
        drop(chunk);
    }
    drop(kept);
    buffer
}
