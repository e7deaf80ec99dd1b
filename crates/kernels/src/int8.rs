//! Products of 8-bit codes, as LLM.int8() computes them (Dettmers et al. 2022, arXiv:2208.07339): activations are
//! quantised by rows, products are summed as integers, and columns with outliers are left out.

use std::ops::Range;

use half::f16;
use rayon::prelude::*;

use super::{
    Element, InstructionSet,
    gemm::{Epilogue, block::Block},
    row_codes::encode,
    rows::rows_per_part,
};
use crate::Dispatch as _;

/// The most columns: more could overflow a sum.
pub const MAX_COLUMNS: usize = 1 << 16;

/// A matrix of codes from -127 to 127 with a scale for each row.
#[derive(Debug, Clone, Copy)]
pub struct Matrix<'a> {
    /// Row by row.
    pub codes: &'a [i8],
    /// The absolute maximum of each row / 127.
    pub scales: &'a [f32],
    /// Elements of a row.
    pub columns: usize,
}

impl<'a> Matrix<'a> {
    fn row(&self, row: usize) -> &'a [i8] {
        &self.codes[row * self.columns..][..self.columns]
    }
}

/// Quantises the rows of `x` and returns the columns with outliers, in ascending order: those that have an element with
/// a magnitude of `threshold` or more. Their codes are 0, and no outlier counts for its row's maximum. A threshold of 0
/// finds none. Elements are rounded to float16 first, as by bitsandbytes.
pub fn quantize_activations<E: Element>(
    x: &[E],
    columns: usize,
    threshold: f32,
    codes: &mut [i8],
    scales: &mut [f32],
) -> Vec<usize> {
    assert!(x.len() == codes.len() && x.len() == columns * scales.len());
    if x.is_empty() {
        return Vec::new();
    }
    let level = InstructionSet::current();
    let threshold = if threshold > 0.0 {
        f16::from_f32(threshold).to_f32()
    } else {
        f32::INFINITY
    };
    let part = rows_per_part(columns);
    let parts = x.par_chunks(part * columns).zip(codes.par_chunks_mut(part * columns));
    let outliers = parts
        .zip(scales.par_chunks_mut(part))
        .map(|((x, codes), scales)| {
            level.run(
                #[inline(always)]
                || quantize_part(x, columns, threshold, codes, scales),
            )
        })
        .reduce(
            || vec![false; columns],
            |mut outliers, others| {
                outliers
                    .iter_mut()
                    .zip(others)
                    .for_each(|(outlier, other)| *outlier |= other);
                outliers
            },
        );
    let outliers: Vec<usize> = (0..columns).filter(|column| outliers[*column]).collect();
    if !outliers.is_empty() {
        codes.par_chunks_mut(columns).for_each(|codes| {
            for column in &outliers {
                codes[*column] = 0;
            }
        });
    }
    outliers
}

/// Some rows. Returns which columns have outliers.
#[inline(always)]
fn quantize_part<E: Element>(
    x: &[E],
    columns: usize,
    threshold: f32,
    codes: &mut [i8],
    scales: &mut [f32],
) -> Vec<bool> {
    let mut outliers = vec![false; columns];
    let mut row = vec![0f32; columns];
    let rows = x.chunks_exact(columns).zip(codes.chunks_exact_mut(columns));
    for ((x, codes), scale) in rows.zip(scales) {
        for ((value, x), outlier) in row.iter_mut().zip(x).zip(&mut outliers) {
            let x = f16::narrow(x.widen()).widen();
            let is_outlier = x.abs() >= threshold;
            *outlier |= is_outlier;
            *value = if is_outlier { 0.0 } else { x };
        }
        *scale = encode(&row, codes);
    }
    outliers
}

/// Adds `left · rightᵀ` to a product, and gives the sums to another epilogue. An element is the sum of the products of
/// codes, times both rows' scales.
pub struct Onto<'a> {
    left: Matrix<'a>,
    right: Matrix<'a>,
    then: &'a dyn Epilogue,
}

impl<'a> Onto<'a> {
    /// The epilogue before `then`.
    ///
    /// # Panics
    /// If the matrices do not fit, or have more than [`MAX_COLUMNS`] columns.
    pub fn new(left: Matrix<'a>, right: Matrix<'a>, then: &'a dyn Epilogue) -> Self {
        assert!(left.columns == right.columns && left.columns <= MAX_COLUMNS);
        for matrix in [left, right] {
            assert!(matrix.codes.len() == matrix.scales.len() * matrix.columns);
        }
        Self { left, right, then }
    }

