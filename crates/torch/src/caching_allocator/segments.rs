//! Segments of a fixed size, and giving memory back to the device.

use super::CachingAllocator;
use super::blocks::{Block, BlockId};
use super::pool_kind::{PoolId, PoolKind};
use super::rounding::segment_size_of;
use super::settings::TieBreak;

impl CachingAllocator {
    /// Memory of the device for a block of `size` bytes: a new segment, or a growing one grown. The block is free and
    /// in no pool; it may be larger than `size`.
    pub(super) fn reserve(&mut self, size: u64, pool: PoolId) -> Option<BlockId> {
        let segment = segment_size_of(size, self.settings.large_segment_size);
        let reserved = self.stats.all.reserved.current;
        if self.limit.is_some_and(|limit| reserved.saturating_add(segment) > limit) {
            return None;
        }
        if self.settings.expandable_segments {
            return self.expand(size, pool);
        }
        if !self.device.has(segment, reserved) {
            return None;
        }
        let address = self.take_addresses(segment, 1)?;
        let oversize = self.is_oversize(segment);
        self.stats.change(pool.kind, |stats| {
            stats.segments.add(1);
            stats.reserved.add(segment);
        });
        if oversize {
            self.stats.oversize_segments.add(1);
        }
        self.device_calls += 1;
        Some(self.blocks.add(Block::segment(address, segment, pool)))
    }

    /// Addresses that were never in use, above all that were or below them, so that the lowest is that of the block to
    /// take of equal ones. The first is a multiple of `alignment`.
    pub(super) fn take_addresses(&mut self, size: u64, alignment: u64) -> Option<u64> {
        let (address, next) = match self.settings.tie_break {
            TieBreak::Age => {
                let address = self.next_address.checked_next_multiple_of(alignment)?;
                (address, address.checked_add(size)?)
            }
            TieBreak::Address => {
                let address = self.next_address.checked_sub(size)?;
                let address = address - address % alignment;
                (address, address)
            }
        };
        self.next_address = next;
        Some(address)
    }

    /// Gives a free block that is a whole segment back to the device.
    pub(super) fn release(&mut self, id: BlockId) {
        let block = &self.blocks[id];
        let (size, pool) = (block.size, block.pool);
        self.pools[pool].remove(id, block);
        self.blocks.remove(id);
        self.stats.change(pool.kind, |stats| {
            stats.segments.subtract(1);
            stats.reserved.subtract(size);
        });
        self.device_calls += 1;
        if self.is_oversize(size) {
            self.stats.oversize_segments.subtract(1);
        }
    }

    /// Releases as many oversize segments as a block of `size` bytes needs: one that is large enough, or the largest
    /// ones. Returns true if that was enough.
    pub(super) fn release_oversize(&mut self, size: u64, pool: PoolId) -> bool {
        let Some(oversize) = self.settings.max_split_size else {
            return false;
        };
        let enough = size.max(oversize);
        let fitting = self.pools[pool].free.at_least(enough).next();
        if let Some(id) = fitting.filter(|&id| !self.blocks[id].expandable) {
            self.release(id);
            return true;
        }
        let pool = &self.pools[pool];
        let mut released = 0;
        let mut to_release = Vec::new();
        for id in pool.free.below(enough) {
            let block = &self.blocks[id];
            if released >= enough || block.size < oversize {
                break;
            }
            if !block.expandable {
                released += block.size;
                to_release.push(id);
            }
        }
        to_release.into_iter().for_each(|id| self.release(id));
        released >= enough
    }

    /// Waits for the other streams, then releases everything that is free and not needed for what is in use
    /// (`torch.cuda.empty_cache`).
    pub fn empty_cache(&mut self) {
        self.synchronize();
        self.free_done();
        for kind in [PoolKind::Large, PoolKind::Small] {
            let free: Vec<BlockId> = self.pools.of_kind(kind).flat_map(|pool| pool.free.iter()).collect();
            for id in free {
                let block = &self.blocks[id];
                if block.expandable {
                    self.unmap(id);
                } else if !block.is_split() {
                    self.release(id);
                }
            }
        }
    }
}
