//! 4-bit codes as bitsandbytes stores them (Dettmers et al., "QLoRA", arXiv:2305.14314): blocks of consecutive
//! elements, which may cross rows. An element is the value of its code times its block's absolute maximum.
//!
//! The reference is bitsandbytes 0.50 on the CPU, bit for bit:
//! * It computes `x = w * (1 / max(absmax, 1e-38))`, but `w / absmax` in a short last block.
//! * The code is that of the number of bounds below `x`, so a tie goes down.
//! * An odd last element shares its byte with the code of 0.
//! * Dequantising multiplies value and scale in float32. It rounds the product once, to nearest even, to float32,
//!   bfloat16 or float16.

use kernels::Dispatch as _;
use kernels::{InstructionSet, absmax::absmax, nf4::Blocks};
use memory::{Buffer, tiers::Slot};
use options::{BLOCK_SIZES, QuantType};
use rayon::prelude::*;

use super::{
    codebook::{Codebook4, FP4, NF4},
    double::{DoubleQuantised, Scales},
    element::Element,
    error::QuantError,
};

/// The least divisor: bitsandbytes replaces a smaller absolute maximum by it.
const SMALLEST_ABSMAX: f32 = 1e-38;

/// Elements that a thread quantises at a time: a multiple of each size of a block.
const PART: usize = 1 << 14;
/// Blocks whose scales are computed at a time.
const RUN: usize = 32;

/// A 4-bit format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Int4Format {
    /// The values of the codes.
    pub quant_type: QuantType,
    /// Elements that share a scale: one of [`BLOCK_SIZES`].
    pub block_size: usize,
    /// True if the scales are quantised a second time (bitsandbytes' `bnb_4bit_use_double_quant`).
    pub double_quant: bool,
}

impl Int4Format {
    /// The values of the codes.
    pub(super) fn codebook(&self) -> &'static Codebook4 {
        match self.quant_type {
            QuantType::Nf4 => &NF4,
            QuantType::Fp4 => &FP4,
        }
    }
}

/// A matrix in 4 bits.
#[derive(Debug, PartialEq)]
pub struct Int4 {
    rows: usize,
    cols: usize,
    format: Int4Format,
    codes: Buffer<u8>,
    scales: Scales,
}

impl Int4 {
    /// Rows of the matrix.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Columns of the matrix.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// The format.
    pub fn format(&self) -> Int4Format {
        self.format
    }

    /// Two codes in each byte, the first element's in the high nibble.
    pub fn codes(&self) -> &[u8] {
        self.codes.values()
    }

    /// One scale for each block.
    pub fn scales(&self) -> &Scales {
        &self.scales
    }

    /// Records in the timeline what the codes and the scales are.
    pub(super) fn describe(&self) {
        self.codes
            .describe(self.format.quant_type.name(), &[self.rows, self.cols]);
        self.scales.describe();
    }

    /// The places of the codes and the scales.
    pub(super) fn slots<'a>(&'a mut self, slots: &mut Vec<&'a mut dyn Slot>) {
        slots.push(&mut self.codes);
        self.scales.slots(slots);
    }

    /// Bytes of the codes and the scales.
    pub fn bytes(&self) -> usize {
        self.codes.bytes() + self.scales.bytes()
    }

    /// Writes the elements with flat indices `start..start + out.len()`, on this thread.
    ///
    /// # Panics
    /// If the range reaches past the matrix.
    pub fn dequantize_serial<T: Element>(&self, start: usize, out: &mut [T]) {
        let end = start + out.len();
        assert!(
            end <= self.rows * self.cols,
            "elements {start}..{end} of a {} x {} matrix",
            self.rows,
            self.cols
        );
        let level = InstructionSet::current();
        level.run(
            #[inline(always)]
            || {
                let (mut at, mut out) = (start, out);
                let mut scales = [0.0; RUN];
                while !out.is_empty() {
                    let next = self.scales_from(at, end, &mut scales);
                    let (now, later) = out.split_at_mut(next - at);
                    self.expand(level, at, &scales, now);
                    (at, out) = (next, later);
                }
            },
        );
    }

    /// Writes the scales of the blocks from element `at` on: of [`RUN`] blocks, or of one if `at` is not its first
    /// element. Returns the end of these blocks, at most `end`.
    #[inline(always)]
    fn scales_from(&self, at: usize, end: usize, scales: &mut [f32; RUN]) -> usize {
        // A power of two.
        let shift = self.format.block_size.trailing_zeros();
        let first = at >> shift;
        let blocks = if first << shift == at { RUN } else { 1 };
        let next = end.min((first + blocks) << shift);
        let count = ((next - 1) >> shift) + 1 - first;
        self.scales.read(first, &mut scales[..count]);
        next
    }

    /// Writes the elements of some blocks from the first one's first on, or elements of one block.
    #[inline(always)]
    fn expand<T: Element>(&self, level: InstructionSet, mut at: usize, scales: &[f32], mut out: &mut [T]) {
        let values = &self.format.codebook().values;
        if at % 2 == 1 {
            let (first, rest) = out.split_at_mut(1);
            let code = self.codes.values()[at / 2] & 15;
            first[0] = T::narrow(values[usize::from(code)] * scales[0]);
            (at, out) = (at + 1, rest);
        }
        let blocks = Blocks {
            codes: &self.codes.values()[at / 2..(at + out.len()).div_ceil(2)],
            values,
            scales,
            size: self.format.block_size,
        };
        T::expand(level, blocks, out);
    }
}

/// Quantises a matrix that arrives in consecutive slices.
#[derive(Debug)]
pub struct Builder {
    rows: usize,
    cols: usize,
    format: Int4Format,
    codes: Buffer<u8>,
    absmax: Buffer<f32>,
    /// Number of quantised blocks.
    done: usize,
    /// The values of the block that is not complete, at its beginning. A buffer, so that a dry run has it, too.
    pending: Buffer<f32>,
    /// Number of those values.
    held: usize,
}

