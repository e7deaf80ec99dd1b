//! The statistics of a block of queries that weights and their gradients are computed from.

use super::pattern::Hidden;
use crate::kernels::gemm::block::EDGE;

/// Numbers of 32 queries, in 16 parts each.
pub(super) type Parts = [[f32; 16]; EDGE];

/// What a block of 32 queries has in a round of keys.
pub struct Round {
    /// Of the products of queries and keys, to scores.
    pub scale: f32,
    /// Of each query's scores, what is taken off before they are exponentiated.
    pub shifts: [f32; EDGE],
    /// The sums of each query's weights.
    pub sums: Parts,
}

/// What gradients of a block of 32 keys by 32 queries need to know.
pub struct Slopes<'a> {
    /// Of the products of queries and keys, to scores.
    pub scale: f32,
    /// Of each query, the logarithm of the sum of its exponentiated scores.
    pub log_sums: &'a [f32; EDGE],
    /// Of each query, the product of its output and the output's gradient.
    pub along: &'a [f32; EDGE],
    /// Keys that the queries do not see.
    pub hidden: Hidden,
}
