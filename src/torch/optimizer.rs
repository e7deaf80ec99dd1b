//! Optimizers: their states, and the temporaries of a step.

use super::configuration::{Backend, Configuration};
use super::dtype::Dtype;
use super::low_rank::Rsvd;
use super::tape::Tape;
use super::tape::Tensor;
use crate::memory::Category;
use crate::options::Optimizer;

/// Weights that share a scale in bitsandbytes' 8-bit states (`Optimizer2State.init_state` in `optim/optimizer.py`).
const BLOCK: u64 = 256;
/// Values of an 8-bit code.
const CODE: u64 = 256;
/// Parameters of fewer elements have states of 32 bits (`min_8bit_size`), and of fewer than the other unpaged ones.
const LEAST_8BIT: u64 = 4096;
const LEAST_PAGED: u64 = 100_000;

/// The algorithm of an optimizer's step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Algorithm {
    Adamw(AdamwImpl),
    /// Without momentum, over all parameters at once; a weight decay is added to copies of the gradients.
    Sgd {
        decays: bool,
    },
    /// bitsandbytes' optimizers.
    Bitsandbytes(States),
    /// Adam with low-rank state.
    Rsvd,
}

/// bitsandbytes' states of a parameter.
#[derive(Clone, Copy, PartialEq, Eq)]
struct States {
    /// Two moments, or Lion's momentum.
    count: usize,
    /// Bits of a number: 32 or 8.
    bits: u8,
    is_paged: bool,
}

/// How PyTorch's AdamW goes over the parameters.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AdamwImpl {
    /// One after the other: the default on a CPU.
    ForLoop,
    /// All at once: the default on a GPU.
    Foreach,
    /// All at once and in one kernel.
    Fused,
}

impl Algorithm {
    fn of(configuration: &Configuration) -> Self {
        let bitsandbytes = |count, bits, is_paged| Self::Bitsandbytes(States { count, bits, is_paged });
        match configuration.optim {
            // Specs refuse galore on this stack.
            Optimizer::Adamw | Optimizer::Galore => Self::Adamw(match configuration.backend {
                Backend::Cpu => AdamwImpl::ForLoop,
                Backend::Cuda => AdamwImpl::Foreach,
            }),
            Optimizer::Rsvd => Self::Rsvd,
            Optimizer::Lion => bitsandbytes(1, 32, false),
            Optimizer::AdamwTorchFused => Self::Adamw(AdamwImpl::Fused),
            Optimizer::Sgd => Self::Sgd {
                decays: configuration.weight_decay > 0.0,
            },
            Optimizer::Adamw8bit => bitsandbytes(2, 8, false),
            Optimizer::PagedAdamw32bit => bitsandbytes(2, 32, true),
            Optimizer::PagedAdamw8bit => bitsandbytes(2, 8, true),
        }
    }
}

/// An optimizer over the parameters that are trained.
pub(super) struct OptimizerState<'t> {
    algorithm: Algorithm,
    /// All the tensors of the state; none before the first step, nor of rsvd.
    held: Vec<Tensor<'t>>,
    rsvd: Rsvd<'t>,
}

impl<'t> OptimizerState<'t> {
    pub(super) fn new(configuration: &Configuration) -> Self {
        Self {
            algorithm: Algorithm::of(configuration),
            held: Vec::new(),
            rsvd: Rsvd::new(
                configuration.optim_rank,
                configuration.model.hidden_size as u32,
                configuration.update_proj_gap,
            ),
        }
    }

    /// `optimizer.step()`.
    pub(super) fn step(&mut self, tape: &'t Tape, trainable: &[Tensor<'t>]) {
        if self.held.is_empty() {
            self.held = match self.algorithm {
                Algorithm::Adamw(implementation) => tape.adamw_states(trainable, implementation),
                Algorithm::Sgd { .. } | Algorithm::Rsvd => Vec::new(),
                Algorithm::Bitsandbytes(states) => tape.bitsandbytes_states(trainable, states),
            };
        }
        let like = |parameter: &Tensor<'t>| parameter.like(parameter.dtype());
        match self.algorithm {
            // The square roots of all second moments at once; or the gradients with the decay.
            Algorithm::Adamw(AdamwImpl::Foreach) | Algorithm::Sgd { decays: true } => {
                let all: Vec<_> = trainable.iter().map(like).collect();
                drop(all);
            }
            Algorithm::Adamw(AdamwImpl::ForLoop) => {
                let mut denominator: Option<Tensor<'t>> = None;
                for parameter in trainable {
                    let root = like(parameter);
                    let next = like(&root);
                    drop(root);
                    denominator = Some(next);
                }
                drop(denominator);
            }
            Algorithm::Rsvd => self.rsvd.step(tape, trainable),
            Algorithm::Adamw(AdamwImpl::Fused) | Algorithm::Sgd { decays: false } | Algorithm::Bitsandbytes(_) => {}
        }
    }
}

impl Tape {
    fn state(&self, elements: u64, dtype: Dtype) -> Tensor<'_> {
        self.bytes(elements * dtype.size(), Category::OptimizerState)
    }

    /// Two moments of each parameter, in its format; and the count of its steps, where that is not left to the host.
    fn adamw_states(&self, trainable: &[Tensor<'_>], implementation: AdamwImpl) -> Vec<Tensor<'_>> {
        let counts = self.backend == Backend::Cpu || implementation == AdamwImpl::Fused;
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

    /// The states of each parameter; those of 8 bits have scales, and codes that all parameters share. What is paged is in
    /// managed memory, which PyTorch's allocator does not have.
    fn bitsandbytes_states(&self, trainable: &[Tensor<'_>], of: States) -> Vec<Tensor<'_>> {
        let is_8bit = |elements: u64| of.bits == 8 && elements >= LEAST_8BIT;
        let each = |elements, dtype| (0..of.count).map(move |_| self.state(elements, dtype));
        let mut states = Vec::new();
        if trainable.iter().any(|parameter| is_8bit(parameter.numel())) {
            states.extend(each(CODE, Dtype::Float32));
        }
        for parameter in trainable {
            let elements = parameter.numel();
            let is_8bit = is_8bit(elements);
            let dtype = if is_8bit { Dtype::Uint8 } else { Dtype::Float32 };
            if !of.is_paged || elements < LEAST_PAGED {
                states.extend(each(elements, dtype));
            }
            if is_8bit {
                states.extend(each(elements.div_ceil(BLOCK), Dtype::Float32));
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
