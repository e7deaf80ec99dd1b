//! The keys that vary in a study, and those that are the same in all of its cells.

use std::collections::BTreeMap;

use options::Optimizer;
use results::columns::{IDENTITY, LINEAGE, PREDICTED, default_keys, is_optional, outcomes};
use results::datum::Datum;
use results::setting;
use serde::Serialize;

use super::entry::Entry;

/// A key and the text of its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Setting {
    /// The key.
    pub key: String,
    /// The text of its value.
    pub value: String,
}

/// Keys that matter to every reader, even at their default.
const ALWAYS_SHOWN: [&str; 15] = [
    "model",
    "weights",
    "dtype",
    "rank",
    "lora_alpha",
    "target_modules",
    "batch_size",
    "gradient_accumulation_steps",
    "gradient_checkpointing",
    "max_seq_length",
    "max_steps",
    "num_train_epochs",
    "optim",
    "learning_rate",
    "data",
];

/// The columns that vary: first the axes that the spec declares, then other columns that differ. An axis of one value
/// says nothing about a cell, and neither does the seed: cells that differ in the seed alone are repeats.
pub fn axes(entries: &[Entry], declared: &[String]) -> Vec<String> {
    let keys = key_columns(entries);
    let mut axes: Vec<String> = Vec::new();
    let declared = declared.iter().filter_map(|axis| column_of(axis, &keys));
    let declared = declared.filter(|axis| varies(entries, axis));
    let varying = keys.iter().filter(|key| varies(entries, key)).cloned();
    for axis in declared.chain(varying) {
        if axis != "seed" && !axes.contains(&axis) {
            axes.push(axis);
        }
    }
    axes
}

/// The configuration that all cells share: every key that matters or is not at its default, without the machine's.
pub(crate) fn fixed(entries: &[Entry], axes: &[String]) -> Vec<Setting> {
    let defaults: BTreeMap<String, Datum> = default_keys().into_iter().collect();
    let mut settings = Vec::new();
    for key in key_columns(entries) {
        if axes.contains(&key) || is_of_machine(&key) {
            continue;
        }
        let is_set = |entry: &&Entry| !entry.get(&key).is_null();
        let Some(value) = entries.iter().find(is_set).map(|entry| entry.get(&key)) else {
            continue;
        };
        let is_default = match key.as_str() {
            "adam_beta2" => beta2_follows_optimizer(entries),
            key => Some(value) == defaults.get(key),
        };
        let value = if key == "lora_alpha" && varies(entries, "rank") && alpha_follows_rank(entries) {
            "2 × rank".to_string()
        } else if ALWAYS_SHOWN.contains(&key.as_str()) || !is_default {
            setting(&key, value)
        } else {
            continue;
        };
        let value = if entries.iter().all(|entry| is_set(&entry)) {
            value
        } else {
            format!("{value} where it applies")
        };
        settings.push(Setting { key, value });
    }
    settings
}

/// The columns of a cell's keys: all but identity, outcome and prediction.
pub fn key_columns(entries: &[Entry]) -> Vec<String> {
    let outcomes = outcomes();
    let is_key = |name: &str| {
        let mut of_row = IDENTITY.iter().chain(&LINEAGE);
        of_row.all(|(column, _)| *column != name)
            && outcomes.iter().all(|outcome| outcome.name != name)
            && !name.starts_with(PREDICTED)
    };
    let columns = entries.first().into_iter().flat_map(Entry::columns);
    columns.filter(|name| is_key(name)).map(str::to_string).collect()
}

/// The column of an axis. An axis may be a key inside a choice, such as `data.synthetic.lengths`, whose column is the
/// choice's.
fn column_of(axis: &str, keys: &[String]) -> Option<String> {
    let mut name = axis;
    loop {
        if keys.iter().any(|key| key == name) {
            return Some(name.to_string());
        }
        name = name.rsplit_once('.')?.0;
    }
}

/// The name of an axis without its sections.
pub(crate) fn last_part(axis: &str) -> &str {
    axis.rsplit('.').next().unwrap_or(axis)
}

/// True if a key has several values. Null is one of a cell that heeds the key and leaves it open.
pub(super) fn varies(entries: &[Entry], key: &str) -> bool {
    if key == "lora_alpha" && alpha_follows_rank(entries) || key == "adam_beta2" && beta2_follows_optimizer(entries) {
        return false;
    }
    let mut values = entries
        .iter()
        .map(|entry| entry.get(key))
        .filter(|value| !value.is_null());
    let Some(first) = values.next() else {
        return false;
    };
    let is_open = |entry: &Entry| entry.get(key).is_null() && entry.heeds(key);
    values.any(|value| value != first) || is_optional(key) && !is_of_machine(key) && entries.iter().any(is_open)
}

