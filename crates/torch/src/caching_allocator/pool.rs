//! The free blocks of a pool, and which of them is taken.

use std::collections::BTreeSet;
use std::ops::{Index, IndexMut};

use super::blocks::{Block, BlockId, Blocks, State};
use super::free::FreeBlocks;
use super::pool_kind::{PoolId, PoolKind};
use super::settings::Settings;

/// The pools of each stream that has been used: the small one, then the large one.
#[derive(Debug, Clone)]
pub(super) struct Pools {
    of_streams: Vec<[Pool; 2]>,
    /// How often a pool of each kind was searched: the clock of ages.
    searches: [u64; 2],
}

impl Default for Pools {
    fn default() -> Self {
        Self {
            of_streams: vec![Default::default()],
            searches: [0; 2],
        }
    }
}

impl Pools {
    /// Makes the pools of a stream, if there are none.
    pub(super) fn open(&mut self, stream: u8) {
        let streams = self.of_streams.len().max(usize::from(stream) + 1);
        self.of_streams.resize_with(streams, Default::default);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Pool> {
        self.of_streams.iter().flatten()
    }

    /// The pools of a kind, stream by stream.
    pub(super) fn of_kind(&self, kind: PoolKind) -> impl Iterator<Item = &Pool> {
        self.of_streams.iter().map(move |pools| &pools[kind as usize])
    }

    /// Counts a search.
    pub(super) fn count_search(&mut self, kind: PoolKind) {
        self.searches[kind as usize] += 1;
    }

    /// Searches since the block became free.
    pub(super) fn age(&self, block: &Block) -> u64 {
        self.searches[block.pool.kind as usize] - block.free_since
    }

    /// Adds a block that is free, or addresses without memory.
    pub(super) fn insert(&mut self, id: BlockId, block: &mut Block) {
        if block.state == State::Free {
            block.free_since = self.searches[block.pool.kind as usize];
        }
        self[block.pool].insert(id, block);
    }
}

impl Index<PoolId> for Pools {
    type Output = Pool;

    fn index(&self, id: PoolId) -> &Pool {
        &self.of_streams[usize::from(id.stream)][id.kind as usize]
    }
}

impl IndexMut<PoolId> for Pools {
    fn index_mut(&mut self, id: PoolId) -> &mut Pool {
        &mut self.of_streams[usize::from(id.stream)][id.kind as usize]
    }
}

/// A pool: its free blocks, and its addresses without memory.
#[derive(Debug, Clone, Default)]
pub(super) struct Pool {
    pub free: FreeBlocks,
    /// Addresses of growing segments without memory, in order.
    unmapped: BTreeSet<(u64, BlockId)>,
}

impl Pool {
    fn insert(&mut self, id: BlockId, block: &Block) {
        match block.state {
            State::Unmapped => drop(self.unmapped.insert((block.address, id))),
            _ => self.free.insert(block.size, block.address, id),
        }
    }

    pub(super) fn remove(&mut self, id: BlockId, block: &Block) {
        match block.state {
            State::Unmapped => drop(self.unmapped.remove(&(block.address, id))),
            _ => self.free.remove(block.size, block.address),
        }
    }

    pub(super) fn unmapped(&self) -> impl Iterator<Item = BlockId> + '_ {
        self.unmapped.iter().map(|&(_, id)| id)
    }

    /// Takes the block for `size` bytes out of the pool: the smallest that is large enough, of equal ones that with the
    /// lowest address. Only that one is looked at: where it may not be taken, nothing is found.
    pub(super) fn take_best_fit(&mut self, size: u64, blocks: &Blocks, settings: &Settings) -> Option<BlockId> {
        let (first, place) = self.free.first_at_least(size)?;
        let is_growing = blocks[first].expandable;
        let best = match is_growing {
            true => self.best_fit_of_growing(first, size, blocks),
            false => first,
        };
        let found = blocks[best].size;
        let is_allowed = match settings.max_split_size {
            Some(oversize) if size < oversize => found < oversize,
            Some(_) => found < size.saturating_add(settings.max_non_split_rounding()),
            None => true,
        };
        if !is_allowed {
            return None;
        }
        match is_growing {
            true => self.remove(best, &blocks[best]),
            false => self.free.remove_at(place),
        }
        Some(best)
    }

    /// The best block where segments grow, in which `first` is the smallest block. The end of a growing segment is as
    /// large as it can become, so that holes inside come first.
    fn best_fit_of_growing(&self, first: BlockId, size: u64, blocks: &Blocks) -> BlockId {
        let reach = |id| {
            let block: &Block = &blocks[id];
            let next = block.next.map(|next| &blocks[next]);
            block.size
                + next
                    .filter(|next| next.state == State::Unmapped)
                    .map_or(0, |next| next.size)
        };
        let mut best = first;
        for next in self.free.at_least(size).skip(1) {
            if reach(next) >= reach(best) {
                break;
            }
            best = next;
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::super::pool_kind::{PoolId, PoolKind};
    use super::*;

    const LARGE: PoolId = PoolId {
        kind: PoolKind::Large,
        stream: 0,
    };

    const MIB: u64 = 1 << 20;

    /// A pool with one whole segment of each size, in MiB, at rising addresses.
    fn pool(sizes: &[u64]) -> (Pool, Blocks) {
        let (mut pool, mut blocks) = (Pool::default(), Blocks::default());
        for (&size, address) in sizes.iter().zip((0..).step_by(1 << 40)) {
            let id = blocks.add(Block::segment(address, size * MIB, LARGE));
            pool.insert(id, &blocks[id]);
        }
        (pool, blocks)
    }

    /// Address of the segment, counted from 0, that is taken for `size` MiB.
    fn taken(sizes: &[u64], size: u64, settings: &str) -> Option<u64> {
        let (mut pool, blocks) = pool(sizes);
        let settings = settings.parse().unwrap();
        pool.take_best_fit(size * MIB, &blocks, &settings)
            .map(|id| blocks[id].address >> 40)
    }

    #[test]
    fn the_smallest_that_fits_is_taken_and_the_lowest_of_equal_ones() {
        assert_eq!(taken(&[30, 12, 12, 11], 12, ""), Some(1));
        assert_eq!(taken(&[30, 12, 12, 11], 13, ""), Some(0));
        assert_eq!(taken(&[30, 12, 12, 11], 31, ""), None);
    }

    #[test]
    fn small_requests_do_not_get_oversize_blocks() {
        assert_eq!(taken(&[64, 100], 20, "max_split_size_mb:64"), None);
        assert_eq!(taken(&[63, 100], 20, "max_split_size_mb:64"), Some(0));
    }

    #[test]
    fn oversize_requests_get_blocks_that_are_not_much_too_large() {
        assert_eq!(taken(&[84], 64, "max_split_size_mb:64"), None);
        assert_eq!(taken(&[83], 64, "max_split_size_mb:64"), Some(0));
        assert_eq!(
            taken(&[84], 64, "max_split_size_mb:64,max_non_split_rounding_mb:21"),
            Some(0)
        );
        assert_eq!(
            taken(&[84], 64, "max_split_size_mb:64,large_segment_size_mb:21"),
            Some(0),
            "a segment's size where nothing is said"
        );
        assert_eq!(taken(&[84], 64, ""), Some(0));
    }
}
