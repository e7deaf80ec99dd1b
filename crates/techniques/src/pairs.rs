//! Techniques of our trainer in one cell, two by two: a cell with both, or the reason why there is none.
//!
//! No list says what combines. A cell that saves nothing gets both techniques, and the checks of cells judge it.

use arch::{ModelConfig, Preset};
use cell::Cell;
use options::Stack;
use serde_json::{Map, Value, json};

use super::registry::TECHNIQUES;
use super::technique::Technique;

/// The model of the cells, small enough to train them all.
const MODEL: &str = "tiny";

/// Two techniques.
#[derive(Debug)]
pub struct Pair {
    /// Both, in the order of the list.
    pub techniques: [&'static Technique; 2],
    /// A cell with both, or the reason why there is none.
    pub together: Result<Cell, String>,
}

/// All pairs of the techniques that can save memory in a cell of our trainer.
pub fn pairs() -> Vec<Pair> {
    let model = model();
    let starts = starts();
    let ours: Vec<(&'static Technique, Vec<&Cell>)> = TECHNIQUES
        .into_iter()
        .map(|technique| {
            let has_effect = |cell: &&Cell| most(technique, cell, &model).is_some();
            (technique, starts.iter().filter(has_effect).collect())
        })
        .filter(|(_, starts): &(_, Vec<_>)| !starts.is_empty())
        .collect();
    let mut pairs = Vec::new();
    for (index, (first, first_starts)) in ours.iter().enumerate() {
        for (second, second_starts) in &ours[index + 1..] {
            pairs.push(Pair {
                techniques: [*first, *second],
                together: together((*first, first_starts), (*second, second_starts), &model),
            });
        }
    }
    pairs
}

fn model() -> ModelConfig {
    let preset = Preset::named(MODEL).map(|preset| preset.config());
    #[expect(
        clippy::expect_used,
        reason = "the preset is part of the program, and a test loads it"
    )]
    preset.expect("a preset")
}

/// Valid cells in which techniques have something left to save: a plain one, and those that techniques of other formats
/// and adapters need.
fn starts() -> Vec<Cell> {
    let plain = json!({
        "model": MODEL,
        "stack": "candle",
        "dtype": "float32",
        "rank": 8,
        "batch_size": 4,
        "max_seq_length": 64,
        "data": { "synthetic": { "lengths": [64, 9, 33, 20], "samples": 64 } },
        "max_steps": 2,
        "allocator": { "backend": "system" },
    });
    let changes = [
        json!({}),
        json!({ "lora_dropout": 0.1 }),
        json!({ "attn_implementation": "eager" }),
        json!({ "loss": "full" }),
        json!({ "dtype": "int4", "bnb_4bit_use_double_quant": false }),
        json!({ "dtype": "int4", "bnb_4bit_compute_dtype": "float32" }),
        json!({ "dtype": "int4", "upcast": "peft" }),
        json!({ "dtype": "int4", "upcast": "peft", "bnb_4bit_use_double_quant": false }),
        json!({ "dtype": "int4", "upcast": "peft", "bnb_4bit_compute_dtype": "float32" }),
        json!({ "dtype": "int8", "upcast": "peft" }),
        json!({ "adapter": "dora" }),
        json!({ "rank": 0 }),
    ];
    let with = |change: &Value| {
        let (mut keys, changed) = (object(&plain), object(change));
        keys.extend(changed);
        let mut cell = Some(Cell::default());
        for (key, value) in keys {
            cell = cell.and_then(|cell| cell.with(&key, &value));
        }
        cell.filter(|cell| cell.validate().is_ok())
    };
    changes.iter().filter_map(with).collect()
}

fn object(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

/// The cell with the technique at the value that costs most; `None` where it has no effect.
fn most(technique: &Technique, cell: &Cell, model: &ModelConfig) -> Option<Cell> {
    debug_assert_eq!(cell.stack, Stack::Candle, "the pairs are those of our trainer");
    let steps = technique.steps(cell, model);
    steps.into_iter().skip(1).last().map(|step| step.cell)
}

/// Applies one technique after the other, in either order.
fn together(
    first: (&Technique, &[&Cell]),
    second: (&Technique, &[&Cell]),
    model: &ModelConfig,
) -> Result<Cell, String> {
    let mut why = None;
    for &start in first.1 {
        for &other in second.1 {
            for (before, after) in [
                ((first.0, start), (second.0, other)),
                ((second.0, other), (first.0, start)),
            ] {
                match one_after_the_other(before, after, model) {
                    Ok(cell) => return Ok(cell),
                    Err(reason) => why = why.or(Some(reason)),
                }
            }
        }
    }
    Err(why.unwrap_or_default())
}

/// A cell with the first technique gets the keys of the second one's start, and then the second technique.
fn one_after_the_other(
    (first, start): (&Technique, &Cell),
    (second, other): (&Technique, &Cell),
    model: &ModelConfig,
) -> Result<Cell, String> {
    let mut cell = most(first, start, model).unwrap_or_else(|| start.clone());
    second.apply(other, &mut cell);
    is_valid(&cell)?;
    let both = most(second, &cell, model);
    let both = both.ok_or_else(|| format!("with `{}` nothing is left for `{}` to save", first.key, second.key))?;
    is_valid(&both)?;
    Ok(both)
}

fn is_valid(cell: &Cell) -> Result<(), String> {
    cell.validate().map_err(|invalid| {
        let first = invalid.0.first();
        first.map_or_else(String::new, |invalid| format!("`{}`: {}", invalid.key, invalid.mistake))
    })
}

#[cfg(test)]
mod tests {
    use cell::stacks;

    use super::*;

    #[test]
    fn pairs_are_valid_cells_with_both_techniques() {
        let pairs = pairs();
        assert!(pairs.len() > 50, "{}", pairs.len());
        for Pair { techniques, together } in &pairs {
            match together {
                Ok(cell) => assert_eq!(cell.validate(), Ok(()), "{techniques:?}"),
                Err(why) => assert!(!why.is_empty(), "{techniques:?}"),
            }
        }
    }

    #[test]
    fn every_technique_of_our_trainer_is_in_a_pair() {
        let pairs = pairs();
        let missing: Vec<&str> = TECHNIQUES
            .into_iter()
            .filter(|technique| stacks(technique.key).contains(&Stack::Candle))
            .filter(|technique| {
                pairs
                    .iter()
                    .all(|pair| pair.techniques.iter().all(|of| of.key != technique.key))
            })
            .map(|technique| technique.key)
            .collect();
        assert_eq!(missing, [""; 0]);
    }
}
