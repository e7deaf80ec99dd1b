//! Views: storages by number, and where their gradients go. They hold nothing.

use super::dtype::Dtype;
use super::layout::Layout;

/// A storage, numbered as its block in the trace is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StorageId(u32);

impl StorageId {
    /// The storage of a tensor without memory, which a stopped recomputation would have made.
    pub(super) const NOWHERE: Self = Self(u32::MAX);
    /// Storages from here on have no memory.
    const FIRST_NOWHERE: u32 = u32::MAX - u16::MAX as u32;

    /// The storage of a parameter that has memory while it is whole.
    pub(super) fn of_parameter(number: usize) -> Self {
        Self(Self::FIRST_NOWHERE + number as u32)
    }

    /// The number of the parameter, if it is a storage of one.
    pub(super) fn parameter(self) -> Option<usize> {
        self.0
            .checked_sub(Self::FIRST_NOWHERE)
            .map(|number| number as usize)
            .filter(|_| self != Self::NOWHERE)
    }

    pub(super) fn is_nowhere(self) -> bool {
        self.0 >= Self::FIRST_NOWHERE
    }

    pub(super) fn new(index: usize) -> Self {
        Self(index as u32)
    }

    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// A unit of FSDP, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct UnitId(pub(super) u16);

/// Where the gradient of a tensor goes: to an output of a node, or to a leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Edge(u32);

/// The end of an [`Edge`].
pub(super) enum Target {
    Nothing,
    Leaf(usize),
    Node { node: usize, output: usize },
}

impl Edge {
    /// No gradient is wanted.
    pub(super) const NONE: Self = Self(u32::MAX);
    /// A gradient would be wanted, but nothing is recorded: the block is being recomputed.
    pub(super) const UNRECORDED: Self = Self(u32::MAX - 1);
    const LEAF: u32 = 1 << 31;
    const SECOND: u32 = 1 << 30;

    pub(super) fn leaf(index: usize) -> Self {
        Self(Self::LEAF | index as u32)
    }

    pub(super) fn node(index: usize, output: usize) -> Self {
        Self(index as u32 | if output == 0 { 0 } else { Self::SECOND })
    }

    pub(super) fn is_some(self) -> bool {
        self != Self::NONE
    }

    pub(super) fn target(self) -> Target {
        if self == Self::NONE || self == Self::UNRECORDED {
            Target::Nothing
        } else if self.0 & Self::LEAF != 0 {
            Target::Leaf((self.0 & !Self::LEAF) as usize)
        } else {
            Target::Node {
                node: (self.0 & !Self::SECOND) as usize,
                output: usize::from(self.0 & Self::SECOND != 0),
            }
        }
    }
}

/// A tensor's description. Unlike a tensor, it does not keep the storage alive.
#[derive(Debug, Clone, Copy)]
pub(super) struct View {
    pub(super) storage: StorageId,
    pub(super) dtype: Dtype,
    /// Where its gradient goes.
    pub(super) edge: Edge,
    pub(super) layout: Layout,
    /// It is another tensor seen otherwise, which it keeps alive.
    pub(super) is_seen_otherwise: bool,
}
