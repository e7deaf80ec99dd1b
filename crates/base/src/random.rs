//! Random numbers: everything random in a cell follows from its seed, by one independent stream for each purpose.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use sha2::{Digest, Sha256};

/// The stream of `seed` for `purpose`. It is the same on every machine, and independent of other purposes' streams.
pub fn stream(seed: u64, purpose: &str) -> ChaCha8Rng {
    let mut hash = Sha256::new();
    hash.update(seed.to_le_bytes());
    hash.update(purpose.as_bytes());
    ChaCha8Rng::from_seed(hash.finalize().into())
}

/// A standard normal number, by Box and Muller's method.
pub fn normal(rng: &mut impl RngCore) -> f32 {
    // Above 0, so that the logarithm is finite.
    let radius = (-2.0 * (1.0 - unit(rng.next_u32())).ln()).sqrt();
    radius * (std::f32::consts::TAU * unit(rng.next_u32())).cos()
}

/// The upper 24 bits as a number in [0, 1), which float32 holds exactly.
pub fn unit(bits: u32) -> f32 {
    (bits >> 8) as f32 * (1.0 / (1u32 << 24) as f32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_depends_on_seed_and_purpose_only() {
        let first = |seed, purpose| stream(seed, purpose).next_u64();
        assert_eq!(first(1, "order"), first(1, "order"));
        assert_ne!(first(1, "order"), first(2, "order"));
        assert_ne!(first(1, "order"), first(1, "eval"));
    }
}