impl Builder {
    /// A builder of a `rows` x `cols` matrix. It allocates the codes and the float32 scales now.
    ///
    /// # Panics
    /// If the size of a block is not one of [`Int4Format`].
    pub fn new(rows: usize, cols: usize, format: Int4Format) -> Self {
        let (elements, block) = (rows * cols, format.block_size);
        assert!(BLOCK_SIZES.contains(&block), "blocks of {block} elements");
        Self {
            rows,
            cols,
            format,
            codes: Buffer::zeros(elements.div_ceil(2)),
            absmax: Buffer::zeros(elements.div_ceil(block)),
            done: 0,
            pending: Buffer::zeros(block),
            held: 0,
        }
    }

    /// Quantises the next values, row by row. A slice may begin and end anywhere.
    ///
    /// # Errors
    /// If more values arrive than the matrix has.
    pub fn push(&mut self, mut values: &[f32]) -> Result<(), QuantError> {
        let given = self.given() + values.len();
        if given > self.rows * self.cols {
            return Err(self.length_error(given));
        }
        let block = self.format.block_size;
        if self.held > 0 {
            let (now, later) = values.split_at(values.len().min(block - self.held));
            self.hold(now);
            if self.held < block {
                return Ok(());
            }
            let pending = std::mem::replace(&mut self.pending, Buffer::zeros(0));
            self.quantize(pending.values());
            (self.pending, self.held) = (pending, 0);
            values = later;
        }
        let (whole, rest) = values.split_at(values.len() - values.len() % block);
        self.quantize(whole);
        self.hold(rest);
        Ok(())
    }

    /// Keeps values until their block is complete.
    fn hold(&mut self, values: &[f32]) {
        self.pending.values_mut()[self.held..][..values.len()].copy_from_slice(values);
        self.held += values.len();
    }

    /// Quantises whole blocks.
    fn quantize(&mut self, values: &[f32]) {
        let block = self.format.block_size;
        let codes = &mut self.codes.values_mut()[self.done * block / 2..][..values.len() / 2];
        let absmax = &mut self.absmax.values_mut()[self.done..][..values.len() / block];
        // Compiled for each data type, with its bounds as constants.
        match self.format.quant_type {
            QuantType::Nf4 => quantize_blocks(&NF4, block, values, codes, absmax),
            QuantType::Fp4 => quantize_blocks(&FP4, block, values, codes, absmax),
        }
        self.done += values.len() / block;
    }

    /// Returns the matrix after its last value.
    ///
    /// # Errors
    /// If values are missing, or one of them is not finite.
    pub fn finish(mut self) -> Result<Int4, QuantError> {
        if !memory::is_dry_run() && self.given() != self.rows * self.cols {
            return Err(self.length_error(self.given()));
        }
        let block = self.format.block_size;
        if self.held > 0 {
            self.absmax.values_mut()[self.done] = quantize_short_block(
                self.format.codebook(),
                &self.pending.values()[..self.held],
                &mut self.codes.values_mut()[self.done * block / 2..],
            );
        }
        if let Some(at) = self.absmax.values().iter().position(|absmax| !absmax.is_finite()) {
            return Err(QuantError::NotFinite {
                row: at * block / self.cols,
            });
        }
        let scales = if self.format.double_quant {
            Scales::Double(DoubleQuantised::new(&self.absmax))
        } else {
            Scales::Plain(self.absmax)
        };
        Ok(Int4 {
            rows: self.rows,
            cols: self.cols,
            format: self.format,
            codes: self.codes,
            scales,
        })
    }

    fn given(&self) -> usize {
        self.done * self.format.block_size + self.held
    }

    fn length_error(&self, given: usize) -> QuantError {
        QuantError::Length {
            rows: self.rows,
            cols: self.cols,
            given,
        }
    }
}

/// Quantises whole blocks. Each is independent of the others, so the number of threads changes nothing.
#[inline(always)]
fn quantize_blocks(book: &'static Codebook4, block: usize, values: &[f32], codes: &mut [u8], absmax: &mut [f32]) {
    values
        .par_chunks(PART)
        .zip(codes.par_chunks_mut(PART / 2))
        .zip(absmax.par_chunks_mut(PART / block))
        .for_each(
            #[inline(always)]
            |((values, codes), absmax)| {
                let level = InstructionSet::current();
                level.run(
                    #[inline(always)]
                    || {
                        let blocks = values.chunks_exact(block).zip(codes.chunks_exact_mut(block / 2));
                        for ((values, codes), absmax) in blocks.zip(absmax) {
                            *absmax = quantize_block(level, book, values, codes);
                        }
                    },
                );
            },
        );
}

/// Writes a block's codes and returns its scale.
#[inline(always)]
fn quantize_block(level: InstructionSet, book: &Codebook4, block: &[f32], codes: &mut [u8]) -> f32 {
    let absmax = absmax(block);
    book.nearest(level, block, 1.0 / absmax.max(SMALLEST_ABSMAX), codes);
    absmax
}

/// Like [`quantize_block`], for a last block that is not full: bitsandbytes divides its values by the scale.
fn quantize_short_block(book: &Codebook4, block: &[f32], codes: &mut [u8]) -> f32 {
    let absmax = absmax(block).max(SMALLEST_ABSMAX);
    for (codes, pair) in codes.iter_mut().zip(block.chunks(2)) {
        let second = pair.get(1).map_or(0.0, |value| value / absmax);
        let level = InstructionSet::Portable;
        book.nearest(level, &[pair[0] / absmax, second], 1.0, std::slice::from_mut(codes));
    }
    absmax
}
