//! Freed blocks that other streams use: they wait until those are done with them.

use std::collections::VecDeque;

use super::blocks::BlockId;

/// Freed blocks whose streams are not done, in the order in which they were freed.
#[derive(Debug, Clone, Default)]
pub(super) struct Awaited {
    /// Each with the name of its use.
    blocks: VecDeque<(BlockId, u32)>,
    /// The streams are done with so many of the first.
    done: usize,
    /// Bytes of all.
    pub(super) bytes: u64,
}

impl Awaited {
    pub(super) fn push(&mut self, id: BlockId, name: u32, bytes: u64) {
        self.blocks.push_back((id, name));
        self.bytes += bytes;
    }

    /// The streams are done with all up to the block of this name.
    pub(super) fn done_up_to(&mut self, name: u32) {
        let at = self.blocks.iter().position(|&(_, of)| of == name);
        self.done = self.done.max(at.map_or(0, |at| at + 1));
    }

    /// The streams are done with all.
    pub(super) fn done(&mut self) {
        self.done = self.blocks.len();
    }

    /// Takes the first block that the streams are done with.
    pub(super) fn pop_done(&mut self) -> Option<BlockId> {
        self.done = self.done.checked_sub(1)?;
        self.blocks.pop_front().map(|(id, _)| id)
    }
}
