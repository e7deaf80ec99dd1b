//! The element-wise product of two low-rank products, `scale · (A₁ B₁) ∘ (A₂ B₂)`: its rows, and the gradients of the
//! factors.

use rayon::prelude::*;

use super::InstructionSet;
use crate::Dispatch as _;

/// Columns that are computed at once.
pub const BLOCK: usize = 256;

/// Rows whose gradients are taken at once.
pub const ROWS: usize = 64;

/// Elements of the scratch of [`Factors::add_gradients`] for so many rows.
pub fn scratch_len(rows: usize, columns: usize, rank: usize) -> usize {
    columns.div_ceil(BLOCK) * 2 * (rows + BLOCK) * rank
}

/// The factors: `[rows, rank]`, `[rank, columns]`, and the same again.
#[derive(Debug, Clone, Copy)]
pub struct Factors<'a> {
    /// A₁, B₁, A₂ and B₂.
    pub values: [&'a [f32]; 4],
    /// The rank of both products.
    pub rank: usize,
    /// Columns of the whole.
    pub columns: usize,
    /// The factor of each element.
    pub scale: f32,
}

impl Factors<'_> {
    /// Elements of a row, from column `first` on.
    pub fn row(&self, row: usize, first: usize, out: &mut [f32]) {
        InstructionSet::current().run(
            #[inline(always)]
            || {
                let mut other = [0f32; BLOCK];
                for (at, out) in out.chunks_mut(BLOCK).enumerate() {
                    let other = &mut other[..out.len()];
                    let first = first + at * BLOCK;
                    self.product(0, row, first, out);
                    self.product(1, row, first, other);
                    for (out, other) in out.iter_mut().zip(other) {
                        *out = *out * *other * self.scale;
                    }
                }
            },
        );
    }

    /// Elements of a row of one of the two products.
    #[inline(always)]
    fn product(&self, which: usize, row: usize, first: usize, out: &mut [f32]) {
        out.fill(0.0);
        let a = &self.values[2 * which][row * self.rank..][..self.rank];
        let rows = self.values[2 * which + 1].chunks_exact(self.columns);
        for (a, b) in a.iter().zip(rows) {
            for (out, b) in out.iter_mut().zip(&b[first..]) {
                *out += a * b;
            }
        }
    }

    /// Adds the gradients of the factors, given those of the whole's rows from `first` on. Sums run over blocks of
    /// columns in their order, whatever the number of threads.
    pub fn add_gradients(&self, first: usize, rows: &[f32], scratch: &mut [f32], gradients: [&mut [f32]; 4]) {
        let (rank, columns) = (self.rank, self.columns);
        let count = rows.len() / columns;
        let share = 2 * (count + BLOCK) * rank;
        let scratch = &mut scratch[..scratch_len(count, columns, rank)];
        let level = InstructionSet::current();
        // Of a block of columns: both A's parts `[count, rank]`, and both B's `[rank, BLOCK]`.
        scratch.par_chunks_mut(share).enumerate().for_each(|(block, scratch)| {
            level.run(
                #[inline(always)]
                || self.block_gradients(first, rows, block * BLOCK, scratch),
            );
        });
        let [a1, b1, a2, b2] = gradients;
        for (which, (a, b)) in [(a1, b1), (a2, b2)].into_iter().enumerate() {
            let a = &mut a[first * rank..][..count * rank];
            for (block, scratch) in scratch.chunks(share).enumerate() {
                let (of_a, of_b) = scratch.split_at(2 * count * rank);
                let of_a = &of_a[which * count * rank..][..count * rank];
                a.iter_mut().zip(of_a).for_each(|(sum, part)| *sum += part);
                let of_b = of_b[which * rank * BLOCK..].chunks(BLOCK);
                let width = BLOCK.min(columns - block * BLOCK);
                for (b, part) in b.chunks_mut(columns).zip(of_b) {
                    let b = &mut b[block * BLOCK..][..width];
                    b.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
                }
            }
        }
    }

    #[inline(always)]
    fn block_gradients(&self, first: usize, rows: &[f32], start: usize, scratch: &mut [f32]) {
        let (rank, count) = (self.rank, rows.len() / self.columns);
        let width = BLOCK.min(self.columns - start);
        scratch.fill(0.0);
        let (of_a, of_b) = scratch.split_at_mut(2 * count * rank);
        let mut products = [[0f32; BLOCK]; 2];
        for (at, row) in rows.chunks(self.columns).enumerate() {
            for (which, product) in products.iter_mut().enumerate() {
                self.product(which, first + at, start, &mut product[..width]);
            }
            let gradient = &row[start..start + width];
            for which in 0..2 {
                let mut inner = [0f32; BLOCK];
                let other = &products[1 - which];
                for ((inner, gradient), other) in inner.iter_mut().zip(gradient).zip(other) {
                    *inner = gradient * other * self.scale;
                }
                let a = &self.values[2 * which][(first + at) * rank..][..rank];
                let b = self.values[2 * which + 1].chunks_exact(self.columns);
                let of_a = &mut of_a[(which * count + at) * rank..][..rank];
                let of_b = of_b[which * rank * BLOCK..].chunks_mut(BLOCK);
                for (((a, b), of_a), of_b) in a.iter().zip(b).zip(of_a).zip(of_b) {
                    *of_a = dot(&inner[..width], &b[start..]);
                    for (sum, inner) in of_b.iter_mut().zip(&inner[..width]) {
                        *sum += a * inner;
                    }
                }
            }
        }
    }
}

