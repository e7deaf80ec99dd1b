//! Optimizers' states and what a step needs besides.

use super::Backend;
use super::tape::Tape;
use super::tensor::{Dtype, Tensor};
use super::training::Optimizer;
use crate::memory::Category;

/// An optimizer over the parameters that are trained.
pub(super) struct State<'t> {
    kind: Optimizer,
    /// All the tensors of the state; none before the first step.
    held: Vec<Tensor<'t>>,
}

impl<'t> State<'t> {
    pub(super) fn new(kind: Optimizer) -> Self {
        Self { kind, held: Vec::new() }
    }

    /// `optimizer.step()`.
    pub(super) fn step(&mut self, tape: &'t Tape, trainable: &[Tensor<'t>]) {
        match self.kind {
            Optimizer::Adamw { foreach } => {
                if self.held.is_empty() {
                    for parameter in trainable {
                        if tape.backend == Backend::Cpu {
                            // The count of steps, which the GPU's optimizer leaves to the host.
                            self.held.push(tape.empty_as(
                                super::layout::Layout::contiguous(&[]),
                                Dtype::Float32,
                                Category::OptimizerState,
                            ));
                        }
                        for _ in 0..2 {
                            let layout = parameter.view.layout;
                            self.held
                                .push(tape.empty_as(layout, parameter.dtype(), Category::OptimizerState));
                        }
                    }
                }
                if foreach {
                    // The square roots of all second moments at once.
                    let roots: Vec<_> = trainable
                        .iter()
                        .map(|parameter| parameter.like(parameter.dtype()))
                        .collect();
                    drop(roots);
                } else {
                    let mut denominator: Option<Tensor<'t>> = None;
                    for parameter in trainable {
                        let root = parameter.like(parameter.dtype());
                        let next = root.like(root.dtype());
                        drop(root);
                        denominator = Some(next);
                    }
                    drop(denominator);
                }
            }
            Optimizer::Sgd => {}
        }
    }
}

impl Tape {
    /// `clip_grad_norm_`: the norm of each gradient, of all of them, and the gradients scaled in place.
    pub(super) fn clip_grad_norm(&self, gradients: usize) {
        let norms: Vec<_> = (0..gradients).map(|_| self.empty(&[], Dtype::Float32)).collect();
        let stacked = self.empty(&[norms.len() as u32], Dtype::Float32);
        let total = self.empty(&[], Dtype::Float32);
        let coefficient = self.empty(&[], Dtype::Float32);
        drop((norms, stacked, total, coefficient));
    }
}
