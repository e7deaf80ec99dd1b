//! Rotations from skew-symmetric matrices, by Cayley's transform: `(I - Q)(I + Q)⁻¹`, or a sum of powers of Q near it
//! (Qiu et al. 2025, arXiv:2506.19847). A block is `[size, size]`, row-major; its Q is given by the upper triangle, row
//! by row, and is minus its transpose.
//!
//! Some blocks are computed at a time, as many as [`GROUP`] says, and all threads share their products.

use std::cmp::Ordering;

use rayon::prelude::*;

use super::InstructionSet;
use super::gemm::epilogue::{Output, Replace};
use super::gemm::{Dense, Operand, Segment, Term, product};
use super::rows::rows_per_part;
use crate::Dispatch as _;

/// Elements of the blocks that are computed at a time, if a block has no more by itself.
const GROUP: usize = 1 << 16;

/// The elements above the diagonal.
pub fn triangle(size: usize) -> usize {
    size * (size - 1) / 2
}

/// Elements of the scratch of [`rotations`].
pub fn rotation_scratch(blocks: usize, size: usize, terms: Option<usize>) -> usize {
    let squares = if terms.is_some() { 2 } else { 0 };
    squares * group(blocks, size) * size * size
}

/// Elements of the scratch of [`triangle_gradients`].
pub fn gradient_scratch(blocks: usize, size: usize, terms: Option<usize>) -> usize {
    let squares = if terms.is_some() { 4 } else { 3 };
    squares * group(blocks, size) * size * size
}

/// How many blocks are computed at a time.
fn group(blocks: usize, size: usize) -> usize {
    (GROUP / (size * size)).clamp(1, blocks.max(1))
}

/// The rotation of each block. `terms` counts those of the sum of powers; `None` solves for the inverse.
pub fn rotations(triangles: &[f32], size: usize, terms: Option<usize>, scratch: &mut [f32], out: &mut [f32]) {
    if size < 2 {
        return out.fill(1.0);
    }
    let group = group(out.len() / (size * size), size);
    let triangles = triangles.chunks(group * triangle(size));
    for (triangles, out) in triangles.zip(out.chunks_mut(group * size * size)) {
        match terms {
            Some(terms) => {
                let (q, next) = scratch[..2 * out.len()].split_at_mut(out.len());
                skew(triangles, size, 1.0, q);
                series(q, &factors(terms), size, next, out);
            }
            // The same as 2 (I + Q)⁻¹ - I.
            None => {
                skew(triangles, size, 1.0, out);
                add_diagonal(out, size, 1.0);
                invert(out, size);
                out.iter_mut().for_each(|value| *value *= 2.0);
                add_diagonal(out, size, -1.0);
            }
        }
    }
}

/// The gradients of the triangles from those of the rotations.
pub fn triangle_gradients(
    triangles: &[f32],
    size: usize,
    terms: Option<usize>,
    d_rotations: &[f32],
    scratch: &mut [f32],
    out: &mut [f32],
) {
    if size < 2 {
        return;
    }
    let group = group(d_rotations.len() / (size * size), size);
    let triangles = triangles.chunks(group * triangle(size));
    let groups = triangles.zip(d_rotations.chunks(group * size * size));
    for ((triangles, gradient), out) in groups.zip(out.chunks_mut(group * triangle(size))) {
        // The gradient is the derivative at Q's transpose, -Q, along the gradient of the rotation.
        let dq = match terms {
            Some(terms) => series_derivative(triangles, &factors(terms), size, gradient, scratch),
            None => exact_derivative(triangles, size, gradient, scratch),
        };
        let blocks = dq.par_chunks(size * size).zip(out.par_chunks_mut(triangle(size)));
        blocks.for_each(|(dq, out)| {
            let mut out = out.iter_mut();
            for row in 0..size {
                for (col, out) in (row + 1..size).zip(&mut out) {
                    *out = dq[row * size + col] - dq[col * size + row];
                }
            }
        });
    }
}

