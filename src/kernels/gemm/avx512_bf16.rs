//! AVX-512 with dot products of bfloat16 pairs: 8 rows at a time, in 16 vectors of sums.

use std::{arch::x86_64::*, mem::transmute};

use half::bf16;

use super::{
    block::Block,
    pack::{EDGE, GROUP},
};

/// # Safety
/// The CPU has AVX-512 with bfloat16; both operands have `steps` packed steps.
#[target_feature(enable = "avx512f,avx512bf16")]
pub unsafe fn multiply(
    (left, left_row, left_step): (*const bf16, usize, usize),
    right: *const bf16,
    steps: usize,
    rows: usize,
    out: &mut Block,
    accumulate: bool,
) {
    // SAFETY: every pointer stays within what the caller promises, or within `out`; the two vector types are both
    // 64 bytes of which every pattern is a value.
    unsafe {
        for group in (0..rows).step_by(GROUP) {
            let out = out.0.as_mut_ptr().add(group * EDGE);
            let mut sums = [[_mm512_setzero_ps(); 2]; GROUP];
            if accumulate {
                for (row, sums) in sums.iter_mut().enumerate() {
                    *sums = [
                        _mm512_loadu_ps(out.add(row * EDGE)),
                        _mm512_loadu_ps(out.add(row * EDGE + 16)),
                    ];
                }
            }
            for step in 0..steps {
                let left = left.add(step * left_step + group * left_row);
                let right = right.add(step * EDGE * 32);
                for pair in 0..16 {
                    let first: __m512bh = transmute(_mm512_loadu_si512(right.add(pair * 32).cast()));
                    let second: __m512bh = transmute(_mm512_loadu_si512(right.add(512 + pair * 32).cast()));
                    for (row, sums) in sums.iter_mut().enumerate() {
                        let left = left.add(row * left_row + pair * 2).cast::<i32>().read_unaligned();
                        let left: __m512bh = transmute(_mm512_set1_epi32(left));
                        sums[0] = _mm512_dpbf16_ps(sums[0], left, first);
                        sums[1] = _mm512_dpbf16_ps(sums[1], left, second);
                    }
                }
            }
            for (row, sums) in sums.iter().enumerate() {
                _mm512_storeu_ps(out.add(row * EDGE), sums[0]);
                _mm512_storeu_ps(out.add(row * EDGE + 16), sums[1]);
            }
        }
    }
}
