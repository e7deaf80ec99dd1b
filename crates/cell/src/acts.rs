//! Changes of a key that show what it does.

use std::fmt;

use options::Stack;
use serde_json::{Map, Value};

/// A cell, another value of a key in it, and what that moves.
#[derive(Debug, Clone, Copy)]
pub struct Act {
    /// The keys of the cell beside [`START`], as a map of YAML in one line.
    base: &'static str,
    /// The other value.
    value: &'static str,
    /// Keys that change with it, because it cannot change alone.
    with: &'static str,
    candle: Option<&'static [Move]>,
    torch: Option<&'static [Move]>,
}

/// What a key moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Move {
    /// Bytes: predicted, or measured.
    Bytes,
    /// A loss.
    Loss,
    /// The tokens or steps of training.
    Tokens,
    /// The adapter's file.
    File,
    /// What a plan or a record says besides: a verdict, a range, a status, a fact of the process.
    Report,
    /// Time, which no test holds.
    Time,
}

/// The keys of every base.
pub const START: &str = "model: tiny, dtype: float32, max_steps: 3, max_seq_length: 32";

/// LoRA, with nothing but [`START`].
pub(super) const LORA: &str = "";
pub(super) const FULL: &str = "rank: 0";
pub(super) const GALORE: &str = "rank: 0, optim: galore";
pub(super) const RSVD: &str = "rank: 0, optim: rsvd";
pub(super) const SGD: &str = "rank: 0, optim: sgd";
pub(super) const INT4: &str = "dtype: int4";
pub(super) const INT8: &str = "dtype: int8";
pub(super) const IA3: &str = "adapter: ia3";
pub(super) const MISS: &str = "adapter: miss";
pub(super) const VERA: &str = "adapter: vera";
pub(super) const PROMPT: &str = "adapter: prompt_tuning";
pub(super) const PREFIX: &str = "adapter: prefix_tuning";
pub(super) const OFT: &str = "adapter: oft";
pub(super) const LOHA: &str = "adapter: loha";
pub(super) const LOKR: &str = "adapter: lokr";
/// Samples of several lengths.
pub(super) const UNEVEN: &str = "data: {synthetic: {lengths: [4, 24, 8, 16]}}, batch_size: 4";
pub(super) const LONGEST: &str = "data: {synthetic: {lengths: [4, 24, 8, 16]}}, batch_size: 4, padding: longest";
pub(super) const PACKED: &str = "data: {synthetic: {lengths: [4, 24, 8, 16]}}, batch_size: 4, packing: true";
pub(super) const UNIFORM: &str = "data: {synthetic: {lengths: uniform}}, batch_size: 4, padding: longest";
pub(super) const LOGNORMAL: &str =
    "data: {synthetic: {lengths: {mean: 16, sigma: 0.5}}}, batch_size: 4, padding: longest";
pub(super) const GENERATING: &str =
    "torch: {generation: {eval_steps: 1, batch_size: 32, prompt_tokens: 64, max_new_tokens: 4}}";
/// An encoder.
pub(super) const BERT: &str = "model: ./files/bert, weights: random, task: sequence_classification";
/// Files of texts, of prompts, of chats, of labels, and a folder of splits.
pub(super) const TEXTS: &str =
    "model: ./files/model, weights: random, data: {path: files/texts.jsonl}, batch_size: 4, padding: longest";
pub(super) const PAIRS: &str =
    "model: ./files/model, weights: random, data: {path: files/pairs.jsonl}, batch_size: 4, padding: longest";
pub(super) const CHATS: &str = "model: ./files/model, weights: random, batch_size: 4, padding: longest, \
     data: {path: files/chats.jsonl, chat_template: files/plain.jinja}";
pub(super) const CHATS_BY_FIELD: &str = "model: ./files/model, weights: random, batch_size: 4, padding: longest, \
     data: {path: files/chats.jsonl, chat_template: files/plain.jinja, content_field: draft}";
pub(super) const CHATS_WITH_TOOLS: &str = "model: ./files/model, weights: random, batch_size: 4, padding: longest, \
     data: {path: files/chats.jsonl, chat_template: files/tools.jinja}";
