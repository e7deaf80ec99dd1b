//! The GPU of a plan, whose memory PyTorch's allocator holds.

use torch::caching_allocator::{self, DeviceMemory, Reserved, Settings};
use trace::Trace;

/// A GPU, with the allocator's settings.
pub(super) struct Device {
    pub(super) settings: Settings,
    /// Its memory in bytes, if it is limited.
    pub(super) budget: Option<u64>,
    /// Bytes of it that the allocator does not have.
    pub(super) taken: u64,
}

impl Device {
    /// Replays a trace without limit or, if it then needs more than the budget, within the budget: an allocator that
    /// finds the device full returns its cache and tries again. What does not fit is given without limit. Also the
    /// peaks of what is held after other `loads` of the model; none for those that do not fit.
    pub(super) fn replay(&self, trace: &Trace, loads: &[Trace]) -> (Reserved, Vec<u64>) {
        let peaks = |device| caching_allocator::reserved_peaks(loads, trace, &self.settings, device);
        // Most plans need no other device.
        let ((device, reserved), after_loads) =
            rayon::join(|| self.replay_one(trace), || peaks(&DeviceMemory::UNLIMITED));
        match device == DeviceMemory::UNLIMITED {
            true => (reserved, after_loads),
            false => (reserved, peaks(&device)),
        }
    }

    /// The replay of a trace, and the memory on which it is replayed.
    fn replay_one(&self, trace: &Trace) -> (DeviceMemory, Reserved) {
        let replay = |device| (device, caching_allocator::replay(trace, &self.settings, &device));
        let unlimited = replay(DeviceMemory::UNLIMITED);
        if let Some(total) = self.budget
            && unlimited.1.peak.bytes + self.taken > total
        {
            let taken = self.taken;
            let within = replay(DeviceMemory { total, taken });
            if within.1.out_of_memory.is_none() {
                return within;
            }
        }
        unlimited
    }
}
