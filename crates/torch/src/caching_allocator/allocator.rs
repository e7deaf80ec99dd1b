//! The allocator: how it takes and frees memory.

use super::awaited::Awaited;
use super::blocks::{Block, BlockId, Blocks, State};
use super::device::DeviceMemory;
use super::pool::Pools;
use super::pool_kind::{PoolId, PoolKind};
use super::rounding::{LARGEST_REQUEST, LARGEST_SMALL, SMALLEST_BLOCK, block_size};
use super::settings::{Settings, TieBreak};
use super::stats::Stats;

/// The allocator of one device.
#[derive(Debug, Clone)]
pub struct CachingAllocator {
    pub(super) settings: Settings,
    pub(super) device: DeviceMemory,
    /// Bytes that the process may hold.
    pub(super) limit: Option<u64>,
    pub(super) blocks: Blocks,
    pub(super) pools: Pools,
    pub(super) awaited: Awaited,
    /// The stream that blocks are taken for.
    pub(super) stream: u8,
    /// The border of the addresses that were never in use.
    pub(super) next_address: u64,
    pub(super) stats: Stats,
    /// False if only what is held of the device is counted.
    counts_blocks: bool,
    /// How often memory was taken from the device or given back.
    pub(super) device_calls: u64,
}

/// Memory that is in use. Nothing for 0 bytes.
#[derive(Debug, PartialEq, Eq)]
pub struct Allocation(pub(super) Option<BlockId>);

/// Neither cached memory nor the device's is enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("out of memory: {requested} bytes were asked for, {allocated} are in use and {reserved} reserved")]
pub struct OutOfMemory {
    /// Bytes that were asked for.
    pub requested: u64,
    /// Bytes in use.
    pub allocated: u64,
    /// Bytes held of the device, after all that is cached was given back.
    pub reserved: u64,
}

impl CachingAllocator {
    /// An allocator that holds nothing.
    pub fn new(settings: &Settings, device: &DeviceMemory) -> Self {
        let fraction = settings.per_process_memory_fraction;
        Self {
            settings: settings.clone(),
            device: *device,
            limit: (fraction < 1.0).then_some((fraction * device.total as f64) as u64),
            blocks: Blocks::default(),
            pools: Pools::default(),
            awaited: Awaited::default(),
            stream: 0,
            next_address: match settings.tie_break {
                TieBreak::Age => 0,
                TieBreak::Address => 1 << 63,
            },
            stats: Stats::default(),
            counts_blocks: true,
            device_calls: 0,
        }
    }

    /// An allocator that holds nothing, and that counts only what is held of the device.
    pub(super) fn without_counts_of_blocks(settings: &Settings, device: &DeviceMemory) -> Self {
        Self {
            counts_blocks: false,
            ..Self::new(settings, device)
        }
    }

