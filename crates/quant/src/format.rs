//! The formats of quantised matrices.

use options::QuantType;

use super::int4::Int4Format;

/// The storage format of a matrix.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Format {
    /// bitsandbytes' NF4 or FP4.
    Int4(Int4Format),
    /// int8 with a scale for each row, its absolute maximum / 127.
    Int8,
    /// int8 with a scale for each row, for products as LLM.int8() computes them.
    LlmInt8 {
        /// The least magnitude of an activation whose column is not quantised; 0 quantises all.
        threshold: f32,
    },
}

impl Format {
    /// NF4 in blocks of 64, as in QLoRA.
    pub const fn nf4(double_quant: bool) -> Self {
        Self::Int4(Int4Format {
            quant_type: QuantType::Nf4,
            block_size: 64,
            double_quant,
        })
    }
}
