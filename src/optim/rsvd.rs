//! Low-rank optimizer state by randomised SVD: the basis is the gradient's leading left singular vectors. The randomised
//! range finder with power iterations finds them (Halko, Martinsson and Tropp 2011, arXiv:0909.4061, algorithms 4.4 and
//! 5.1). It forms no square matrix of a side, so a basis costs a few passes over the gradient.
//!
//! A weight of `m × n` keeps `rank · (m + 2n)` numbers: the basis, and two moments of `rank × n`.

use candle_core::{Result, Tensor};
use rand_chacha::ChaCha8Rng;

use super::{
    gradient::Gradient,
    projection::{Projection, ProjectionSide, transposed, uniform},
};
use crate::kernels::eigen;

/// Extra directions beyond the rank; section 4.2 of the paper recommends 5 or 10.
pub(crate) const OVERSAMPLING: usize = 5;
/// Power iterations: passes over the gradient and back that sharpen the directions.
pub(crate) const POWER_ITERATIONS: usize = 1;

/// The projection by randomised SVD.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rsvd;

impl Projection for Rsvd {
    fn side(&self, _: usize, _: usize) -> ProjectionSide {
        ProjectionSide::Rows
    }

    fn scale(&self) -> f64 {
        1.0
    }

    fn basis(&self, gradient: &Gradient, rank: usize, mut random: ChaCha8Rng) -> Result<Vec<f64>> {
        let Gradient { rows, columns, .. } = *gradient;
        let wide = (rank + OVERSAMPLING).min(rows).min(columns);
        let mut right = uniform(&mut random, wide * columns);
        let mut range = Vec::new();
        for iteration in 0..=POWER_ITERATIONS {
            if iteration > 0 {
                right = orthonormal(&project_rows(gradient, &range, wide)?, columns);
            }
            let product = gradient.times(&tensor(gradient, &right, (wide, columns))?)?;
            range = orthonormal(&transposed(&host_values(&product)?, wide), rows);
        }
        // The SVD of the gradient within the range; only the left vectors are needed.
        let small = project_rows(gradient, &range, wide)?;
        let gram = (0..wide * wide)
            .map(|at| {
                let row = |index: usize| &small[index * columns..(index + 1) * columns];
                row(at / wide).iter().zip(row(at % wide)).map(|(a, b)| a * b).sum()
            })
            .collect();
        let (_, mut rotation) = eigen::symmetric(gram, wide);
        rotation.truncate(rank.min(wide) * wide);
        Ok(eigen::combine(&rotation, wide, &range, rows))
    }
}

/// `range [count, rows] · gradient`, `[count, columns]`.
fn project_rows(gradient: &Gradient, range: &[f64], count: usize) -> Result<Vec<f64>> {
    let left = tensor(gradient, &transposed(range, gradient.rows), (gradient.rows, count))?;
    host_values(&gradient.transposed_times(&left)?)
}

fn orthonormal(rows: &[f64], len: usize) -> Vec<f64> {
    let mut rows = rows.to_vec();
    eigen::orthonormalise(&mut rows, len);
    rows
}

fn tensor(gradient: &Gradient, values: &[f64], shape: (usize, usize)) -> Result<Tensor> {
    gradient.to_device(values.iter().map(|value| *value as f32).collect(), shape)
}

fn host_values(tensor: &Tensor) -> Result<Vec<f64>> {
    let values: Vec<f32> = tensor.flatten_all()?.to_vec1()?;
    Ok(values.into_iter().map(f64::from).collect())
}
