//! Optimizers: their states, and the temporaries of a step.

use options::{Optimizer, has_8bit_states};
use trace::Category;

use super::adafactor::Adafactor;
use super::configuration::{Backend, Configuration};
use super::dtype::Dtype;
use super::groups::Groups;
use super::low_rank::Rsvd;
use super::tape::Tape;
use super::tape::Tensor;

/// Values of an 8-bit code.
const CODE: u64 = 256;
/// Numbers of a gradient whose squares are added up at once.
const NORM_CHUNK: u64 = 65_536;
/// Parameters of fewer elements have states that are not paged (`get_state_buffer`).
const LEAST_PAGED: u64 = 100_000;

/// The algorithm of an optimizer's step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Algorithm {
    Adamw(AdamwImpl),
    /// Without momentum; a weight decay is added to copies of the gradients.
    Sgd {
        decays: bool,
        is_foreach: bool,
    },
    /// bitsandbytes' optimizers, whose kernels need no temporaries.
    Bitsandbytes(States),
    /// Adam with low-rank state.
    Rsvd,
    Adafactor,
}

/// bitsandbytes' states of a parameter (`init_state` of `Optimizer1State` and `Optimizer2State` in
/// `optim/optimizer.py`).
#[derive(Clone, Copy, PartialEq, Eq)]
struct States {
    /// Two moments, or Lion's momentum.
    count: u32,
    is_8bit: bool,
    is_paged: bool,
    /// True if those of embeddings have 32 bits anyway.
    embeddings_32bit: bool,
    /// Weights that share a scale of 8-bit states.
    block: u64,
}

/// A program of AdamW's step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AdamwImpl {
    /// PyTorch's, one parameter after the other: the default on a CPU and before 2.0.
    ForLoop,
    /// PyTorch's, all at once: the default on a GPU.
    Foreach,
    /// PyTorch's, all at once and in one kernel.
    Fused,
    /// transformers' (`AdamW` in `optimization.py`, before 5.0), one parameter after the other.
    Transformers,
}

impl Algorithm {
    fn of(configuration: &Configuration) -> Self {
        let optim = configuration.optim;
        let is_foreach = configuration.backend == Backend::Cuda && configuration.pytorch.has_foreach;
        match optim {
            // Specs refuse galore on this stack.
            Optimizer::Adamw | Optimizer::Galore => Self::Adamw(match is_foreach {
                false => AdamwImpl::ForLoop,
                true => AdamwImpl::Foreach,
            }),
            Optimizer::AdamwTorchFused => Self::Adamw(AdamwImpl::Fused),
            Optimizer::AdamwHf => Self::Adamw(AdamwImpl::Transformers),
            Optimizer::Rsvd => Self::Rsvd,
            Optimizer::Adafactor => Self::Adafactor,
            Optimizer::Sgd => Self::Sgd {
                decays: configuration.weight_decay > 0.0,
                is_foreach,
            },
            Optimizer::Lion
            | Optimizer::Lion8bit
            | Optimizer::PagedLion32bit
            | Optimizer::PagedLion8bit
            | Optimizer::Adamw8bit
            | Optimizer::PagedAdamw32bit
            | Optimizer::PagedAdamw8bit => Self::Bitsandbytes(States {
                count: optim.state_numbers(),
                is_8bit: optim.is_8bit(),
                is_paged: optim.is_paged(),
                embeddings_32bit: configuration.embedding_states_32bit,
                block: configuration.bitsandbytes.optimizer_block,
            }),
        }
    }
}

