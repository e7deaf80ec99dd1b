//! The options of an optimizer, and of the learning rate over the steps.

use super::Optimizer;

/// An optimizer with its options.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OptimizerOptions {
    /// The optimizer's name.
    pub optimizer: Optimizer,
    /// AdamW's options; Lion heeds those of its momentum and the weight decay, SGD and Adafactor the weight decay.
    pub adamw: AdamwOptions,
    /// Options that `galore` and `rsvd` heed.
    pub low_rank: LowRankOptions,
    /// True if the state and the gradients of blocks wait in the host's memory.
    pub is_offloaded: bool,
}

/// AdamW's options.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdamwOptions {
    /// Decay of the first moment per step; of Lion, the momentum's weight in the direction of a step.
    pub beta1: f64,
    /// Decay of the second moment per step; of Lion, the momentum's.
    pub beta2: f64,
    /// Floor of the denominator.
    pub epsilon: f64,
    /// Decoupled weight decay, as a part of the learning rate.
    pub weight_decay: f64,
}

/// The options of an optimizer that keeps its state in a low-rank basis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LowRankOptions {
    /// Vectors in a basis.
    pub rank: usize,
    /// Steps from one basis to the next.
    pub update_proj_gap: usize,
    /// Factor on GaLore's update when it leaves the basis.
    pub galore_scale: f64,
    /// Random start vectors follow from it.
    pub seed: u64,
}
