//! Rotations from skew-symmetric matrices, by Cayley's transform: `(I - Q)(I + Q)⁻¹`, or a sum of powers of Q near it
//! (Qiu et al. 2025, arXiv:2506.19847). A block is `[size, size]`, row-major; its Q is given by the upper triangle, row
//! by row, and is minus its transpose.

use rayon::prelude::*;

/// The elements above the diagonal.
pub fn triangle(size: usize) -> usize {
    size * (size - 1) / 2
}

/// The rotation of each block. `terms` counts those of the sum of powers; `None` solves for the inverse.
pub fn rotations(triangles: &[f32], size: usize, terms: Option<usize>, out: &mut [f32]) {
    if size < 2 {
        return out.fill(1.0);
    }
    let blocks = triangles
        .par_chunks(triangle(size))
        .zip(out.par_chunks_mut(size * size));
    blocks.for_each(|(triangle, out)| {
        let q = Square::skew(triangle, size);
        let rotation = match terms {
            Some(terms) => series(&q, terms).0,
            None => exact(&q).0,
        };
        for (out, value) in out.iter_mut().zip(&rotation.0) {
            *out = *value as f32;
        }
    });
}

/// The gradients of the triangles from those of the rotations.
pub fn triangle_gradients(triangles: &[f32], size: usize, terms: Option<usize>, d_rotations: &[f32], out: &mut [f32]) {
    if size < 2 {
        return;
    }
    let of_rotations = d_rotations.par_chunks(size * size);
    let blocks = triangles.par_chunks(triangle(size)).zip(of_rotations);
    let blocks = blocks.zip(out.par_chunks_mut(triangle(size)));
    blocks.for_each(|((triangle, d_rotation), out)| {
        let q = Square::skew(triangle, size);
        let gradient = Square(d_rotation.iter().map(|value| f64::from(*value)).collect(), size);
        let dq = match terms {
            Some(terms) => series_gradient(&q, terms, &gradient),
            None => exact_gradient(&q, &gradient),
        };
        let mut out = out.iter_mut();
        for row in 0..size {
            for (col, out) in (row + 1..size).zip(&mut out) {
                *out = (dq.at(row, col) - dq.at(col, row)) as f32;
            }
        }
    });
}

/// A square matrix with its size.
#[derive(Clone)]
struct Square(Vec<f64>, usize);

impl Square {
    fn zero(size: usize) -> Self {
        Self(vec![0.0; size * size], size)
    }

    fn identity(size: usize) -> Self {
        let mut identity = Self::zero(size);
        identity.0.iter_mut().step_by(size + 1).for_each(|value| *value = 1.0);
        identity
    }

    fn skew(triangle: &[f32], size: usize) -> Self {
        let mut skew = Self::zero(size);
        let mut triangle = triangle.iter();
        for row in 0..size {
            for (col, value) in (row + 1..size).zip(&mut triangle) {
                skew.0[row * size + col] = f64::from(*value);
                skew.0[col * size + row] = -f64::from(*value);
            }
        }
        skew
    }

    fn at(&self, row: usize, col: usize) -> f64 {
        self.0[row * self.1 + col]
    }

    fn transposed(&self) -> Self {
        let size = self.1;
        let values = (0..size * size).map(|at| self.at(at % size, at / size));
        Self(values.collect(), size)
    }

    fn times(&self, other: &Self) -> Self {
        let size = self.1;
        let mut product = Self::zero(size);
        for (row, out) in product.0.chunks_mut(size).enumerate() {
            for (at, other) in other.0.chunks(size).enumerate() {
                let factor = self.at(row, at);
                out.iter_mut()
                    .zip(other)
                    .for_each(|(out, other)| *out += factor * other);
            }
        }
        product
    }

    /// Adds another times a factor.
    fn add(&mut self, factor: f64, other: &Self) {
        let pairs = self.0.iter_mut().zip(&other.0);
        pairs.for_each(|(value, other)| *value += factor * other);
    }

    /// The inverse, by elimination with the largest pivots. That of `I + Q` is always there.
    fn inverse(&self) -> Self {
        let size = self.1;
        let (mut left, mut right) = (self.clone(), Self::identity(size));
        for at in 0..size {
            let magnitude = |row: &usize| left.at(*row, at).abs();
            let pivot = (at..size)
                .max_by(|a, b| magnitude(a).total_cmp(&magnitude(b)))
                .unwrap_or(at);
            for matrix in [&mut left, &mut right] {
                for col in 0..size {
                    matrix.0.swap(at * size + col, pivot * size + col);
                }
            }
            let scale = 1.0 / left.at(at, at);
            for matrix in [&mut left, &mut right] {
                matrix.0[at * size..][..size]
                    .iter_mut()
                    .for_each(|value| *value *= scale);
            }
            for row in (0..size).filter(|row| *row != at) {
                let factor = left.at(row, at);
                for matrix in [&mut left, &mut right] {
                    for col in 0..size {
                        let value = matrix.at(at, col);
                        matrix.0[row * size + col] -= factor * value;
                    }
                }
            }
        }
        right
    }
}

