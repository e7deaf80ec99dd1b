//! Four-bit codes: from values, and to the values that a table gives them.

use half::bf16;

use super::{InstructionSet, element::Element};

/// Blocks of codes, each of which has a scale.
#[derive(Debug, Clone, Copy)]
pub struct Blocks<'a> {
    /// Two codes a byte, the first in the high bits.
    pub codes: &'a [u8],
    /// The value of each code.
    pub values: &'a [f32; 16],
    /// What the values of a block are multiplied by, for each block.
    pub scales: &'a [f32],
    /// Codes of a block, of which the last may have fewer: a multiple of 32.
    pub size: usize,
}

impl Blocks<'_> {
    /// Panics where there are not so many codes and scales.
    #[inline(always)]
    fn check(&self, count: usize) {
        let Self {
            codes, scales, size, ..
        } = self;
        assert!(codes.len() * 2 >= count && scales.len() * size >= count && size.is_multiple_of(32));
    }
}

/// Writes scaled values, rounded to bfloat16: `out.len()` of them, none of which may be NaN.
///
/// # Panics
/// Where there are fewer codes or scales, or the size of a block is no multiple of 32.
#[inline(always)]
pub fn expand(level: InstructionSet, blocks: Blocks, out: &mut [bf16]) {
    blocks.check(out.len());
    #[cfg(target_arch = "x86_64")]
    if level >= InstructionSet::Avx512 {
        // SAFETY: the CPU has AVX-512 with BW, and the check is for what it needs.
        unsafe { avx512::expand(blocks, out) };
        return;
    }
    let _ = level;
    expand_by(blocks, out);
}

/// [`expand`] to any format, in a loop.
///
/// # Panics
/// As there.
#[inline(always)]
pub fn expand_by<E: Element>(blocks: Blocks, out: &mut [E]) {
    blocks.check(out.len());
    let Blocks { codes, size, .. } = blocks;
    for ((out, codes), scale) in out.chunks_mut(size).zip(codes.chunks(size / 2)).zip(blocks.scales) {
        look_up(codes, &blocks.values.map(|value| E::narrow(value * scale)), out);
    }
}

/// Writes what a table gives for two codes a byte.
#[inline(always)]
fn look_up<T: Copy>(codes: &[u8], table: &[T; 16], out: &mut [T]) {
    let (pairs, last) = out.as_chunks_mut::<2>();
    let (codes, code_of_last) = codes.split_at(pairs.len());
    for (pair, &code) in pairs.iter_mut().zip(codes) {
        *pair = [table[usize::from(code >> 4)], table[usize::from(code & 15)]];
    }
    if let [last] = last {
        *last = table[usize::from(code_of_last[0] >> 4)];
    }
}

