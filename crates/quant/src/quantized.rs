//! A quantised matrix in either format.

use std::ops::Range;

use kernels::gemm::operand::prefetch;
use memory::tiers::Slot;

use super::{element::Element, format::Format, int4::Int4, int8::Int8, parallel};

/// A quantised matrix.
#[derive(Debug, PartialEq)]
pub enum Quantized {
    /// 4 bits for each value, in blocks.
    Int4(Int4),
    /// 8 bits for each value, in rows.
    Int8(Int8),
}

impl Quantized {
    /// Rows of the matrix (the output features of a linear layer).
    pub fn rows(&self) -> usize {
        match self {
            Self::Int4(matrix) => matrix.rows(),
            Self::Int8(matrix) => matrix.rows(),
        }
    }

    /// Columns of the matrix (the input features of a linear layer).
    pub fn cols(&self) -> usize {
        match self {
            Self::Int4(matrix) => matrix.cols(),
            Self::Int8(matrix) => matrix.cols(),
        }
    }

    /// The format that it is stored in.
    pub fn format(&self) -> Format {
        match self {
            Self::Int4(matrix) => Format::Int4(matrix.format()),
            Self::Int8(matrix) => match matrix.outlier_threshold() {
                None => Format::Int8,
                Some(threshold) => Format::LlmInt8 { threshold },
            },
        }
    }

    /// Records in the timeline what the matrix's buffers are. The codes have the matrix's shape, although they are
    /// packed.
    pub(super) fn describe(&self) {
        match self {
            Self::Int4(matrix) => matrix.describe(),
            Self::Int8(matrix) => matrix.describe(),
        }
    }

    /// The places of the codes and the scales.
    pub fn slots<'a>(&'a mut self, slots: &mut Vec<&'a mut dyn Slot>) {
        match self {
            Self::Int4(matrix) => matrix.slots(slots),
            Self::Int8(matrix) => matrix.slots(slots),
        }
    }

    /// Bytes of the codes and the scales.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Int4(matrix) => matrix.bytes(),
            Self::Int8(matrix) => matrix.bytes(),
        }
    }

    /// Writes the elements with flat indices `start..start + out.len()`, on this thread.
    ///
    /// # Panics
    /// If the range reaches past the matrix.
    pub fn dequantize_serial<T: Element>(&self, start: usize, out: &mut [T]) {
        match self {
            Self::Int4(matrix) => matrix.dequantize_serial(start, out),
            Self::Int8(matrix) => matrix.dequantize_serial(start, out),
        }
    }

    /// Asks for the cache lines of the codes of elements, by flat indices.
    ///
    /// # Panics
    /// If the range reaches past the matrix.
    pub fn prefetch(&self, elements: Range<usize>) {
        match self {
            Self::Int4(matrix) => prefetch(&matrix.codes()[elements.start / 2..elements.end.div_ceil(2)]),
            Self::Int8(matrix) => prefetch(&matrix.codes()[elements]),
        }
    }

    /// Writes the elements with flat indices `start..start + out.len()`, on rayon's threads. The bits are those of
    /// [`Self::dequantize_serial`].
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
