//! The statistics of a block of queries that weights and their gradients are computed from.

use super::pattern::Hidden;
use crate::gemm::block::{Block, TILE};

/// Numbers of 32 queries, in 16 parts each.
pub(super) type RowPartials = [[f32; 16]; TILE];

/// The running softmax statistics of a block of 32 queries.
pub struct ForwardStats {
    /// Factor of the products of queries and keys.
    pub scale: f32,
    /// The number subtracted from each query's scores before they are exponentiated.
    pub shifts: [f32; TILE],
    /// The sums of each query's weights.
    pub sums: RowPartials,
}

/// The statistics that the gradients of a block of 32 keys by 32 queries need.
pub struct BackwardStats<'a> {
    /// Factor of the products of queries and keys.
    pub scale: f32,
    /// Log-sum-exp of each query's scores.
    pub lse: &'a [f32; TILE],
    /// FlashAttention's `delta`: rowsum(dO ∘ O), one value per query.
    pub delta: &'a [f32; TILE],
    /// Keys that the queries do not see.
    pub hidden: Hidden,
    /// Derivatives of the scores in the scaled products, if scores are capped.
    pub slopes: Option<&'a Block>,
}
