//! The two pools.

use super::rounding::LARGEST_SMALL;

/// A pool, by the sizes of its blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PoolKind {
    /// Blocks up to 1 MiB.
    Small,
    /// Larger blocks.
    Large,
}

impl PoolKind {
    /// The pool of blocks of `size` bytes.
    pub(super) fn of(size: u64) -> Self {
        if size <= LARGEST_SMALL {
            Self::Small
        } else {
            Self::Large
        }
    }
}