/// The factor of each power of Q, from the first on. PEFT has the same sum for three terms and for four.
fn factors(terms: usize) -> Vec<f64> {
    match terms {
        0 | 1 => Vec::new(),
        2 => vec![2.0],
        _ => {
            let highest = (terms - 1).max(3);
            (1..=highest)
                .map(|power| if power < highest { 2.0 } else { 1.0 })
                .collect()
        }
    }
}

/// The sum of powers, and the powers.
fn series(q: &Square, terms: usize) -> (Square, Vec<Square>) {
    let mut sum = Square::identity(q.1);
    let mut powers: Vec<Square> = Vec::new();
    for factor in factors(terms) {
        let power = powers.last().map_or_else(|| q.clone(), |last| last.times(q));
        sum.add(factor, &power);
        powers.push(power);
    }
    (sum, powers)
}

fn series_gradient(q: &Square, terms: usize, gradient: &Square) -> Square {
    let (factors, (_, powers), transposed) = (factors(terms), series(q, terms), q.transposed());
    let mut dq = Square::zero(q.1);
    // Of the power that is looked at.
    let mut d_power = Square::zero(q.1);
    for (at, factor) in factors.iter().enumerate().rev() {
        d_power.add(*factor, gradient);
        match at.checked_sub(1) {
            Some(before) => {
                dq.add(1.0, &powers[before].transposed().times(&d_power));
                d_power = d_power.times(&transposed);
            }
            None => dq.add(1.0, &d_power),
        }
    }
    dq
}

/// `(I - Q)(I + Q)⁻¹`, and the inverse.
fn exact(q: &Square) -> (Square, Square) {
    let (mut sum, mut difference) = (Square::identity(q.1), Square::identity(q.1));
    sum.add(1.0, q);
    difference.add(-1.0, q);
    let inverse = sum.inverse();
    (difference.times(&inverse), inverse)
}

/// From `dR = -(I + R) dQ (I + Q)⁻¹`.
fn exact_gradient(q: &Square, gradient: &Square) -> Square {
    let (rotation, inverse) = exact(q);
    let mut left = Square::identity(q.1);
    left.add(1.0, &rotation);
    let product = left.transposed().times(gradient).times(&inverse.transposed());
    let mut dq = Square::zero(q.1);
    dq.add(-1.0, &product);
    dq
}

#[cfg(test)]
mod tests {
    use super::*;

    fn triangles(blocks: usize, size: usize) -> Vec<f32> {
        let count = blocks * triangle(size);
        (0..count).map(|at| ((at * 7919 % 101) as f32 - 50.0) / 400.0).collect()
    }

    #[test]
    fn exact_rotations_are_orthogonal_and_sums_come_near() {
        let (blocks, size) = (3, 7);
        let w = triangles(blocks, size);
        let rotations_of = |terms| {
            let mut out = vec![0f32; blocks * size * size];
            rotations(&w, size, terms, &mut out);
            out
        };
        let exact = rotations_of(None);
        for block in exact.chunks(size * size) {
            let block = Square(block.iter().map(|value| f64::from(*value)).collect(), size);
            let square = block.times(&block.transposed());
            for (value, one) in square.0.iter().zip(Square::identity(size).0) {
                assert!((value - one).abs() < 1e-6, "{value} is not {one}");
            }
        }
        // PEFT's Q is the negative of the one that its solved form has.
        let near = |terms| {
            let w: Vec<f32> = w.iter().map(|value| -value).collect();
            let mut out = vec![0f32; exact.len()];
            rotations(&w, size, Some(terms), &mut out);
            let differences = out.iter().zip(&exact).map(|(a, b)| (a - b).abs());
            differences.fold(0f32, f32::max)
        };
        assert!(near(12) < near(5) && near(12) < 1e-3, "{} {}", near(12), near(5));
        assert_eq!(rotations_of(Some(3)), rotations_of(Some(4)));
    }

    #[test]
    fn gradients_are_those_of_finite_differences() {
        let (blocks, size) = (2, 5);
        let w = triangles(blocks, size);
        let weights: Vec<f32> = (0..blocks * size * size).map(|at| (at % 13) as f32 - 6.0).collect();
        for terms in [None, Some(2), Some(3), Some(5), Some(8)] {
            let value = |w: &[f32]| -> f64 {
                let mut out = vec![0f32; weights.len()];
                rotations(w, size, terms, &mut out);
                out.iter().zip(&weights).map(|(a, b)| f64::from(a * b)).sum()
            };
            let mut gradient = vec![0f32; w.len()];
            triangle_gradients(&w, size, terms, &weights, &mut gradient);
            for at in 0..w.len() {
                let moved = |by: f32| {
                    let mut moved = w.clone();
                    moved[at] += by;
                    value(&moved)
                };
                let slope = (moved(1e-2) - moved(-1e-2)) / 2e-2;
                assert!(
                    (slope - f64::from(gradient[at])).abs() < 2e-2 * slope.abs().max(1.0),
                    "{terms:?}, {at}: {slope} and {}",
                    gradient[at]
                );
            }
        }
    }
}
