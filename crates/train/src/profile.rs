//! `measure: profile`: the memory of one step's forward and backward passes by component, as profilers of a single step
//! report it. An optimizer step on the same batch comes first and allocates the optimizer's state; the figures leave it
//! out. With accumulation, the step has several micro-batches, and the gradients stay from one to the next.

use arch::ModelConfig;
use data::Dataset;
use memory::timeline;
use options::{Task, TrainOptions};
use records::Profile;
use trace::{Category, Phase};

use super::{StepOutcome, TrainError, Trainer, memory_meter::MemoryMeter, steps::StepRecorder};

/// The optimizer step, and the step with the measured passes.
const STEPS: usize = 2;

/// Runs both steps; the second updates no weight. Returns `None` if the process has no ledger.
pub(super) fn run(
    options: &TrainOptions,
    config: &ModelConfig,
    dataset: &Dataset,
    trainer: &mut Trainer,
    meter: &mut MemoryMeter,
    steps: &mut StepRecorder,
) -> Result<Option<Profile>, TrainError> {
    steps.begin(&options.data, STEPS);
    // Loading has refused a data set that does not fill a batch.
    let Some(batch) = dataset.batches(&options.data, config).next() else {
        return Ok(None);
    };
    let batch = batch?;
    let start = steps.start();
    let outcome = trainer.step(&batch, 0, 1, &mut || {
        meter.sample();
        timeline::write_out();
    })?;
    steps.end(trainer, &batch, outcome, meter.end_step()?, start)?;

    meter.reset(trainer.device());
    let (mut at_end_of_forward, mut saved) = (0, 0);
    let start = steps.start();
    let loss = trainer.forward_backward(&batch, 1, &mut || {
        meter.sample();
        timeline::write_out();
        // The last sample within a forward pass is the one at its end. The most of all micro-batches counts.
        match memory::phase() {
            Phase::Forward => at_end_of_forward = memory::live().by_category[Category::Activation],
            _ => saved = at_end_of_forward.max(saved),
        }
    })?;
    let live = memory::live();
    let at_end = meter.end_step()?;
    // A GPU's pool knows no components.
    let peak = at_end.allocated_peak.filter(|_| trainer.device().is_cpu());
    let outcome = StepOutcome {
        loss,
        gradient_norm: trainer.gradient_norm()?,
        learning_rate: 0.0,
        loss_scale: trainer.loss_scale(),
        is_skipped: false,
    };
    steps.end(trainer, &batch, outcome, at_end, start)?;

    let bytes = |category| live.by_category[category];
    let adapter_bytes = options.model.adapter.as_ref().map(|_| bytes(Category::Adapter));
    let (parameter_bytes, optimizer_state_bytes) = (bytes(Category::Parameter), bytes(Category::OptimizerState));
    let gradient_bytes = bytes(Category::Gradient);
    let element = options.model.bytes_of_outputs();
    let sequences = batch.micro.iter().map(|micro| trainer.sequences(micro));
    let outputs = sequences.map(|sequences| match config.task() {
        // Packed rows are one row without padding.
        Task::CausalLm => config.module_outputs(1, sequences.tokens()),
        Task::SequenceClassification => config.module_outputs(sequences.count(), sequences.longest()),
    });
    Ok(peak.map(|peak_bytes| Profile {
        parameter_bytes,
        adapter_bytes,
        optimizer_state_bytes,
        activation_bytes: saved,
        gradient_bytes,
        total_bytes: parameter_bytes + adapter_bytes.unwrap_or(0) + optimizer_state_bytes + saved + gradient_bytes,
        allocated_bytes: live.allocated(),
        peak_bytes,
        module_outputs_bytes: outputs.max().map(|elements| elements * element),
    }))
}
