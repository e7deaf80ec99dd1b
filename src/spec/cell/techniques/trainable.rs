//! Weights that a cell trains.

use super::technique::Change;
use crate::arch::{Kind, ModelConfig};
use crate::options::{LoraATraining, is_in, matching};
use crate::spec::cell::Cell;

/// The trained weights of the changed cell, as a share of the given one's.
pub(super) fn trainable_share(change: &Change<'_>) -> f64 {
    let trained = |cell: &Cell| match (change.from.rank, change.to.rank) {
        // Of the adapters that they may have.
        (0, 0) => of_adapters(cell, change.model, 1),
        _ => trained(cell, change.model),
    };
    trained(change.to) as f64 / trained(change.from) as f64
}

/// Elements of LoRA's factors, or of all weights.
pub(super) fn trained(cell: &Cell, model: &ModelConfig) -> u64 {
    match cell.rank {
        0 if cell.trainable.is_some() => {
            let options = cell.model_options();
            let is_trained = |name: &str| {
                name.rsplit_once('.')
                    .is_some_and(|(module, part)| options.trains(&module, part))
            };
            let weights = model.weights().into_iter().filter(|weight| is_trained(&weight.name));
            weights
                .map(|weight| weight.shape.iter().product::<usize>() as u64)
                .sum()
        }
        0 => model.parameter_count(),
        rank => of_adapters(cell, model, rank),
    }
}

fn of_adapters(cell: &Cell, model: &ModelConfig, rank: usize) -> u64 {
    let modules = model.modules().filter(|(name, module)| {
        module.kind == Kind::Linear
            && cell.target_modules.contains(name)
            && is_in(cell.layers_to_transform.as_deref(), model.block_of(name))
    });
    let elements = modules.map(|(name, module)| {
        let rank = matching(&cell.lora.rank_pattern, &name).unwrap_or(rank);
        match (&module.dims(model)[..], cell.lora_fa) {
            (&[rows, columns], LoraATraining::Trained) => (rows + columns) * rank,
            (&[rows, _], _) => rows * rank,
            _ => 0,
        }
    });
    elements.sum::<usize>() as u64
}
