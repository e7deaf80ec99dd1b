//! The scales of NF4's blocks, as they are or quantised a second time.

use super::dynamic;
use crate::memory;

/// Scales that share a second-level scale.
pub(super) const GROUP: usize = 256;

/// The absolute maximum of each block.
#[derive(Debug, Clone, PartialEq)]
pub enum Scales {
    /// In float32.
    Plain(Vec<f32>),
    /// As 8-bit codes.
    Double(DoubleQuantised),
}

/// Scales less their mean, in groups of 256, each as a code of the dynamic map times the group's absolute maximum.
#[derive(Debug, Clone, PartialEq)]
pub struct DoubleQuantised {
    /// A code of [`dynamic::MAP`] a scale.
    pub codes: Vec<u8>,
    /// Absolute maximum of a group's scales after the offset was taken off.
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
            // a group of zeros gives 0 * inf, not a number, code 0: as bitsandbytes, and 0 whatever the code
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

    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Plain(scales) => scales.len(),
            Self::Double(scales) => scales.codes.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Tells the timeline what they are.
    pub(super) fn describe(&self) {
        match self {
            Self::Plain(scales) => memory::describe_buffer(scales, "float32", &[scales.len()]),
            Self::Double(DoubleQuantised { codes, absmax, .. }) => {
                memory::describe_buffer(codes, "uint8", &[codes.len()]);
                memory::describe_buffer(absmax, "float32", &[absmax.len()]);
            }
        }
    }

    /// Bytes they occupy.
    pub fn bytes(&self) -> usize {
        Self::bytes_for(self.len(), matches!(self, Self::Double(_)))
    }

    /// Bytes that the scales of so many blocks occupy. The offset lies in the struct, not on the heap.
    pub(super) fn bytes_for(blocks: usize, double_quant: bool) -> usize {
        let per_scale = size_of::<f32>();
        if double_quant {
            blocks + blocks.div_ceil(GROUP) * per_scale
        } else {
            blocks * per_scale
        }
    }
}
