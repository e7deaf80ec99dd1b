//! AVX-512: 8 rows of 32 columns of float32 at a time, or 16 rows of 16, in 16 vectors of sums; and transposes.

use std::arch::x86_64::*;

use half::bf16;

use super::block::{Block, GROUP, TILE};
use crate::avx512::interleaved;

/// Columns of a vector of sums.
pub(super) const WIDTH: usize = 16;
/// Places ahead of which columns are asked for: a panel is larger than the first-level cache.
const AHEAD: usize = 16;

/// Computes at least the first `rows` rows and `cols` columns.
///
/// # Safety
/// The CPU has AVX-512; there are at most 32 rows. Each operand comes with the elements between its rows: the left one
/// has 32 rows of `depth` elements, the right one `depth` rows of 32.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn multiply(
    left: (*const f32, usize),
    right: (*const f32, usize),
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
#[target_feature(enable = "avx512f")]
unsafe fn groups<const ROWS: usize, const VECTORS: usize>(
    (left, left_row): (*const f32, usize),
    (right, right_row): (*const f32, usize),
    depth: usize,
    rows: usize,
    out: *mut f32,
    accumulate: bool,
) {
    // SAFETY: every pointer stays within what the caller promises.
    unsafe {
        for group in (0..rows).step_by(ROWS) {
            let (left, out) = (left.wrapping_add(group * left_row), out.add(group * TILE));
            let mut sums = begin::<ROWS, VECTORS>(out, accumulate);
            for place in 0..depth {
                let mut columns = [_mm512_setzero_ps(); VECTORS];
                for (vector, columns) in columns.iter_mut().enumerate() {
                    let right = right.add(place * right_row + vector * WIDTH);
                    _mm_prefetch::<_MM_HINT_T0>(right.wrapping_add(AHEAD * right_row).cast());
                    *columns = _mm512_loadu_ps(right);
                }
                for (row, sums) in sums.iter_mut().enumerate() {
                    let left = _mm512_set1_ps(*left.add(row * left_row + place));
                    for (sum, columns) in sums.iter_mut().zip(columns) {
                        *sum = _mm512_fmadd_ps(left, columns, *sum);
                    }
                }
            }
            end(&sums, out);
        }
    }
}

/// The sums of a group of rows: those of the block, or zeros.
///
/// # Safety
/// The CPU has AVX-512; `out` is a block's row with `ROWS` rows from it on, of `VECTORS` vectors.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn begin<const ROWS: usize, const VECTORS: usize>(
    out: *const f32,
    accumulate: bool,
) -> [[__m512; VECTORS]; ROWS] {
    let mut sums = [[_mm512_setzero_ps(); VECTORS]; ROWS];
    if accumulate {
        for (row, sums) in sums.iter_mut().enumerate() {
            for (vector, sum) in sums.iter_mut().enumerate() {
                // SAFETY: the caller's promise.
                *sum = unsafe { _mm512_loadu_ps(out.add(row * TILE + vector * WIDTH)) };
            }
        }
    }
    sums
}

/// Writes the sums of a group of rows to the block.
///
/// # Safety
/// As [`begin`].
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn end<const ROWS: usize, const VECTORS: usize>(sums: &[[__m512; VECTORS]; ROWS], out: *mut f32) {
    for (row, sums) in sums.iter().enumerate() {
        for (vector, sum) in sums.iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { _mm512_storeu_ps(out.add(row * TILE + vector * WIDTH), *sum) };
        }
    }
}