/// True if every cell has its optimizer's default.
fn beta2_follows_optimizer(entries: &[Entry]) -> bool {
    entries.iter().all(|entry| {
        let optimizer = entry.text("optim").and_then(Optimizer::named);
        let default = optimizer.map(Optimizer::default_beta2);
        entry.number("adam_beta2").is_none_or(|beta2| Some(beta2) == default)
    })
}

/// True for the keys that a run replaces with the machine's values.
pub(super) fn is_of_machine(key: &str) -> bool {
    matches!(key, "device" | "threads" | "instruction_set")
}

fn alpha_follows_rank(entries: &[Entry]) -> bool {
    entries
        .iter()
        .all(|entry| match (entry.number("lora_alpha"), entry.number("rank")) {
            (Some(alpha), Some(rank)) => alpha == 2.0 * rank,
            (None, _) => true,
            _ => false,
        })
}

#[cfg(test)]
mod tests {
    use cell::{Attention, Cell};
    use options::Stack;
    use results::columns::keys;

    use super::*;

    fn cells(optimizers: &[(Optimizer, Option<f64>)]) -> Vec<Entry> {
        let cell = |&(optim, adam_beta2)| Cell {
            optim,
            adam_beta2,
            ..Cell::default()
        };
        let cells = optimizers.iter().map(cell);
        cells.map(|cell| keys(&cell).into_iter().collect()).collect()
    }

    #[test]
    fn an_optimizers_default_is_no_axis() {
        let defaults = cells(&[
            (Optimizer::Lion, None),
            (Optimizer::Adamw, Some(0.999)),
            (Optimizer::Sgd, None),
        ]);
        let axes_of = |cells: &[Entry]| axes(cells, &["adam_beta2".to_owned(), "optim".to_owned()]);
        assert_eq!(axes_of(&defaults), ["optim"]);
        let is_shown = |cells: &[Entry]| {
            let settings = fixed(cells, &axes_of(cells));
            settings.iter().any(|setting| setting.key == "adam_beta2")
        };
        assert!(!is_shown(&defaults));
        let chosen = cells(&[(Optimizer::Lion, Some(0.999)), (Optimizer::Adamw, None)]);
        assert!(axes_of(&chosen) == ["optim"] && is_shown(&chosen));
        let varied = cells(&[(Optimizer::Lion, None), (Optimizer::Lion, Some(0.98))]);
        assert_eq!(axes_of(&varied), ["adam_beta2"]);
    }

    #[test]
    fn alpha_is_twice_the_rank_only_where_it_is() {
        let alpha = |cells: &[(usize, Option<f64>)]| {
            let cell = |&(rank, lora_alpha)| Cell {
                rank,
                lora_alpha,
                ..Cell::default()
            };
            let cells: Vec<Entry> = cells
                .iter()
                .map(|of_cell| keys(&cell(of_cell)).into_iter().collect())
                .collect();
            let mut shown = fixed(&cells, &axes(&cells, &[])).into_iter();
            shown
                .find(|setting| setting.key == "lora_alpha")
                .map(|setting| setting.value)
        };
        assert_eq!(alpha(&[(8, None), (16, None)]).as_deref(), Some("2 × rank"));
        assert_eq!(alpha(&[(8, Some(16.0)), (16, Some(16.0))]).as_deref(), Some("16"));
        let some = alpha(&[(8, Some(32.0)), (0, None)]);
        assert_eq!(some.as_deref(), Some("32 where it applies"));
        assert_eq!(alpha(&[(8, Some(16.0)), (16, Some(8.0))]), None, "an axis");
    }

    #[test]
    fn a_key_that_some_cells_do_not_heed_is_no_axis() {
        let cell = |attn_implementation, repeat_kv| {
            let mut cell = Cell {
                stack: Stack::Torch,
                attn_implementation,
                ..Cell::default()
            };
            cell.torch.repeat_kv = repeat_kv;
            keys(&cell).into_iter().collect::<Entry>()
        };
        let key = "torch.repeat_kv".to_owned();
        let idle = [cell(Attention::Sdpa, Some(true)), cell(Attention::Eager, None)];
        assert!(!varies(&idle, &key));
        let shown = fixed(&idle, &axes(&idle, &[]))
            .into_iter()
            .find(|setting| setting.key == key);
        assert_eq!(shown.unwrap().value, "true where it applies");
        let open = [cell(Attention::Sdpa, Some(true)), cell(Attention::Sdpa, None)];
        assert!(varies(&open, &key));
    }
}
