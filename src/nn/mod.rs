//! Layers, each a forward and a backward pass on candle tensors without autograd.
//!
//! Activations are two-dimensional: `[tokens, features]`, the tokens of a micro-batch one after another. They are kept
//! in the hidden dtype (float32, or the 16-bit format of the cell), and so are the gradients that products are computed
//! from; sums are float32, and so is the gradient of the residual stream, from block to block. Products of bfloat16 are
//! taken in bfloat16 where the CPU multiplies it, else, as on other devices, in float32. Frozen weights never get
//! gradients.

pub mod affine;
pub mod attention;
pub mod block;
pub mod classifier;
pub mod dropout;
pub mod embedding;
pub mod encoder_block;
pub mod encoder_embedding;
pub mod feed_forward;
pub(crate) mod host;
pub mod layer_norm;
pub mod linear;
mod linear_cpu;
pub mod lora;
pub mod loss;
pub mod mlp;
pub mod norm;
mod operand;
pub mod param;
pub mod rope;
mod sdpa;
pub mod self_attention;
#[cfg(test)]
pub(crate) mod testing;
pub mod weight;

/// What every layer is told about the micro-batch that goes through it.
#[derive(Debug, Clone)]
pub struct Pass {
    /// Samples in the micro-batch.
    pub batch: usize,
    /// Tokens of each sample, padding included.
    pub len: usize,
    /// Tokens of each sample without its padding, which stands right of them; empty for models in which causality hides
    /// it.
    pub lengths: Vec<u32>,
    /// Where dropout masks come from; `None` in evaluation and where there is no dropout.
    pub dropout: Option<DropoutPass>,
}

/// The coordinates a dropout mask is a function of, beside the seed, the module's name and the element.
#[derive(Debug, Clone)]
pub struct DropoutPass {
    /// Optimizer step, from 0.
    pub step: u64,
    /// For each sample of the micro-batch, its index within the effective batch.
    pub samples: Vec<u64>,
}
