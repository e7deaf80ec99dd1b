//! AVX2: 4 rows x 16 columns of float32 at a time, in 8 vectors of sums.

use std::arch::x86_64::*;

use super::block::{GROUP, TILE};

const ROWS: usize = 4;

/// Adds the product to `out`.
///
/// # Safety
/// The CPU has AVX2 and FMA; each operand comes with the elements between its rows: the left one has 8 rows of `depth` elements,
/// the right one `depth` rows of 32.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn multiply(
    (left, left_row): (*const f32, usize),
    (right, right_row): (*const f32, usize),
    depth: usize,
    out: &mut [f32; GROUP * TILE],
) {
    // SAFETY: every pointer stays within what the caller promises, or within `out`.
    unsafe {
        for row in (0..GROUP).step_by(ROWS) {
            for col in (0..TILE).step_by(16) {
                let out = out.as_mut_ptr().add(row * TILE + col);
                let mut sums = [[_mm256_setzero_ps(); 2]; ROWS];
                for (row, sums) in sums.iter_mut().enumerate() {
                    *sums = [
                        _mm256_loadu_ps(out.add(row * TILE)),
                        _mm256_loadu_ps(out.add(row * TILE + 8)),
                    ];
                }
                for place in 0..depth {
                    let (left, right) = (left.add(row * left_row + place), right.add(place * right_row + col));
                    let (first, second) = (_mm256_loadu_ps(right), _mm256_loadu_ps(right.add(8)));
                    for (row, sums) in sums.iter_mut().enumerate() {
                        let left = _mm256_set1_ps(*left.add(row * left_row));
                        sums[0] = _mm256_fmadd_ps(left, first, sums[0]);
                        sums[1] = _mm256_fmadd_ps(left, second, sums[1]);
                    }
                }
                for (row, sums) in sums.iter().enumerate() {
                    _mm256_storeu_ps(out.add(row * TILE), sums[0]);
                    _mm256_storeu_ps(out.add(row * TILE + 8), sums[1]);
                }
            }
        }
    }
}
