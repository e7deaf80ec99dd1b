//! AVX-512 with dot products of bfloat16 pairs: 8 rows of 32 columns at a time, or 16 rows of 16, in 16 vectors of
//! sums; or, where both operands lie along the depth, 4 rows and 4 columns.

use std::{arch::x86_64::*, mem::transmute};

use half::bf16;

use super::{
    avx512::{WIDTH, begin, end},
    block::{Block, GROUP, TILE},
};
use crate::avx512::interleaved;

/// Places and pairs of a packed step.
const PLACES: usize = 32;
const PAIRS: usize = PLACES / 2;

/// Rows and columns of [`dots`].
const DOTS: usize = 4;

/// A left operand: its first element, and elements between rows, and between steps.
type Strided = (*const bf16, usize, usize);

/// A right operand, read by pairs of places.
trait Pairs: Copy {
    /// `VECTORS` vectors of 16 columns: the pair of places `2 * pair` and the next of a step.
    ///
    /// # Safety
    /// The CPU has AVX-512 with BW; the operand has the pair.
    unsafe fn pair<const VECTORS: usize>(self, step: usize, pair: usize) -> [__m512i; VECTORS];
}

/// A packed panel.
#[derive(Clone, Copy)]
struct Panel(*const bf16);

impl Pairs for Panel {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn pair<const VECTORS: usize>(self, step: usize, pair: usize) -> [__m512i; VECTORS] {
        let mut columns = [_mm512_setzero_si512(); VECTORS];
        for (vector, columns) in columns.iter_mut().enumerate() {
            let at = step * TILE * PLACES + (vector * PAIRS + pair) * 2 * WIDTH;
            // SAFETY: the caller's promise.
            *columns = unsafe { _mm512_loadu_si512(self.0.add(at).cast()) };
        }
        columns
    }
}

/// Rows of 32 columns where they lie: the first, and elements from one to the next.
#[derive(Clone, Copy)]
struct Rows(*const bf16, usize);

impl Pairs for Rows {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn pair<const VECTORS: usize>(self, step: usize, pair: usize) -> [__m512i; VECTORS] {
        let Self(first, stride) = self;
        // SAFETY: the caller's promise; a prefetch reads nothing.
        let both = unsafe {
            let first = first.add((step * PLACES + pair * 2) * stride);
            let next = first.add(stride);
            // The columns of the next panel.
            _mm_prefetch::<_MM_HINT_T0>(first.wrapping_add(TILE).cast());
            _mm_prefetch::<_MM_HINT_T0>(next.wrapping_add(TILE).cast());
            interleaved([first, next].map(|row| _mm512_loadu_si512(row.cast())))
        };
        std::array::from_fn(|vector| both[vector])
    }
}

/// Computes at least the first `rows` rows and `cols` columns.
///
/// # Safety
/// The CPU has AVX-512 with bfloat16; 32 rows of the left operand and the panel have `depth` places, packed.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
pub(super) unsafe fn multiply(
    left: Strided,
    right: *const bf16,
    depth: usize,
    (rows, cols): (usize, usize),
    out: &mut Block,
    accumulate: bool,
) {
    let (out, right) = (out.0.as_mut_ptr(), Panel(right));
    // SAFETY: the caller's promise; a block has 32 rows, a multiple of both groups.
    unsafe {
        if cols <= WIDTH {
            groups::<{ 2 * GROUP }, 1>(left, right, depth, rows, out, accumulate);
        } else {
            groups::<GROUP, 2>(left, right, depth, rows, out, accumulate);
        }
    }
}

/// Computes at least the first `rows` rows, of 32 columns that lie in rows `stride` elements apart.
///
/// # Safety
/// The CPU has AVX-512 with bfloat16; 32 rows of the left operand have `depth` places, packed, and so many rows of 32
/// elements are there on the right; the depth is even.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
pub(super) unsafe fn multiply_rows(
    left: Strided,
    (right, stride): (*const bf16, usize),
    depth: usize,
    rows: usize,
    out: &mut Block,
    accumulate: bool,
) {
    // SAFETY: the caller's promise; a block has 32 rows, a multiple of the group.
    unsafe { groups::<GROUP, 2>(left, Rows(right, stride), depth, rows, out.0.as_mut_ptr(), accumulate) }
}

