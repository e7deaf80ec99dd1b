//! The two pools.

/// A pool, by the sizes of its blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PoolKind {
    /// Blocks up to 1 MiB.
    Small,
    /// Larger blocks.
    Large,
}
