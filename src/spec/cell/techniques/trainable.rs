//! Weights that a cell trains.

use super::technique::Change;
use crate::arch::{Kind, ModelConfig};
use crate::options::{LoraATraining, TargetModules};
use crate::spec::cell::Cell;

/// The trained weights of the changed cell, as a share of the given one's.
pub(super) fn trainable_share(change: &Change<'_>) -> f64 {
    trained(change.to, change.model) as f64 / trained(change.from, change.model) as f64
}

/// Elements of LoRA's factors, or of all weights.
fn trained(cell: &Cell, model: &ModelConfig) -> u64 {
    if cell.rank == 0 {
        return model.parameter_count();
    }
    let modules = model.modules().filter(|(name, module)| {
        module.kind == Kind::Linear
            && (cell.target_modules == TargetModules::AllLinear || cell.target_modules.contains(name))
    });
    let elements = modules.map(|(_, module)| match (&module.dims(model)[..], cell.lora_fa) {
        (&[rows, columns], LoraATraining::Trained) => rows + columns,
        (&[rows, _], _) => rows,
        _ => 0,
    });
    let elements: usize = elements.sum();
    (elements * cell.rank) as u64
}
