//! Four-bit codes to the values that a table gives them.

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

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use std::arch::x86_64::*;

    use half::bf16;

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
