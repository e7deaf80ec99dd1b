//! The GPU of a plan, whose memory PyTorch's allocator holds.

use rayon::prelude::*;

use crate::torch::caching_allocator::{self, DeviceMemory, Reserved, Settings};
use crate::torch::{self, Configuration};
use crate::trace::Trace;

/// A GPU, with the allocator's settings.
pub(super) struct Device {
    pub(super) settings: Settings,
    /// Its memory in bytes, if it is limited.
    pub(super) budget: Option<u64>,
    /// Bytes of it that the allocator does not have.
    pub(super) taken: u64,
}

impl Device {
    /// Replays a trace without limit or, if it then needs more than the budget, within the budget: an allocator that finds the
    /// device full returns its cache and tries again. What does not fit is given without limit. Also the peaks of what is
    /// held if the model is loaded in other ways; none for ways that do not fit.
    pub(super) fn replay(&self, trace: &Trace, loads: &[Configuration]) -> (Reserved, Vec<u64>) {
        let unlimited = self.replay_on(DeviceMemory::UNLIMITED, trace, loads);
        if let Some(total) = self.budget
            && unlimited.0.peak.bytes + self.taken > total
        {
            let taken = self.taken;
            let within = self.replay_on(DeviceMemory { total, taken }, trace, loads);
            if within.0.out_of_memory.is_none() {
                return within;
            }
        }
        unlimited
    }

    fn replay_on(&self, device: DeviceMemory, trace: &Trace, loads: &[Configuration]) -> (Reserved, Vec<u64>) {
        let settings = &self.settings;
        let after = |load: &Configuration| {
            let load = torch::load_trace(load);
            caching_allocator::reserved_peak(&load, trace, settings, &device)
        };
        rayon::join(
            || caching_allocator::replay(trace, settings, &device),
            || loads.par_iter().filter_map(after).collect(),
        )
    }
}
