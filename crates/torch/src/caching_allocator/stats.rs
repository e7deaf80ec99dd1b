//! The allocator's counts, as in `torch.cuda.memory_stats`.

use super::pool_kind::PoolKind;

/// An amount now, and its highest since the start or [`Stats::reset_peaks`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Amount {
    /// The amount now.
    pub current: u64,
    /// The highest amount.
    pub peak: u64,
}

impl Amount {
    pub(super) fn add(&mut self, amount: u64) {
        self.current += amount;
        self.peak = self.peak.max(self.current);
    }

    pub(super) fn subtract(&mut self, amount: u64) {
        self.current -= amount;
    }

    #[inline]
    pub(super) fn change(&mut self, by: i64) {
        debug_assert!(self.current.checked_add_signed(by).is_some());
        self.current = self.current.wrapping_add_signed(by);
        self.peak = self.peak.max(self.current);
    }

    /// Adds an amount and takes it away again.
    pub(super) fn reach(&mut self, amount: u64) {
        self.peak = self.peak.max(self.current + amount);
    }
}

/// Amounts of a pool, or of both. Each peak has an instant of its own. PyTorch's active bytes are the allocated ones and those
/// that [wait for other streams](super::CachingAllocator::awaited_bytes).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PoolStats {
    /// Blocks in use.
    pub allocations: Amount,
    /// Their bytes, including losses to rounding and to blocks that are not split.
    pub allocated: Amount,
    /// The requested bytes of these and of those that wait for other streams.
    pub requested: Amount,
    /// Segments allocated by CUDA, without those that grow.
    pub segments: Amount,
    /// Bytes held of the device.
    pub reserved: Amount,
    /// Free blocks of segments that are partly in use, without those that grow.
    pub inactive_splits: Amount,
    /// Their bytes.
    pub inactive_split: Amount,
}

/// The allocator's counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Both pools.
    pub all: PoolStats,
    /// Blocks up to 1 MiB.
    pub small: PoolStats,
    /// Larger blocks.
    pub large: PoolStats,
    /// Blocks in use of `max_split_size` and above.
    pub oversize_allocations: Amount,
    /// Segments of `max_split_size` and above.
    pub oversize_segments: Amount,
    /// Retries after the whole cache was returned to the device.
    pub retries: u64,
    /// Retries that failed too.
    pub out_of_memory: u64,
}

impl Stats {
    /// Resets the peaks to what there is (`torch.cuda.reset_peak_memory_stats`).
    pub fn reset_peaks(&mut self) {
        for pool in [&mut self.all, &mut self.small, &mut self.large] {
            let amounts = [
                &mut pool.allocations,
                &mut pool.allocated,
                &mut pool.requested,
                &mut pool.segments,
                &mut pool.reserved,
                &mut pool.inactive_splits,
                &mut pool.inactive_split,
            ];
            amounts.into_iter().for_each(|amount| amount.peak = amount.current);
        }
        self.oversize_allocations.peak = self.oversize_allocations.current;
        self.oversize_segments.peak = self.oversize_segments.current;
    }

    fn of(&mut self, pool: PoolKind) -> &mut PoolStats {
        match pool {
            PoolKind::Small => &mut self.small,
            PoolKind::Large => &mut self.large,
        }
    }

    /// Changes the amounts of a pool, and with them those of both.
    #[inline]
    pub(super) fn change(&mut self, pool: PoolKind, change: impl Fn(&mut PoolStats)) {
        change(&mut self.all);
        change(self.of(pool));
    }
}
