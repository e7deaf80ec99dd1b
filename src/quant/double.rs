//! The scales of NF4's blocks, in float32 or quantised a second time.

use super::dynamic;
use crate::memory;

/// Number of scales that share a second-level scale.
pub(super) const GROUP: usize = 256;

/// The absolute maximum of each block.
#[derive(Debug, Clone, PartialEq)]
pub enum Scales {
    /// In float32.
    Plain(Vec<f32>),
    /// Quantised to 8-bit codes.
    Double(DoubleQuantised),
}

/// Scales less their mean, in groups of 256. Each is the value of a code in the dynamic map times the group's absolute
/// maximum.
#[derive(Debug, Clone, PartialEq)]
pub struct DoubleQuantised {
    /// One code of [`dynamic::MAP`] for each scale.
    pub codes: Vec<u8>,
    /// Absolute maximum of each group's scales less the offset.
    pub absmax: Vec<f32>,
    /// Mean of all scales. Summed in float64: torch sums in float32, which can be an ulp off.
    pub offset: f32,
}

impl DoubleQuantised {
    /// Quantises scales.
    pub fn new(scales: &[f32]) -> Self {
        let sum: f64 = scales.iter().map(|&scale| f64::from(scale)).sum();
        let offset = if scales.is_empty() {
            0.0
        } else {
            (sum / scales.len() as f64) as f32
        };
        Self::with_offset(scales, offset)
    }

    /// Quantises scales around a given offset.
    pub fn with_offset(scales: &[f32], offset: f32) -> Self {
        let mut codes = Vec::with_capacity(scales.len());
        let mut absmax = Vec::with_capacity(scales.len().div_ceil(GROUP));
        for group in scales.chunks(GROUP) {
            let max = group.iter().fold(0.0f32, |max, &scale| max.max((scale - offset).abs()));
            let inverse = 1.0 / max;
            // A group of zeros gives 0 * inf, which is NaN and has code 0, as in bitsandbytes. Times absmax it is 0
            // again.
            codes.extend(group.iter().map(|&scale| dynamic::nearest((scale - offset) * inverse)));
            absmax.push(max);
        }
        Self { codes, absmax, offset }
    }

    /// The scale of a block.
    #[inline]
    fn at(&self, block: usize) -> f32 {
        dynamic::MAP[usize::from(self.codes[block])] * self.absmax[block / GROUP] + self.offset
    }
}

impl Scales {
    /// The scale of a block.
    #[inline]
    pub fn at(&self, block: usize) -> f32 {
        match self {
            Self::Plain(scales) => scales[block],
            Self::Double(scales) => scales.at(block),
        }
    }

    /// Number of scales.
    pub fn len(&self) -> usize {
        match self {
            Self::Plain(scales) => scales.len(),
            Self::Double(scales) => scales.codes.len(),
        }
    }

    /// True if there are no scales.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Records in the timeline what the buffers are.
    pub(super) fn describe(&self) {
        match self {
            Self::Plain(scales) => memory::describe_buffer(scales, "float32", &[scales.len()]),
            Self::Double(DoubleQuantised { codes, absmax, .. }) => {
                memory::describe_buffer(codes, "uint8", &[codes.len()]);
                memory::describe_buffer(absmax, "float32", &[absmax.len()]);
            }
        }
    }

    /// Bytes of the scales on the heap.
    pub fn bytes(&self) -> usize {
        Self::bytes_for(self.len(), matches!(self, Self::Double(_)))
    }

    /// Bytes of the scales of `blocks` blocks on the heap. The offset lies in the struct.
    pub(super) fn bytes_for(blocks: usize, double_quant: bool) -> usize {
        let per_scale = size_of::<f32>();
        if double_quant {
            blocks + blocks.div_ceil(GROUP) * per_scale
        } else {
            blocks * per_scale
        }
    }
}
