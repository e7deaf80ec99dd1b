//! A GPU's memory, which is all that the allocator knows of it.

/// A GPU's memory, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceMemory {
    /// All of it, as CUDA reports it (`cudaDeviceProp::totalGlobalMem`).
    pub total: u64,
    /// Memory out of the allocator's reach: the CUDA context, libraries, other processes.
    pub taken: u64,
}

impl DeviceMemory {
    /// More than any GPU has.
    pub const UNLIMITED: Self = Self {
        total: 1 << 44,
        taken: 0,
    };

    /// A GPU with `total` bytes and nothing else on it.
    pub fn new(total: u64) -> Self {
        Self { total, taken: 0 }
    }

    /// True if it has `bytes` more while the allocator holds `reserved`.
    pub(super) fn has(self, bytes: u64, reserved: u64) -> bool {
        self.taken.saturating_add(reserved).saturating_add(bytes) <= self.total
    }
}
