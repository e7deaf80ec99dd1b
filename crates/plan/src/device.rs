//! The GPU of a plan, whose memory PyTorch's allocator holds.

use torch::caching_allocator::{self, AllocationFailed, DeviceMemory, Reserved, Settings};
use trace::{Phase, Trace};

/// A GPU, with the allocator's settings.
#[derive(Debug)]
pub(super) struct Device {
    pub(super) settings: Settings,
    /// Its memory in bytes, if it is limited.
    pub(super) budget: Option<u64>,
    /// Bytes of it that the allocator does not have.
    pub(super) taken: u64,
}

/// What a GPU's allocator holds over a trace.
pub(super) struct Replayed {
    pub(super) reserved: Reserved,
    /// The most that it would hold with room for all of its cache, if it has less.
    pub(super) with_room: Option<u64>,
    /// The allocation that does not fit; what is held is then without limit.
    pub(super) failed: Option<AllocationFailed>,
    /// The most that it holds after other loads of the model.
    pub(super) after_other_loads: Vec<u64>,
}

impl Device {
    /// Replays a trace without limit or, if it then needs more than the budget, within the budget: an allocator that
    /// finds the device full returns its cache and tries again. What does not fit is given without limit. Also the
    /// peaks of what is held after other `loads` of the model; none for those that do not fit.
    pub(super) fn replay(&self, trace: &Trace, loads: &[Trace]) -> Replayed {
        let peaks = |device| caching_allocator::reserved_peaks(loads, trace, &self.settings, device);
        // Most plans need no other device.
        let (roomy, after_other_loads) = rayon::join(
            || caching_allocator::replay(trace, &self.settings, &DeviceMemory::UNLIMITED),
            || peaks(&DeviceMemory::UNLIMITED),
        );
        let with_room = roomy.peak.bytes;
        let mut unlimited = Replayed {
            reserved: roomy,
            with_room: None,
            failed: None,
            after_other_loads,
        };
        let most = with_room.max(unlimited.reserved.in_phase[Phase::Load]);
        if let Some(total) = self.budget.filter(|total| most + self.taken > *total) {
            let device = DeviceMemory {
                total,
                taken: self.taken,
            };
            let within = caching_allocator::replay(trace, &self.settings, &device);
            if within.out_of_memory.is_none() {
                return Replayed {
                    reserved: within,
                    with_room: Some(most),
                    failed: None,
                    after_other_loads: peaks(&device),
                };
            }
            unlimited.failed = within.out_of_memory;
        }
        unlimited
    }
}
