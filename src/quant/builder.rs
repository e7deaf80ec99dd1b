//! A builder of quantised matrices.

use super::{error::QuantError, format::Format, int8, nf4, quantized::Quantized};

/// Quantises a matrix that arrives in consecutive slices.
#[derive(Debug)]
pub enum Builder {
    /// To NF4.
    Nf4(nf4::Builder),
    /// To int8.
    Int8(int8::Builder),
}

impl Builder {
    /// A builder of a `rows` x `cols` matrix. It allocates the codes and scales now.
    pub fn new(format: Format, rows: usize, cols: usize) -> Self {
        match format {
            Format::Nf4 { double_quant } => Self::Nf4(nf4::Builder::new(rows, cols, double_quant)),
            Format::Int8 => Self::Int8(int8::Builder::new(rows, cols)),
        }
    }

    /// Quantises the next values of the matrix, row by row. A slice may begin and end anywhere.
    ///
    /// # Errors
    /// If more values arrive than the matrix has.
    pub fn push(&mut self, values: &[f32]) -> Result<(), QuantError> {
        match self {
            Self::Nf4(builder) => builder.push(values),
            Self::Int8(builder) => builder.push(values),
        }
    }

    /// Returns the matrix after its last value.
    ///
    /// # Errors
    /// If values are missing, or one of them is not finite.
    pub fn finish(self) -> Result<Quantized, QuantError> {
        let matrix = match self {
            Self::Nf4(builder) => Quantized::Nf4(builder.finish()?),
            Self::Int8(builder) => Quantized::Int8(builder.finish()?),
        };
        matrix.describe();
        Ok(matrix)
    }
}
