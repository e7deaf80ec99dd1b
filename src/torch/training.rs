//! The loop: load, then steps of micro-batches, each a forward and a backward pass, and the optimizer.

use std::ops::Range;

use super::adapter_file::file_bytes;
use super::checkpoint::Frame;
use super::config::ModelConfig;
use super::models::attention::Plan;
use super::models::decoder::{Decoder, Output};
use super::models::encoder::Encoder;
use super::models::loader::Loader;
use super::optimizer::State;
use super::tape::{Mode, Tape};
use super::tensor::{Dtype, Tensor, View};
use super::versions::{Bitsandbytes, Transformers};
use crate::memory::{Category, Phase};
use crate::trace::Trace;

/// Whose memory the trace is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// PyTorch's CPU kernels under fake tensors, where nothing is added in place; to be compared with.
    Cpu,
    Cuda,
}

/// A kernel of `scaled_dot_product_attention`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// The CPU's.
    Portable,
    Efficient,
    Flash,
}

/// Number format of the base weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BaseDtype {
    Float32,
    Float16,
    Bfloat16,
    Int8,
    Int4,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attention {
    Eager,
    Sdpa,
    FlashAttention2,
}

/// What is cast to float32 before training.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Upcast {
    None,
    /// All that is not quantised, as PEFT's k-bit preparation does.
    Peft,
}

/// Which blocks recompute their forward pass in the backward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checkpointing {
    None,
    All,
    /// Block 0 and every n-th after it.
    Every(u32),
}

impl Checkpointing {
    pub(super) fn covers(self, block: usize) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::Every(n) => block.is_multiple_of(n.max(1) as usize),
        }
    }
}

/// Which linear layers get an adapter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Targets {
    /// All but the head.
    AllLinear,
    Names(Vec<String>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Optimizer {
    Adamw(Way),
    /// Without momentum, over all parameters at once; a weight decay is added to copies of the gradients.
    Sgd {
        decays: bool,
    },
    /// bitsandbytes' AdamW with states of 32 or 8 bits.
    Bitsandbytes {
        bits: u8,
        is_paged: bool,
    },
}

/// How PyTorch's AdamW goes over the parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// One after the other.
    Single,
    /// All at once, as it does on a GPU unless told otherwise.
    Foreach,
    /// All at once and in one kernel.
    Fused,
}

/// What becomes of LoRA's A.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoraA {
    Trained,
    /// As LoRA-FA has it.
    Frozen,
    /// The optimizer does not know it, but it wants gradients: they are computed, clipped and never released.
    Unstepped,
}

/// When the last step's gradients are released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZeroGrad {
    BeforeForward,
    AfterStep,
}

/// How long a step's outputs, logits and cache, stay alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outputs {
    /// Only the loss leaves the forward pass.
    None,
    /// Until the step is over.
    Step,
    /// Until the next forward pass is over and its outputs take the name.
    NextForward,
}

/// The GPU, as far as libraries look at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gpu {
    /// Compute capability, such as (7, 5).
    pub capability: (u8, u8),
}

impl Gpu {
    /// Bytes of the workspace that PyTorch gives cuBLAS by default: 32 MiB on Hopper and its successor, 2 of 4 MiB and 8 of
    /// 16 KiB otherwise (`parseChosenWorkspaceSize` in `aten/src/ATen/cuda/CublasHandlePool.cpp`).
    pub(crate) fn cublas_workspace(self) -> u64 {
        const KIB: u64 = 1024;
        match self.capability.0 {
            9 | 10 => 8 * 4096 * KIB,
            _ => 2 * 4096 * KIB + 8 * 16 * KIB,
        }
    }
}

/// A micro-batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Micro {
    pub batch: u32,
    pub len: u32,
    /// Some sample is shorter, so that a mask is given.
    pub padded: bool,
}

/// What a model has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Weights of the base model.
    pub parameters: u64,
    /// Weights that the optimizer is given.
    pub trainable: u64,
    /// Whether any layer has an adapter.
    pub is_adapted: bool,
    /// Bytes of the `adapter_model.safetensors` that PEFT writes; none with rank 0.
    pub adapter_file_bytes: Option<u64>,
}

/// What is trained, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct Configuration {
    pub model: ModelConfig,
    pub dtype: BaseDtype,
    /// The format of what int8 and int4 leave unquantised.
    pub torch_dtype: Dtype,
    /// 0 trains every weight.
    pub rank: u32,
    pub lora_dropout: f64,
    pub lora_a: LoraA,
    pub target_modules: Targets,
    pub adapter_dtype: Dtype,
    pub bnb_4bit_use_double_quant: bool,
    pub bnb_4bit_compute_dtype: Dtype,
    pub attn_implementation: Attention,
    /// The kernel of sdpa; none is PyTorch's choice.
    pub sdpa_kernel: Option<Kernel>,
    pub upcast: Upcast,
    /// The format of autocast, where it is on.
    pub autocast: Option<Dtype>,
    pub use_cache: bool,
    /// Steps after which the allocator's cache is given back; 0 never.
    pub empty_cache_steps: u32,
    pub gradient_checkpointing: Checkpointing,
    /// The embeddings' output is told to want a gradient, as checkpointing with adapters needs or used to need.
    pub enable_input_require_grads: bool,
    pub optim: Optimizer,
    /// 0 switches clipping off.
    pub max_grad_norm: f64,
    pub outputs: Outputs,
    pub zero_grad: ZeroGrad,
    pub gpu: Gpu,
    pub transformers: Transformers,
    pub bitsandbytes: Bitsandbytes,
    pub backend: Backend,
}

