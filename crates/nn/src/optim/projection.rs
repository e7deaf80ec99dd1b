//! The interface of a projection: it finds a low-rank basis of a gradient.

use candle_core::Result;
use memory::Buffer;
use rand::Rng;
use rand_chacha::ChaCha8Rng;

use super::gradient::Gradient;

/// The side of the gradient that a basis spans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProjectionSide {
    /// The basis is `[rows, rank]`, moments are `[rank, columns]`.
    Rows,
    /// The basis is `[rank, columns]`, moments are `[rows, rank]`.
    Columns,
}

/// Finds the basis in which a matrix's moments are kept.
pub(super) trait GradientProjection {
    /// The side that the basis of a `[rows, columns]` gradient spans.
    fn side(&self, rows: usize, columns: usize) -> ProjectionSide;

    /// Factor on the update when it leaves the basis.
    fn scale(&self) -> f64;

    /// `rank` orthonormal rows, each as long as the side. If the gradient has fewer directions, the other rows are
    /// zero.
    fn basis(&self, gradient: &Gradient, rank: usize, random: ChaCha8Rng) -> Result<Buffer<f64>>;
}

/// Start vectors of the search for a basis: `count` values between -1 and 1.
pub(super) fn uniform(random: &mut ChaCha8Rng, count: usize) -> Buffer<f64> {
    Buffer::from_fn(count, |_| random.random_range(-1.0..1.0))
}
