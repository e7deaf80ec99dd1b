//! The options of VeRA.

/// Options of VeRA.
#[derive(Debug, Clone, PartialEq)]
pub struct VeraOptions {
    /// Rank of the shared factors.
    pub rank: usize,
    /// Probability of dropout on the adapter's input.
    pub dropout: f64,
    /// Start value of the vector between the factors.
    pub d_initial: f64,
    /// The shared factors follow from it.
    pub projection_prng_key: u64,
    /// True if the shared factors are saved with the vectors.
    pub save_projection: bool,
}

impl VeraOptions {
    /// PEFT's defaults.
    pub fn new(rank: usize) -> Self {
        Self {
            rank,
            dropout: 0.0,
            d_initial: 0.1,
            projection_prng_key: 0,
            save_projection: true,
        }
    }
}
