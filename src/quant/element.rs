//! The number formats that weights are dequantised to.

use half::{bf16, f16};

use crate::kernels::{
    InstructionSet,
    nf4::{self, Blocks},
};

/// A number format that a dequantised weight is rounded to (to nearest, ties to even).
pub trait Element: Copy + Send + Sync {
    /// Rounds a number, which must not be NaN: a dequantised weight never is.
    fn round(value: f32) -> Self;

    /// Writes the scaled values of blocks of codes.
    #[inline(always)]
    fn expand(_: InstructionSet, blocks: Blocks, out: &mut [Self]) {
        nf4::expand_by(blocks, Self::round, out);
    }
}

impl Element for f32 {
    #[inline]
    fn round(value: f32) -> Self {
        value
    }
}

impl Element for bf16 {
    #[inline(always)]
    fn expand(level: InstructionSet, blocks: Blocks, out: &mut [Self]) {
        nf4::expand(level, blocks, out);
    }

    #[inline(always)]
    fn round(value: f32) -> Self {
        nf4::rounded(value)
    }
}

impl Element for f16 {
    #[inline]
    fn round(value: f32) -> Self {
        f16::from_f32(value)
    }
}
