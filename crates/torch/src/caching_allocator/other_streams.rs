//! Blocks that other streams use: once freed, they stay reserved until those are done with them.

use std::collections::VecDeque;

use trace::Block;

/// Blocks that other streams use, and what stands for those that are freed, in that order.
#[derive(Debug)]
pub(super) struct OtherStreams<T> {
    used: Vec<Block>,
    freed: VecDeque<(Block, T)>,
}

impl<T> Default for OtherStreams<T> {
    fn default() -> Self {
        Self {
            used: Vec::new(),
            freed: VecDeque::new(),
        }
    }
}

impl<T> OtherStreams<T> {
    /// Another stream uses the block.
    pub(super) fn record(&mut self, block: Block) {
        self.used.push(block);
    }

    /// True if the block, which is freed now, waits for another stream.
    pub(super) fn has(&mut self, block: Block) -> bool {
        let at = self.used.iter().position(|used| *used == block);
        at.map(|at| self.used.swap_remove(at)).is_some()
    }

    /// Keeps what stands for a freed block that [waits](Self::has).
    pub(super) fn keep(&mut self, block: Block, of: T) {
        self.freed.push_back((block, of));
    }

    /// The other streams are done with all that was freed up to this block.
    pub(super) fn done_up_to(&mut self, block: Block) -> impl Iterator<Item = T> + '_ {
        let at = self.freed.iter().position(|(freed, _)| *freed == block);
        self.freed.drain(..at.map_or(0, |at| at + 1)).map(|(_, of)| of)
    }

    /// All that is freed, for whose streams the allocator waits.
    pub(super) fn freed(&mut self) -> impl Iterator<Item = T> + '_ {
        self.freed.drain(..).map(|(_, of)| of)
    }

    /// The other streams are done with everything.
    pub(super) fn done(&mut self) -> impl Iterator<Item = T> + '_ {
        self.used.clear();
        self.freed.drain(..).map(|(_, of)| of)
    }
}
