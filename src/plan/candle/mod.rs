//! Our own trainer: what it allocates on the CPU, followed function by function.
//!
//! Each file mirrors the layers it names, in their order, and nothing else decides a size: the trainer's ledger is the truth,
//! and `tests/plan` compares the two. [`held::Held`] is freed where a tensor of the trainer's would be, so that lifetimes
//! are Rust's here as there.

mod decoder;
mod encoder;
mod held;
mod linear;
mod load;
mod optimizer;
mod param;
mod segments;

use super::{batches::Micro, trace::Trace};
use crate::{
    memory::Phase,
    model::Config,
    spec::cell::{Cell, Measure},
};
use held::Memory;
use load::Loader;
use optimizer::Optimizer;
use segments::{Chain, Pass};

/// What a cell's training allocates.
#[derive(Debug)]
pub struct Planned {
    pub trace: Trace,
    /// The first step that its figures are of.
    pub measured_from: u32,
    pub trainable_count: u64,
}

/// A cell's load and these optimizer steps, each with its micro-batches.
pub fn plan(cell: &Cell, config: &Config, steps: &[Vec<Micro>]) -> Planned {
    let memory = Memory::default();
    memory.phase(Phase::Load);
    let loader = Loader::new(cell, &memory);
    let trainable_count = match config {
        Config::Llama(config) => {
            let model = loader.decoder(config);
            drop(loader);
            train(cell, model, &memory, steps)
        }
        Config::Encoder(config) => {
            let model = loader.encoder(config);
            drop(loader);
            train(cell, model, &memory, steps)
        }
    };
    Planned {
        trace: memory.into_trace(),
        measured_from: if cell.measure == Measure::Profile { 2 } else { 1 },
        trainable_count,
    }
}

/// Trains, and counts what is trained.
fn train<'m, C: Chain<'m>>(cell: &Cell, mut model: C, memory: &'m Memory, steps: &[Vec<Micro>]) -> u64 {
    memory.phase(Phase::Idle);
    let mut optimizer = Optimizer::new(cell);
    let forward_backward = |model: &mut C, micro: &[Micro]| {
        for micro in micro {
            let pass = Pass {
                batch: micro.batch as u64,
                len: micro.len as u64,
                tokens: (micro.batch * micro.len) as u64,
                counted: micro.counted as u64,
            };
            segments::forward_backward(model, &pass, cell.gradient_checkpointing);
        }
    };
    for (index, micro) in steps.iter().enumerate() {
        memory.step(index as u32 + 1);
        forward_backward(&mut model, micro);
        optimizer.step(memory, model.params_mut());
        release_gradients(&mut model, memory);
    }
    // A profile looks at the passes of the same micro-batches once more, after an optimizer step.
    if cell.measure == Measure::Profile
        && let Some(micro) = steps.first()
    {
        memory.step(2);
        forward_backward(&mut model, micro);
        release_gradients(&mut model, memory);
    }
    let params = model.params_mut().into_iter().filter(|param| param.trainable);
    params.map(|param| param.elements()).sum()
}

fn release_gradients<'m, C: Chain<'m>>(model: &mut C, memory: &Memory) {
    memory.step_end();
    for param in model.params_mut() {
        param.gradient = None;
    }
    memory.phase(Phase::Idle);
}