impl Configuration {
    /// What a spec's cell is by default, on a GPU of NVIDIA's Ampere: NF4 with LoRA of rank 16 on every linear layer.
    pub fn new(model: ModelConfig) -> Self {
        Self {
            model,
            dtype: BaseDtype::Int4,
            torch_dtype: Dtype::Bfloat16,
            rank: 16,
            lora_dropout: 0.0,
            lora_a: LoraA::Trained,
            target_modules: Targets::AllLinear,
            adapter_dtype: Dtype::Float32,
            bnb_4bit_use_double_quant: true,
            bnb_4bit_compute_dtype: Dtype::Bfloat16,
            attn_implementation: Attention::Sdpa,
            sdpa_kernel: None,
            upcast: Upcast::None,
            autocast: None,
            use_cache: false,
            empty_cache_steps: 0,
            gradient_checkpointing: Checkpointing::None,
            enable_input_require_grads: false,
            optim: Optimizer::Adamw(Way::Foreach),
            max_grad_norm: 1.0,
            outputs: Outputs::Step,
            zero_grad: ZeroGrad::AfterStep,
            gpu: Gpu { capability: (8, 0) },
            transformers: Transformers::TODAY,
            bitsandbytes: Bitsandbytes::TODAY,
            backend: Backend::Cuda,
        }
    }

    /// What is in the model, without training it.
    pub fn counts(&self) -> Counts {
        let tape = Tape::new(self.backend, self.gpu);
        let mut loader = Loader::new(&tape, self);
        let model = Model::load(&mut loader, self);
        let counts = Counts {
            parameters: loader.parameters,
            trainable: loader.trainable.iter().map(Tensor::numel).sum(),
            is_adapted: loader.saved.iter().any(|tensor| tensor.part.starts_with("lora_")),
            adapter_file_bytes: (self.rank > 0).then(|| file_bytes(self.model.family, &loader.saved)),
        };
        drop(model);
        counts
    }

    /// The format of all that is not quantised, as it is loaded.
    pub(super) fn unquantised(&self) -> Dtype {
        match self.dtype {
            BaseDtype::Float32 => Dtype::Float32,
            BaseDtype::Float16 => Dtype::Float16,
            BaseDtype::Bfloat16 => Dtype::Bfloat16,
            BaseDtype::Int8 | BaseDtype::Int4 => self.torch_dtype,
        }
    }

    pub(super) fn inputs_require_grad(&self) -> bool {
        self.rank > 0 && self.enable_input_require_grads
    }

    /// Whether a step leaves nothing that the next one releases or adds to, so that its events can be repeated.
    fn steps_end_clean(&self) -> bool {
        self.outputs != Outputs::NextForward && self.zero_grad == ZeroGrad::AfterStep && self.lora_a != LoraA::Unstepped
    }

    fn attention(&self) -> Plan {
        let hidden = match self.upcast {
            Upcast::Peft => Dtype::Float32,
            Upcast::None => self.unquantised(),
        };
        let kernel = self.sdpa_kernel.unwrap_or(match self.backend {
            Backend::Cpu => Kernel::Portable,
            Backend::Cuda if self.gpu.capability >= (8, 0) && hidden != Dtype::Float32 => Kernel::Flash,
            Backend::Cuda => Kernel::Efficient,
        });
        Plan {
            implementation: self.attn_implementation,
            kernel,
            grouped: kernel != Kernel::Efficient && !self.transformers.repeats_heads,
            copies_heads: self.transformers.copies_heads,
            copies_into_cache: self.transformers.copies_into_cache,
        }
    }
}

/// What training allocates and releases: the load, then one optimizer step for each of `steps`, each of these micro-batches.
pub fn trace(configuration: &Configuration, steps: &[&[Micro]]) -> Trace {
    let tape = Tape::new(configuration.backend, configuration.gpu);
    run(&tape, configuration, steps)
}