/// Q of each block, times a sign.
fn skew(triangles: &[f32], size: usize, sign: f32, out: &mut [f32]) {
    let place = |row: usize, col: usize| row * (2 * size - row - 1) / 2 + col - row - 1;
    let rows = out.par_chunks_mut(size).with_min_len(rows_per_part(size)).enumerate();
    rows.for_each(|(at, out)| {
        let (block, row) = (at / size, at % size);
        let triangle = &triangles[block * triangle(size)..][..triangle(size)];
        for (col, out) in out.iter_mut().enumerate() {
            *out = match col.cmp(&row) {
                Ordering::Less => -sign * triangle[place(col, row)],
                Ordering::Equal => 0.0,
                Ordering::Greater => sign * triangle[place(row, col)],
            };
        }
    });
}

/// Adds a number to the diagonal of each block.
fn add_diagonal(blocks: &mut [f32], size: usize, number: f32) {
    for block in blocks.chunks_mut(size * size) {
        block.iter_mut().step_by(size + 1).for_each(|value| *value += number);
    }
}

/// The sum of products of two blocks each, for every block.
fn multiply(size: usize, terms: &[[&[f32]; 2]], out: &mut [f32]) {
    let square = size * size;
    let block = |at: usize| {
        terms
            .iter()
            .map(move |pair| pair.map(|of| Dense::new(&of[at * square..][..square], size)))
    };
    let operands: Vec<[Dense<f32>; 2]> = (0..out.len() / square).flat_map(block).collect();
    let outs = out.chunks_mut(square).map(|out| Output::new(out, size));
    let epilogues: Vec<_> = outs.map(|out| Replace { out, scale: 1.0 }).collect();
    let segments = operands.chunks(terms.len()).zip(&epilogues);
    let segments = segments.map(|(operands, epilogue)| Segment {
        cols: size,
        terms: operands
            .iter()
            .map(|[left, right]| Term::<f32> {
                left: Operand::depth_last(left),
                right: Operand::depth_first(right),
                depth: size,
            })
            .collect(),
        epilogue,
    });
    product(size, &segments.collect::<Vec<_>>());
}

/// Writes the inverse of each block in its place, by elimination. The symmetric part of `I + Q` is I: its pivots are 1
/// at the least, and rows need not be exchanged.
fn invert(blocks: &mut [f32], size: usize) {
    let level = InstructionSet::current();
    blocks.par_chunks_mut(size * size).for_each(|block| {
        for at in 0..size {
            let (above, rest) = block.split_at_mut(at * size);
            let (pivots, below) = rest.split_at_mut(size);
            let scale = 1.0 / pivots[at];
            pivots[at] = 1.0;
            pivots.iter_mut().for_each(|value| *value *= scale);
            let rows = above.par_chunks_mut(size).chain(below.par_chunks_mut(size));
            rows.with_min_len(rows_per_part(size)).for_each(|row| {
                level.run(
                    #[inline(always)]
                    || {
                        let factor = std::mem::take(&mut row[at]);
                        let pairs = row.iter_mut().zip(&*pivots);
                        pairs.for_each(|(value, pivot)| *value -= factor * pivot);
                    },
                );
            });
        }
    });
}

/// The factor of each power of Q, from that of I on. PEFT has the same sum for three terms and for four.
fn factors(terms: usize) -> Vec<f32> {
    match terms {
        0 | 1 => vec![1.0],
        2 => vec![1.0, 2.0],
        _ => {
            let highest = (terms - 1).max(3);
            let mut factors = vec![2.0; highest + 1];
            (factors[0], factors[highest]) = (1.0, 1.0);
            factors
        }
    }
}

/// The sum of powers of Q by Horner's rule.
fn series(q: &[f32], factors: &[f32], size: usize, next: &mut [f32], sum: &mut [f32]) {
    let [below @ .., before, highest] = factors else {
        sum.fill(0.0);
        return add_diagonal(sum, size, 1.0);
    };
    line(q, *highest, *before, size, sum);
    for factor in below.iter().rev() {
        multiply(size, &[[q, sum]], next);
        add_diagonal(next, size, *factor);
        sum.copy_from_slice(next);
    }
}

/// A multiple of Q, and of I.
fn line(q: &[f32], factor: f32, number: f32, size: usize, out: &mut [f32]) {
    out.iter_mut().zip(q).for_each(|(out, q)| *out = factor * q);
    add_diagonal(out, size, number);
}

