//! int8 by rows: an element is a code from -127 to 127 times its row's scale.
//!
//! Codes are those of bitsandbytes' `int8_vectorwise_quant` without outliers: `round(w * (1 / absmax * 127))`, ties to
//! even. Only the storage is int8, and products are computed in the compute format, unless the matrix has a threshold
//! for LLM.int8().

use kernels::Dispatch as _;
use kernels::{
    InstructionSet,
    row_codes::{decode, encode},
};
use memory::{Buffer, tiers::Slot};
use rayon::prelude::*;

use super::{element::Element, error::QuantError};

/// A matrix in int8.
#[derive(Debug, PartialEq)]
pub struct Int8 {
    rows: usize,
    cols: usize,
    codes: Buffer<i8>,
    scales: Buffer<f32>,
    outlier_threshold: Option<f32>,
}

impl Int8 {
    /// The least magnitude of an outlier among activations, if they are quantised for the products (LLM.int8()).
    pub fn outlier_threshold(&self) -> Option<f32> {
        self.outlier_threshold
    }

    /// Rows of the matrix.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Columns of the matrix.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// One code for each element.
    pub fn codes(&self) -> &[i8] {
        self.codes.values()
    }

    /// One scale for each row: its absolute maximum / 127.
    pub fn scales(&self) -> &[f32] {
        self.scales.values()
    }

    /// Records in the timeline what the codes and the scales are.
    pub(super) fn describe(&self) {
        self.codes.describe("int8", &[self.rows, self.cols]);
        self.scales.describe("float32", &[self.rows]);
    }

    /// The places of the codes and the scales.
    pub(super) fn slots<'a>(&'a mut self, slots: &mut Vec<&'a mut dyn Slot>) {
        slots.push(&mut self.codes);
        slots.push(&mut self.scales);
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
        InstructionSet::current().run(
            #[inline(always)]
            || {
                let (mut at, mut out) = (start, out);
                while !out.is_empty() {
                    let in_row = (self.cols - at % self.cols).min(out.len());
                    let (now, later) = out.split_at_mut(in_row);
                    let codes = &self.codes.values()[at..at + in_row];
                    decode(codes, self.scales.values()[at / self.cols], now);
                    (at, out) = (at + in_row, later);
                }
            },
        );
    }
}

/// Quantises a matrix that arrives in consecutive slices.
#[derive(Debug)]
pub struct Builder {
    cols: usize,
    codes: Buffer<i8>,
    scales: Buffer<f32>,
    outlier_threshold: Option<f32>,
    /// Number of quantised rows.
    done: usize,
    /// The values of the row that is not complete.
    pending: Vec<f32>,
}

impl Builder {
    /// A builder of a `rows` x `cols` matrix. It allocates the codes and scales now.
    ///
    /// # Panics
    /// If the matrix has no columns.
    pub fn new(rows: usize, cols: usize, outlier_threshold: Option<f32>) -> Self {
        assert!(cols > 0, "a matrix without columns has no rows to scale");
        Self {
            cols,
            codes: Buffer::zeros(rows * cols),
            scales: Buffer::zeros(rows),
            outlier_threshold,
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
        if given > self.codes.len() {
            return Err(self.length_error(given));
        }
        if !self.pending.is_empty() {
            let (now, later) = values.split_at(values.len().min(self.cols - self.pending.len()));
            self.pending.extend_from_slice(now);
            if self.pending.len() < self.cols {
                return Ok(());
            }
            quantize_rows(
                &self.pending,
                self.cols,
                &mut self.codes.values_mut()[self.done * self.cols..],
                &mut self.scales.values_mut()[self.done..],
            );
            self.pending.clear();
            self.done += 1;
            values = later;
        }
        let (rows, rest) = values.split_at(values.len() - values.len() % self.cols);
        quantize_rows(
            rows,
            self.cols,
            &mut self.codes.values_mut()[self.done * self.cols..],
            &mut self.scales.values_mut()[self.done..],
        );
        self.done += rows.len() / self.cols;
        self.pending.extend_from_slice(rest);
        Ok(())
    }

    /// Returns the matrix after its last value.
    ///
    /// # Errors
    /// If values are missing, or one of them is not finite.
    pub fn finish(self) -> Result<Int8, QuantError> {
        if !memory::is_dry_run() && self.given() != self.codes.len() {
            return Err(self.length_error(self.given()));
        }
        if let Some(row) = self.scales.values().iter().position(|scale| !scale.is_finite()) {
            return Err(QuantError::NotFinite { row });
        }
        Ok(Int8 {
            rows: self.scales.len(),
            cols: self.cols,
            codes: self.codes,
            scales: self.scales,
            outlier_threshold: self.outlier_threshold,
        })
    }

    fn given(&self) -> usize {
        self.done * self.cols + self.pending.len()
    }

    fn length_error(&self, given: usize) -> QuantError {
        QuantError::Length {
            rows: self.scales.len(),
            cols: self.cols,
            given,
        }
    }
}

/// Quantises whole rows into the front of `codes` and `scales`.
fn quantize_rows(values: &[f32], cols: usize, codes: &mut [i8], scales: &mut [f32]) {
    let level = InstructionSet::current();
    values
        .par_chunks_exact(cols)
        .zip(codes.par_chunks_exact_mut(cols))
        .zip(scales)
        .for_each(|((row, codes), scale)| {
            *scale = level.run(
                #[inline(always)]
                || encode(row, codes),
            );
        });
}