pub(super) const PAIRS_OF_COLUMNS: &str = "model: ./files/model, weights: random, batch_size: 4, padding: longest, \
     max_seq_length: 128, data: {path: files/pairs.jsonl, prompt_template: '{prompt} ', completion_column: completion}";
/// Values that commas and semicolons part, and lines of text.
pub(super) const TABLE: &str =
    "model: ./files/model, weights: random, data: {path: files/table.csv}, batch_size: 4, padding: longest";
pub(super) const LINES: &str =
    "model: ./files/model, weights: random, data: {path: files/lines.txt}, batch_size: 4, padding: longest";
pub(super) const LABELS: &str = "model: ./files/bert, weights: random, task: sequence_classification, num_labels: 3, \
     data: {path: files/texts.jsonl}, batch_size: 4, padding: longest";
pub(super) const SPLITS: &str =
    "model: ./files/model, weights: random, data: {path: files/splits/}, batch_size: 4, padding: longest";
/// A search for the micro-batch.
pub(super) const SEARCHED: &str = "device_memory: 8MiB, gradient_accumulation_steps: 2, \
     auto_batch_size: {start: 2, max: 4, search: largest}";
pub(super) const SEARCHED_GPU: &str =
    "gpu: t4, gradient_accumulation_steps: 2, auto_batch_size: {start: 2, max: 4, search: largest}";

/// What the value moves in our trainer, and what in a plan of PyTorch's stack.
pub(super) const fn both(
    base: &'static str,
    value: &'static str,
    candle: &'static [Move],
    torch: &'static [Move],
) -> Act {
    Act {
        base,
        value,
        with: "",
        candle: Some(candle),
        torch: Some(torch),
    }
}

/// What the value moves in our trainer.
pub(super) const fn candle(base: &'static str, value: &'static str, moves: &'static [Move]) -> Act {
    Act {
        torch: None,
        ..both(base, value, moves, &[])
    }
}

/// What the value moves in a plan of PyTorch's stack.
pub(super) const fn torch(base: &'static str, value: &'static str, moves: &'static [Move]) -> Act {
    Act {
        candle: None,
        ..both(base, value, &[], moves)
    }
}

impl Act {
    /// With keys that change, too.
    pub(super) const fn with(self, keys: &'static str) -> Self {
        Self { with: keys, ..self }
    }

    /// What it moves in a stack; `None` if it is for the other.
    pub fn moves_of(&self, stack: Stack) -> Option<&'static [Move]> {
        match stack {
            Stack::Candle => self.candle,
            Stack::Torch => self.torch,
        }
    }

    /// The keys of the cell and those of the changed one, as a spec has them, without `stack`.
    ///
    /// # Errors
    /// A text that is no YAML.
    pub fn keys(&self, key: &str) -> Result<[Map<String, Value>; 2], Mistaken> {
        let mistaken = |_| Mistaken(format!("{self:?} of `{key}`"));
        let map = |text: &str| serde_saphyr::from_str::<Map<String, Value>>(text).map_err(mistaken);
        let mut base = map(&format!("{{{START}}}"))?;
        for (name, value) in map(&format!("{{{}}}", self.base))? {
            match value {
                Value::Null => _ = base.remove(&name),
                value => _ = base.insert(name, value),
            }
        }
        let value: Value = serde_saphyr::from_str(self.value).map_err(mistaken)?;
        let mut changed = Value::Object(base.clone());
        *place(&mut changed, key) = value;
        for (name, value) in map(&format!("{{{}}}", self.with))? {
            *place(&mut changed, &name) = value;
        }
        match changed {
            Value::Object(changed) => Ok([base, changed]),
            _ => Err(Mistaken(key.to_owned())),
        }
    }
}

/// The place of a dotted key; what is no map on the way becomes one.
fn place<'v>(value: &'v mut Value, key: &str) -> &'v mut Value {
    key.split('.').fold(value, |value, name| {
        if !value.is_object() {
            *value = Value::Object(Map::new());
        }
        &mut value[name]
    })
}

/// An act that cannot be tried.
#[derive(Debug)]
pub struct Mistaken(String);

impl fmt::Display for Mistaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Mistaken {}
