//! The micro-batch that goes through the layers.

use kernels::Sequences;

/// The micro-batch that a layer computes, and where its dropout masks come from.
#[derive(Debug, Clone)]
pub struct Pass {
    /// The sequences of the micro-batch's tokens, padding included. An encoder's are of one length.
    pub sequences: Sequences,
    /// Tokens of each sequence without its padding, which stands right of them; empty for models in which causality
    /// hides it.
    pub lengths: Vec<u32>,
    /// Where dropout masks come from; `None` in evaluation and where there is no dropout.
    pub dropout: Option<DropoutPass>,
}

/// The coordinates a dropout mask is a function of, in addition to the seed, the module's name and the element.
#[derive(Debug, Clone)]
pub struct DropoutPass {
    /// Optimizer step, from 0.
    pub step: u64,
    /// For each sequence of the micro-batch, the index of its sample within the effective batch.
    pub samples: Vec<u64>,
}
