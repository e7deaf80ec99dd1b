//! GaLore's projection (Zhao et al. 2024, arXiv:2403.03507), `proj_type: std` of galore-torch: the basis is of the
//! gradient's leading singular vectors, on its shorter side.
//!
//! A weight of `m × n` with `m ≥ n` keeps `rank · (n + 2m)` numbers: the basis on the columns, and two moments of
//! `m × rank`; with `m < n`, `rank · (m + 2n)`.

use candle_core::Result;
use rand_chacha::ChaCha8Rng;

use super::{
    gradient::Gradient,
    low_rank::{Projection, Side, uniform},
};
use crate::kernels::eigen;

#[derive(Debug, Clone, Copy)]
pub struct Galore {
    /// What the step is multiplied with when it leaves the basis.
    pub scale: f64,
}

impl Projection for Galore {
    fn side(&self, rows: usize, columns: usize) -> Side {
        if rows >= columns { Side::Columns } else { Side::Rows }
    }

    fn scale(&self) -> f64 {
        self.scale
    }

    /// The leading eigenvectors of the Gram matrix of the shorter side, which are the gradient's singular vectors there.
    /// Both are computed in float64, so that squaring the singular values costs no digit that float32 holds.
    fn basis(&self, gradient: &Gradient, rank: usize, mut random: ChaCha8Rng) -> Result<Vec<f64>> {
        let (side, gram) = match self.side(gradient.rows, gradient.columns) {
            Side::Columns => (gradient.columns, gradient.gram_of_columns()?),
            Side::Rows => (gradient.rows, gradient.gram_of_rows()?),
        };
        let start = uniform(&mut random, eigen::starts(side, rank) * side);
        Ok(eigen::leading(&gram, side, rank, start))
    }
}