/// The derivative of the sum at -Q along a direction, by Horner's rule.
fn series_derivative<'a>(
    triangles: &[f32],
    factors: &[f32],
    size: usize,
    direction: &[f32],
    scratch: &'a mut [f32],
) -> &'a [f32] {
    let [q, sum, derivative, next] = squares(scratch, direction.len());
    let [below @ .., before, highest] = factors else {
        derivative.fill(0.0);
        return derivative;
    };
    skew(triangles, size, -1.0, q);
    line(q, *highest, *before, size, sum);
    line(direction, *highest, 0.0, size, derivative);
    for (at, factor) in below.iter().enumerate().rev() {
        multiply(size, &[[direction, sum], [q, derivative]], next);
        derivative.copy_from_slice(next);
        if at > 0 {
            multiply(size, &[[q, sum]], next);
            add_diagonal(next, size, *factor);
            sum.copy_from_slice(next);
        }
    }
    derivative
}

/// The derivative of `2 (I + Q)⁻¹ - I` at -Q along a direction: `-2 (I - Q)⁻¹ direction (I - Q)⁻¹`.
fn exact_derivative<'a>(triangles: &[f32], size: usize, direction: &[f32], scratch: &'a mut [f32]) -> &'a [f32] {
    let [inverse, product, derivative] = squares(scratch, direction.len());
    skew(triangles, size, -1.0, inverse);
    add_diagonal(inverse, size, 1.0);
    invert(inverse, size);
    multiply(size, &[[direction, inverse]], product);
    multiply(size, &[[inverse, product]], derivative);
    derivative.iter_mut().for_each(|value| *value *= -2.0);
    derivative
}

