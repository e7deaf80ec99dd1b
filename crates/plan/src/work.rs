//! The work of a training, to tell how long cells will take from others.

use arch::ModelConfig;
use cell::{Cell, Measure};
use records::prediction::Prediction;

/// Optimizer steps that a profile takes, with the passes that it measures.
const OF_PROFILE: f64 = 2.0;

/// Floating-point operations of a cell's training, every sample as long as `max_seq_length`. `None` if its steps are not known.
pub(super) fn work(cell: &Cell, model: &ModelConfig, prediction: &Prediction) -> Option<f64> {
    let steps = match cell.measure {
        Measure::Profile => OF_PROFILE,
        Measure::Epoch => cell
            .max_steps
            .map(|steps| steps as f64)
            .or(prediction.training_steps.map(|steps| steps as f64))?,
    };
    let tokens = cell.batch_size * cell.gradient_accumulation_steps * cell.max_seq_length;
    let trained = if cell.method().is_none() { 1.0 } else { 0.0 };
    Some(steps * tokens as f64 * model.forward_flops(cell.max_seq_length).of_step(trained))
}
