//! Multiplication and addition in one instruction, where the instruction set has it.

/// How `a · b + c` is computed.
#[derive(Debug, Clone, Copy)]
pub struct Arithmetic {
    fused: bool,
}

impl Arithmetic {
    /// Rounds the product and the sum.
    pub const SEPARATE: Self = Self { fused: false };
    /// Rounds once. Code for a level without the instruction calls the C library for it, which is slow.
    pub(super) const FUSED: Self = Self { fused: true };

    /// `a · b + c`.
    #[inline(always)]
    pub fn mul_add(self, a: f32, b: f32, c: f32) -> f32 {
        if self.fused { a.mul_add(b, c) } else { a * b + c }
    }
}
