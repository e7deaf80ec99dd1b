//! Weights that a cell trains.

use arch::{ModelConfig, Module};
use cell::Cell;

use super::technique::Change;

/// The trained weights of the changed cell, as a share of the given one's.
pub(super) fn trainable_share(change: &Change<'_>) -> f64 {
    let trained = |cell: &Cell| match (change.from.rank, change.to.rank) {
        // Of the adapters that they may have.
        (0, 0) => of_adapters(cell, change.model, 1),
        _ => trained(cell, change.model),
    };
    trained(change.to) as f64 / trained(change.from) as f64
}

/// The model's own weights that are trained, as a share of all.
pub(super) fn base_share(cell: &Cell, model: &ModelConfig) -> f64 {
    of_base(cell, model) as f64 / model.parameter_count() as f64
}

/// True if a weight of a module for which `is_meant` holds is trained without an adapter.
pub(super) fn trains(cell: &Cell, model: &ModelConfig, is_meant: impl Fn(&str, &Module) -> bool) -> bool {
    let options = cell.model_options();
    let mut modules = model.modules().filter(|(name, module)| is_meant(name, module));
    modules.any(|(name, _)| options.trains(&name, "weight"))
}

/// Elements of the adapters and of the model's own weights that are trained.
pub(super) fn trained(cell: &Cell, model: &ModelConfig) -> u64 {
    let adapters = match cell.rank {
        0 => 0,
        rank => of_adapters(cell, model, rank),
    };
    of_base(cell, model) + adapters
}

fn of_base(cell: &Cell, model: &ModelConfig) -> u64 {
    let options = cell.model_options();
    let is_trained = |name: &str| {
        let parts = name.rsplit_once('.');
        parts.is_some_and(|(module, part)| options.trains(&module, part))
    };
    let weights = model.weights().into_iter().filter(|weight| is_trained(&weight.name));
    weights
        .map(|weight| weight.shape.iter().product::<usize>() as u64)
        .sum()
}

/// Elements of the adapters that a cell would have at this rank.
fn of_adapters(cell: &Cell, model: &ModelConfig, rank: usize) -> u64 {
    let adapted = Cell { rank, ..cell.clone() };
    let adapter = adapted.adapter_options();
    adapter.map_or(0, |adapter| model.adapter_elements(&adapter) as u64)
}