/// The sum of products, of as many elements as the first has.
#[inline(always)]
fn dot(a: &[f32], b: &[f32]) -> f32 {
    const LANES: usize = 16;
    let mut sums = [0f32; LANES];
    for (a, b) in a.chunks(LANES).zip(b.chunks(LANES)) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += a * b;
        }
    }
    sums.iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(count: usize, seed: usize) -> Vec<f32> {
        (0..count)
            .map(|at| ((at * 31 + seed * 17) % 97) as f32 / 97.0 - 0.5)
            .collect()
    }

    #[test]
    fn rows_and_gradients_are_those_of_the_formula() {
        for (rows, columns, rank) in [(5, 7, 2), (9, 300, 3), (3, 512, 1)] {
            let factors = [rows, columns, rows, columns].map(|side| side * rank);
            let factors: Vec<Vec<f32>> = factors.iter().enumerate().map(|(at, len)| values(*len, at)).collect();
            let all = Factors {
                values: [&factors[0], &factors[1], &factors[2], &factors[3]],
                rank,
                columns,
                scale: 0.5,
            };
            let product = |which: usize, row: usize, col: usize| -> f32 {
                (0..rank)
                    .map(|at| factors[2 * which][row * rank + at] * factors[2 * which + 1][at * columns + col])
                    .sum()
            };
            for row in 0..rows {
                let mut out = vec![0f32; columns - 1];
                all.row(row, 1, &mut out);
                for (col, value) in (1..columns).zip(out) {
                    let expected = 0.5 * product(0, row, col) * product(1, row, col);
                    assert!((value - expected).abs() < 1e-5, "{value} {expected}");
                }
            }
            let gradient = values(rows * columns, 9);
            let mut expected: Vec<Vec<f32>> = factors.iter().map(|factor| vec![0f32; factor.len()]).collect();
            for row in 0..rows {
                for col in 0..columns {
                    for which in 0..2 {
                        let inner = 0.5 * gradient[row * columns + col] * product(1 - which, row, col);
                        for at in 0..rank {
                            expected[2 * which][row * rank + at] += inner * factors[2 * which + 1][at * columns + col];
                            expected[2 * which + 1][at * columns + col] += inner * factors[2 * which][row * rank + at];
                        }
                    }
                }
            }
            let mut ours: Vec<Vec<f32>> = factors.iter().map(|factor| vec![0f32; factor.len()]).collect();
            for (first, part) in [(0, &gradient[..2 * columns]), (2, &gradient[2 * columns..])] {
                let mut scratch = vec![0f32; scratch_len(part.len() / columns, columns, rank)];
                let [a1, b1, a2, b2] = &mut ours[..] else {
                    panic!("four")
                };
                all.add_gradients(first, part, &mut scratch, [a1, b1, a2, b2]);
            }
            for (ours, expected) in ours.iter().flatten().zip(expected.iter().flatten()) {
                assert!((ours - expected).abs() < 1e-3, "{ours} {expected}");
            }
        }
    }
}