    /// The counts so far.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    fn pool_of(&self, size: u64) -> PoolId {
        PoolId {
            kind: PoolKind::of(size),
            stream: self.stream,
        }
    }

    /// Sizes of the free blocks of a pool of the first stream, in the order in which blocks of equal size are taken.
    pub(super) fn free_sizes(&self, kind: PoolKind) -> Vec<u64> {
        let blocks = self.pools[PoolId { kind, stream: 0 }]
            .free
            .iter()
            .map(|id| &self.blocks[id]);
        let mut free: Vec<(u64, u64)> = blocks.map(|block| (block.address, block.size)).collect();
        free.sort_unstable();
        free.into_iter().map(|(_, size)| size).collect()
    }

    /// Adds free segments of these sizes to a pool of the first stream, of which nothing is reserved; new segments come after them.
    pub(super) fn add_free(&mut self, sizes: &[u64], kind: PoolKind) -> Option<()> {
        let (tie_break, pool) = (self.settings.tie_break, PoolId { kind, stream: 0 });
        let mut add = |size: u64| {
            let block = Block::segment(self.take_addresses(size, 1)?, size, pool);
            let id = self.blocks.add(block);
            self.pools.insert(id, &mut self.blocks[id]);
            Some(())
        };
        match tie_break {
            TieBreak::Age => sizes.iter().try_for_each(|&size| add(size)),
            TieBreak::Address => sizes.iter().rev().try_for_each(|&size| add(size)),
        }
    }

    /// Resets the peaks to what there is.
    pub fn reset_peaks(&mut self) {
        self.stats.reset_peaks();
    }

    /// True if events that leave the blocks which they found, such as a step's, would find the same free blocks as they
    /// did when the device had been called `device_calls` times. Free blocks are what segments have beside the blocks
    /// in use and those that are awaited, which a step leaves as it found them, too.
    pub(super) fn is_steady_since(&self, device_calls: u64) -> bool {
        self.device_calls == device_calls && !self.collects()
    }

    /// The largest block that is free without asking the device, in bytes.
    pub fn largest_free_block(&self) -> u64 {
        self.pools.iter().map(|pool| pool.free.largest()).max().unwrap_or(0)
    }

    /// Takes memory for `bytes` bytes.
    ///
    /// # Errors
    ///
    /// Where the device, or the process's share of it, is too small.
    pub fn malloc(&mut self, bytes: u64) -> Result<Allocation, OutOfMemory> {
        if bytes == 0 {
            return Ok(Allocation(None));
        }
        self.free_done();
        let size = (bytes <= LARGEST_REQUEST).then(|| block_size(bytes, &self.settings.roundup_power2_divisions));
        let found = size.and_then(|size| Some((self.find(size)?, size)));
        let Some((id, size)) = found else {
            self.stats.out_of_memory += 1;
            return Err(OutOfMemory {
                requested: bytes,
                allocated: self.stats.all.allocated.current,
                reserved: self.stats.all.reserved.current,
            });
        };
        self.take(id, size, bytes);
        Ok(Allocation(Some(id)))
    }

    /// A free block of at least `size` bytes, taken out of its pool.
    fn find(&mut self, size: u64) -> Option<BlockId> {
        let of = self.pool_of(size);
        if self.collects() {
            self.pools.count_search(of.kind);
        }
        if let Some(id) = self.pools[of].take_best_fit(size, &self.blocks, &self.settings) {
            return Some(id);
        }
        self.collect_garbage();
        let mut id = self.reserve(size, of);
        if id.is_none() && self.release_oversize(size, of) {
            id = self.reserve(size, of);
        }
        if id.is_none() {
            // As in PyTorch, the pool is not searched again for what becomes free here.
            self.empty_cache();
            self.stats.retries += 1;
            id = self.reserve(size, of);
        }
        id
    }

    /// Puts a free block to use for `bytes` bytes, `size` with rounding; what is left of it stays free if it is enough.
    fn take(&mut self, id: BlockId, size: u64, bytes: u64) {
        let block = &self.blocks[id];
        let (pool, whole, was_split, expandable) = (block.pool, block.size, block.is_split(), block.expandable);
        let is_rest_kept = self.keeps_rest(pool, size, whole - size);
        if is_rest_kept {
            let rest = self.blocks.split(id, size);
            self.pools.insert(rest, &mut self.blocks[rest]);
        }
        let block = &mut self.blocks[id];
        block.state = State::InUse;
        block.requested = bytes;
        if !self.counts_blocks {
            return;
        }
        let size = block.size;
        let (splits, split) = match (was_split, is_rest_kept) {
            (false, false) => (0, 0),
            _ if expandable => (0, 0),
            (true, true) => (0, -(size as i64)),
            (false, true) => (1, (whole - size) as i64),
            (true, false) => (-1, -(size as i64)),
        };
        self.stats.change(pool.kind, |stats| {
            stats.allocations.add(1);
            stats.allocated.add(size);
            stats.requested.add(bytes);
            stats.inactive_splits.change(splits);
            stats.inactive_split.change(split);
        });
        if self.is_oversize(size) {
            self.stats.oversize_allocations.add(1);
        }
    }

    /// True if `left` bytes behind a block of `size` bytes stay free.
    fn keeps_rest(&self, pool: PoolId, size: u64, left: u64) -> bool {
        match pool.kind {
            PoolKind::Large if !self.settings.expandable_segments => left > LARGEST_SMALL && !self.is_oversize(size),
            _ => left >= SMALLEST_BLOCK,
        }
    }

    /// A malloc of `bytes` bytes that are freed at once, which changes peaks alone. Gives the bytes of their block;
    /// `None` where no free block will do or settings let the two calls change more; then nothing has changed but what
    /// [`Self::malloc`] frees first.
    pub(super) fn malloc_and_free(&mut self, bytes: u64) -> Option<u64> {
        let settings = &self.settings;
        let is_plain = !settings.expandable_segments && settings.max_split_size.is_none() && !self.collects();
        if !is_plain || bytes == 0 || bytes > LARGEST_REQUEST {
            return None;
        }
        self.free_done();
        let size = block_size(bytes, &self.settings.roundup_power2_divisions);
        let pool = self.pool_of(size);
        let (id, _) = self.pools[pool].free.first_at_least(size)?;
        let block = &self.blocks[id];
        let (whole, was_split) = (block.size, block.is_split());
        let is_rest_kept = self.keeps_rest(pool, size, whole - size);
        let taken = if is_rest_kept { size } else { whole };
        if !self.counts_blocks {
            return Some(taken);
        }
        self.stats.change(pool.kind, |stats| {
            stats.allocations.reach(1);
            stats.allocated.reach(taken);
            stats.requested.reach(bytes);
            if is_rest_kept && !was_split {
                stats.inactive_splits.reach(1);
                stats.inactive_split.reach(whole - size);
            }
        });
        Some(taken)
    }

    /// Gives memory back to its pool, at once or when the other streams that use it are done.
    pub fn free(&mut self, allocation: Allocation) {
        let Some(id) = allocation.0 else { return };
        let block = &mut self.blocks[id];
        let (pool, size) = (block.pool, block.size);
        match block.other_use.take() {
            Some(name) => {
                block.state = State::Awaited;
                self.awaited.push(id, name, size);
            }
            None => self.make_free(id),
        }
        if !self.counts_blocks {
            return;
        }
        self.stats.change(pool.kind, |stats| {
            stats.allocations.subtract(1);
            stats.allocated.subtract(size);
        });
        if self.is_oversize(size) {
            self.stats.oversize_allocations.subtract(1);
        }
    }

    /// Frees what the other streams are done with.
    #[inline]
    pub(super) fn free_done(&mut self) {
        while let Some(id) = self.awaited.pop_done() {
            self.awaited.bytes -= self.blocks[id].size;
            self.make_free(id);
        }
    }

    /// Gives a block that no stream uses back to its pool.
    pub(super) fn make_free(&mut self, id: BlockId) {
        let block = &mut self.blocks[id];
        block.state = State::Free;
        let (pool, size, requested, expandable) = (block.pool, block.size, block.requested, block.expandable);
        let merged = self.merge_with_neighbours(id);
        let block = &mut self.blocks[id];
        let (whole, is_split) = (block.size, block.is_split());
        self.pools.insert(id, block);
        if !self.counts_blocks {
            return;
        }
        let (splits, split) = match (expandable, is_split) {
            (true, _) => (0, 0),
            (false, true) => (1 - merged, size as i64),
            (false, false) => (-merged, -((whole - size) as i64)),
        };
        self.stats.change(pool.kind, |stats| {
            stats.requested.subtract(requested);
            stats.inactive_splits.change(splits);
            stats.inactive_split.change(split);
        });
    }

    /// Adds to a block that is in no pool its neighbours in the same state; how many.
    pub(super) fn merge_with_neighbours(&mut self, id: BlockId) -> i64 {
        let block = &self.blocks[id];
        let (pool, state) = (block.pool, block.state);
        let mut merged = 0;
        for other in [block.previous, block.next].into_iter().flatten() {
            if self.blocks[other].state == state {
                self.pools[pool].remove(other, &self.blocks[other]);
                self.blocks.merge(id, other);
                merged += 1;
            }
        }
        merged
    }

    pub(super) fn is_oversize(&self, size: u64) -> bool {
        self.settings.max_split_size.is_some_and(|oversize| size >= oversize)
    }
}
