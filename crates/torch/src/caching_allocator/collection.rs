//! Garbage collection: releasing cached segments before the process reaches its limit.

use super::CachingAllocator;
use super::blocks::BlockId;
use super::pool_kind::PoolKind;

impl CachingAllocator {
    /// True if blocks have an age, which counts searches.
    pub(super) fn collects(&self) -> bool {
        self.limit.is_some() && self.settings.garbage_collection_threshold.is_some()
    }

    /// Releases whole free segments of the large pool where more is reserved than the threshold's share of the limit:
    /// those of the mean age and above, and again with the rest's mean, until there is less.
    pub(super) fn collect_garbage(&mut self) {
        let (Some(limit), Some(threshold)) = (self.limit, self.settings.garbage_collection_threshold) else {
            return;
        };
        let reserved = self.stats.all.reserved.current;
        let allowed = (threshold * limit as f64) as u64;
        if reserved <= allowed {
            return;
        }
        let target = reserved - allowed;
        let age = |id: BlockId| self.pools.age(&self.blocks[id]);
        let mut whole: Vec<(BlockId, u64)> = self
            .pools
            .of_kind(PoolKind::Large)
            .flat_map(|pool| pool.free.iter())
            .filter(|&id| !self.blocks[id].is_split() && !self.blocks[id].expandable)
            .map(|id| (id, age(id)))
            .collect();
        let mut released = 0;
        while released < target && !whole.is_empty() {
            let mean = whole.iter().map(|&(_, age)| age).sum::<u64>() as f64 / whole.len() as f64;
            let (old, young): (Vec<_>, Vec<_>) = whole.into_iter().partition(|&(_, age)| age as f64 >= mean);
            for (id, _) in old {
                released += self.blocks[id].size;
                self.release(id);
            }
            whole = young;
        }
    }
}
