//! AVX2: 6 rows x 16 columns of float32 at a time, in 12 vectors of sums; or 4 rows, in 8; and transposes.

use std::arch::x86_64::*;

use super::block::{Block, TILE};

/// Rows of a block that are multiplied by sixes. The rest are multiplied by fours.
const BY_SIX: usize = 24;
/// Columns of two vectors.
const COLS: usize = 16;

/// Computes at least the first `rows` rows.
///
/// # Safety
/// The CPU has AVX2 and FMA; there are at most 32 rows. Each operand comes with the elements between its rows: the left
/// one has 32 rows of `depth` elements, the right one `depth` rows of 32.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn multiply(
    (left, left_row): (*const f32, usize),
    right: (*const f32, usize),
    depth: usize,
    rows: usize,
    out: &mut Block,
    accumulate: bool,
) {
    let out = out.0.as_mut_ptr();
    let mut row = 0;
    while row < rows {
        // SAFETY: the caller's promise; a block has 32 rows, four times six and twice four.
        unsafe {
            let (left, out) = ((left.wrapping_add(row * left_row), left_row), out.add(row * TILE));
            if row < BY_SIX {
                group::<6>(left, right, depth, out, accumulate);
                row += 6;
            } else {
                group::<4>(left, right, depth, out, accumulate);
                row += 4;
            }
        }
    }
}

/// `ROWS` rows.
///
/// # Safety
/// As [`multiply`]; `out` is a block's row with `ROWS` rows from it on.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn group<const ROWS: usize>(
    (left, left_row): (*const f32, usize),
    (right, right_row): (*const f32, usize),
    depth: usize,
    out: *mut f32,
    accumulate: bool,
) {
    // SAFETY: every pointer stays within what the caller promises.
    unsafe {
        for col in (0..TILE).step_by(COLS) {
            let (right, out) = (right.wrapping_add(col), out.add(col));
            let mut sums = [[_mm256_setzero_ps(); 2]; ROWS];
            if accumulate {
                for (row, sums) in sums.iter_mut().enumerate() {
                    let out = out.add(row * TILE);
                    *sums = [_mm256_loadu_ps(out), _mm256_loadu_ps(out.add(8))];
                }
            }
            for place in 0..depth {
                let (left, right) = (left.add(place), right.add(place * right_row));
                let (first, second) = (_mm256_loadu_ps(right), _mm256_loadu_ps(right.add(8)));
                for (row, sums) in sums.iter_mut().enumerate() {
                    let left = _mm256_set1_ps(*left.add(row * left_row));
                    sums[0] = _mm256_fmadd_ps(left, first, sums[0]);
                    sums[1] = _mm256_fmadd_ps(left, second, sums[1]);
                }
            }
            for (row, sums) in sums.iter().enumerate() {
                let out = out.add(row * TILE);
                _mm256_storeu_ps(out, sums[0]);
                _mm256_storeu_ps(out.add(8), sums[1]);
            }
        }
    }
}

/// Writes `out[place][column] = column's place` for 8 places of 8 columns, places `stride` elements apart.
///
/// # Safety
/// The CPU has AVX2; each column has 8 elements, and each place has room for 8.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn transpose(columns: [*const f32; 8], out: *mut f32, stride: usize) {
    // SAFETY: every pointer stays within what the caller promises.
    unsafe {
        for places in [0, 4] {
            // Vector j: four places of column j, then of column 4 + j.
            let mut vectors = [_mm256_setzero_ps(); 4];
            for (at, vector) in vectors.iter_mut().enumerate() {
                let [first, second] = [at, at + 4].map(|column| _mm_loadu_ps(columns[column].add(places)));
                *vector = _mm256_set_m128(second, first);
            }
            let [low, low2] = [0, 2].map(|at| _mm256_castps_pd(_mm256_unpacklo_ps(vectors[at], vectors[at + 1])));
            let [high, high2] = [0, 2].map(|at| _mm256_castps_pd(_mm256_unpackhi_ps(vectors[at], vectors[at + 1])));
            let rows = [
                _mm256_unpacklo_pd(low, low2),
                _mm256_unpackhi_pd(low, low2),
                _mm256_unpacklo_pd(high, high2),
                _mm256_unpackhi_pd(high, high2),
            ];
            for (at, row) in rows.into_iter().enumerate() {
                _mm256_storeu_ps(out.add((places + at) * stride), _mm256_castpd_ps(row));
            }
        }
    }
}