/// `ROWS` rows at a time, `VECTORS` vectors of columns.
///
/// # Safety
/// As [`multiply`] or [`multiply_rows`]; `out` is a block.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
unsafe fn groups<const ROWS: usize, const VECTORS: usize>(
    (left, left_row, left_step): Strided,
    right: impl Pairs,
    depth: usize,
    rows: usize,
    out: *mut f32,
    accumulate: bool,
) {
    // SAFETY: every pointer stays within what the caller promises; the two vector types are both 64 bytes of which
    // every pattern is a value.
    unsafe {
        for group in (0..rows).step_by(ROWS) {
            let out = out.add(group * TILE);
            let mut sums = begin::<ROWS, VECTORS>(out, accumulate);
            for step in 0..depth.div_ceil(PLACES) {
                let left = left.add(step * left_step + group * left_row);
                for pair in 0..(depth - step * PLACES).div_ceil(2).min(PAIRS) {
                    let columns = right.pair::<VECTORS>(step, pair);
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

/// Computes at least the first `rows` rows and `cols` columns, of columns that are packed as a left operand's rows. A
/// vector has 16 sums of one element, which are added up in the end: nothing is broadcast. Asks for the next 32 rows of
/// the left operand on the way, since there is little to compute for each.
///
/// # Safety
/// The CPU has AVX-512 with bfloat16; 32 rows of the left operand have `steps` steps, and so has the right one's block.
#[target_feature(enable = "avx512f,avx512bf16")]
pub(super) unsafe fn dots(
    (left, left_row, left_step): Strided,
    right: *const bf16,
    steps: usize,
    (rows, cols): (usize, usize),
    out: &mut Block,
    accumulate: bool,
) {
    let out = out.0.as_mut_ptr();
    // SAFETY: every pointer stays within what the caller promises, and within the block, whose edge is a multiple of 4;
    // the two vector types are both 64 bytes of which every pattern is a value.
    unsafe {
        let load = |values: *const bf16| transmute::<__m512i, __m512bh>(_mm512_loadu_si512(values.cast()));
        for row in (0..rows).step_by(DOTS) {
            for col in (0..cols).step_by(DOTS) {
                let mut sums = [[_mm512_setzero_ps(); DOTS]; DOTS];
                for step in 0..steps {
                    let left = left.add(step * left_step + row * left_row);
                    let right = right.add((step * TILE + col) * PLACES);
                    let columns: [__m512bh; DOTS] = std::array::from_fn(|col| load(right.add(col * PLACES)));
                    for (row, sums) in sums.iter_mut().enumerate() {
                        let left = left.add(row * left_row);
                        if col == 0 {
                            _mm_prefetch::<_MM_HINT_T1>(left.wrapping_add(TILE * left_row).cast());
                        }
                        let left = load(left);
                        for (sum, column) in sums.iter_mut().zip(columns) {
                            *sum = _mm512_dpbf16_ps(*sum, left, column);
                        }
                    }
                }
                let out = out.add(row * TILE + col);
                let [first, second, third, fourth] = sums.map(|sums| lanes(sums));
                let (low, high) = (halves(first, second), halves(third, fourth));
                let sums = _mm512_add_ps(
                    _mm512_shuffle_f32x4::<0b10_00_10_00>(low, high),
                    _mm512_shuffle_f32x4::<0b11_01_11_01>(low, high),
                );
                let sums = [
                    _mm512_extractf32x4_ps::<0>(sums),
                    _mm512_extractf32x4_ps::<1>(sums),
                    _mm512_extractf32x4_ps::<2>(sums),
                    _mm512_extractf32x4_ps::<3>(sums),
                ];
                for (row, mut sums) in sums.into_iter().enumerate() {
                    let out = out.add(row * TILE);
                    if accumulate {
                        sums = _mm_add_ps(_mm_loadu_ps(out), sums);
                    }
                    _mm_storeu_ps(out, sums);
                }
            }
        }
    }
}

/// Four sums in each lane: those of the vectors' four elements there.
#[inline]
#[target_feature(enable = "avx512f")]
fn lanes([a, b, c, d]: [__m512; DOTS]) -> __m512 {
    let pair = |a, b| _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
    let (low, high) = (_mm512_castps_pd(pair(a, b)), _mm512_castps_pd(pair(c, d)));
    _mm512_add_ps(
        _mm512_castpd_ps(_mm512_unpacklo_pd(low, high)),
        _mm512_castpd_ps(_mm512_unpackhi_pd(low, high)),
    )
}

/// Lanes 0 + 2 and 1 + 3 of both vectors.
#[inline]
#[target_feature(enable = "avx512f")]
fn halves(a: __m512, b: __m512) -> __m512 {
    _mm512_add_ps(
        _mm512_shuffle_f32x4::<0b01_00_01_00>(a, b),
        _mm512_shuffle_f32x4::<0b11_10_11_10>(a, b),
    )
}
