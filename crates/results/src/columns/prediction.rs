//! The columns that predictions fill. A new predicted figure gets a line here.

use records::prediction::{Prediction, ROUNDING, Verdict, WorstBatch};
use trace::{Category, Phase};

use super::kind::Kind;
use super::names::{category_column, phase_column};
use crate::datum::Datum;

/// The prefix of predicted columns. The rest of the name is the measured column's.
pub const PREDICTED: &str = "predicted_";

/// A column that predictions fill.
pub struct Predicted {
    /// The column's name, with its prefix.
    pub name: String,
    /// The column's type.
    pub kind: Kind,
    /// The value of a prediction.
    pub value: Box<dyn Fn(&Prediction) -> Datum>,
}

/// The columns that predictions fill, in the frame's order. They follow the outcome.
pub fn predictions() -> Vec<Predicted> {
    use Kind::{Int, Text};
    fn predicted<T: Into<Datum>>(name: &str, kind: Kind, value: impl Fn(&Prediction) -> T + 'static) -> Predicted {
        Predicted {
            name: format!("{PREDICTED}{name}"),
            kind,
            value: Box::new(move |prediction| value(prediction).into()),
        }
    }
    let mut columns = vec![
        predicted("verdict", Text, |p| p.verdict.map(Verdict::name)),
        predicted("budget_bytes", Int, |p| p.budget_bytes),
        predicted("needed_bytes", Int, |p| p.needed_bytes),
        predicted("needed_low_bytes", Int, |p| p.needed_low_bytes),
        predicted("needed_high_bytes", Int, |p| p.needed_high_bytes),
        predicted("range_reason", Text, |p| p.range_reason.clone()),
        predicted("fits_with", Text, |p| {
            (!p.fits_with.is_empty()).then(|| p.fits_with.join(", "))
        }),
        predicted("fits_with_bytes", Int, |p| p.fits_with_bytes),
        predicted("notes", Text, |p| (!p.notes.is_empty()).then(|| p.notes.join("; "))),
        predicted("binding_phase", Text, |p| p.binding_phase.clone()),
        predicted("binding_module", Text, |p| p.binding_module.clone()),
        predicted("allocated_peak_bytes", Int, |p| p.allocated_peak_bytes),
        predicted("allocated_low_bytes", Int, |p| p.allocated_low_bytes),
        predicted("allocated_high_bytes", Int, |p| p.allocated_high_bytes),
        predicted("host_allocated_peak_bytes", Int, |p| p.host_allocated_peak_bytes),
        predicted("host_budget_bytes", Int, |p| p.host_budget_bytes),
        predicted("reserved_peak_bytes", Int, |p| p.reserved_peak_bytes),
        predicted("reserved_low_bytes", Int, |p| p.reserved_low_bytes),
        predicted("reserved_high_bytes", Int, |p| p.reserved_high_bytes),
        predicted("process_peak_bytes", Int, |p| p.process_peak_bytes),
        predicted("context_bytes", Int, |p| p.context_bytes),
        predicted("context_low_bytes", Int, |p| p.context_low_bytes),
        predicted("context_high_bytes", Int, |p| p.context_high_bytes),
        predicted("reserved_with_room_bytes", Int, |p| p.reserved_with_room_bytes),
        predicted("reserved_after_first_step_bytes", Int, |p| {
            p.reserved_after_first_step_bytes
        }),
        predicted("reserved_after_last_step_bytes", Int, |p| {
            p.reserved_after_last_step_bytes
        }),
        predicted("planned_steps", Int, |p| p.planned_steps),
        predicted("training_steps", Int, |p| p.training_steps),
        predicted("worst_batch_step", Int, |p| Some(p.worst_batch.as_ref()?.step)),
        predicted("worst_batch_size", Int, |p| Some(p.worst_batch.as_ref()?.batch_size)),
        predicted("worst_batch_tokens", Int, |p| Some(p.worst_batch.as_ref()?.tokens)),
        predicted("worst_batch_samples", Text, |p| {
            p.worst_batch.as_ref().and_then(numbers)
        }),
        predicted("fragmentation_bytes", Int, |p| p.fragmentation_bytes),
        predicted("segments", Int, |p| p.segments),
    ];
    let tensors = Category::ALL.into_iter().filter(|category| category.is_tensor());
    for category in tensors.map(Category::name).chain([ROUNDING]) {
        columns.push(predicted(&category_column(category), Int, move |p| {
            p.allocated_peak_by_category.get(category).copied()
        }));
    }
    columns.push(predicted("allocated_peak_loss_bytes", Int, |p| {
        p.allocated_peak_loss_bytes
    }));
    for phase in Phase::ALL.map(Phase::name) {
        columns.push(predicted(&phase_column(phase), Int, move |p| {
            p.allocated_peak_in_phase.get(phase).copied()
        }));
    }
    columns.extend([
        predicted("allocated_mean_bytes", Int, |p| p.allocated_mean_bytes),
        predicted("allocated_end_bytes", Int, |p| p.allocated_end_bytes),
        predicted("parameter_count", Int, |p| p.parameter_count),
        predicted("trainable_count", Int, |p| p.trainable_count),
        predicted("adapter_file_bytes", Int, |p| p.adapter_file_bytes),
        predicted("checkpoint_file_bytes", Int, |p| p.checkpoint_file_bytes),
    ]);
    columns
}

/// The numbers of a batch's samples; `None` if they have none.
fn numbers(batch: &WorstBatch) -> Option<String> {
    let numbers: Vec<String> = batch.samples.iter().map(u64::to_string).collect();
    (!numbers.is_empty()).then(|| numbers.join(", "))
}