/// An optimizer over the parameters that are trained.
pub(super) struct OptimizerState<'t> {
    algorithm: Algorithm,
    /// All the tensors of the state; none before the first step, nor of rsvd and adafactor.
    held: Vec<Tensor<'t>>,
    rsvd: Rsvd<'t>,
    adafactor: Adafactor<'t>,
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
            adafactor: Adafactor::default(),
        }
    }

    /// `optimizer.step()` on the CPU, where the parameters are: its states are there too, and its temporaries are not
    /// counted.
    pub(super) fn step_on_cpu(&mut self, tape: &'t Tape, parameters: &Groups<'t>, optim: Optimizer) {
        if !self.held.is_empty() {
            return;
        }
        for parameter in parameters.iter() {
            let bits = u64::from(optim.state_bits(8 * parameter.dtype().size() as u32));
            self.held
                .push(tape.bytes(parameter.numel() * bits / 8, Category::Offloaded));
        }
    }

    /// True once a step has made states.
    pub(super) fn has_states(&self) -> bool {
        !self.held.is_empty()
    }

    /// `optimizer.step()` of one parameter alone, which has states unless the step is its first.
    pub(super) fn step_alone(&mut self, tape: &'t Tape, parameter: &Tensor<'t>, is_first: bool) {
        self.step_together(tape, std::slice::from_ref(parameter), is_first);
    }

    /// `optimizer.step()`.
    pub(super) fn step(&mut self, tape: &'t Tape, parameters: &Groups<'t>) {
        let is_first = self.held.is_empty();
        match self.algorithm {
            Algorithm::Bitsandbytes(_) if !is_first => {}
            Algorithm::Bitsandbytes(states) => self.held = tape.bitsandbytes_states(parameters, states),
            Algorithm::Adamw(AdamwImpl::ForLoop | AdamwImpl::Foreach | AdamwImpl::Fused) | Algorithm::Sgd { .. } => {
                for group in parameters.groups() {
                    self.step_together(tape, group, is_first);
                }
            }
            // These go over all parameters in one function.
            Algorithm::Adamw(AdamwImpl::Transformers) | Algorithm::Rsvd | Algorithm::Adafactor => {
                let all: Vec<_> = parameters.iter().cloned().collect();
                self.step_together(tape, &all, is_first);
            }
        }
    }

    /// One step of parameters that a function steps together.
    fn step_together(&mut self, tape: &'t Tape, trainable: &[Tensor<'t>], is_first: bool) {
        if is_first && let Algorithm::Adamw(implementation) = self.algorithm {
            self.held.extend(tape.adamw_states(trainable, implementation));
        }
        let like = |parameter: &Tensor<'t>| parameter.like(parameter.dtype());
        match self.algorithm {
            // The square roots of all second moments at once; or the gradients with the decay.
            Algorithm::Adamw(AdamwImpl::Foreach)
            | Algorithm::Sgd {
                decays: true,
                is_foreach: true,
            } => {
                let all: Vec<_> = trainable.iter().map(like).collect();
                // Python's lists let go of what they have from behind.
                all.into_iter().rev().for_each(drop);
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
            // The root, to which the floor is added in place; or the gradient with the decay.
            Algorithm::Adamw(AdamwImpl::Transformers) | Algorithm::Sgd { decays: true, .. } => {
                let mut last: Option<Tensor<'t>> = None;
                for parameter in trainable {
                    last = Some(like(parameter));
                }
                drop(last);
            }
            Algorithm::Rsvd => self.rsvd.step(tape, trainable),
            Algorithm::Adafactor => self.adafactor.step(tape, trainable),
            Algorithm::Adamw(AdamwImpl::Fused) | Algorithm::Sgd { decays: false, .. } | Algorithm::Bitsandbytes(_) => {}
        }
    }
}

