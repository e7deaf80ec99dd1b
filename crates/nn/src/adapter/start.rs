//! LoRA's initial factors as in PEFT (Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models",
//! arXiv:2106.09685). `y = x W^T + alpha / r * x A^T B^T` with A random and B zero, so the first step sees the base
//! model.

use base::random::{self, normal, unit};
use options::methods::LORA_A;
use rand_chacha::rand_core::RngCore;

/// The two factors of one module's adapter, row-major.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Factors {
    /// A: rank x input features.
    pub(super) a: Vec<f32>,
    /// B: output features x rank.
    pub(super) b: Vec<f32>,
}

/// The initial factors of a module: A uniform in ±1/sqrt(input features), Kaiming's bound with a = sqrt(5), and B zero.
/// The values follow from the seed and the module's name only, not from the order of the modules.
/// With a `deviation`, A is normal instead.
pub(super) fn init(
    seed: u64,
    module: &str,
    rank: usize,
    in_features: usize,
    out_features: usize,
    deviation: Option<f32>,
) -> Factors {
    let mut rng = random::stream(seed, &format!("{module}.{LORA_A}"));
    let bound = 1.0 / (in_features as f32).sqrt();
    let mut element = || match deviation {
        None => bound * (2.0 * unit(rng.next_u32()) - 1.0),
        Some(deviation) => deviation * normal(&mut rng),
    };
    let a = (0..rank * in_features).map(|_| element()).collect();
    Factors {
        a,
        b: vec![0.0; out_features * rank],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_is_uniform_within_its_bound_and_b_is_zero() {
        let Factors { a, b } = init(7, "model.layers.0.self_attn.q_proj", 16, 400, 300, None);
        assert_eq!((a.len(), b.len()), (16 * 400, 300 * 16));
        assert!(b.iter().all(|&value| value == 0.0));
        let bound = 1.0 / 20.0;
        assert!(a.iter().all(|value| value.abs() <= bound));
        let mean = a.iter().sum::<f32>() / a.len() as f32;
        let variance = a.iter().map(|value| value * value).sum::<f32>() / a.len() as f32;
        assert!(mean.abs() < 0.03 * bound, "{mean}");
        assert!((variance / (bound * bound / 3.0) - 1.0).abs() < 0.03, "{variance}");
    }

    #[test]
    fn a_gaussian_has_its_deviation() {
        let Factors { a, .. } = init(7, "q_proj", 16, 400, 1, Some(0.25));
        let mean = a.iter().sum::<f32>() / a.len() as f32;
        let variance = a.iter().map(|value| value * value).sum::<f32>() / a.len() as f32;
        let fourth = a.iter().map(|value| value.powi(4)).sum::<f32>() / a.len() as f32;
        assert!(mean.abs() < 0.01, "{mean}");
        assert!((variance / 0.0625 - 1.0).abs() < 0.05, "{variance}");
        assert!((fourth / (3.0 * variance * variance) - 1.0).abs() < 0.15, "{fourth}");
    }

    #[test]
    fn seed_and_name_choose_the_values() {
        let init = |seed, name, rank, cols, rows| init(seed, name, rank, cols, rows, None);
        let first = init(1, "a", 2, 8, 8);
        assert_eq!(first, init(1, "a", 2, 8, 8));
        assert_ne!(first, init(2, "a", 2, 8, 8));
        assert_ne!(first, init(1, "b", 2, 8, 8));
    }
}
