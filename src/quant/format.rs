//! The formats of quantised matrices.

/// The storage format of a matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// bitsandbytes' NF4.
    Nf4 {
        /// True if the scales are quantised a second time (bitsandbytes' `bnb_4bit_use_double_quant`).
        double_quant: bool,
    },
    /// int8 with a scale for each row, its absolute maximum / 127.
    Int8,
}