impl Tape {
    pub(super) fn state(&self, elements: u64, dtype: Dtype) -> Tensor<'_> {
        self.bytes(elements * dtype.size(), Category::OptimizerState)
    }

    /// Two moments of each parameter, in its format; and the count of its steps, where that is not left to the host.
    fn adamw_states(&self, trainable: &[Tensor<'_>], implementation: AdamwImpl) -> Vec<Tensor<'_>> {
        let counts = match implementation {
            AdamwImpl::Fused => true,
            AdamwImpl::ForLoop => self.backend == Backend::Cpu,
            AdamwImpl::Foreach | AdamwImpl::Transformers => false,
        };
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

    /// The states of each parameter; those of 8 bits have scales, and codes that all parameters share. What is paged is
    /// in managed memory, which PyTorch's allocator does not have.
    fn bitsandbytes_states<'t>(&'t self, parameters: &Groups<'t>, of: States) -> Vec<Tensor<'t>> {
        let is_8bit = |parameter: &Tensor<'t>| {
            let is_registered = of.embeddings_32bit && parameters.is_embedding(parameter);
            of.is_8bit && has_8bit_states(parameter.numel() as usize, is_registered)
        };
        let each = |elements, dtype| (0..of.count).map(move |_| self.state(elements, dtype));
        let mut states = Vec::new();
        if parameters.iter().any(is_8bit) {
            states.extend(each(CODE, Dtype::Float32));
        }
        for parameter in parameters.iter() {
            let elements = parameter.numel();
            let is_8bit = is_8bit(parameter);
            let dtype = if is_8bit { Dtype::Uint8 } else { Dtype::Float32 };
            if !of.is_paged || elements < LEAST_PAGED {
                states.extend(each(elements, dtype));
            }
            if is_8bit {
                states.extend(each(elements.div_ceil(of.block), Dtype::Float32));
            }
        }
        states
    }

    /// FSDP's `clip_grad_norm_`: the norm of each part of a gradient, and of all.
    pub(super) fn clip_sharded_grad_norm(&self, gradients: usize) {
        let number = || self.empty(&[], Dtype::Float32);
        let norms: Vec<_> = (0..gradients).map(|_| number()).collect();
        let stacked = self.empty(&[norms.len() as u32], Dtype::Float32);
        let local = number();
        drop((norms, stacked));
        let total = number();
        drop(local);
        let coefficient = number();
        drop((total, coefficient));
    }

    /// `clip_grad_norm_`: the norm of each gradient, of all of them, and the gradients scaled in place. The sum of each
    /// chunk of a gradient comes first (`foreach_tensor_norm_cuda` in `aten/src/ATen/native/cuda/ForeachReduceOp.cu`).
    pub(super) fn clip_grad_norm(&self, gradients: &[u64]) {
        let number = || self.empty(&[], Dtype::Float32);
        let most_chunks = gradients.iter().map(|elements| elements.div_ceil(NORM_CHUNK)).max();
        let sums = most_chunks.filter(|_| self.backend == Backend::Cuda && self.pytorch.has_foreach);
        let sums = sums.map(|chunks| self.empty(&[gradients.len() as u32, chunks as u32], Dtype::Float32));
        let norms: Vec<_> = gradients.iter().map(|_| number()).collect();
        drop(sums);
        let stacked = self.empty(&[norms.len() as u32], Dtype::Float32);
        let total = number();
        drop(stacked);
        norms.into_iter().rev().for_each(drop);
        let shifted = number();
        let (inverse, coefficient) = (number(), number());
        drop((inverse, shifted));
        let clamped = number();
        drop((coefficient, clamped, total));
    }
}

#[cfg(test)]
mod tests {
    use arch::Preset;
    use options::{Stack, UpdateRule};
    use trace::Account;

    use super::*;
    use crate::layout::Layout;
    use crate::versions::Bitsandbytes;

    /// What `python/torch_abstract/make_optimizer_states.py` counted.
    const STATES: &str = include_str!("../../../tests/fixtures/torch_abstract/optimizer_states.csv");

    fn configuration(optim: Optimizer) -> Configuration {
        let model = Preset::named("tiny").unwrap().config();
        Configuration {
            optim,
            ..Configuration::new(model)
        }
    }

    /// Bytes that are left after a step over one parameter, without it, and the most during the step.
    fn bytes(configuration: &Configuration, dims: &[u32], dtype: Dtype) -> [u64; 2] {
        bytes_of(configuration, dims, dtype, false)
    }

    /// The `bytes` of a parameter that may be the table of an embedding.
    fn bytes_of(configuration: &Configuration, dims: &[u32], dtype: Dtype, is_embedding: bool) -> [u64; 2] {
        let tape = Tape::new(configuration);
        let parameter = tape.empty_as(Layout::contiguous(dims), dtype, Category::Parameter);
        let mut parameters = Groups::new(false);
        match is_embedding {
            true => parameters.push_embedding(parameter.clone()),
            false => parameters.push(parameter.clone(), "weight"),
        }
        let mut optimizer = OptimizerState::new(configuration);
        tape.phase(trace::Phase::Optimizer);
        optimizer.step(&tape, &parameters);
        let account = Account::of(&tape.take_trace(), 1, 0);
        [account.at_end, account.peak.bytes].map(|bytes| bytes - parameter.numel() * dtype.size())
    }

    #[test]
    fn states_are_those_of_the_libraries() {
        let mut compared = 0;
        for row in STATES.lines().filter(|row| !row.starts_with('#')).skip(1) {
            let [optim, module, dtype, shape, bytes_there] = row.split(',').collect::<Vec<_>>()[..] else {
                panic!("{row}");
            };
            let dims: Vec<u32> = shape.split('x').map(|dim| dim.parse().unwrap()).collect();
            let dtype = match dtype {
                "float32" => Dtype::Float32,
                _ => Dtype::Bfloat16,
            };
            let configuration = configuration(Optimizer::named(optim).unwrap());
            let [after, _] = bytes_of(&configuration, &dims, dtype, module == "embedding");
            assert_eq!(after.to_string(), bytes_there, "{row}");
            compared += 1;
        }
        assert_eq!(compared, 90);
    }

    /// bitsandbytes' optimizer alone knows no embeddings.
    #[test]
    fn embeddings_have_states_of_8_bits_where_they_are_not_registered() {
        let mut configuration = configuration(Optimizer::Adamw8bit);
        let states = |of: &Configuration| bytes_of(of, &[128, 64], Dtype::Bfloat16, true)[0];
        assert_eq!(states(&configuration), 2 * 4 * 128 * 64);
        configuration.embedding_states_32bit = false;
        assert_eq!(
            states(&configuration),
            bytes(&configuration, &[128, 64], Dtype::Bfloat16)[0]
        );
    }

    /// What the table of the optimizers says of their states is what a step leaves.
    #[test]
    fn the_table_of_optimizers_says_what_their_states_take() {
        let dims = [4096, 4096];
        let elements = 4096 * 4096;
        for optim in Optimizer::of(Stack::Torch).filter(|optim| optim.update_rule() != UpdateRule::LowRankAdam) {
            for dtype in [Dtype::Float32, Dtype::Bfloat16] {
                let [after, peak] = bytes(&configuration(optim), &dims, dtype);
                let said = match optim.is_paged() {
                    true => 0,
                    false => u64::from(optim.state_bits(dtype.size() as u32 * 8)) * elements / 8,
                };
                // Scales of blocks, codes, and Adafactor's sums are a 25th of a byte a weight at most.
                assert!(
                    (said..=said + elements / 25).contains(&after),
                    "{optim:?} {dtype:?} {after}"
                );
                assert!(peak >= after);
            }
        }
    }

    #[test]
    fn older_releases_scale_larger_blocks() {
        let mut configuration = configuration(Optimizer::PagedAdamw8bit);
        let [today, _] = bytes(&configuration, &[1024, 1024], Dtype::Float32);
        configuration.bitsandbytes = Bitsandbytes::of("0.43.3").unwrap();
        let [before, _] = bytes(&configuration, &[1024, 1024], Dtype::Float32);
        // Two codes of 1 KiB, and the scales, which are not paged.
        assert_eq!(today, 2048 + 2 * 4096 * 4);
        assert_eq!(before, 2048 + 2 * 512 * 4);
    }

    #[test]
    fn temporaries_of_a_step() {
        let peak = |optim, dtype| bytes(&configuration(optim), &[1024, 1024], dtype)[1];
        let [float, half] = [4 << 20, 2 << 20];
        // Two moments, and the roots of one of them.
        assert_eq!(peak(Optimizer::Adamw, Dtype::Bfloat16), 3 * half);
        assert_eq!(peak(Optimizer::AdamwHf, Dtype::Float32), 3 * float);
        assert_eq!(peak(Optimizer::AdamwTorchFused, Dtype::Float32), 2 * float + 4);
        // The squares, and what blocks of threads share that add up their columns, 16 times 128 numbers for each; in 16
        // bits besides copies of gradient and weight. And the sums of rows and columns.
        let sums = 2 * 4096 + 4;
        let during = float + 4 * 1024 * 16 * 128 + sums;
        assert!((during..during + 16384).contains(&peak(Optimizer::Adafactor, Dtype::Float32)));
        let copies = 2 * float;
        assert!((during + copies..during + copies + 16384).contains(&peak(Optimizer::Adafactor, Dtype::Bfloat16)));
    }
}
