//! Four-bit codes: from values, and to the values that a table gives them.

use half::bf16;

use super::InstructionSet;

/// Writes the values of two codes a byte, that of the high bits first: `out.len()` of them, from the front of `codes`.
#[inline(always)]
pub fn expand(level: InstructionSet, codes: &[u8], table: &[bf16; 16], out: &mut [bf16]) {
    assert!(codes.len() * 2 >= out.len());
    let mut done = 0;
    #[cfg(target_arch = "x86_64")]
    if level >= InstructionSet::Avx512 {
        done = out.len() / 32 * 32;
        // SAFETY: the CPU has AVX-512 with BW; there are half as many codes' bytes as there are values.
        unsafe { avx512::expand(codes.as_ptr(), table, out[..done].as_mut_ptr(), done) };
    }
    let _ = level;
    for (at, value) in out.iter_mut().enumerate().skip(done) {
        let byte = codes[at / 2];
        *value = table[usize::from(if at % 2 == 0 { byte >> 4 } else { byte & 15 })];
    }
}

/// Writes the codes of `factor · values`, two a byte, the first in the high bits. A code is that of `codes` at the number of
/// `bounds` below the product, which are in ascending order; a NaN has none below it.
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
    /// The CPU has AVX-512 with BW; `codes` has `count / 2` bytes and `out` `count` elements, a multiple of 32.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) unsafe fn expand(codes: *const u8, table: &[bf16; 16], out: *mut bf16, count: usize) {
        // SAFETY: every pointer stays within what the caller promises.
        unsafe {
            let table = _mm512_castsi256_si512(_mm256_loadu_si256(table.as_ptr().cast()));
            let low_code = _mm512_set1_epi32(0x000f_0000);
            for at in (0..count).step_by(32) {
                let bytes = _mm512_cvtepu8_epi32(_mm_loadu_si128(codes.add(at / 2).cast()));
                let first = _mm512_srli_epi32::<4>(bytes);
                let second = _mm512_and_si512(_mm512_slli_epi32::<16>(bytes), low_code);
                let values = _mm512_permutexvar_epi16(_mm512_or_si512(first, second), table);
                _mm512_storeu_si512(out.add(at).cast(), values);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::instruction_set::forced::at_each_level;

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
        let table: [bf16; 16] = std::array::from_fn(|code| bf16::from_f32(code as f32 * 1.5 - 7.0));
        let codes: Vec<u8> = (0..200).map(|at| (at * 37 % 251) as u8).collect();
        at_each_level(|level| {
            for count in [0, 1, 15, 17, 31, 32, 33, 63, 64, 65, 399] {
                let mut out = vec![bf16::NAN; count];
                expand(level, &codes, &table, &mut out);
                for (at, value) in out.iter().enumerate() {
                    let code = if at % 2 == 0 {
                        codes[at / 2] >> 4
                    } else {
                        codes[at / 2] & 15
                    };
                    assert_eq!(*value, table[usize::from(code)], "{level:?}, {at} of {count}");
                }
            }
        });
    }
}
