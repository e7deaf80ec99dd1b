//! Grouped-query attention over `[tokens, heads, head_dim]`, sequence by sequence, causal, causal within a sliding window,
//! or to a sequence's first keys, in blocks of 32 queries by 32 keys: the score matrix is never held, blocks that are hidden
//! are not computed, grouped heads share their keys and values, and the backward pass computes the probabilities again from
//! the rows' log-sum-exps (Dao et al. 2022, arXiv:2205.14135).
//!
//! Sums are float32, products of either [`Number`]. Operands are packed from, and results written to, the interleaved
//! layout: nothing of a tensor's size is held.
//!
//! Weights can be dropped: the masks are functions, drawn block by block in both passes.
//!
//! In the blocks on the diagonal, later keys have the weight zero. That would not keep what is not finite in them from
//! earlier queries, as 0 · NaN is NaN; so whatever gives something that is not finite is computed again, with care. Keys
//! that a window has left behind are not looked after so: they come before, and their own outputs are not finite either.

#[cfg(target_arch = "x86_64")]
mod avx512;
mod backward;
mod destination;
mod forward;
mod head;
mod masked;
mod number;
mod pattern;
mod query_block;
mod scores;
mod shape;
mod stats;
#[cfg(test)]
mod tests;
mod weights;

pub use backward::{Gradients, Saved, backward};
pub use forward::forward;
pub use number::Number;
pub use pattern::{Keys, Pattern};
pub use scores::Scores;
pub use shape::Shape;
