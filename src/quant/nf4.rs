//! NF4 as bitsandbytes stores it (Dettmers et al., "QLoRA", arXiv:2305.14314): blocks of 64 consecutive elements, which
//! may cross rows. An element is the value of a 4-bit code in a fixed codebook times its block's absolute maximum.
//!
//! The reference is bitsandbytes 0.50 on the CPU, bit for bit:
//! * It computes `x = w * (1 / max(absmax, 1e-38))`, but `w / absmax` in a short last block.
//! * The code is the number of bounds below `x`, so a tie goes down.
//! * An odd last element shares its byte with the code of 0.
//! * Dequantising multiplies codebook and scale in float32. It rounds the product once, to nearest even, to float32,
//!   bfloat16 or float16.

use rayon::prelude::*;

use super::{
    double::{DoubleQuantised, Scales},
    element::Element,
    error::QuantError,
};
use crate::kernels::{InstructionSet, absmax::absmax};
use crate::memory::{self, Buffer, tiers::Slot};

/// Elements of a block.
pub const BLOCK: usize = 64;

/// The value of each code: quantiles of the normal distribution, including 0, scaled to the range from -1 to 1
/// (`bitsandbytes.functional.get_4bit_type("nf4")`).
pub const CODEBOOK: [f32; 16] = [
    -1.0,
    -0.696_192_8,
    -0.525_073_05,
    -0.394_917_5,
    -0.284_441_38,
    -0.184_773_43,
    -0.091_050_036,
    0.0,
    0.079_580_3,
    0.160_930_2,
    0.246_112_3,
    0.337_915_24,
    0.440_709_83,
    0.562_617,
    0.722_956_84,
    1.0,
];

/// The midpoints between neighbours of the codebook.
const BOUNDS: [f32; 15] = {
    let mut bounds = [0.0; 15];
    let mut at = 0;
    while at < bounds.len() {
        bounds[at] = (CODEBOOK[at] + CODEBOOK[at + 1]) / 2.0;
        at += 1;
    }
    bounds
};

/// Bytes of a block's codes.
const BLOCK_BYTES: usize = BLOCK / 2;

/// The least divisor: bitsandbytes replaces a smaller absolute maximum by it.
const SMALLEST_ABSMAX: f32 = 1e-38;

/// Blocks that a thread quantises at a time.
const BLOCKS_PER_PART: usize = 256;

/// A matrix in NF4.
#[derive(Debug, PartialEq)]
pub struct Nf4 {
    rows: usize,
    cols: usize,
    codes: Buffer<u8>,
    scales: Scales,
}

impl Nf4 {
    /// Rows of the matrix.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Columns of the matrix.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Two codes in each byte, the first element's in the high nibble.
    pub fn codes(&self) -> &[u8] {
        self.codes.values()
    }

    /// One scale for each block of 64.
    pub fn scales(&self) -> &Scales {
        &self.scales
    }

    /// Records in the timeline what the codes and the scales are.
    pub(super) fn describe(&self) {
        self.codes.describe("nf4", &[self.rows, self.cols]);
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
                while !out.is_empty() {
                    let in_block = (BLOCK - at % BLOCK).min(out.len());
                    let (now, later) = out.split_at_mut(in_block);
                    self.expand(level, at, &table(self.scales.at(at / BLOCK)), now);
                    (at, out) = (at + in_block, later);
                }
            },
        );
    }

    /// Writes elements of one block by looking their codes up in `table`.
    #[inline(always)]
    fn expand<T: Element>(&self, level: InstructionSet, mut at: usize, table: &[T; 16], mut out: &mut [T]) {
        if at % 2 == 1 && !out.is_empty() {
            let (first, rest) = out.split_at_mut(1);
            first[0] = table[usize::from(self.codes.values()[at / 2] & 15)];
            (at, out) = (at + 1, rest);
        }
        T::expand(
            level,
            &self.codes.values()[at / 2..(at + out.len()).div_ceil(2)],
            table,
            out,
        );
    }
}

/// The values of a block's 16 codes.
#[inline(always)]
fn table<T: Element>(scale: f32) -> [T; 16] {
    let mut table = [T::round(0.0); 16];
    for (value, code) in table.iter_mut().zip(&CODEBOOK) {
        *value = T::round(code * scale);
    }
    table
}

/// Quantises a matrix that arrives in consecutive slices.
#[derive(Debug)]
pub struct Builder {
    rows: usize,
    cols: usize,
    double_quant: bool,
    codes: Buffer<u8>,
    absmax: Buffer<f32>,
    /// Number of quantised blocks.
    done: usize,
    /// The values of the block that is not complete.
    pending: Vec<f32>,
}

