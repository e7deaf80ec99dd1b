//! Orthonormal rows and eigenvectors of symmetric matrices, in float64: what low-rank bases are found with. A set of
//! vectors is a matrix whose rows they are.

use memory::Buffer;
use rayon::prelude::*;

use super::{InstructionSet, reduce};
use crate::Dispatch as _;

/// What is left of a row once its part along those before is gone counts as nothing below this share of its length: the
/// rows come from float32.
const DEPENDENT: f64 = 1e-6;
/// Sweeps of Jacobi's method; it converges quadratically, so that ten are many.
const SWEEPS: usize = 50;
/// Where the iteration for leading eigenvectors ends: residuals, over the largest eigenvalue.
const RESIDUAL: f64 = 1e-8;
/// Vectors beyond those asked for, which speed the iteration up.
const BEYOND: usize = 8;
/// Iterations after which the iteration ends all the same: then eigenvalues around the last one asked for are so close
/// that any basis among their vectors holds as much of the matrix.
const ITERATIONS: usize = 500;

/// Makes rows of `len` elements orthonormal, from the first on, by modified Gram-Schmidt, twice. A row that depends on
/// those before becomes zero.
pub fn orthonormalise(rows: &mut [f64], len: usize) {
    InstructionSet::current().run(
        #[inline(always)]
        || {
            for index in 0..rows.len() / len {
                let (before, rest) = rows.split_at_mut(index * len);
                let row = &mut rest[..len];
                let whole = norm(row);
                for _ in 0..2 {
                    for other in before.chunks(len) {
                        let along = reduce::dot_wide(row, other, |value| value);
                        for (value, other) in row.iter_mut().zip(other) {
                            *value -= along * other;
                        }
                    }
                }
                let left = norm(row);
                let factor = if left > DEPENDENT * whole { 1.0 / left } else { 0.0 };
                row.iter_mut().for_each(|value| *value *= factor);
            }
        },
    );
}

#[inline(always)]
fn norm(row: &[f64]) -> f64 {
    reduce::dot_wide(row, row, |value| value).sqrt()
}

/// Eigenvalues of a symmetric `[n, n]` matrix, the largest first, and their eigenvectors, by cyclic Jacobi rotations
/// (Golub and Van Loan, Matrix Computations, 8.5).
pub fn symmetric(mut a: Vec<f64>, n: usize) -> (Vec<f64>, Vec<f64>) {
    let mut vectors = vec![0.0; n * n];
    (0..n).for_each(|i| vectors[i * n + i] = 1.0);
    let whole: f64 = a.iter().map(|value| value * value).sum();
    for _ in 0..SWEEPS {
        let beside: f64 = (0..n)
            .flat_map(|i| (0..i).map(move |j| (i, j)))
            .map(|(i, j)| a[i * n + j].powi(2))
            .sum();
        if beside <= 1e-30 * whole {
            break;
        }
        for p in 0..n {
            for q in p + 1..n {
                rotate(&mut a, &mut vectors, n, p, q);
            }
        }
    }
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&i, &j| a[j * n + j].total_cmp(&a[i * n + i]));
    let sorted = order
        .iter()
        .flat_map(|&i| vectors[i * n..(i + 1) * n].to_vec())
        .collect();
    (order.iter().map(|&i| a[i * n + i]).collect(), sorted)
}

/// Turns rows and columns `p` and `q` so that their element becomes zero.
fn rotate(a: &mut [f64], vectors: &mut [f64], n: usize, p: usize, q: usize) {
    let element = a[p * n + q];
    if element == 0.0 {
        return;
    }
    let theta = (a[q * n + q] - a[p * n + p]) / (2.0 * element);
    let tangent = theta.signum() / (theta.abs() + (theta * theta + 1.0).sqrt());
    let cosine = 1.0 / (tangent * tangent + 1.0).sqrt();
    let sine = tangent * cosine;
    let turn = |x: &mut f64, y: &mut f64| (*x, *y) = (cosine * *x - sine * *y, sine * *x + cosine * *y);
    for i in 0..n {
        let (mut x, mut y) = (a[i * n + p], a[i * n + q]);
        turn(&mut x, &mut y);
        (a[i * n + p], a[i * n + q]) = (x, y);
    }
    for matrix in [a, vectors] {
        let (above, below) = matrix.split_at_mut(q * n);
        for (x, y) in above[p * n..(p + 1) * n].iter_mut().zip(&mut below[..n]) {
            turn(x, y);
        }
    }
}

