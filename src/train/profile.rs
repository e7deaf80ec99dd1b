//! `measure: profile`: the components of one micro-batch's forward and backward pass, as profilers of a single step take
//! them. A first optimizer step, on the same micro-batch, makes the optimizer's state; it is not part of the figures.

use super::{Meter, StepOutcome, Steps, TrainError, Trainer};
use crate::{
    data::Dataset,
    memory::{self, Category, Phase, timeline},
    model::Config,
    results::record::Profile,
    spec::cell::Cell,
};

/// The optimizer step, and the two passes that are measured.
const STEPS: usize = 2;

/// Makes the two steps. The second moves no weight. None where the process keeps no ledger.
pub(super) fn run(
    cell: &Cell,
    config: &Config,
    dataset: &Dataset,
    trainer: &mut Trainer,
    meter: &mut Meter,
    steps: &mut Steps,
) -> Result<Option<Profile>, TrainError> {
    steps.begin(cell, STEPS);
    // A data set that does not fill a batch was an error before.
    let Some(batch) = dataset.batches(cell, config).next() else {
        return Ok(None);
    };
    let start = steps.start();
    let outcome = trainer.step(&batch, 0, 1, &mut || {
        meter.look();
        timeline::write_out();
    })?;
    steps.end(&batch, outcome, meter.end_step(), start)?;
    steps.release(trainer);

    meter.restart(trainer.device());
    let mut kept = 0;
    let start = steps.start();
    let loss = trainer.forward_backward(&batch, 1, &mut || {
        meter.look();
        timeline::write_out();
        // The last look within the forward pass is the one at its end.
        if memory::phase() == Phase::Forward {
            kept = memory::live().by_category[Category::Activation];
        }
    })?;
    let live = memory::live();
    let marks = meter.end_step();
    let peak = marks.allocated_peak;
    let outcome = StepOutcome {
        loss,
        gradient_norm: trainer.gradient_norm()?,
        learning_rate: 0.0,
    };
    steps.end(&batch, outcome, marks, start)?;
    steps.release(trainer);

    let bytes = |category| live.by_category[category];
    let adapter_bytes = (cell.rank > 0).then(|| bytes(Category::Adapter));
    let (parameter_bytes, optimizer_state_bytes) = (bytes(Category::Parameter), bytes(Category::OptimizerState));
    let gradient_bytes = bytes(Category::Gradient);
    Ok(peak.map(|peak_bytes| Profile {
        parameter_bytes,
        adapter_bytes,
        optimizer_state_bytes,
        activation_bytes: kept,
        gradient_bytes,
        total_bytes: parameter_bytes + adapter_bytes.unwrap_or(0) + optimizer_state_bytes + kept + gradient_bytes,
        allocated_bytes: live.allocated(),
        peak_bytes,
    }))
}
