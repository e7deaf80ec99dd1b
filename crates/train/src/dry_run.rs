//! The trainer without numbers: it loads a model and trains it for some steps, and its buffers record themselves.

use arch::ModelConfig;
use data::EffectiveBatch;
use options::{InstructionSet, Measure, ModelOptions, TrainOptions};
use peft::FileDtype;
use trace::Phase;
use trace::Trace;

use super::{TrainError, Trainer, save::saved_names};

/// Events of a block in a micro-batch, more or less.
const EVENTS: usize = 160;

/// The allocations of a training run.
#[derive(Debug)]
pub struct DryRun {
    /// Loading and the steps.
    pub trace: Trace,
    /// The first step that its figures are of.
    pub measured_from: u32,
    /// Parameters that are trained.
    pub trainable_count: u64,
}

/// Loads the model that `config` describes and takes these optimizer steps on a CPU with this instruction set. The
/// batches need no ids.
///
/// Assumes that no logit needs a second pass of the head, and that no gradient is zero.
///
/// # Errors
/// If the trainer does not have the family or the optimizer, or an optimizer finds nothing to work on.
pub fn dry_run(
    options: &TrainOptions,
    instruction_set: InstructionSet,
    config: &ModelConfig,
    steps: &[EffectiveBatch],
) -> Result<DryRun, TrainError> {
    let micro_batches: usize = steps.iter().map(|step| step.micro.len()).sum();
    let events = EVENTS * config.num_hidden_layers * (micro_batches + 2);
    let (trainable_count, trace) = memory::dry_run(instruction_set, events, || train(options, config, steps));
    Ok(DryRun {
        trace,
        measured_from: if options.measure == Measure::Profile { 2 } else { 1 },
        trainable_count: trainable_count?,
    })
}

/// Returns the number of parameters that are trained.
fn train(options: &TrainOptions, config: &ModelConfig, steps: &[EffectiveBatch]) -> Result<u64, TrainError> {
    memory::set_phase(Phase::Load);
    let mut trainer = Trainer::new(options, model::load_dry(&options.model, config)?)?;
    memory::set_phase(Phase::Idle);
    for (index, batch) in steps.iter().enumerate() {
        memory::mark(|trace| trace.step(index as u32 + 1));
        trainer.step(batch, index, steps.len(), &mut || ())?;
        memory::mark(Trace::step_end);
        trainer.release_gradients();
        if index + 1 < steps.len() {
            memory::set_phase(Phase::Idle);
        }
    }
    // A profile looks at the passes of the same micro-batches once more, after an optimizer step.
    if options.measure == Measure::Profile
        && let Some(batch) = steps.first()
    {
        memory::mark(|trace| trace.step(2));
        memory::set_phase(Phase::Idle);
        trainer.forward_backward(batch, 1, &mut || ())?;
        memory::mark(Trace::step_end);
    }
    Ok(trainer.trainable_count())
}

/// Bytes of the file that the trained adapter is saved to.
///
/// # Errors
/// As [`dry_run`].
pub fn adapter_file_bytes(options: &ModelOptions, config: &ModelConfig) -> Result<u64, TrainError> {
    let (bytes, _) = memory::dry_run(InstructionSet::ALL[0], 0, || {
        let mut model = model::load_dry(options, config)?;
        let params = model.saved();
        let names = saved_names(&params).into_iter();
        let files = names.zip(&params);
        let files = files.map(|(name, param)| (name, FileDtype::F32, param.value.dims().to_vec()));
        let mut files: Vec<_> = files.collect();
        let shared = model.saved_factors(options).into_iter();
        files.extend(shared.map(|(name, factor)| (name.to_owned(), FileDtype::F32, factor.dims().to_vec())));
        Ok(peft::file_bytes(files))
    });
    bytes
}