/// How many vectors [`leading`] is to start from.
pub fn starts(n: usize, count: usize) -> usize {
    n.min(count + BEYOND)
}

/// The `count` leading eigenvectors of a symmetric `[n, n]` matrix without negative eigenvalues, by subspace iteration
/// with Rayleigh-Ritz steps (Saad, Numerical Methods for Large Eigenvalue Problems, 5.2), from [`starts`] random
/// vectors. With as many as the matrix has rows, the first step is exact. Eigenvectors of eigenvalue zero may be zero.
/// Matrices with [`starts`] rows and columns are the host's.
pub fn leading(a: &Buffer<f64>, n: usize, count: usize, mut vectors: Buffer<f64>) -> Buffer<f64> {
    let [mut products, mut images, mut turned] = [(); 3].map(|()| Buffer::<f64>::zeros(vectors.len()));
    let kept = count.min(n) * n;
    if !memory::is_dry_run() {
        for _ in 0..ITERATIONS {
            let converged = iterate(
                a.values(),
                n,
                count,
                [&mut vectors, &mut products, &mut images, &mut turned].map(Buffer::values_mut),
            );
            if converged {
                break;
            }
            std::mem::swap(&mut vectors, &mut images);
        }
    }
    drop((products, images, turned));
    let mut leading = Buffer::from_fn(kept, |at| vectors.values()[at]);
    drop(vectors);
    orthonormalise(leading.values_mut(), n);
    leading
}

/// One step of the iteration: true if the vectors are near enough. If not, the images are the next step's vectors.
fn iterate(a: &[f64], n: usize, count: usize, [vectors, products, images, turned]: [&mut [f64]; 4]) -> bool {
    let wide = vectors.len() / n;
    orthonormalise(vectors, n);
    compute_images(a, n, vectors, products, images);
    let projected = (0..wide * wide)
        .map(|at| dot(row(vectors, n, at / wide), row(images, n, at % wide)))
        .collect();
    let (values, turn) = symmetric(projected, wide);
    combine(&turn, wide, vectors, n, turned);
    vectors.copy_from_slice(turned);
    combine(&turn, wide, images, n, turned);
    images.copy_from_slice(turned);
    let residual = |index: usize| {
        let pairs = row(images, n, index).iter().zip(row(vectors, n, index));
        pairs
            .map(|(image, vector)| (image - values[index] * vector).powi(2))
            .sum::<f64>()
    };
    let worst = (0..count.min(wide)).map(residual).fold(0.0, f64::max).sqrt();
    worst <= RESIDUAL * values[0].max(0.0)
}

fn row(rows: &[f64], len: usize, index: usize) -> &[f64] {
    &rows[index * len..(index + 1) * len]
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    InstructionSet::current().run(
        #[inline(always)]
        || reduce::dot_wide(a, b, |value| value),
    )
}

/// `images = a · v` for every vector v. `products` has as many elements, and whatever values.
fn compute_images(a: &[f64], n: usize, vectors: &[f64], products: &mut [f64], images: &mut [f64]) {
    let count = vectors.len() / n;
    let level = InstructionSet::current();
    products
        .par_chunks_mut(count)
        .zip(a.par_chunks(n))
        .for_each(|(out, row)| {
            level.run(
                #[inline(always)]
                || {
                    for (out, vector) in out.iter_mut().zip(vectors.chunks(n)) {
                        *out = reduce::dot_wide(row, vector, |value| value);
                    }
                },
            );
        });
    for (at, image) in images.iter_mut().enumerate() {
        *image = products[at % n * count + at / n];
    }
}

