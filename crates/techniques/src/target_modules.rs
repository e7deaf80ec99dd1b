//! Adapters on fewer layers.

use arch::ModelConfig;
use base::text::format;
use cell::Cell;
use options::TargetModules;

use super::price::{Harm, Price};
use super::technique::{Technique, nothing_follows};
use super::trainable::trainable_share;

pub(super) const TARGET_MODULES: Technique = Technique {
    key: "target_modules",
    does: "Puts adapters on fewer layers, whose inputs are then not kept.",
    avoid: "Where the adapter cannot learn the task any more.",
    follows: &[],
    is_ordered: true,
    is_of_tensors: true,
    steps: |cell, model| {
        if cell.init_adapter.is_some() {
            return Vec::new();
        }
        // Also where every weight is trained: the rank may change as well.
        let all = model.target_modules();
        // PEFT chooses few layers by itself for other methods, or all for whom fewer save little.
        if !cell.adapter.heeds("lora") {
            return Vec::new();
        }
        let targets = match cell.target_modules() {
            Some(TargetModules::Peft) => model.family.chosen_layers(cell.adapter).map(names),
            targets => targets,
        };
        let Some(targets) = targets else {
            return Vec::new();
        };
        let attention = attention(model);
        // PEFT's choice for most models (`TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING`).
        let queries_and_values = attention
            .iter()
            .copied()
            .filter(|name| name.starts_with(['q', 'v']))
            .collect();
        let mut given: Vec<&str> = all.into_iter().filter(|name| targets.contains(name)).collect();
        let mut steps = Vec::new();
        for fewer in [attention.clone(), queries_and_values] {
            let kept: Vec<&str> = given.iter().copied().filter(|name| fewer.contains(name)).collect();
            if !kept.is_empty() && kept.len() < given.len() {
                steps.push(Cell {
                    target_modules: Some(names(&kept)),
                    ..cell.clone()
                });
                given = kept;
            }
        }
        steps
    },
    settle: nothing_follows,
    copy: |from: &Cell, to: &mut Cell| to.target_modules.clone_from(&from.target_modules),
    price: |change| Price::new(Harm::Capacity, 1.0 - trainable_share(change)),
    meaning: |change| {
        format!(
            "{} of the trained weights",
            format::percent(trainable_share(change).into())
        )
    },
};

fn names(names: &[&str]) -> TargetModules {
    TargetModules::Names(names.iter().map(|&name| name.to_owned()).collect())
}

/// The linear layers of attention, by the last parts of their names.
fn attention(model: &ModelConfig) -> Vec<&'static str> {
    let paths = model.family.description().block.iter().map(|module| module.path);
    let of_attention = paths.filter(|path| path.contains("attn") || path.contains("attention"));
    let names = of_attention.filter_map(|path| path.rsplit('.').next());
    let targets = model.target_modules();
    names.filter(|name| targets.contains(name)).collect()
}