impl Builder {
    /// A builder of a `rows` x `cols` matrix. It allocates the codes and the float32 scales now.
    pub fn new(rows: usize, cols: usize, double_quant: bool) -> Self {
        let elements = rows * cols;
        Self {
            rows,
            cols,
            double_quant,
            codes: Buffer::zeros(elements.div_ceil(2)),
            absmax: Buffer::zeros(elements.div_ceil(BLOCK)),
            done: 0,
            pending: Vec::new(),
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
        if !self.pending.is_empty() {
            let (now, later) = values.split_at(values.len().min(BLOCK - self.pending.len()));
            self.pending.extend_from_slice(now);
            let Ok(block) = self.pending.as_slice().try_into() else {
                return Ok(());
            };
            let codes = &mut self.codes.values_mut()[self.done * BLOCK_BYTES..][..BLOCK_BYTES];
            self.absmax.values_mut()[self.done] = quantize_block(block, codes);
            self.done += 1;
            self.pending.clear();
            values = later;
        }
        let (blocks, rest) = values.as_chunks::<BLOCK>();
        let codes = &mut self.codes.values_mut()[self.done * BLOCK_BYTES..][..blocks.len() * BLOCK_BYTES];
        quantize_blocks(
            blocks,
            codes,
            &mut self.absmax.values_mut()[self.done..][..blocks.len()],
        );
        self.done += blocks.len();
        self.pending.extend_from_slice(rest);
        Ok(())
    }

    /// Returns the matrix after its last value.
    ///
    /// # Errors
    /// If values are missing, or one of them is not finite.
    pub fn finish(mut self) -> Result<Nf4, QuantError> {
        if !memory::is_dry_run() && self.given() != self.rows * self.cols {
            return Err(self.length_error(self.given()));
        }
        if !self.pending.is_empty() {
            self.absmax.values_mut()[self.done] =
                quantize_short_block(&self.pending, &mut self.codes.values_mut()[self.done * BLOCK_BYTES..]);
        }
        if let Some(block) = self.absmax.values().iter().position(|absmax| !absmax.is_finite()) {
            return Err(QuantError::NotFinite {
                row: block * BLOCK / self.cols,
            });
        }
        let scales = if self.double_quant {
            Scales::Double(DoubleQuantised::new(&self.absmax))
        } else {
            Scales::Plain(self.absmax)
        };
        Ok(Nf4 {
            rows: self.rows,
            cols: self.cols,
            codes: self.codes,
            scales,
        })
    }

    fn given(&self) -> usize {
        self.done * BLOCK + self.pending.len()
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
fn quantize_blocks(blocks: &[[f32; BLOCK]], codes: &mut [u8], absmax: &mut [f32]) {
    blocks
        .par_chunks(BLOCKS_PER_PART)
        .zip(codes.par_chunks_mut(BLOCKS_PER_PART * BLOCK_BYTES))
        .zip(absmax.par_chunks_mut(BLOCKS_PER_PART))
        .for_each(|((blocks, codes), absmax)| {
            InstructionSet::current().run(
                #[inline(always)]
                || {
                    for ((block, codes), absmax) in blocks.iter().zip(codes.chunks_exact_mut(BLOCK_BYTES)).zip(absmax) {
                        *absmax = quantize_block(block, codes);
                    }
                },
            );
        });
}

/// Writes a block's codes and returns its scale.
#[inline(always)]
fn quantize_block(block: &[f32; BLOCK], codes: &mut [u8]) -> f32 {
    let absmax = absmax(block);
    let inverse = 1.0 / absmax.max(SMALLEST_ABSMAX);
    let mut scaled = [0; BLOCK];
    for (code, &value) in scaled.iter_mut().zip(block) {
        *code = nearest(value * inverse);
    }
    pack(&scaled, codes);
    absmax
}

/// Like [`quantize_block`], for a last block that is not full: bitsandbytes divides its values by the scale.
fn quantize_short_block(block: &[f32], codes: &mut [u8]) -> f32 {
    let absmax = absmax(block).max(SMALLEST_ABSMAX);
    let mut scaled = [nearest(0.0); BLOCK];
    for (code, &value) in scaled.iter_mut().zip(block) {
        *code = nearest(value / absmax);
    }
    pack(&scaled, codes);
    absmax
}

/// Packs two codes into each byte of `codes`.
#[inline(always)]
fn pack(scaled: &[u8; BLOCK], codes: &mut [u8]) {
    for (packed, [high, low]) in codes.iter_mut().zip(scaled.as_chunks().0) {
        *packed = high << 4 | low;
    }
}

/// The code of the codebook's value nearest to `x`: the number of bounds below `x`. It compiles to vector compares.
#[inline(always)]
fn nearest(x: f32) -> u8 {
    BOUNDS.iter().map(|&bound| u8::from(x > bound)).sum()
}
