//! The memory of a process that PyTorch's allocator does not hold: the CUDA context, and the libraries that are loaded.

const MIB: u64 = 1 << 20;

/// Bytes of a training process besides what PyTorch's allocator holds. They depend on the driver, on the release of
/// CUDA and on the kernels that have been loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Context {
    /// The least of it.
    pub low: u64,
    /// What is reckoned with.
    pub likely: u64,
    /// The most of it.
    pub high: u64,
    /// Who measured it on this GPU; `None` for an estimate.
    pub source: Option<&'static str>,
}

impl Context {
    /// What somebody measured on a GPU.
    pub(super) fn measured(bytes: u64, source: &'static str) -> Self {
        Self {
            low: bytes,
            likely: bytes,
            high: bytes,
            source: Some(source),
        }
    }

    /// True if nobody measured it on this GPU.
    pub fn is_estimate(self) -> bool {
        self.source.is_none()
    }

    /// A GPU that nobody named: from a T4's to an RTX PRO 6000's.
    pub(super) const ANY: Self = Self {
        low: 84 * MIB,
        likely: 400 * MIB,
        high: 870 * MIB,
        source: None,
    };

    /// NCCL's buffers beside it: for one communicator from a card's on PCI Express to one's on NVLink, as agilerl-arena
    /// 1.29 has them of an L4 (91 MiB) and an A100 (600 MiB), for any number of ranks.
    pub(super) fn with_nccl(self) -> Self {
        Self {
            low: self.low + 91 * MIB,
            likely: self.likely + 300 * MIB,
            high: self.high + 600 * MIB,
            source: None,
        }
    }

    /// The estimate for a GPU that runs so many threads at once: the driver reserves the stacks of all of them, and the
    /// kernels' code is added. `docs/gpus.md` has the readings that the line and its range are of.
    pub(super) fn of_threads(threads: u64) -> Self {
        let mib = |base: u64, share: u64| base * MIB + threads * 1024 * share / 100;
        let likely = mib(40, 225);
        Self {
            low: mib(10, 185),
            likely,
            high: likely + likely / 5 + 60 * MIB,
            source: None,
        }
    }
}