/// `out = turn [_, count] · rows [count, len]`.
pub fn combine(turn: &[f64], count: usize, rows: &[f64], len: usize, out: &mut [f64]) {
    let level = InstructionSet::current();
    out.par_chunks_mut(len)
        .zip(turn.par_chunks(count))
        .for_each(|(out, factors)| {
            level.run(
                #[inline(always)]
                || {
                    out.fill(0.0);
                    for (factor, row) in factors.iter().zip(rows.chunks(len)) {
                        for (out, value) in out.iter_mut().zip(row) {
                            *out += factor * value;
                        }
                    }
                },
            );
        });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{instruction_set::forced::at_each_level, testing};

    fn values(count: usize, seed: u64) -> Vec<f64> {
        testing::values(count, seed).into_iter().map(f64::from).collect()
    }

    /// A symmetric matrix of these eigenvalues, and its eigenvectors.
    fn matrix(eigenvalues: &[f64], seed: u64) -> (Vec<f64>, Vec<f64>) {
        let n = eigenvalues.len();
        let mut vectors = values(n * n, seed);
        orthonormalise(&mut vectors, n);
        let mut a = vec![0.0; n * n];
        for (value, vector) in eigenvalues.iter().zip(vectors.chunks(n)) {
            for (at, a) in a.iter_mut().enumerate() {
                *a += value * vector[at / n] * vector[at % n];
            }
        }
        (a, vectors)
    }

    fn assert_orthonormal(rows: &[f64], len: usize) {
        for (i, a) in rows.chunks(len).enumerate() {
            for (j, b) in rows.chunks(len).enumerate() {
                let want = if i == j { 1.0 } else { 0.0 };
                assert!((dot(a, b) - want).abs() < 1e-12, "{i}, {j}: {}", dot(a, b));
            }
        }
    }

    #[test]
    fn rows_become_orthonormal_and_dependent_ones_zero() {
        at_each_level(|_| {
            let mut rows = values(5 * 200, 1);
            orthonormalise(&mut rows, 200);
            assert_orthonormal(&rows, 200);
            // The third is the sum of the first two; the fifth is zero.
            let mut rows = values(5 * 37, 2);
            for i in 0..37 {
                rows[2 * 37 + i] = rows[i] + rows[37 + i];
                rows[4 * 37 + i] = 0.0;
            }
            orthonormalise(&mut rows, 37);
            assert!(
                rows[2 * 37..3 * 37]
                    .iter()
                    .chain(&rows[4 * 37..])
                    .all(|value| *value == 0.0)
            );
            let kept = [&rows[..2 * 37], &rows[3 * 37..4 * 37]].concat();
            assert_orthonormal(&kept, 37);
        });
    }

    #[test]
    fn jacobi_finds_every_eigenvalue_with_its_vector() {
        let eigenvalues = [9.0, 9.0, 2.5, 1e-3, 0.0, 0.0, -4.0];
        let (a, _) = matrix(&eigenvalues, 3);
        let (got, vectors) = symmetric(a.clone(), 7);
        for (got, want) in got.iter().zip(eigenvalues) {
            assert!((got - want).abs() < 1e-12, "{got} against {want}");
        }
        assert_orthonormal(&vectors, 7);
        for (value, vector) in got.iter().zip(vectors.chunks(7)) {
            let (mut products, mut image) = ([f64::NAN; 7], [f64::NAN; 7]);
            compute_images(&a, 7, vector, &mut products, &mut image);
            let residual = image.iter().zip(vector).map(|(x, v)| (x - value * v).abs());
            assert!(residual.fold(0.0, f64::max) < 1e-12);
        }
    }

    #[test]
    fn leading_eigenvectors_span_what_they_should() {
        // Falling slowly, falling fast, with a cluster inside, and of low rank.
        let slow: Vec<f64> = (0..60).map(|i| 1.0 / (1.0 + i as f64)).collect();
        let fast: Vec<f64> = (0..60).map(|i| 0.5f64.powi(i)).collect();
        let cluster: Vec<f64> = (0..60).map(|i| if i < 3 { 2.0 } else { 1.0 / i as f64 }).collect();
        let low: Vec<f64> = (0..60)
            .map(|i| if i < 5 { 3.0 - 0.5 * i as f64 } else { 0.0 })
            .collect();
        at_each_level(|_| {
            for (seed, eigenvalues) in [&slow, &fast, &cluster, &low].into_iter().enumerate() {
                let (a, want) = matrix(eigenvalues, seed as u64);
                let got = leading(&a.into(), 60, 4, values(starts(60, 4) * 60, 9).into());
                assert_orthonormal(got.values(), 60);
                // All of each wanted vector lies in the span.
                for (index, want) in want.chunks(60).take(4).enumerate() {
                    let inside: f64 = got.values().chunks(60).map(|got| dot(got, want).powi(2)).sum();
                    assert!((inside - 1.0).abs() < 1e-10, "{seed}: {inside} of vector {index}");
                }
            }
        });
    }

    #[test]
    fn small_matrices_are_solved_in_one_step() {
        let (a, want) = matrix(&[1.0, 1.0 - 1e-6, 0.5], 5);
        let got = leading(&a.into(), 3, 1, values(9, 6).into());
        assert!((dot(got.values(), &want[..3]).abs() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn of_nothing_there_is_no_direction() {
        assert_eq!(leading(&Buffer::zeros(9), 3, 2, values(9, 6).into()).len(), 6);
    }
}
