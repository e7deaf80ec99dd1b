//! The number formats that weights are dequantised to.

use half::{bf16, f16};
use kernels::{
    self, InstructionSet,
    nf4::{self, Blocks},
};

/// A number format that a dequantised weight is rounded to.
pub trait Element: kernels::Element {
    /// Writes the scaled values of blocks of 4-bit codes.
    #[inline(always)]
    fn expand(_: InstructionSet, blocks: Blocks, out: &mut [Self]) {
        nf4::expand_by(blocks, out);
    }
}

impl Element for f32 {}

impl Element for f16 {}

impl Element for bf16 {
    #[inline(always)]
    fn expand(level: InstructionSet, blocks: Blocks, out: &mut [Self]) {
        nf4::expand(level, blocks, out);
    }
}
