//! The options of LoRA and DoRA.

use super::{Bias, InitLoraWeights, Patterns, matching};

/// Options of LoRA and DoRA.
#[derive(Debug, Clone, PartialEq)]
pub struct LoraOptions {
    /// Rank of the two factors; at least 1.
    pub rank: usize,
    /// The adapter's product is scaled by `alpha / rank`.
    pub alpha: f64,
    /// Probability of dropout on the adapter's input.
    pub dropout: f64,
    /// False if A is frozen (LoRA-FA).
    pub trains_a: bool,
    /// The adapter's product is scaled by `alpha / √rank` instead.
    pub use_rslora: bool,
    /// The start values of the factors.
    pub init: InitLoraWeights,
    /// Other ranks of some modules.
    pub rank_pattern: Patterns<usize>,
    /// Another alpha of some modules.
    pub alpha_pattern: Patterns<f64>,
    /// The learning rate of B, and of trained vectors, over that of A.
    pub lr_ratio: f64,
    /// The biases that are trained.
    pub bias: Bias,
}

impl LoraOptions {
    /// LoRA with `scale = alpha / rank` and the defaults.
    pub fn new(rank: usize, alpha: f64) -> Self {
        Self {
            rank,
            alpha,
            dropout: 0.0,
            trains_a: true,
            use_rslora: false,
            init: InitLoraWeights::Default,
            rank_pattern: Patterns::new(),
            alpha_pattern: Patterns::new(),
            lr_ratio: 1.0,
            bias: Bias::None,
        }
    }

    /// The rank of the module called `module` in full.
    pub fn rank_of(&self, module: &str) -> usize {
        matching(&self.rank_pattern, module).unwrap_or(self.rank)
    }

    /// The factor of the product of that module.
    pub fn scale_of(&self, module: &str) -> f64 {
        let rank = self.rank_of(module) as f64;
        let divisor = if self.use_rslora { rank.sqrt() } else { rank };
        matching(&self.alpha_pattern, module).unwrap_or(self.alpha) / divisor
    }
}
