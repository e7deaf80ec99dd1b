//! The Kronecker product of two matrices, `scale · W₁ ⊗ W₂`: its rows, and the gradients of the matrices.

use rayon::prelude::*;

use super::InstructionSet;
use crate::Dispatch as _;

/// Two matrices, row-major, and a factor of each element of their product.
#[derive(Debug, Clone, Copy)]
pub struct Matrices<'a> {
    /// W₁.
    pub first: &'a [f32],
    /// W₂.
    pub second: &'a [f32],
    /// Columns of W₁.
    pub first_columns: usize,
    /// Rows and columns of W₂.
    pub second_shape: [usize; 2],
    /// The factor.
    pub scale: f32,
}

impl Matrices<'_> {
    /// Columns of the product.
    pub fn columns(&self) -> usize {
        self.first_columns * self.second_shape[1]
    }

    /// Elements of a row, from column `start` on.
    pub fn row(&self, row: usize, start: usize, out: &mut [f32]) {
        let [rows, columns] = self.second_shape;
        let first = &self.first[row / rows * self.first_columns..][..self.first_columns];
        let second = &self.second[row % rows * columns..][..columns];
        InstructionSet::current().run(
            #[inline(always)]
            || {
                let mut at = start;
                let mut out = out;
                while !out.is_empty() {
                    let (part, rest) = out.split_at_mut(out.len().min(columns - at % columns));
                    let factor = first[at / columns] * self.scale;
                    for (out, value) in part.iter_mut().zip(&second[at % columns..]) {
                        *out = factor * value;
                    }
                    at += part.len();
                    out = rest;
                }
            },
        );
    }

    /// Adds the gradients of both, given those of the product's rows from `start` on. Sums run over rows in their
    /// order, whatever the number of threads.
    pub fn add_gradients(&self, start: usize, rows: &[f32], d_first: &mut [f32], d_second: &mut [f32]) {
        let ([of_second, columns], width) = (self.second_shape, self.columns());
        let end = start + rows.len() / width;
        let row = |at: usize| &rows[(at - start) * width..][..width];
        let level = InstructionSet::current();
        d_first
            .par_chunks_mut(self.first_columns)
            .enumerate()
            .for_each(|(block, out)| {
                let range = (block * of_second).max(start)..((block + 1) * of_second).min(end);
                level.run(
                    #[inline(always)]
                    || {
                        for at in range {
                            let second = &self.second[at % of_second * columns..][..columns];
                            for (out, part) in out.iter_mut().zip(row(at).chunks(columns)) {
                                let products = part.iter().zip(second).map(|(a, b)| a * b);
                                *out += self.scale * products.sum::<f32>();
                            }
                        }
                    },
                );
            });
        d_second.par_chunks_mut(columns).enumerate().for_each(|(at, out)| {
            let before = start.saturating_sub(at).div_ceil(of_second);
            level.run(
                #[inline(always)]
                || {
                    for block in before.. {
                        let at = block * of_second + at;
                        if at >= end {
                            break;
                        }
                        let first = &self.first[block * self.first_columns..][..self.first_columns];
                        for (factor, part) in first.iter().zip(row(at).chunks(columns)) {
                            let factor = factor * self.scale;
                            out.iter_mut().zip(part).for_each(|(sum, value)| *sum += factor * value);
                        }
                    }
                },
            );
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(count: usize, seed: usize) -> Vec<f32> {
        (0..count)
            .map(|at| ((at * 29 + seed * 13) % 89) as f32 / 89.0 - 0.5)
            .collect()
    }

    #[test]
    fn rows_and_gradients_are_those_of_the_formula() {
        for ([l, m], [k, n]) in [([2, 3], [4, 5]), ([1, 7], [3, 1]), ([5, 2], [1, 9])] {
            let (first, second) = (values(l * m, 0), values(k * n, 1));
            let both = Matrices {
                first: &first,
                second: &second,
                first_columns: m,
                second_shape: [k, n],
                scale: 0.5,
            };
            let element = |row: usize, col: usize| first[row / k * m + col / n] * second[row % k * n + col % n];
            for row in 0..l * k {
                let mut out = vec![0f32; m * n - 1];
                both.row(row, 1, &mut out);
                for (col, value) in (1..m * n).zip(out) {
                    assert!((value - 0.5 * element(row, col)).abs() < 1e-6);
                }
            }
            let gradient = values(l * k * m * n, 2);
            let mut expected = (vec![0f32; l * m], vec![0f32; k * n]);
            for row in 0..l * k {
                for col in 0..m * n {
                    let value = 0.5 * gradient[row * m * n + col];
                    expected.0[row / k * m + col / n] += value * second[row % k * n + col % n];
                    expected.1[row % k * n + col % n] += value * first[row / k * m + col / n];
                }
            }
            let mut ours = (vec![0f32; l * m], vec![0f32; k * n]);
            let cut = (l * k) / 2;
            for (start, part) in [(0, &gradient[..cut * m * n]), (cut, &gradient[cut * m * n..])] {
                both.add_gradients(start, part, &mut ours.0, &mut ours.1);
            }
            let pairs = ours.0.iter().chain(&ours.1).zip(expected.0.iter().chain(&expected.1));
            for (ours, expected) in pairs {
                assert!((ours - expected).abs() < 1e-4, "{ours} {expected}");
            }
        }
    }
}
