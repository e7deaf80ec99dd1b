//! Where the head's product ends: losses and their gradients, block by block as the product gives them. No logits are
//! kept.
//!
//! A head that is trained needs the logits' gradients, and so their log-sum-exps first: two passes over the logits. One
//! that is not needs the sums only at the end, and one pass.

#[cfg(target_arch = "x86_64")]
mod avx512;
mod cap;
mod one_pass;
mod two_passes;

pub use one_pass::{Exponentials, next_logits, subtract_next};
pub use two_passes::{LogSumExps, SoftmaxGradient};
