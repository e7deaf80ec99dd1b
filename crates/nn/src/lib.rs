//! Layers, each a forward and a backward pass on candle tensors without autograd.
//!
//! Activations are two-dimensional: `[tokens, features]`, the tokens of a micro-batch one after another. They are kept
//! in the hidden dtype (float32, or the 16-bit format of the cell), and so are the gradients that products are computed
//! from; sums are float32, and so is the gradient of the residual stream, from block to block. Products of bfloat16 are
//! taken in bfloat16 where the CPU multiplies it, else, as on other devices, in float32. Frozen weights never get
//! gradients.

pub mod activation;
pub mod adapter;
pub mod attention;
mod carried;
pub mod classifier;
mod convert;
pub mod decoder_block;
pub mod dropout;
mod eager;
pub mod embedding;
pub mod encoder_block;
pub mod encoder_embedding;
pub mod feed_forward;
pub mod head;
mod head_norm;
mod head_rows;
pub mod layer_norm;
pub mod linear;
pub mod loss;
pub mod norm;
mod operand;
pub mod optim;
pub mod param;
mod pass;
mod plain_ops;
pub mod prefix;
pub mod prompt;
pub mod rope;
mod sdpa;
mod softcap;
pub mod tensor;
#[cfg(test)]
pub(crate) mod testing;
mod virtual_rows;
pub mod virtual_tokens;
pub mod weight;

pub use carried::Carrier;
pub use pass::{DropoutPass, Pass};
pub use plain_ops::with_plain_ops;