fn run(tape: &Tape, configuration: &Configuration, steps: &[&[Micro]]) -> Trace {
    tape.phase(Phase::Load);
    let mut loader = Loader::new(tape, configuration);
    let model = Model::load(&mut loader, configuration);
    let mut training = Training {
        tape,
        configuration,
        model,
        trainable: loader.trainable,
        unstepped: loader.unstepped,
        optimizer: State::new(configuration.optim),
        previous: None,
    };
    let mut last: Option<(&[Micro], Range<usize>)> = None;
    for (number, micros) in (1..).zip(steps) {
        tape.step(number);
        match &last {
            Some((before, events)) if before == micros && configuration.steps_end_clean() => {
                tape.repeat(events.clone());
            }
            _ => {
                let begin = tape.written();
                training.step(micros);
                last = Some((micros, begin..tape.written()));
            }
        }
        if configuration.empty_cache_steps > 0 && number % configuration.empty_cache_steps == 0 {
            tape.empty_cache();
        }
    }
    // The trace ends before everything is dropped.
    tape.take_trace()
}

/// Everything that lives from step to step.
struct Training<'t, 'c> {
    tape: &'t Tape,
    configuration: &'c Configuration,
    model: Model<'t>,
    /// What the optimizer is given.
    trainable: Vec<Tensor<'t>>,
    /// What wants gradients beside it.
    unstepped: Vec<Tensor<'t>>,
    optimizer: State<'t>,
    previous: Option<Held<'t>>,
}

impl Training<'_, '_> {
    /// One optimizer step.
    fn step(&mut self, micros: &[Micro]) {
        let zero_grad = self.configuration.zero_grad;
        if zero_grad == ZeroGrad::BeforeForward {
            self.zero_grad();
        }
        for micro in micros {
            self.micro_batch(micro);
        }
        let tape = self.tape;
        tape.phase(Phase::Optimizer);
        if self.configuration.max_grad_norm > 0.0 {
            tape.clip_grad_norm(self.leaves());
        }
        self.optimizer.step(tape, &self.trainable);
        tape.step_end();
        tape.phase(Phase::Idle);
        if zero_grad == ZeroGrad::AfterStep {
            self.zero_grad();
        }
        if self.configuration.outputs != Outputs::NextForward {
            self.previous = None;
        }
    }

    /// Parameters that want gradients.
    fn leaves(&self) -> usize {
        self.trainable.len() + self.unstepped.len()
    }

    /// `optimizer.zero_grad()`.
    fn zero_grad(&self) {
        for parameter in &self.trainable {
            drop(self.tape.take_gradient(parameter));
        }
    }

    /// A forward and a backward pass.
    fn micro_batch(&mut self, micro: &Micro) {
        let (tape, configuration, model) = (self.tape, self.configuration, &self.model);
        tape.phase(Phase::Forward);
        let ids = tape.input(micro);
        let autocast = configuration.autocast;
        let output = tape.autocast(autocast, || {
            tape.within(Mode::Record, || model.forward(tape, configuration, micro, &ids))
        });
        self.previous = None;
        let Output { loss, logits, cache } = output;
        let outputs = (configuration.outputs != Outputs::None).then_some((logits, cache));
        tape.phase(Phase::Backward);
        loss.backward(&|frame: &Frame| tape.autocast(autocast, || model.recompute(tape, frame)));
        let history = tape.clear_graph(self.leaves());
        // Where outputs do not leave the forward pass, of the loss only a detached number does.
        self.previous = outputs.map(|outputs| Held {
            _outputs: outputs,
            _loss: loss,
            _history: history,
            _ids: ids,
        });
    }
}

/// A model of any family.
enum Model<'t> {
    Decoder(Box<Decoder<'t>>),
    Encoder(Box<Encoder<'t>>),
}

impl<'t> Model<'t> {
    fn load(loader: &mut Loader<'t, '_>, configuration: &Configuration) -> Self {
        let (config, plan) = (&configuration.model, configuration.attention());
        if config.family.is_encoder() {
            Self::Encoder(Box::new(Encoder::load(loader, config, plan)))
        } else {
            Self::Decoder(Box::new(Decoder::load(loader, config, plan)))
        }
    }

    fn forward(&self, tape: &'t Tape, configuration: &Configuration, micro: &Micro, ids: &Tensor<'t>) -> Output<'t> {
        match self {
            Self::Decoder(decoder) => decoder.forward(tape, configuration, micro, ids),
            Self::Encoder(encoder) => encoder.forward(tape, configuration, micro, ids),
        }
    }

    fn recompute(&self, tape: &'t Tape, frame: &Frame) -> Option<View> {
        let output = match self {
            Self::Decoder(decoder) => decoder.recompute(tape, frame),
            Self::Encoder(encoder) => encoder.recompute(tape, frame),
        };
        output.map(Tensor::into_view)
    }
}

/// What a step leaves alive.
struct Held<'t> {
    _outputs: (Tensor<'t>, super::models::attention::Cache<'t>),
    _loss: Tensor<'t>,
    _history: Vec<Tensor<'t>>,
    _ids: Tensor<'t>,
}

impl Tape {
    /// The token ids of a micro-batch, which are their own labels.
    fn input(&self, micro: &Micro) -> Tensor<'_> {
        let layout = super::layout::Layout::contiguous(&[micro.batch, micro.len]);
        self.empty_as(layout, Dtype::Int64, Category::Input)
    }
}
