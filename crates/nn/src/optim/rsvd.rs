//! Low-rank optimizer state by randomised SVD: the basis is the gradient's leading left singular vectors. The
//! randomised range finder with power iterations finds them (Halko, Martinsson and Tropp 2011, arXiv:0909.4061,
//! algorithms 4.4 and 5.1). It forms no square matrix of a side, so a basis costs a few passes over the gradient.
//!
//! A weight of `m × n` keeps `rank · (m + 2n)` numbers: the basis, and two moments of `rank × n`.

use candle_core::Result;
use kernels::eigen;
use memory::Buffer;
use rand_chacha::ChaCha8Rng;

use super::{
    gradient::Gradient,
    projection::{GradientProjection, ProjectionSide, uniform},
};
use crate::tensor::Tensor;

/// Extra directions beyond the rank; section 4.2 of the paper recommends 5 or 10.
const OVERSAMPLING: usize = 5;
/// Power iterations: passes over the gradient and back that sharpen the directions.
const POWER_ITERATIONS: usize = 1;

/// The projection by randomised SVD.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rsvd;

impl GradientProjection for Rsvd {
    fn side(&self, _: usize, _: usize) -> ProjectionSide {
        ProjectionSide::Rows
    }

    fn scale(&self) -> f64 {
        1.0
    }

    fn basis(&self, gradient: &Gradient, rank: usize, mut random: ChaCha8Rng) -> Result<Buffer<f64>> {
        let Gradient { rows, columns, .. } = *gradient;
        let wide = (rank + OVERSAMPLING).min(rows).min(columns);
        let mut right = uniform(&mut random, wide * columns);
        let mut range = Buffer::zeros(0);
        for iteration in 0..=POWER_ITERATIONS {
            if iteration > 0 {
                right = orthonormal(project_rows(gradient, &range, wide)?, columns);
            }
            let right = gradient.on_device((wide, columns), |at| right.values()[at] as f32)?;
            let product = gradient.times(&right)?;
            range = orthonormal(in_float64(&product, true)?, rows);
        }
        drop(right);
        // The SVD of the gradient within the range; only the left vectors are needed. Matrices of this width are the
        // host's.
        let small = project_rows(gradient, &range, wide)?;
        if memory::is_dry_run() {
            return Ok(Buffer::zeros(rank.min(wide) * rows));
        }
        let gram = (0..wide * wide)
            .map(|at| {
                let row = |index: usize| &small.values()[index * columns..(index + 1) * columns];
                row(at / wide).iter().zip(row(at % wide)).map(|(a, b)| a * b).sum()
            })
            .collect();
        let (_, mut rotation) = eigen::symmetric(gram, wide);
        rotation.truncate(rank.min(wide) * wide);
        let mut basis = Buffer::zeros(rank.min(wide) * rows);
        eigen::combine(&rotation, wide, range.values(), rows, basis.values_mut());
        Ok(basis)
    }
}

/// `range [count, rows] · gradient`, `[count, columns]`.
fn project_rows(gradient: &Gradient, range: &Buffer<f64>, count: usize) -> Result<Buffer<f64>> {
    let rows = gradient.rows;
    let left = gradient.on_device((rows, count), |at| {
        range.values()[at % count * rows + at / count] as f32
    })?;
    in_float64(&gradient.transposed_times(&left)?, false)
}

fn orthonormal(mut rows: Buffer<f64>, len: usize) -> Buffer<f64> {
    eigen::orthonormalise(rows.values_mut(), len);
    rows
}

/// A float32 matrix in float64, transposed if asked.
fn in_float64(matrix: &Tensor, is_transposed: bool) -> Result<Buffer<f64>> {
    let (rows, cols) = (matrix.rows(), matrix.cols());
    let plain;
    let values = if matrix.has_kernels() {
        matrix.values::<f32>()?
    } else {
        plain = matrix.to_vec_f32()?;
        &plain
    };
    let index = |at: usize| {
        if is_transposed {
            at % rows * cols + at / rows
        } else {
            at
        }
    };
    Ok(Buffer::from_fn(rows * cols, |at| f64::from(values[index(at)])))
}
