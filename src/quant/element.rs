//! The number formats that weights are dequantised to.

use half::{bf16, f16};

use crate::kernels::{InstructionSet, nf4};

/// A number format that a dequantised weight is rounded to (to nearest, ties to even).
pub trait Element: Copy + Send + Sync {
    /// Rounds a number, which must not be NaN: a dequantised weight never is.
    fn round(value: f32) -> Self;

    /// Writes the values of two codes from each byte, that of the high bits first.
    #[inline(always)]
    fn expand(_: InstructionSet, codes: &[u8], table: &[Self; 16], out: &mut [Self]) {
        let (pairs, last) = out.as_chunks_mut::<2>();
        for (pair, &code) in pairs.iter_mut().zip(codes) {
            *pair = [table[usize::from(code >> 4)], table[usize::from(code & 15)]];
        }
        if let ([last], Some(&code)) = (last, codes.last()) {
            *last = table[usize::from(code >> 4)];
        }
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
    fn expand(level: InstructionSet, codes: &[u8], table: &[Self; 16], out: &mut [Self]) {
        nf4::expand(level, codes, table, out);
    }

    #[inline(always)]
    fn round(value: f32) -> Self {
        // Without half's branch for NaN, this compiles to vector instructions.
        let bits = value.to_bits();
        bf16::from_bits(((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16)
    }
}

impl Element for f16 {
    #[inline]
    fn round(value: f32) -> Self {
        f16::from_f32(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bfloat16_is_rounded_as_half_rounds_it() {
        for bits in (0..=u32::MAX)
            .step_by(40_503)
            .chain([0, 0x8000, 0x1_8000, 0x7f80_0000, 0xff80_0000, 0x7f7f_ffff])
        {
            let value = f32::from_bits(bits);
            if !value.is_nan() {
                assert_eq!(
                    <bf16 as Element>::round(value).to_bits(),
                    bf16::from_f32(value).to_bits(),
                    "{value}"
                );
            }
        }
    }
}
