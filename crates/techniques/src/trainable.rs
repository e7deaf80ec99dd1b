//! Weights that a cell trains.

use arch::{Kind, ModelConfig, Module};
use cell::Cell;
use options::AdapterMethod;

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

fn of_adapters(cell: &Cell, model: &ModelConfig, rank: usize) -> u64 {
    let adapted = Cell { rank, ..cell.clone() };
    let Some(adapter) = adapted.model_options().adapter else {
        return 0;
    };
    if let AdapterMethod::PromptTuning(prompt) = &adapter.method {
        return (prompt.num_virtual_tokens * model.hidden_size) as u64;
    }
    if let AdapterMethod::PrefixTuning(prefix) = &adapter.method {
        let width = model.num_key_value_heads * model.head_dim;
        return (prefix.num_virtual_tokens * model.num_hidden_layers * 2 * width) as u64;
    }
    if adapter.method == AdapterMethod::LnTuning {
        let norms = model.modules().filter(|(name, _)| model.tunes_norm(&adapter, name));
        return norms
            .map(|(_, norm)| norm.dims(model).into_iter().product::<usize>() as u64)
            .sum();
    }
    let linear = model.modules().filter(|(_, module)| module.kind == Kind::Linear);
    let elements = linear
        .filter(|(name, _)| model.adapts(&adapter, name))
        .map(|(name, module)| {
            let (&[rows, columns], rank) = (&module.dims(model)[..], adapter.rank_of(&name)) else {
                return 0;
            };
            match &adapter.method {
                AdapterMethod::Lora(lora) | AdapterMethod::Dora(lora) if !lora.trains_a => rows * rank,
                AdapterMethod::Lora(_) | AdapterMethod::Dora(_) => (rows + columns) * rank,
                AdapterMethod::Ia3(ia3) if model.is_feedforward(ia3, &name) => columns,
                AdapterMethod::Ia3(_) => rows,
                AdapterMethod::Miss(miss) => rank * miss.mini_r.unwrap_or(rows),
                AdapterMethod::Vera(_) => rows + rank,
                AdapterMethod::PromptTuning(_) | AdapterMethod::PrefixTuning(_) | AdapterMethod::LnTuning => 0,
            }
        });
    elements.sum::<usize>() as u64
}
