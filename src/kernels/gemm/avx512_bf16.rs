//! AVX-512 with dot products of bfloat16 pairs: 8 rows of 32 columns at a time, or 16 rows of 16, in 16 vectors of sums.

use std::{arch::x86_64::*, mem::transmute};

use half::bf16;

use super::{
    avx512::{WIDTH, begin, end},
    block::{Block, GROUP, TILE},
};

/// Places and pairs of a packed step.
const PLACES: usize = 32;
const PAIRS: usize = PLACES / 2;

/// A left operand: its first element, and elements between rows, and between steps.
type Strided = (*const bf16, usize, usize);

/// Computes at least the first `rows` rows and `cols` columns.
///
/// # Safety
/// The CPU has AVX-512 with bfloat16; 32 rows of the left operand and the panel have `depth` places, packed.
#[target_feature(enable = "avx512f,avx512bf16")]
pub(super) unsafe fn multiply(
    left: Strided,
    right: *const bf16,
    depth: usize,
    (rows, cols): (usize, usize),
    out: &mut Block,
    accumulate: bool,
) {
    let out = out.0.as_mut_ptr();
    // SAFETY: the caller's promise; a block has 32 rows, a multiple of both groups.
    unsafe {
        if cols <= WIDTH {
            groups::<{ 2 * GROUP }, 1>(left, right, depth, rows, out, accumulate);
        } else {
            groups::<GROUP, 2>(left, right, depth, rows, out, accumulate);
        }
    }
}

/// `ROWS` rows at a time, `VECTORS` vectors of columns.
///
/// # Safety
/// As [`multiply`]; `out` is a block.
#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
unsafe fn groups<const ROWS: usize, const VECTORS: usize>(
    (left, left_row, left_step): Strided,
    right: *const bf16,
    depth: usize,
    rows: usize,
    out: *mut f32,
    accumulate: bool,
) {
    // SAFETY: every pointer stays within what the caller promises; the two vector types are both 64 bytes of which every
    // pattern is a value.
    unsafe {
        for group in (0..rows).step_by(ROWS) {
            let out = out.add(group * TILE);
            let mut sums = begin::<ROWS, VECTORS>(out, accumulate);
            for step in 0..depth.div_ceil(PLACES) {
                let left = left.add(step * left_step + group * left_row);
                let right = right.add(step * TILE * PLACES);
                for pair in 0..(depth - step * PLACES).div_ceil(2).min(PAIRS) {
                    let mut columns = [_mm512_setzero_si512(); VECTORS];
                    for (vector, columns) in columns.iter_mut().enumerate() {
                        *columns = _mm512_loadu_si512(right.add((vector * PAIRS + pair) * 2 * WIDTH).cast());
                    }
                    for (row, sums) in sums.iter_mut().enumerate() {
                        let left = left.add(row * left_row + pair * 2).cast::<i32>().read_unaligned();
                        let left: __m512bh = transmute(_mm512_set1_epi32(left));
                        for (sum, columns) in sums.iter_mut().zip(columns) {
                            *sum = _mm512_dpbf16_ps(*sum, left, transmute::<__m512i, __m512bh>(columns));
                        }
                    }
                }
            }
            end(&sums, out);
        }
    }
}
