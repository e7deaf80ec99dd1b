//! The settings and their defaults.

use crate::caching_allocator::rounding::Divisions;

pub(super) const MIB: u64 = 1 << 20;

/// The options that have to do with memory, at PyTorch's defaults unless set.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Blocks of this size and above are not split (`max_split_size_mb`), in bytes. `None` splits all.
    pub max_split_size: Option<u64>,
    /// An unsplit block may be larger than the request by less than this (`max_non_split_rounding_mb`), in bytes.
    /// Default: `large_segment_size`.
    pub max_non_split_rounding: Option<u64>,
    /// `roundup_power2_divisions`.
    pub roundup_power2_divisions: Divisions,
    /// The share of the process's limit above which cached segments are released, the longest unused ones first
    /// (`garbage_collection_threshold`). Without a limit, nothing is.
    pub garbage_collection_threshold: Option<f64>,
    /// Segments grow (`expandable_segments`).
    pub expandable_segments: bool,
    /// How much address space a growing segment gets, 9/8 of the device's memory where it is absent
    /// (`expandable_segments_reserve`).
    pub expandable_segments_reserve: Option<Reserve>,
    /// A segment for blocks from 1 MiB to 10 MiB, in bytes; the large pool's growing segments grow by it
    /// (`large_segment_size_mb`).
    pub large_segment_size: u64,
    /// The share of the device's memory that the process may take (`per_process_memory_fraction`, or
    /// `torch.cuda.set_per_process_memory_fraction`); 1 stands for no limit.
    pub per_process_memory_fraction: f64,
    /// The tie break between equally large free blocks: not an option of PyTorch, but of its release.
    pub tie_break: TieBreak,
}

/// The tie break between equally large free blocks. Within a segment, the lowest address wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TieBreak {
    /// The block of the oldest segment: PyTorch from 2.15 on (pytorch/pytorch#183591).
    Age,
    /// The block with the lowest address, as before: that of the newest segment, as CUDA's addresses fall.
    /// (CUDA promises no order. With this one, 13 of 16 float16 runs of `fitcheck_t4` reserve what was measured; with
    /// addresses that rise, those with eager attention are out by a matrix of scores.)
    Address,
}

impl Settings {
    /// An unsplit block may be larger than the request by less than this, in bytes.
    pub fn max_non_split_rounding(&self) -> u64 {
        self.max_non_split_rounding.unwrap_or(self.large_segment_size)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_split_size: None,
            max_non_split_rounding: None,
            roundup_power2_divisions: Divisions::default(),
            garbage_collection_threshold: None,
            expandable_segments: false,
            expandable_segments_reserve: None,
            large_segment_size: 20 * MIB,
            per_process_memory_fraction: 1.0,
            tie_break: TieBreak::Age,
        }
    }
}

/// Address space of a growing segment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Reserve {
    /// A share of the device's memory.
    Share(f64),
    /// A size in bytes.
    Bytes(u64),
}

impl Reserve {
    /// The size in bytes on a device with `total` bytes.
    pub fn bytes(self, total: u64) -> u64 {
        match self {
            Self::Share(share) => (share * total as f64) as u64,
            Self::Bytes(bytes) => bytes,
        }
    }
}
