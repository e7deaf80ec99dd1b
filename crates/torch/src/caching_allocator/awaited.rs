//! Blocks that other streams use: freed, they wait until those are done with them.

use std::collections::VecDeque;

use super::blocks::BlockId;
use super::{Allocation, CachingAllocator};

/// Freed blocks whose streams are not done, in the order in which they were freed.
#[derive(Debug, Clone, Default)]
pub(super) struct Awaited {
    /// Each with the name of its use.
    blocks: VecDeque<(BlockId, u32)>,
    bytes: u64,
    /// The streams are done with so many of the first.
    done: usize,
}

impl Awaited {
    pub(super) fn push(&mut self, id: BlockId, name: u32, bytes: u64) {
        self.blocks.push_back((id, name));
        self.bytes += bytes;
    }
}

impl CachingAllocator {
    /// Another stream uses the memory (`Tensor.record_stream`): freed, it waits for that stream. `name` is for
    /// [`Self::done_up_to`].
    pub fn record_stream(&mut self, allocation: &Allocation, name: u32) {
        if let Allocation(Some(id)) = *allocation {
            self.blocks[id].other_use = Some(name);
        }
    }

    /// The other streams are done with all that was freed up to the memory of this name, which is free from the next
    /// [`Self::malloc`] on (`process_events`).
    pub fn done_up_to(&mut self, name: u32) {
        let at = self.awaited.blocks.iter().position(|&(_, of)| of == name);
        self.awaited.done = self.awaited.done.max(at.map_or(0, |at| at + 1));
    }

    /// The other streams are done with all that was freed.
    pub fn synchronize(&mut self) {
        self.awaited.done = self.awaited.blocks.len();
    }

    /// Bytes that are freed and wait for other streams.
    pub fn awaited_bytes(&self) -> u64 {
        self.awaited.bytes
    }

    /// Frees what the other streams are done with.
    #[inline]
    pub(super) fn free_done(&mut self) {
        while self.awaited.done > 0
            && let Some((id, _)) = self.awaited.blocks.pop_front()
        {
            self.awaited.done -= 1;
            self.awaited.bytes -= self.blocks[id].size;
            self.make_free(id);
        }
    }
}