/// Parts of the scratch, of `len` elements each.
fn squares<const N: usize>(mut scratch: &mut [f32], len: usize) -> [&mut [f32]; N] {
    std::array::from_fn(|_| {
        let (square, rest) = std::mem::take(&mut scratch).split_at_mut(len);
        scratch = rest;
        square
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_close, units};

    fn rotated(triangles: &[f32], blocks: usize, size: usize, terms: Option<usize>) -> Vec<f32> {
        let mut scratch = vec![f32::NAN; rotation_scratch(blocks, size, terms)];
        let mut out = vec![f32::NAN; blocks * size * size];
        rotations(triangles, size, terms, &mut scratch, &mut out);
        out
    }

    fn gradients(triangles: &[f32], size: usize, terms: Option<usize>, d_rotations: &[f32]) -> Vec<f32> {
        let blocks = d_rotations.len() / (size * size);
        let mut scratch = vec![f32::NAN; gradient_scratch(blocks, size, terms)];
        let mut out = vec![f32::NAN; triangles.len()];
        triangle_gradients(triangles, size, terms, d_rotations, &mut scratch, &mut out);
        out
    }

    fn triangles(blocks: usize, size: usize) -> Vec<f32> {
        let values = units(blocks * triangle(size), 3);
        // The norm of Q is about one.
        values.iter().map(|value| value / (size as f32).sqrt()).collect()
    }

    /// The product of two matrices by a plain loop.
    fn times(a: &[f64], b: &[f64], size: usize) -> Vec<f64> {
        let element = |at: usize| {
            (0..size)
                .map(|k| a[at / size * size + k] * b[k * size + at % size])
                .sum()
        };
        (0..size * size).map(element).collect()
    }

    fn wide(values: &[f32]) -> Vec<f64> {
        values.iter().map(|value| f64::from(*value)).collect()
    }

    /// Sizes below and above a tile of products, with several groups of blocks, and one of a block alone.
    const SHAPES: [(usize, usize); 5] = [(3, 7), (1, 1), (70, 32), (5, 160), (2, 300)];

    #[test]
    fn exact_rotations_are_those_of_plain_loops() {
        for (blocks, size) in SHAPES {
            let w = triangles(blocks, size);
            let exact = rotated(&w, blocks, size, None);
            for (at, block) in exact.chunks(size * size).enumerate().skip(blocks - 1) {
                // R (I + Q) = I - Q.
                let mut q = vec![0.0; size * size];
                let mut values = w[at * triangle(size)..].iter().map(|value| f64::from(*value));
                for row in 0..size {
                    for col in row + 1..size {
                        let value = values.next().unwrap();
                        (q[row * size + col], q[col * size + row]) = (value, -value);
                    }
                }
                let plus_identity = |sign: f64| -> Vec<f64> {
                    let identity = |at: usize| if at.is_multiple_of(size + 1) { 1.0 } else { 0.0 };
                    q.iter().enumerate().map(|(at, q)| identity(at) + sign * q).collect()
                };
                let product = times(&wide(block), &plus_identity(1.0), size);
                let product = product.iter().map(|value| *value as f32);
                assert_close(product, &plus_identity(-1.0), 3e-6, &format!("{blocks} of {size}"));
            }
        }
    }

    #[test]
    fn sums_come_near_and_are_those_of_plain_loops() {
        for (blocks, size) in SHAPES {
            // PEFT's Q is the negative of the one that its solved form has.
            let w: Vec<f32> = triangles(blocks, size).iter().map(|value| value / 4.0).collect();
            let negative: Vec<f32> = w.iter().map(|value| -value).collect();
            let exact = rotated(&w, blocks, size, None);
            let near = |terms| {
                let sum = rotated(&negative, blocks, size, Some(terms));
                let differences = sum.iter().zip(&exact).map(|(a, b)| (a - b).abs());
                differences.fold(0f32, f32::max)
            };
            assert!(near(12) <= near(5) && near(12) < 1e-3, "{} {}", near(12), near(5));
            assert_eq!(rotated(&w, blocks, size, Some(3)), rotated(&w, blocks, size, Some(4)));
            // I + 2Q + 2Q² + Q³, with Q from the sum of two terms.
            if size > 1 {
                let of_two = rotated(&w, blocks, size, Some(2));
                let first = wide(&of_two[..size * size]);
                let identity = |at: usize| if at.is_multiple_of(size + 1) { 1.0 } else { 0.0 };
                let q: Vec<f64> = first
                    .iter()
                    .enumerate()
                    .map(|(at, value)| (value - identity(at)) / 2.0)
                    .collect();
                let square = times(&q, &q, size);
                let cube = times(&square, &q, size);
                let want = |at: usize| identity(at) + 2.0 * (q[at] + square[at]) + cube[at];
                let want: Vec<f64> = (0..size * size).map(want).collect();
                let got = rotated(&w, blocks, size, Some(4));
                assert_close(
                    got[..size * size].iter().copied(),
                    &want,
                    2e-6,
                    &format!("{blocks} of {size}"),
                );
            }
        }
    }

    #[test]
    fn gradients_are_those_of_finite_differences() {
        for (blocks, size) in [(2, 5), (90, 33), (2, 260)] {
            let w = triangles(blocks, size);
            let weights: Vec<f32> = (0..blocks * size * size).map(|at| (at % 13) as f32 - 6.0).collect();
            for terms in [None, Some(1), Some(2), Some(3), Some(5), Some(8)] {
                let gradient = gradients(&w, size, terms, &weights);
                // Along one number of a small block, and along all of large ones.
                let directions: Vec<Vec<f32>> = match w.len() {
                    0..100 => (0..w.len())
                        .map(|at| (0..w.len()).map(|of| if of == at { 1.0 } else { 0.0 }).collect())
                        .collect(),
                    len => vec![units(len, 5).iter().map(|value| value / (size as f32).sqrt()).collect()],
                };
                for direction in directions {
                    let value = |by: f32| -> f64 {
                        let w: Vec<f32> = w.iter().zip(&direction).map(|(w, along)| w + by * along).collect();
                        let out = rotated(&w, blocks, size, terms);
                        out.iter()
                            .zip(&weights)
                            .map(|(a, b)| f64::from(*a) * f64::from(*b))
                            .sum()
                    };
                    let slope = (value(1e-2) - value(-1e-2)) / 2e-2;
                    let pairs = gradient.iter().zip(&direction);
                    let along: f64 = pairs.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
                    assert!(
                        (slope - along).abs() < 2e-2 * slope.abs().max(1.0),
                        "{terms:?}, {blocks} of {size}: {slope} and {along}"
                    );
                }
            }
        }
    }

    #[test]
    fn results_do_not_depend_on_the_threads() {
        for (blocks, size) in [(70, 32), (2, 300)] {
            for terms in [None, Some(5)] {
                let w = triangles(blocks, size);
                let run = |threads| {
                    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                    pool.install(|| {
                        let rotations = rotated(&w, blocks, size, terms);
                        let gradients = gradients(&w, size, terms, &rotations);
                        (rotations, gradients)
                    })
                };
                assert_eq!(run(1), run(3), "{blocks} of {size}, {terms:?}");
            }
        }
    }
}
