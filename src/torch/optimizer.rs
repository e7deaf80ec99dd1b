//! Optimizers' states and what a step needs besides.

use super::Backend;
use super::tape::Tape;
use super::tensor::{Dtype, Tensor};
use super::training::{Optimizer, Way};
use crate::memory::Category;

/// Weights that share a scale in bitsandbytes' 8-bit states (`Optimizer2State.init_state` in `optim/optimizer.py`).
const BLOCK: u64 = 256;
/// Values of an 8-bit code.
const CODE: u64 = 256;
/// Parameters of fewer elements have states of 32 bits (`min_8bit_size`), and of fewer than the other unpaged ones.
const LEAST_8BIT: u64 = 4096;
const LEAST_PAGED: u64 = 100_000;

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
        if self.held.is_empty() {
            self.held = match self.kind {
                Optimizer::Adamw(way) => tape.adamw_states(trainable, way),
                Optimizer::Sgd { .. } => Vec::new(),
                Optimizer::Bitsandbytes { bits, is_paged } => tape.bitsandbytes_states(trainable, bits, is_paged),
            };
        }
        let like = |parameter: &Tensor<'t>| parameter.like(parameter.dtype());
        match self.kind {
            // The square roots of all second moments at once; or the gradients with the decay.
            Optimizer::Adamw(Way::Foreach) | Optimizer::Sgd { decays: true } => {
                let all: Vec<_> = trainable.iter().map(like).collect();
                drop(all);
            }
            Optimizer::Adamw(Way::Single) => {
                let mut denominator: Option<Tensor<'t>> = None;
                for parameter in trainable {
                    let root = like(parameter);
                    let next = like(&root);
                    drop(root);
                    denominator = Some(next);
                }
                drop(denominator);
            }
            Optimizer::Adamw(Way::Fused) | Optimizer::Sgd { decays: false } | Optimizer::Bitsandbytes { .. } => {}
        }
    }
}

impl Tape {
    fn state(&self, elements: u64, dtype: Dtype) -> Tensor<'_> {
        self.bytes(elements * dtype.size(), Category::OptimizerState)
    }

    /// Two moments of each parameter, in its format; and the count of its steps, where that is not left to the host.
    fn adamw_states(&self, trainable: &[Tensor<'_>], way: Way) -> Vec<Tensor<'_>> {
        let counts = self.backend == Backend::Cpu || way == Way::Fused;
        let mut states = Vec::new();
        for parameter in trainable {
            if counts {
                states.push(self.state(1, Dtype::Float32));
            }
            for _ in 0..2 {
                let layout = parameter.view.layout;
                states.push(self.empty_as(layout, parameter.dtype(), Category::OptimizerState));
            }
        }
        states
    }

    /// Two moments of each parameter in 32 or 8 bits, the latter with scales and two codes that all share. What is paged is in
    /// managed memory, which PyTorch's allocator does not have.
    fn bitsandbytes_states(&self, trainable: &[Tensor<'_>], bits: u8, is_paged: bool) -> Vec<Tensor<'_>> {
        let is_8bit = |elements: u64| bits == 8 && elements >= LEAST_8BIT;
        let mut states = Vec::new();
        if trainable.iter().any(|parameter| is_8bit(parameter.numel())) {
            states.extend([self.state(CODE, Dtype::Float32), self.state(CODE, Dtype::Float32)]);
        }
        for parameter in trainable {
            let elements = parameter.numel();
            let is_8bit = is_8bit(elements);
            let dtype = if is_8bit { Dtype::Uint8 } else { Dtype::Float32 };
            if !is_paged || elements < LEAST_PAGED {
                states.extend([self.state(elements, dtype), self.state(elements, dtype)]);
            }
            if is_8bit {
                let blocks = elements.div_ceil(BLOCK);
                states.extend([self.state(blocks, Dtype::Float32), self.state(blocks, Dtype::Float32)]);
            }
        }
        states
    }

    /// `clip_grad_norm_`: the norm of each gradient, of all of them, and the gradients scaled in place.
    pub(super) fn clip_grad_norm(&self, gradients: usize) {
        let norms: Vec<_> = (0..gradients).map(|_| self.empty(&[], Dtype::Float32)).collect();
        let stacked = self.empty(&[norms.len() as u32], Dtype::Float32);
        let total = self.empty(&[], Dtype::Float32);
        let coefficient = self.empty(&[], Dtype::Float32);
        drop((norms, stacked, total, coefficient));
    }
}
