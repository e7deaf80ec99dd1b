//! Arithmetic of a model, counted from its shape.

use super::config::ModelConfig;
use super::module::{Kind, Module};

/// Floating-point operations of a forward pass, for each token.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ForwardFlops {
    /// Of a block.
    pub block: f64,
    /// Of the head.
    pub head: f64,
    /// Of all blocks and the head.
    pub model: f64,
}

impl ForwardFlops {
    /// Floating-point operations of a step: each product of the forward pass, as many for the gradients of inputs, and
    /// as many for those of weights if every weight is trained; of some weights, their share of all. Adapters' own
    /// products are left out.
    pub fn of_step(&self, trained: f64) -> f64 {
        self.model * (2.0 + trained)
    }
}

impl ModelConfig {
    /// Operations of a forward pass over samples of `len` tokens: 2 for each weight of a matrix, and 4 for each pair of
    /// a query and a key in each dimension of a head (Chowdhery et al. 2022, arXiv:2204.02311, appendix B).
    pub fn forward_flops(&self, len: usize) -> ForwardFlops {
        let family = self.family.description();
        let scores = 4 * len * self.num_attention_heads * self.head_dim;
        let block = products(family.block, self) + scores as f64;
        let head = products(family.head, self);
        ForwardFlops {
            block,
            head,
            model: self.num_hidden_layers as f64 * block + head,
        }
    }
}

/// Operations of the products with these modules' weights.
fn products(modules: &[Module], config: &ModelConfig) -> f64 {
    let matrices = modules
        .iter()
        .filter(|module| matches!(module.kind, Kind::Linear | Kind::TokenHead | Kind::Classifier));
    matrices
        .map(|module| 2.0 * module.dims(config).into_iter().product::<usize>() as f64)
        .sum()
}

#[cfg(test)]
mod tests {
    use crate::Preset;

    #[test]
    fn operations_are_two_a_weight_and_four_a_score() {
        let config = Preset::named("llama-2-7b").unwrap().config();
        let flops = config.forward_flops(4096);
        let matrices = 4096 * (4 * 4096 + 3 * 11008);
        assert_eq!(flops.block, (2 * matrices + 4 * 4096 * 4096) as f64);
        assert_eq!(flops.model, 32.0 * flops.block + (2 * 32000 * 4096) as f64);
        assert_eq!(flops.of_step(1.0), 1.5 * flops.of_step(0.0));
    }
}