    /// Adds the elements of these rows and columns.
    fn add(&self, rows: Range<usize>, cols: Range<usize>, block: &mut Block) {
        let (left, right) = (self.left, self.right);
        let level = InstructionSet::current();
        #[cfg(target_arch = "x86_64")]
        if level >= InstructionSet::Avx512Bf16 && is_x86_feature_detected!("avx512vnni") {
            // SAFETY: the CPU has AVX-512 with BW and VNNI.
            return unsafe { vnni::add(left, right, rows, cols, block) };
        }
        level.run(
            #[inline(always)]
            || {
                for (at, row) in rows.enumerate() {
                    for (value, col) in block.row_mut(at).iter_mut().zip(cols.clone()) {
                        *value += scaled(sum(left.row(row), right.row(col)), left.scales[row], right.scales[col]);
                    }
                }
            },
        );
    }
}

impl Epilogue for Onto<'_> {
    unsafe fn store(&self, rows: Range<usize>, cols: Range<usize>, block: &Block) {
        let mut sums = *block;
        self.add(rows.clone(), cols.clone(), &mut sums);
        // SAFETY: the caller's promise.
        unsafe { self.then.store(rows, cols, &sums) };
    }

    fn prepare(&self, rows: Range<usize>, cols: Range<usize>) {
        self.then.prepare(rows, cols);
    }
}

/// The sum of the products of two rows.
#[inline(always)]
fn sum(left: &[i8], right: &[i8]) -> i32 {
    let pairs = left.iter().zip(right);
    pairs.map(|(left, right)| i32::from(*left) * i32::from(*right)).sum()
}

#[inline(always)]
fn scaled(sum: i32, left: f32, right: f32) -> f32 {
    sum as f32 * (left * right)
}

#[cfg(target_arch = "x86_64")]
mod vnni {
    use std::arch::x86_64::*;
    use std::ops::Range;

    use super::{Block, Matrix, scaled};

    /// Rows of each matrix that are multiplied at a time.
    const TILE: usize = 4;
    /// Codes of a vector.
    const STEP: usize = 64;

    /// Adds the product's elements of these rows and columns.
    ///
    /// # Safety
    /// The CPU has AVX-512 with BW and VNNI.
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    pub(super) unsafe fn add(left: Matrix, right: Matrix, rows: Range<usize>, cols: Range<usize>, block: &mut Block) {
        for col in cols.clone().step_by(TILE) {
            // A tile at the edge has its last row several times.
            let right_rows = std::array::from_fn(|at| right.row((col + at).min(cols.end - 1)));
            for row in rows.clone().step_by(TILE) {
                let left_rows = std::array::from_fn(|at| left.row((row + at).min(rows.end - 1)));
                // SAFETY: the caller's promise.
                let sums = unsafe { tile(left_rows, right_rows) };
                for (row, sums) in (row..rows.end).zip(sums) {
                    let values = block.row_mut(row - rows.start);
                    for (col, sum) in (col..cols.end).zip(sums) {
                        values[col - cols.start] += scaled(sum, left.scales[row], right.scales[col]);
                    }
                }
            }
        }
    }

    /// The sums of products of each left with each right row. The instruction takes unsigned codes on the left, so 128
    /// is added to them, and 128 times the sum of the right row is subtracted.
    ///
    /// # Safety
    /// The CPU has AVX-512 with BW and VNNI.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    unsafe fn tile(left: [&[i8]; TILE], right: [&[i8]; TILE]) -> [[i32; TILE]; TILE] {
        let columns = left[0].len();
        let (shift, ones) = (_mm512_set1_epi8(-128), _mm512_set1_epi8(1));
        let mut sums = [[_mm512_setzero_si512(); TILE]; TILE];
        let mut of_right = [_mm512_setzero_si512(); TILE];
        for at in (0..columns).step_by(STEP) {
            let mask = u64::MAX >> (STEP - (columns - at).min(STEP));
            // SAFETY: the mask leaves out what lies behind a row's end; the rows have one length.
            let load = |row: &[i8]| unsafe { _mm512_maskz_loadu_epi8(mask, row.as_ptr().add(at)) };
            let right = right.map(load);
            for (sum, right) in of_right.iter_mut().zip(right) {
                *sum = _mm512_dpbusd_epi32(*sum, ones, right);
            }
            for (sums, left) in sums.iter_mut().zip(left) {
                let left = _mm512_xor_si512(load(left), shift);
                for (sum, right) in sums.iter_mut().zip(right) {
                    *sum = _mm512_dpbusd_epi32(*sum, left, right);
                }
            }
        }
        let of_right = of_right.map(|sum| _mm512_reduce_add_epi32(sum));
        sums.map(|sums| {
            let mut row = [0; TILE];
            for ((value, sum), of_right) in row.iter_mut().zip(sums).zip(of_right) {
                *value = _mm512_reduce_add_epi32(sum) - 128 * of_right;
            }
            row
        })
    }
}

