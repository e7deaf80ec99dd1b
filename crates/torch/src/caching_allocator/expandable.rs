//! Segments that grow: many addresses, of which pages get memory as it is needed.

use super::CachingAllocator;
use super::blocks::{Block, BlockId, State};
use super::pool_kind::{PoolId, PoolKind};
use super::rounding::SMALL_SEGMENT;

impl CachingAllocator {
    /// Memory comes in pages of this size.
    fn page(&self, pool: PoolId) -> u64 {
        match pool.kind {
            PoolKind::Small => SMALL_SEGMENT,
            PoolKind::Large => self.settings.large_segment_size,
        }
    }

    /// A free block of at least `size` bytes, in no pool: where the addresses suffice first, memory is put behind what
    /// is free there. Where the device has too little, what it gave stays in the pool.
    pub(super) fn expand(&mut self, size: u64, pool: PoolId) -> Option<BlockId> {
        let mut id = self.expandable(size, pool)?;
        if self.blocks[id].state == State::Unmapped {
            self.map(id, size.min(self.blocks[id].size))?;
        }
        while self.blocks[id].size < size {
            let missing = size - self.blocks[id].size;
            let next = self.blocks[id].next?;
            self.map(next, missing.min(self.blocks[next].size))?;
            id = next;
        }
        self.pools[pool].remove(id, &self.blocks[id]);
        Some(id)
    }

    /// The first block from which on `size` bytes of addresses are free, with memory or without; of a new segment where
    /// there is none.
    fn expandable(&mut self, size: u64, pool: PoolId) -> Option<BlockId> {
        let is_free = |id: &BlockId| matches!(self.blocks[*id].state, State::Free | State::Unmapped);
        let found = self.pools[pool].unmapped().find_map(|unmapped| {
            let first = self.blocks[unmapped].previous.filter(is_free).unwrap_or(unmapped);
            let row = std::iter::successors(Some(first), |&id| self.blocks[id].next.filter(is_free));
            let mut free = 0;
            row.map(|id| self.blocks[id].size)
                .any(|size_of| {
                    free += size_of;
                    free >= size
                })
                .then_some(first)
        });
        match found {
            Some(first) => Some(first),
            None => self.new_expandable(size, pool),
        }
    }

    /// A new segment, without memory.
    fn new_expandable(&mut self, size: u64, pool: PoolId) -> Option<BlockId> {
        let total = self.device.total;
        let whole = total + total / 8;
        let reserve = self
            .settings
            .expandable_segments_reserve
            .map_or(whole, |reserve| reserve.bytes(total).min(whole));
        let page = self.page(pool);
        let length = reserve.checked_next_multiple_of(page)?;
        if size > length {
            return None;
        }
        // Pages begin at multiples of their size.
        let segment = Block {
            state: State::Unmapped,
            expandable: true,
            ..Block::segment(self.take_addresses(length, page)?, length, pool)
        };
        let id = self.blocks.add(segment);
        self.pools.insert(id, &mut self.blocks[id]);
        Some(id)
    }

    /// Puts memory behind the first `size` bytes of an unmapped block, in whole pages, and adds it to the free blocks
    /// around.
    fn map(&mut self, id: BlockId, size: u64) -> Option<()> {
        let pool = self.blocks[id].pool;
        let mapped = size.next_multiple_of(self.page(pool));
        if !self.device.has(mapped, self.stats.all.reserved.current) {
            return None;
        }
        self.pools[pool].remove(id, &self.blocks[id]);
        if mapped < self.blocks[id].size {
            let rest = self.blocks.split(id, mapped);
            self.pools.insert(rest, &mut self.blocks[rest]);
        }
        self.blocks[id].state = State::Free;
        self.merge_with_neighbours(id);
        self.pools.insert(id, &mut self.blocks[id]);
        self.stats.change(pool.kind, |stats| stats.reserved.add(mapped));
        self.device_calls += 1;
        Some(())
    }

    /// Takes the memory from the pages that lie within a free block; what is left of it before and behind stays free. A
    /// segment without any memory is gone.
    pub(super) fn unmap(&mut self, id: BlockId) {
        let block = &self.blocks[id];
        let (pool, page) = (block.pool, self.page(block.pool));
        let first = block.address.next_multiple_of(page);
        let last = (block.address + block.size) / page * page;
        if first >= last {
            return;
        }
        self.pools[pool].remove(id, block);
        let mut unmapped = id;
        if self.blocks[id].address < first {
            unmapped = self.blocks.split(id, first - self.blocks[id].address);
            self.pools.insert(id, &mut self.blocks[id]);
        }
        if last - first < self.blocks[unmapped].size {
            let behind = self.blocks.split(unmapped, last - first);
            self.pools.insert(behind, &mut self.blocks[behind]);
        }
        self.blocks[unmapped].state = State::Unmapped;
        self.merge_with_neighbours(unmapped);
        if self.blocks[unmapped].is_split() {
            self.pools.insert(unmapped, &mut self.blocks[unmapped]);
        } else {
            self.blocks.remove(unmapped);
        }
        self.stats
            .change(pool.kind, |stats| stats.reserved.subtract(last - first));
        self.device_calls += 1;
    }
}
