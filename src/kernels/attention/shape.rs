//! The sizes of an attention problem.

use std::ops::Range;

use crate::kernels::gemm::block::TILE;

/// Heads, and what they are computed on.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Samples.
    pub batch: usize,
    /// Positions of a sample, padding included.
    pub len: usize,
    /// Heads of queries.
    pub heads: usize,
    /// Heads of keys and values, of which each serves `heads / kv_heads` heads of queries.
    pub kv_heads: usize,
    /// Dimensions of a head.
    pub head_dim: usize,
}

impl Shape {
    #[inline]
    pub(super) fn group(self) -> usize {
        self.heads / self.kv_heads
    }

    #[inline]
    pub(super) fn scale(self) -> f32 {
        1.0 / (self.head_dim as f32).sqrt()
    }

    pub(super) fn queries(self) -> usize {
        self.batch * self.len * self.heads * self.head_dim
    }

    pub(super) fn keys(self) -> usize {
        self.batch * self.len * self.kv_heads * self.head_dim
    }

    /// The length, filled up to whole blocks.
    #[inline]
    pub(super) fn padded(self) -> usize {
        self.len.next_multiple_of(TILE)
    }

    /// Panels of 32 columns that a head's dimensions fill.
    #[inline]
    pub(super) fn panels(self) -> usize {
        self.head_dim.div_ceil(TILE)
    }

    /// A panel's dimensions.
    #[inline]
    pub(super) fn panel(self, panel: usize) -> Range<usize> {
        panel * TILE..self.head_dim.min(panel * TILE + TILE)
    }
}
