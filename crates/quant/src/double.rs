//! The scales of 4-bit blocks, in float32 or quantised a second time.

use memory::{Buffer, tiers::Slot};
use rayon::prelude::*;

use super::dynamic;

/// Number of scales that share a second-level scale.
pub(super) const GROUP: usize = 256;

/// The absolute maximum of each block.
#[derive(Debug, PartialEq)]
pub enum Scales {
    /// In float32.
    Plain(Buffer<f32>),
    /// Quantised to 8-bit codes.
    Double(DoubleQuantised),
}

/// Scales less their mean, in groups of 256. Each is the value of a code in the dynamic map times the group's absolute
/// maximum.
#[derive(Debug, PartialEq)]
pub struct DoubleQuantised {
    /// One code of [`dynamic::SIGNED`] for each scale.
    pub codes: Buffer<u8>,
    /// Absolute maximum of each group's scales less the offset.
    pub absmax: Buffer<f32>,
    /// Mean of all scales. Summed in float64: torch sums in float32, which can be an ulp off.
    pub offset: f32,
}

impl DoubleQuantised {
    /// Quantises scales.
    pub fn new(scales: &Buffer<f32>) -> Self {
        let sum: f64 = scales.values().iter().map(|&scale| f64::from(scale)).sum();
        let offset = if scales.is_empty() {
            0.0
        } else {
            (sum / scales.len() as f64) as f32
        };
        Self::with_offset(scales, offset)
    }

    /// Quantises scales around a given offset.
    pub fn with_offset(scales: &Buffer<f32>, offset: f32) -> Self {
        let mut codes = Buffer::zeros(scales.len());
        let mut absmax = Buffer::zeros(scales.len().div_ceil(GROUP));
        let groups = scales
            .values()
            .par_chunks(GROUP)
            .zip(codes.values_mut().par_chunks_mut(GROUP));
        let map = &*dynamic::SIGNED;
        groups.zip(absmax.values_mut()).for_each(|((group, codes), absmax)| {
            *absmax = group.iter().fold(0.0f32, |max, &scale| max.max((scale - offset).abs()));
            let inverse = 1.0 / *absmax;
            // A group of zeros gives 0 * inf, which is NaN and has code 0, as in bitsandbytes. Times absmax it is 0
            // again.
            for (code, &scale) in codes.iter_mut().zip(group) {
                *code = map.nearest((scale - offset) * inverse);
            }
        });
        Self { codes, absmax, offset }
    }

    /// Writes the scales of blocks, from `first` on.
    #[inline(always)]
    fn read(&self, first: usize, out: &mut [f32]) {
        let (map, absmax) = (dynamic::SIGNED.values(), self.absmax.values());
        let codes = &self.codes.values()[first..][..out.len()];
        for ((block, scale), &code) in (first..).zip(out).zip(codes) {
            *scale = map[usize::from(code)] * absmax[block / GROUP] + self.offset;
        }
    }
}

impl Scales {
    /// Writes the scales of blocks, from `first` on.
    ///
    /// # Panics
    /// If there are fewer.
    #[inline(always)]
    pub fn read(&self, first: usize, out: &mut [f32]) {
        match self {
            Self::Plain(scales) => out.copy_from_slice(&scales.values()[first..][..out.len()]),
            Self::Double(scales) => scales.read(first, out),
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
            Self::Plain(scales) => scales.describe("float32", &[scales.len()]),
            Self::Double(DoubleQuantised { codes, absmax, .. }) => {
                codes.describe("uint8", &[codes.len()]);
                absmax.describe("float32", &[absmax.len()]);
            }
        }
    }

    /// The places of the buffers.
    pub(super) fn slots<'a>(&'a mut self, slots: &mut Vec<&'a mut dyn Slot>) {
        match self {
            Self::Plain(scales) => slots.push(scales),
            Self::Double(DoubleQuantised { codes, absmax, .. }) => {
                slots.push(codes);
                slots.push(absmax);
            }
        }
    }

    /// Bytes of the scales on the heap. The offset lies in the struct.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Plain(scales) => scales.bytes(),
            Self::Double(DoubleQuantised { codes, absmax, .. }) => codes.bytes() + absmax.bytes(),
        }
    }
}
