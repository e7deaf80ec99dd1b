//! The micro-batch that goes through the layers.

use kernels::Sequences;
use memory::Buffer;

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
    /// For each sequence, the token of its sample that it begins with. Empty where all begin with the first.
    pub first_tokens: Vec<usize>,
}

impl Pass {
    /// The pass of some of its rows, which ascend: what lies side by side in a sequence is one there. For layers that
    /// look at no other row.
    pub fn of_rows(&self, rows: &Buffer<u32>) -> Self {
        let (mut lengths, mut first_tokens, mut samples) = (Vec::new(), Vec::new(), Vec::new());
        let Some(dropout) = self.dropout.as_ref().filter(|_| !memory::is_dry_run()) else {
            return Self {
                sequences: Sequences::of([rows.len()]),
                lengths: Vec::new(),
                dropout: self.dropout.clone(),
            };
        };
        let mut next = None;
        for &row in rows.values() {
            let (sequence, position) = self.sequences.locate(row as usize);
            match lengths.last_mut() {
                Some(length) if next == Some((sequence, position)) => *length += 1,
                _ => {
                    lengths.push(1);
                    first_tokens.push(position);
                    samples.push(dropout.samples[sequence]);
                }
            }
            next = Some((sequence, position + 1));
        }
        Self {
            sequences: Sequences::of(lengths),
            lengths: Vec::new(),
            dropout: Some(DropoutPass {
                step: dropout.step,
                samples,
                first_tokens,
            }),
        }
    }
}
