//! Frozen weights in fewer bits: quantised while they are read, dequantised where a product needs them.
//!
//! A [`Builder`] is fed with a matrix in consecutive slices of any length, so that a matrix is never held in 16 or 32
//! bits: at its peak there are the codes, the scales and the caller's slice. Everything it keeps is allocated by the
//! calling thread. Elements are numbered as the matrix is stored, row by row; that number is the *flat* index.

mod builder;
pub mod device;
pub mod double;
pub mod dynamic;
mod element;
pub mod int8;
pub mod nf4;
mod parallel;

use std::ops::Range;

pub use builder::{Builder, Format};
pub use element::Element;
pub use int8::Int8;
pub use nf4::Nf4;

/// What can be wrong with a matrix that is to be quantised.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum QuantError {
    /// More or fewer values came than rows times columns.
    #[error("a {rows} x {cols} matrix has {} values, but {given} were given", rows * cols)]
    Length {
        /// Rows of the matrix.
        rows: usize,
        /// Columns of the matrix.
        cols: usize,
        /// How many values came.
        given: usize,
    },
    /// A value is infinite or not a number.
    #[error("a value in row {row} is not finite; such a matrix cannot be quantised")]
    NotFinite {
        /// The row the value is in, or the one its block begins in.
        row: usize,
    },
}

/// A quantised matrix of either kind.
#[derive(Debug, Clone, PartialEq)]
pub enum Quantized {
    /// 4 bits a value, blocks of 64.
    Nf4(Nf4),
    /// 8 bits a value, a scale a row.
    Int8(Int8),
}

impl Quantized {
    /// Rows of the matrix (the output features of a linear layer).
    pub fn rows(&self) -> usize {
        match self {
            Self::Nf4(matrix) => matrix.rows(),
            Self::Int8(matrix) => matrix.rows(),
        }
    }

    /// Columns of the matrix (the input features of a linear layer).
    pub fn cols(&self) -> usize {
        match self {
            Self::Nf4(matrix) => matrix.cols(),
            Self::Int8(matrix) => matrix.cols(),
        }
    }

    /// Tells the timeline what the matrix's buffers are: its shape is that of the codes, whatever they are packed in.
    fn describe(&self) {
        match self {
            Self::Nf4(matrix) => matrix.describe(),
            Self::Int8(matrix) => matrix.describe(),
        }
    }

    /// Bytes of the codes and the scales: what the matrix occupies.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Nf4(matrix) => matrix.bytes(),
            Self::Int8(matrix) => matrix.bytes(),
        }
    }

    /// Writes the elements with flat indices `start..start + out.len()`, on this thread.
    ///
    /// # Panics
    /// If the range reaches past the matrix.
    pub fn dequantize_serial<T: Element>(&self, start: usize, out: &mut [T]) {
        match self {
            Self::Nf4(matrix) => matrix.dequantize_serial(start, out),
            Self::Int8(matrix) => matrix.dequantize_serial(start, out),
        }
    }

    /// Writes the elements with flat indices `start..start + out.len()`, on rayon's threads; the same bits as
    /// [`Self::dequantize_serial`], whatever their number.
    ///
    /// # Panics
    /// If the range reaches past the matrix.
    pub fn dequantize<T: Element>(&self, start: usize, out: &mut [T]) {
        parallel::fill(start, out, |at, part| self.dequantize_serial(at, part));
    }

    /// Writes whole rows, on rayon's threads.
    ///
    /// # Panics
    /// If `out` is not exactly as long as the rows, or the range reaches past the matrix.
    pub fn dequantize_rows<T: Element>(&self, rows: Range<usize>, out: &mut [T]) {
        assert_eq!(
            out.len(),
            rows.len() * self.cols(),
            "the output must hold exactly the rows {rows:?}"
        );
        self.dequantize(rows.start * self.cols(), out);
    }
}

/// The largest magnitude. Magnitudes of floats are ordered as their bits are, infinities and NaNs above all others, so
/// neither is lost.
fn absmax(values: &[f32]) -> f32 {
    f32::from_bits(values.iter().fold(0, |max, value| max.max(value.abs().to_bits())))
}
