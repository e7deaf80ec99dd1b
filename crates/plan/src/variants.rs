//! What other people do differently with a cell of PyTorch's stack, where that decides how much memory it takes.

use cell::{Cell, Data, Lengths, Loss, Stack, Task, Upcast};
use rayon::prelude::*;
use records::prediction::Prediction;
use serde_json::{Value, json};

use super::Planner;

/// A cell with one key as others have it.
#[derive(Debug, Clone, PartialEq)]
pub struct Variant {
    /// What it is, after "with".
    pub words: &'static str,
    /// The key.
    pub key: &'static str,
    /// Its value.
    pub value: Value,
    /// The prediction with it.
    pub prediction: Prediction,
}

/// True for samples as long as `max_seq_length`, which others have longer.
fn is_of_full_length(cell: &Cell) -> bool {
    matches!(&cell.data, Data::Synthetic(synthetic) if synthetic.lengths == Lengths::Fixed)
}

/// A difference, and the value of its key if `cell` does not have it already.
struct Difference {
    words: &'static str,
    key: &'static str,
    value: fn(&Cell) -> Option<Value>,
}

/// The differences, the one that people meet most first.
const DIFFERENCES: [Difference; 5] = [
    Difference {
        words: "prepare_model_for_kbit_training",
        key: "upcast",
        // FSDP shares weights of one format alone, and DeepSpeed casts them.
        value: |cell| {
            let is_plain = !cell.is_fsdp() && !cell.is_deepspeed();
            let may_cast = cell.dtype.is_quantised() && cell.upcast == Upcast::None && is_plain;
            may_cast.then(|| json!(Upcast::Peft))
        },
    },
    Difference {
        words: "no k-bit preparation",
        key: "upcast",
        value: |cell| (cell.dtype.is_quantised() && cell.upcast != Upcast::None).then(|| json!(Upcast::None)),
    },
    Difference {
        words: "TRL's loss since 1.15",
        key: "loss",
        value: |cell| (cell.task == Task::CausalLm && cell.loss() != Loss::Tiled).then(|| json!(Loss::Tiled)),
    },
    Difference {
        words: "the model's own loss",
        key: "loss",
        value: |cell| cell.loss().is_partial().then(|| json!(Loss::Full)),
    },
    Difference {
        words: "samples of twice the length",
        key: "max_seq_length",
        value: |cell| is_of_full_length(cell).then(|| json!(2 * cell.max_seq_length)),
    },
];

/// The plans of `cell` as others would train it. Those that it cannot have are left out: a model without so many
/// positions, a loss that it has no head for.
pub fn variants(planner: &Planner, cell: &Cell) -> Vec<Variant> {
    if cell.stack != Stack::Torch {
        return Vec::new();
    }
    let variant = |difference: &Difference| {
        let value = (difference.value)(cell)?;
        let changed = cell.with(difference.key, &value)?;
        Some(Variant {
            words: difference.words,
            key: difference.key,
            value,
            prediction: planner.predict(&changed).ok()?,
        })
    };
    DIFFERENCES.par_iter().filter_map(variant).collect()
}