/// Writes the codes of `factor · values`, two a byte, the first in the high bits. A code is that of `codes` at the
/// number of `bounds` below the product, which are in ascending order; a NaN has none below it.
#[inline(always)]
pub fn nearest(
    level: InstructionSet,
    values: &[f32],
    factor: f32,
    (bounds, codes): (&[f32; 15], &[u8; 16]),
    out: &mut [u8],
) {
    assert!(out.len() * 2 >= values.len() && values.len().is_multiple_of(2));
    let mut done = 0;
    #[cfg(target_arch = "x86_64")]
    if level >= InstructionSet::Avx512 {
        done = values.len() / 16 * 16;
        // SAFETY: the CPU has AVX-512; there are half as many bytes as there are values.
        unsafe { avx512::nearest(values.as_ptr(), factor, bounds, codes, out.as_mut_ptr(), done) };
    }
    let _ = level;
    // The count compiles to vector compares.
    let code = |value: f32| {
        let place = bounds.iter().map(|&bound| u8::from(value * factor > bound)).sum::<u8>();
        codes[usize::from(place)]
    };
    for (byte, [high, low]) in out[done / 2..].iter_mut().zip(values[done..].as_chunks().0) {
        *byte = code(*high) << 4 | code(*low);
    }
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use std::arch::x86_64::*;

    use half::bf16;

    use super::{Blocks, look_up};

    /// # Safety
    /// The CPU has AVX-512; there are `count` values, a multiple of 16, and `out` has half as many bytes.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn nearest(
        values: *const f32,
        factor: f32,
        bounds: &[f32; 15],
        codes: &[u8; 16],
        out: *mut u8,
        count: usize,
    ) {
        // SAFETY: every pointer stays within what the caller promises.
        unsafe {
            let bounds = _mm512_maskz_loadu_ps(0x7fff, bounds.as_ptr());
            let codes = _mm512_cvtepu8_epi32(_mm_loadu_si128(codes.as_ptr().cast()));
            let factor = _mm512_set1_ps(factor);
            for at in (0..count).step_by(16) {
                let scaled = _mm512_mul_ps(_mm512_loadu_ps(values.add(at)), factor);
                // A binary search for the number of bounds below each.
                let mut below = _mm512_setzero_si512();
                for step in [8, 4, 2, 1] {
                    let next = _mm512_permutexvar_ps(_mm512_add_epi32(below, _mm512_set1_epi32(step - 1)), bounds);
                    let is_below = _mm512_cmp_ps_mask::<_CMP_GT_OQ>(scaled, next);
                    below = _mm512_mask_add_epi32(below, is_below, below, _mm512_set1_epi32(step));
                }
                let code = _mm512_permutexvar_epi32(below, codes);
                let pairs = _mm512_or_si512(_mm512_slli_epi64::<4>(code), _mm512_srli_epi64::<32>(code));
                _mm_storel_epi64(out.add(at / 2).cast(), _mm512_cvtepi64_epi8(pairs));
            }
        }
    }

    /// # Safety
    /// The CPU has AVX-512 with BW; there are codes and scales for all of `out`, and a block has a multiple of 32.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) unsafe fn expand(blocks: Blocks, out: &mut [bf16]) {
        // SAFETY: every pointer stays within what the caller promises.
        unsafe {
            let values = _mm512_loadu_ps(blocks.values.as_ptr());
            let low_code = _mm512_set1_epi32(0x000f_0000);
            let mut codes = blocks.codes.as_ptr();
            for (out, &scale) in out.chunks_mut(blocks.size).zip(blocks.scales) {
                let table = rounded(_mm512_mul_ps(values, _mm512_set1_ps(scale)));
                let (whole, rest) = out.as_chunks_mut::<32>();
                for out in whole {
                    let bytes = _mm512_cvtepu8_epi32(_mm_loadu_si128(codes.cast()));
                    let first = _mm512_srli_epi32::<4>(bytes);
                    let second = _mm512_and_si512(_mm512_slli_epi32::<16>(bytes), low_code);
                    let indices = _mm512_or_si512(first, second);
                    let values = _mm512_permutexvar_epi16(indices, _mm512_castsi256_si512(table));
                    _mm512_storeu_si512(out.as_mut_ptr().cast(), values);
                    codes = codes.add(16);
                }
                if !rest.is_empty() {
                    let mut in_memory = [bf16::ZERO; 16];
                    _mm256_storeu_si256(in_memory.as_mut_ptr().cast(), table);
                    look_up(
                        std::slice::from_raw_parts(codes, rest.len().div_ceil(2)),
                        &in_memory,
                        rest,
                    );
                }
            }
        }
    }

    /// To bfloat16, to nearest even; a NaN may become something else.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn rounded(values: __m512) -> __m256i {
        let bits = _mm512_castps_si512(values);
        let odd = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
        let bits = _mm512_add_epi32(_mm512_add_epi32(bits, odd), _mm512_set1_epi32(0x7fff));
        _mm512_cvtepi32_epi16(_mm512_srli_epi32::<16>(bits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instruction_set::forced::at_each_level;

    #[test]
    fn a_value_has_the_code_of_the_bounds_below_it() {
        let bounds: [f32; 15] = std::array::from_fn(|at| (at as f32 - 7.0) / 8.0);
        let codes: [u8; 16] = std::array::from_fn(|place| (place * 7 % 16) as u8);
        let around = bounds
            .iter()
            .flat_map(|bound| [bound.next_down(), *bound, bound.next_up()]);
        let ends = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, 1e-40];
        let values: Vec<f32> = around.chain(ends).map(|value| value / 2.0).collect();
        let place = |value: f32| bounds.iter().filter(|bound| value * 2.0 > **bound).count();
        at_each_level(|level| {
            for count in [0, 2, 14, 16, 18, 32, 48, 50] {
                let mut out = vec![0; count / 2];
                nearest(level, &values[..count], 2.0, (&bounds, &codes), &mut out);
                for (pair, byte) in values.chunks(2).zip(out) {
                    let [high, low] = [0, 1].map(|at| codes[place(pair[at])]);
                    assert_eq!([byte >> 4, byte & 15], [high, low], "{level:?} {pair:?}");
                }
            }
        });
    }

    #[test]
    fn each_code_gives_its_value() {
        let values: [f32; 16] = std::array::from_fn(|code| (code as f32 - 7.0) / 9.0);
        let codes: Vec<u8> = (0..200).map(|at| (at * 37 % 251) as u8).collect();
        let scales: Vec<f32> = (0..13).map(|at| 0.37 * at as f32 - 1.0).collect();
        at_each_level(|level| {
            for (count, size) in [0, 1, 15, 17, 31, 32, 33, 63, 64, 65, 399]
                .into_iter()
                .flat_map(|count| [(count, 32), (count, 64), (count, 256)])
            {
                let mut out = vec![bf16::NAN; count];
                let blocks = Blocks {
                    codes: &codes,
                    values: &values,
                    scales: &scales,
                    size,
                };
                expand(level, blocks, &mut out);
                for (at, value) in out.iter().enumerate() {
                    let code = if at % 2 == 0 {
                        codes[at / 2] >> 4
                    } else {
                        codes[at / 2] & 15
                    };
                    let expected = bf16::from_f32(values[usize::from(code)] * scales[at / size]);
                    assert_eq!(
                        value.to_bits(),
                        expected.to_bits(),
                        "{level:?}, {at} of {count} in blocks of {size}"
                    );
                }
            }
        });
    }

    #[test]
    fn scaled_values_are_rounded_as_half_rounds_them() {
        let special = [0, 0x8000, 0x1_8000, 0x7f80_0000, 0xff80_0000, 0x7f7f_ffff];
        let bits = special.into_iter().chain((0..=u32::MAX).step_by(40_503));
        let numbers: Vec<f32> = bits.map(f32::from_bits).filter(|value| !value.is_nan()).collect();
        let codes: [u8; 8] = std::array::from_fn(|at| (at * 34 + 1) as u8);
        at_each_level(|level| {
            for values in numbers.as_chunks::<16>().0 {
                let mut out = [bf16::ZERO; 32];
                let blocks = Blocks {
                    codes: &[codes, codes].concat(),
                    values,
                    scales: &[1.0],
                    size: 32,
                };
                expand(level, blocks, &mut out);
                let expected = values.map(|value| bf16::from_f32(value).to_bits());
                assert_eq!(out.map(bf16::to_bits)[..16], expected, "{level:?} {values:?}");
                assert_eq!(out[16..], out[..16]);
            }
        });
    }
}
