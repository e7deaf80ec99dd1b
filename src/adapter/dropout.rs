//! Dropout on an adapter's input, as a function: element `i` of a sample is kept or not by a hash of
//! (seed, module, step, sample, i). Nothing is stored between the passes, and neither the order of computation, the number
//! of threads, recomputation, padding nor how samples are put into micro-batches changes a mask.

use rand_chacha::rand_core::RngCore;

use crate::random;

/// The dropout of one module.
#[derive(Debug, Clone)]
pub struct Dropout {
    module: u64,
    /// An element whose 24 bits are below this is dropped.
    threshold: u32,
    keep: f32,
}

/// The mask of one sample at one step.
#[derive(Debug, Clone, Copy)]
pub struct Mask {
    key: u64,
    threshold: u32,
    keep: f32,
}

impl Dropout {
    /// Drops with `probability`, a number in [0, 1), in steps of 2^-24, and scales what is kept by 1 / (1 - probability).
    pub fn new(seed: u64, module: &str, probability: f64) -> Self {
        debug_assert!(
            (0.0..1.0).contains(&probability),
            "a dropout probability of {probability}"
        );
        let module = random::stream(seed, &format!("{module}.dropout")).next_u64();
        Self {
            module,
            threshold: (probability * f64::from(1u32 << 24)).round() as u32,
            keep: (1.0 / (1.0 - probability)) as f32,
        }
    }

    /// The mask of a sample: its index within the effective batch of the step.
    pub fn mask(&self, step: u64, sample: u64) -> Mask {
        Mask {
            key: mix(mix(self.module ^ mix(step)) ^ mix(!sample)),
            threshold: self.threshold,
            keep: self.keep,
        }
    }
}

impl Mask {
    /// What element `index` of the sample's rows (token x features + feature) is multiplied by: 0 or 1 / (1 - p).
    #[inline]
    pub fn factor(&self, index: u64) -> f32 {
        let bits = mix(self.key.wrapping_add(index.wrapping_mul(GOLDEN))) >> 40;
        if bits < u64::from(self.threshold) {
            0.0
        } else {
            self.keep
        }
    }

    /// Writes the factors of the elements from index `first` on.
    pub fn fill(&self, first: u64, factors: &mut [f32]) {
        for (index, factor) in (first..).zip(factors) {
            *factor = self.factor(index);
        }
    }
}

/// The odd number nearest to 2^64 over the golden ratio: consecutive indices fall far apart.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// splitmix64's finaliser (Stafford's variant 13 of MurmurHash3's): every input bit reaches every output bit.
#[inline]
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    fn factors(mask: Mask) -> Vec<f32> {
        let mut factors = vec![0.0; 100_000];
        mask.fill(0, &mut factors);
        factors
    }

    #[test]
    fn drops_its_part_and_keeps_the_mean() {
        let factors = factors(Dropout::new(3, "q_proj", 0.1).mask(5, 2));
        let dropped = factors.iter().filter(|&&factor| factor == 0.0).count();
        assert!((9_700..10_300).contains(&dropped), "{dropped}");
        assert!(factors.iter().all(|&factor| factor == 0.0 || factor == 1.0 / 0.9));
    }

    #[test]
    fn masks_of_other_steps_samples_modules_and_seeds_are_independent() {
        let mask = |seed, module, step, sample| factors(Dropout::new(seed, module, 0.5).mask(step, sample));
        let first = mask(0, "q_proj", 1, 2);
        assert_eq!(first, mask(0, "q_proj", 1, 2));
        for other in [
            mask(1, "q_proj", 1, 2),
            mask(0, "k_proj", 1, 2),
            mask(0, "q_proj", 2, 1),
            mask(0, "q_proj", 1, 3),
        ] {
            let equal = first.iter().zip(&other).filter(|(a, b)| a == b).count();
            assert!((49_000..51_000).contains(&equal), "{equal}");
        }
    }

    #[test]
    fn a_part_of_the_mask_is_the_mask_of_the_part() {
        let mask = Dropout::new(0, "q_proj", 0.5).mask(0, 0);
        let mut part = [0.0; 100];
        mask.fill(1_000, &mut part);
        assert_eq!(part, factors(mask)[1_000..1_100]);
    }

    #[test]
    fn nothing_is_dropped_at_zero() {
        assert!(
            factors(Dropout::new(0, "q_proj", 0.0).mask(0, 0))
                .iter()
                .all(|&factor| factor == 1.0)
        );
    }
}
