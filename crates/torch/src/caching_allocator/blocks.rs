//! Blocks: the pieces that segments consist of.

use std::ops::{Index, IndexMut};

use super::pool_kind::PoolId;

/// A block, by its place in [`Blocks`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BlockId(u32);

/// A piece of a segment. Together with its neighbours it is all of the segment.
#[derive(Debug, Clone)]
pub(super) struct Block {
    pub address: u64,
    pub size: u64,
    /// Bytes as asked for, while it is in use or awaited.
    pub requested: u64,
    /// The count of searches of its kind of pool when it became free.
    pub free_since: u64,
    /// The piece before it.
    pub previous: Option<BlockId>,
    /// The piece behind it.
    pub next: Option<BlockId>,
    pub pool: PoolId,
    pub state: State,
    /// The name of its use by other streams, if they use it.
    pub other_use: Option<u32>,
    /// True if its segment grows.
    pub expandable: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    InUse,
    /// Freed, and not free before the other streams that use it are done.
    Awaited,
    Free,
    /// Addresses of a growing segment without memory.
    Unmapped,
}

impl Block {
    /// All of a segment, free.
    pub(super) fn segment(address: u64, size: u64, pool: PoolId) -> Self {
        Self {
            address,
            size,
            requested: 0,
            free_since: 0,
            previous: None,
            next: None,
            pool,
            state: State::Free,
            other_use: None,
            expandable: false,
        }
    }

    /// True if it is less than its segment.
    pub(super) fn is_split(&self) -> bool {
        self.previous.is_some() || self.next.is_some()
    }
}

/// All blocks. A block that is gone leaves its place to the next new one.
#[derive(Debug, Clone, Default)]
pub(super) struct Blocks {
    blocks: Vec<Block>,
    vacant: Vec<BlockId>,
}

impl Blocks {
    pub(super) fn add(&mut self, block: Block) -> BlockId {
        match self.vacant.pop() {
            Some(id) => {
                self[id] = block;
                id
            }
            None => {
                self.blocks.push(block);
                BlockId(self.blocks.len() as u32 - 1)
            }
        }
    }

    pub(super) fn remove(&mut self, id: BlockId) {
        self.vacant.push(id);
    }

    /// Cuts `id` off after `size` bytes; what is behind becomes a block of its own with the same properties.
    pub(super) fn split(&mut self, id: BlockId, size: u64) -> BlockId {
        let block = &self[id];
        let rest = Block {
            address: block.address + size,
            size: block.size - size,
            previous: Some(id),
            ..block.clone()
        };
        let next = rest.next;
        let rest = self.add(rest);
        if let Some(next) = next {
            self[next].previous = Some(rest);
        }
        self[id].size = size;
        self[id].next = Some(rest);
        rest
    }

    /// Adds the neighbour `other` to `id`.
    pub(super) fn merge(&mut self, id: BlockId, other: BlockId) {
        let Block {
            address,
            size,
            previous,
            next,
            ..
        } = self[other];
        let block = &mut self[id];
        block.size += size;
        if block.previous == Some(other) {
            block.address = address;
            block.previous = previous;
            if let Some(previous) = previous {
                self[previous].next = Some(id);
            }
        } else {
            block.next = next;
            if let Some(next) = next {
                self[next].previous = Some(id);
            }
        }
        self.remove(other);
    }
}

impl Index<BlockId> for Blocks {
    type Output = Block;

    fn index(&self, id: BlockId) -> &Block {
        &self.blocks[id.0 as usize]
    }
}

impl IndexMut<BlockId> for Blocks {
    fn index_mut(&mut self, id: BlockId) -> &mut Block {
        &mut self.blocks[id.0 as usize]
    }
}