/// Writes `out[place][column] = column's place` for 16 places of 16 columns, places `stride` elements apart.
///
/// # Safety
/// The CPU has AVX-512; each column has 16 elements of four bytes, and each place has room for 16.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn transpose<T>(columns: [*const T; 16], out: *mut T, stride: usize) {
    const { assert!(size_of::<T>() == 4) };
    // SAFETY: every pointer stays within what the caller promises.
    unsafe {
        for places in 0..4 {
            // Vector j: lane q has the four places of column 4q + j.
            let mut vectors = [_mm512_setzero_si512(); 4];
            for (at, vector) in vectors.iter_mut().enumerate() {
                let lane = |q: usize| _mm_loadu_si128(columns[4 * q + at].add(places * 4).cast());
                let first = _mm512_castsi128_si512(lane(0));
                let second = _mm512_mask_broadcast_i32x4(first, 0x00f0, lane(1));
                let third = _mm512_mask_broadcast_i32x4(second, 0x0f00, lane(2));
                *vector = _mm512_mask_broadcast_i32x4(third, 0xf000, lane(3));
            }
            let low = _mm512_unpacklo_epi32(vectors[0], vectors[1]);
            let high = _mm512_unpackhi_epi32(vectors[0], vectors[1]);
            let low2 = _mm512_unpacklo_epi32(vectors[2], vectors[3]);
            let high2 = _mm512_unpackhi_epi32(vectors[2], vectors[3]);
            let out = out.add(places * 4 * stride);
            _mm512_storeu_si512(out.cast(), _mm512_unpacklo_epi64(low, low2));
            _mm512_storeu_si512(out.add(stride).cast(), _mm512_unpackhi_epi64(low, low2));
            _mm512_storeu_si512(out.add(2 * stride).cast(), _mm512_unpacklo_epi64(high, high2));
            _mm512_storeu_si512(out.add(3 * stride).cast(), _mm512_unpackhi_epi64(high, high2));
        }
    }
}

/// Writes the transpose of 32 rows of 32 elements of two bytes.
///
/// # Safety
/// The CPU has AVX-512 with BW; each row has 32 elements, `out` 1024.
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) unsafe fn transpose_words(rows: [*const bf16; 32], out: *mut bf16) {
    /// Every other of 64 words.
    const fn every_other(first: u16) -> [u16; 32] {
        let mut words = [0; 32];
        let mut word = 0;
        while word < 32 {
            words[word as usize] = 2 * word + first;
            word += 1;
        }
        words
    }
    static EVEN: [u16; 32] = every_other(0);
    static ODD: [u16; 32] = every_other(1);
    // Pairs of columns `[16 pairs][16 rows][2 columns]`, of each half of the rows.
    let mut pairs = [[[[0u16; 2]; 16]; 16]; 2];
    // SAFETY: every pointer stays within what the caller promises, or within these arrays.
    unsafe {
        for (half, pairs) in pairs.iter_mut().enumerate() {
            let rows = std::array::from_fn(|row| rows[half * 16 + row].cast::<[u16; 2]>());
            transpose(rows, pairs.as_mut_ptr().cast(), 16);
        }
        let (even, odd) = (
            _mm512_loadu_si512(EVEN.as_ptr().cast()),
            _mm512_loadu_si512(ODD.as_ptr().cast()),
        );
        let [first, second] = &pairs;
        for (pair, (first, second)) in first.iter().zip(second).enumerate() {
            let (first, second) = (
                _mm512_loadu_si512(first.as_ptr().cast()),
                _mm512_loadu_si512(second.as_ptr().cast()),
            );
            let out = out.add(pair * 64);
            _mm512_storeu_si512(out.cast(), _mm512_permutex2var_epi16(first, even, second));
            _mm512_storeu_si512(out.add(32).cast(), _mm512_permutex2var_epi16(first, odd, second));
        }
    }
}

/// Writes the pairs of 32 columns of two rows: the first 16 to `out`, the others 512 elements further on.
///
/// # Safety
/// The CPU has AVX-512 with BW; each row has 32 elements, `out` 544.
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) unsafe fn interleave(first: *const bf16, second: *const bf16, out: *mut bf16) {
    // SAFETY: the caller's promise.
    unsafe {
        let [low, high] = interleaved([first, second].map(|row| _mm512_loadu_si512(row.cast())));
        _mm512_storeu_si512(out.cast(), low);
        _mm512_storeu_si512(out.add(512).cast(), high);
    }
}