#[cfg(test)]
mod tests {
    use half::bf16;

    use super::*;
    use crate::{
        gemm::{
            block::{BLOCK, TILE},
            epilogue::{Output, Replace},
        },
        instruction_set::forced::at_each_level,
        testing::{narrowed, units, values},
    };

    fn codes(count: usize, seed: u64) -> Vec<i8> {
        units(count, seed).iter().map(|x| (x * 127.4).round() as i8).collect()
    }

    /// The product, added to 1 and then doubled.
    fn product(left: Matrix, right: Matrix) -> Vec<f32> {
        let (rows, cols) = (left.scales.len(), right.scales.len());
        let mut out = vec![f32::NAN; rows * cols];
        let doubled = Replace {
            out: Output::new(&mut out, cols),
            scale: 2.0,
        };
        let onto = Onto::new(left, right, &doubled);
        for row in (0..rows).step_by(TILE) {
            for col in (0..cols).step_by(TILE) {
                let (rows, cols) = (row..(row + TILE).min(rows), col..(col + TILE).min(cols));
                // SAFETY: one call after the other, each for a block of the product.
                unsafe { onto.store(rows, cols, &Block([1.0; BLOCK])) };
            }
        }
        out
    }

    #[test]
    fn sums_are_exact_on_odd_shapes() {
        at_each_level(|level| {
            for (rows, cols, depth) in [
                (1, 1, 1),
                (3, 5, 7),
                (4, 4, 64),
                (5, 9, 65),
                (70, 6, 129),
                (2, 130, 576),
                (131, 3, 63),
            ] {
                let (left, right) = (codes(rows * depth, 1), codes(cols * depth, 2));
                let (left_scales, right_scales) = (values(rows, 3), values(cols, 4));
                let matrix = |codes, scales| Matrix {
                    codes,
                    scales,
                    columns: depth,
                };
                let out = product(matrix(&left, &left_scales), matrix(&right, &right_scales));
                for (at, got) in out.iter().enumerate() {
                    let (row, col) = (at / cols, at % cols);
                    let sum: i32 = (0..depth)
                        .map(|k| i32::from(left[row * depth + k]) * i32::from(right[col * depth + k]))
                        .sum();
                    let want = (1.0 + sum as f32 * (left_scales[row] * right_scales[col])) * 2.0;
                    assert_eq!(*got, want, "{level:?}, {rows} x {cols} x {depth} at {row}, {col}");
                }
            }
        });
    }

    #[test]
    fn the_largest_sums_do_not_overflow() {
        at_each_level(|_| {
            for code in [127, -127] {
                let (left, right) = (vec![127i8; MAX_COLUMNS], vec![code; MAX_COLUMNS]);
                let matrix = |codes| Matrix {
                    codes,
                    scales: &[1.0],
                    columns: MAX_COLUMNS,
                };
                let sum = 127.0 * f32::from(code) * MAX_COLUMNS as f32;
                assert_eq!(product(matrix(&left), matrix(&right)), [(1.0 + sum) * 2.0]);
            }
        });
    }

    #[test]
    fn rows_are_rounded_to_codes_without_their_outliers() {
        fn check<E: Element>() {
            let (rows, columns) = (70, 33);
            let mut x = narrowed::<E>(&values(rows * columns, 1));
            (x[5], x[64 * columns + 20]) = (E::narrow(-7.0), E::narrow(6.0));
            x[columns..2 * columns].fill(E::narrow(0.0));
            let (mut codes, mut scales) = (vec![1; rows * columns], vec![0.0; rows]);
            let outliers = quantize_activations(&x, columns, 6.0, &mut codes, &mut scales);
            assert_eq!(outliers, [5, 20]);
            for (at, code) in codes.iter().enumerate() {
                let (row, column) = (at / columns, at % columns);
                let value = x[at].widen();
                if outliers.contains(&column) || row == 1 {
                    assert_eq!(*code, 0, "{row}, {column}");
                } else {
                    let difference = (f32::from(*code) * scales[row] - value).abs();
                    // Half a step, and float16's rounding.
                    let most = 0.501 * scales[row] + value.abs() / 2048.0;
                    assert!(difference <= most, "{row}, {column}: {difference}");
                }
            }
            assert_eq!(scales[1], 0.0);
            assert!(scales.iter().all(|scale| *scale <= 4.0 / 127.0));
            assert_eq!(quantize_activations(&x, columns, 0.0, &mut codes, &mut scales), [0; 0]);
            assert_eq!((codes[5], scales[0]), (-127, 7.0 / 127.0));
        }
        at_each_level(|_| {
            check::<f32>();
            check::<bf16>();
        });
    }
}
