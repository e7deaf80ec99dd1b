//! Linear layers with their adapters.

pub(super) mod cpu;
mod layer;
mod passes;

pub use layer::{Linear, RankGradients};
pub use passes::{accumulate, forward, input_gradient};
