//! GaLore's projection (Zhao et al. 2024, arXiv:2403.03507), `proj_type: std` of galore-torch: the gradient's leading
//! singular vectors on its shorter side.
//!
//! A weight of `m × n` with `m ≥ n` keeps `rank · (n + 2m)` numbers: the basis on the columns, and two moments of
//! `m × rank`; with `m < n`, `rank · (m + 2n)`.

use candle_core::Result;
use kernels::eigen;
use memory::Buffer;
use options::LowRankOptions;
use rand_chacha::ChaCha8Rng;

use super::{
    gradient::Gradient,
    projection::{GradientProjection, ProjectionSide, uniform},
};

/// GaLore's projection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Galore {
    /// Factor on the update when it leaves the basis.
    pub(super) scale: f64,
}

impl Galore {
    pub(super) fn new(options: LowRankOptions) -> Self {
        Self {
            scale: options.galore_scale,
        }
    }
}

impl GradientProjection for Galore {
    fn side(&self, rows: usize, columns: usize) -> ProjectionSide {
        if rows >= columns {
            ProjectionSide::Columns
        } else {
            ProjectionSide::Rows
        }
    }

    fn scale(&self) -> f64 {
        self.scale
    }

    /// The leading eigenvectors of the shorter side's Gram matrix, which are the gradient's singular vectors there.
    ///
    /// Both are computed in float64: squaring the singular values then costs no digit of float32.
    fn basis(&self, gradient: &Gradient, rank: usize, mut random: ChaCha8Rng) -> Result<Buffer<f64>> {
        let (side, gram) = match self.side(gradient.rows, gradient.columns) {
            ProjectionSide::Columns => (gradient.columns, gradient.gram_of_columns()?),
            ProjectionSide::Rows => (gradient.rows, gradient.gram_of_rows()?),
        };
        let start = uniform(&mut random, eigen::starts(side, rank) * side);
        Ok(eigen::leading(&gram, side, rank, start))
    }
}
