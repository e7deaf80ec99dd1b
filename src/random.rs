//! Random numbers: everything random in a cell follows from its seed, by one independent stream for each purpose.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use sha2::{Digest, Sha256};

/// The stream of `seed` for `purpose`. It is the same on every machine, and independent of other purposes' streams.
pub fn stream(seed: u64, purpose: &str) -> ChaCha8Rng {
    let mut hash = Sha256::new();
    hash.update(seed.to_le_bytes());
    hash.update(purpose.as_bytes());
    ChaCha8Rng::from_seed(hash.finalize().into())
}

#[cfg(test)]
mod tests {
    use rand_chacha::rand_core::RngCore;

    use super::*;

    #[test]
    fn a_stream_depends_on_seed_and_purpose_only() {
        let first = |seed, purpose| stream(seed, purpose).next_u64();
        assert_eq!(first(1, "order"), first(1, "order"));
        assert_ne!(first(1, "order"), first(2, "order"));
        assert_ne!(first(1, "order"), first(1, "eval"));
    }
}
