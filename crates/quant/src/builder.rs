//! A builder of quantised matrices.

use super::{error::QuantError, format::Format, int4, int8, quantized::Quantized};

/// Quantises a matrix that arrives in consecutive slices.
#[derive(Debug)]
pub enum Builder {
    /// To 4 bits.
    Int4(int4::Builder),
    /// To int8.
    Int8(int8::Builder),
}

impl Builder {
    /// A builder of a `rows` x `cols` matrix. It allocates the codes and scales now.
    pub fn new(format: Format, rows: usize, cols: usize) -> Self {
        match format {
            Format::Int4(format) => Self::Int4(int4::Builder::new(rows, cols, format)),
            Format::Int8 => Self::Int8(int8::Builder::new(rows, cols, None)),
            Format::LlmInt8 { threshold } => Self::Int8(int8::Builder::new(rows, cols, Some(threshold))),
        }
    }

    /// Quantises the next values of the matrix, row by row. A slice may begin and end anywhere.
    ///
    /// # Errors
    /// If more values arrive than the matrix has.
    pub fn push(&mut self, values: &[f32]) -> Result<(), QuantError> {
        match self {
            Self::Int4(builder) => builder.push(values),
            Self::Int8(builder) => builder.push(values),
        }
    }

    /// Returns the matrix after its last value.
    ///
    /// # Errors
    /// If values are missing, or one of them is not finite.
    pub fn finish(self) -> Result<Quantized, QuantError> {
        let matrix = match self {
            Self::Int4(builder) => Quantized::Int4(builder.finish()?),
            Self::Int8(builder) => Quantized::Int8(builder.finish()?),
        };
        matrix.describe();
        Ok(matrix)
    }
}
