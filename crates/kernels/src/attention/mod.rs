//! Grouped-query attention over `[tokens, heads, head_dim]`, one sequence at a time, in blocks of 32 queries by 32 keys
//! (FlashAttention: Dao et al. 2022, arXiv:2205.14135). It is causal, causal within a sliding window, or sees the first
//! keys of a sequence. The score matrix is never held, and hidden blocks are not computed. Grouped heads share their
//! keys and values. The backward pass computes the probabilities again from the log-sum-exps of the rows.
//!
//! Sums are float32, products of either [`Number`]. Operands are packed from, and results written to, the interleaved
//! layout: nothing of a tensor's size is held.
//!
//! Weights can be dropped: the masks are functions, drawn block by block in both passes.
//!
//! Blocks on the diagonal give later keys the weight 0. A NaN or an infinity in such a key would still reach earlier
//! queries, as 0 · NaN is NaN. So an output that is not finite is computed again without these keys. Keys behind a
//! window need no such care: they come before the query, and their own outputs are not finite either.

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
