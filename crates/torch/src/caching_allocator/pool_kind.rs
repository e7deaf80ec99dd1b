//! The pools: two of each stream.

use super::rounding::LARGEST_SMALL;

/// A pool, by the sizes of its blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PoolKind {
    /// Blocks up to 1 MiB.
    Small,
    /// Larger blocks.
    Large,
}

/// A pool: blocks of one kind and one stream, which no other may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PoolId {
    pub kind: PoolKind,
    /// The stream, of which the first is that of computation.
    pub stream: u8,
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
