//! A whole run of the trainer: the load, the optimizer steps, and the files and the process around them.

use super::held::Memory;
use super::load::Loader;
use super::optimizer::Optimizer;
use super::segments::{self, Chain, Pass};
use crate::{
    adapter::peft,
    arch::{Kind, ModelConfig},
    memory::Phase,
    options::{InstructionSet, LoraOptions, Measure, TrainOptions},
    plan::batches::Micro,
    trace::Trace,
};

/// Events of a block in a micro-batch, more or less.
const EVENTS: usize = 250;

/// The allocations of a training run.
#[derive(Debug)]
pub struct Planned {
    /// Loading and the steps.
    pub trace: Trace,
    /// The first step that its figures are of.
    pub measured_from: u32,
    /// Parameters that are trained.
    pub trainable_count: u64,
}

/// Plans the load and these optimizer steps, each with its micro-batches.
pub fn plan(
    options: &TrainOptions,
    instruction_set: InstructionSet,
    config: &ModelConfig,
    steps: &[Vec<Micro>],
) -> Planned {
    let micro_batches: usize = steps.iter().map(Vec::len).sum();
    let memory = Memory::new(EVENTS * config.num_hidden_layers * (micro_batches + 2));
    memory.phase(Phase::Load);
    let loader = Loader::new(&options.model, instruction_set, &memory);
    let trainable_count = if config.family.is_encoder() {
        let model = loader.encoder(config);
        drop(loader);
        train(options, model, &memory, steps)
    } else {
        let model = loader.decoder(config);
        drop(loader);
        train(options, model, &memory, steps)
    };
    Planned {
        trace: memory.into_trace(),
        measured_from: if options.measure == Measure::Profile { 2 } else { 1 },
        trainable_count,
    }
}

/// Bytes of the adapter's file.
pub fn adapter_file_bytes(lora: &LoraOptions, config: &ModelConfig) -> u64 {
    let files = config.modules().flat_map(|(name, module)| match module.kind {
        Kind::Classifier => vec![
            (format!("{name}.weight"), module.dims(config)),
            (format!("{name}.bias"), module.dims(config)[..1].to_vec()),
        ],
        Kind::Linear if lora.target_modules.contains(&name) => {
            let dims = module.dims(config);
            vec![
                (format!("{name}.lora_A.weight"), vec![lora.rank, dims[1]]),
                (format!("{name}.lora_B.weight"), vec![dims[0], lora.rank]),
            ]
        }
        _ => Vec::new(),
    });
    let files = files.map(|(name, shape)| (name, peft::FileDtype::F32, shape));
    peft::file_bytes(files)
}

/// What the trainer's process holds beside its tensors: the program, its libraries, and what its threads pack operands
/// into. Read off runs of many sizes (`docs/accuracy.md`).
const PROCESS: u64 = 25 << 20;

/// Resident bytes of the trainer's process, more or less: how well its allocator uses its pages is not followed.
pub fn process_bytes(allocated: u64) -> u64 {
    allocated + PROCESS
}

/// Trains, and counts what is trained.
fn train<'m, C: Chain<'m>>(options: &TrainOptions, mut model: C, memory: &'m Memory, steps: &[Vec<Micro>]) -> u64 {
    memory.phase(Phase::Idle);
    let mut optimizer = Optimizer::new(&options.optimizer);
    let forward_backward = |model: &mut C, micro: &[Micro]| {
        for micro in micro {
            let pass = Pass {
                batch: micro.batch as u64,
                len: micro.len as u64,
                tokens: (micro.batch * micro.len) as u64,
                counted: micro.counted as u64,
            };
            segments::forward_backward(model, &pass, options.gradient_checkpointing);
        }
    };
    for (index, micro) in steps.iter().enumerate() {
        memory.step(index as u32 + 1);
        forward_backward(&mut model, micro);
        optimizer.step(memory, model.params_mut());
        memory.step_end();
        release_gradients(&mut model);
        if index + 1 < steps.len() {
            memory.phase(Phase::Idle);
        }
    }
    // A profile looks at the passes of the same micro-batches once more, after an optimizer step.
    if options.measure == Measure::Profile
        && let Some(micro) = steps.first()
    {
        memory.step(2);
        forward_backward(&mut model, micro);
        memory.step_end();
    }
    let params = model.params_mut().into_iter().filter(|param| param.trainable);
    params.map(|param| param.elements()).sum()
}

fn release_gradients<'m, C: Chain<'m>>(model: &mut C) {
    for param in model.params_mut() {
        param.gradient = None;
    }
}
