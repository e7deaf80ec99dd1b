//! A cell's name: the same for equal settings, on any machine, whatever the order of the keys.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use base::text::hex;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::Cell;
use super::Stack;

/// Part of every id. Raise it when a default changes or a key gets another meaning: ids must never be given twice.
///
/// The keys that moved under `torch`, and `autocast` with a format, did not raise it. Cells that leave them at their
/// defaults keep their ids, and those that set them have ids that no cell had before.
const ID_VERSION: u64 = 1;

impl Cell {
    /// The first 12 hex digits of SHA-256 over canonical JSON (no spaces, sorted keys) of the keys that differ from the
    /// built-in defaults, and of the id version. A value that says what leaving the key out means does not differ. Nor
    /// does the path of an `adapter_config`, whose content is among the keys.
    pub fn id(&self) -> String {
        self.id_of(&self.to_map())
    }

    /// The id, with [`Cell::to_map`] at hand.
    pub fn id_of(&self, keys: &Map<String, Value>) -> String {
        let plain = self.with_plain_meaning();
        if plain == *self {
            hash(keys)
        } else {
            hash(&plain.to_map())
        }
    }

    /// The id that this cell has with seed 0: equal for cells that are repeats of each other.
    pub fn group_id(&self) -> String {
        Self {
            seed: 0,
            ..self.clone()
        }
        .id()
    }

    /// The keys by name, in the order of the struct; what a cell's file holds.
    pub fn to_map(&self) -> Map<String, Value> {
        match serde_json::to_value(self) {
            Ok(Value::Object(map)) => map,
            // Every field is a number, a text, a list or a map with text keys, so this cannot fail.
            _ => Map::new(),
        }
    }

    /// The keys of the default cell.
    pub(super) fn default_map() -> &'static Map<String, Value> {
        static DEFAULTS: LazyLock<Map<String, Value>> = LazyLock::new(|| Cell::default().to_map());
        &DEFAULTS
    }

    /// The value of a dotted key, such as `allocator.env.MALLOC_ARENA_MAX`; null where the cell has none.
    pub fn value(&self, key: &str) -> Value {
        let mut segments = key.split('.');
        let value = self.field(segments.next().unwrap_or_default());
        let found = segments.try_fold(&value, |value, segment| value.get(segment));
        found.cloned().unwrap_or_default()
    }

    /// The value of a dotted key in what [`to_map`](Self::to_map) gives; null where it has none.
    pub fn value_in<'m>(keys: &'m Map<String, Value>, key: &str) -> &'m Value {
        let mut segments = key.split('.');
        let first = segments.next().and_then(|segment| keys.get(segment));
        let value = first.and_then(|value| segments.try_fold(value, |value, segment| value.get(segment)));
        value.unwrap_or(&Value::Null)
    }

    /// The value that a dotted key comes to, whether or not it is left to its default.
    pub fn resolved_value(&self, key: &str) -> Value {
        self.resolved().value(key)
    }

    /// The cell with another value of a dotted key; `None` if the key cannot have it.
    pub fn with(&self, key: &str, value: &Value) -> Option<Self> {
        let mut map = Value::Object(self.to_map());
        let mut place = &mut map;
        for segment in key.split('.') {
            place = place.as_object_mut()?.entry(segment).or_insert(Value::Null);
        }
        *place = value.clone();
        serde_json::from_value(map).ok()
    }

    /// The keys that differ from those of the default cell, as a spec's `defaults` has them.
    pub fn to_defaults(&self) -> Map<String, Value> {
        difference(&self.with_plain_meaning().to_map(), Self::default_map())
    }

    /// The cell with its settings written in one way: values that a left-out key would resolve to are left out.
    ///
    /// An allocator is compared with the default of most machines, so that the result is the same on any.
    pub fn with_plain_meaning(&self) -> Self {
        self.clone().plain(self)
    }
}

fn hash(keys: &Map<String, Value>) -> String {
    let mut different = difference(keys, Cell::default_map());
    // The key's place when cells of PyTorch's stack got their ids.
    if keys["stack"] == Stack::Torch.name()
        && let Some(loss) = different.remove("loss")
    {
        let torch = different.entry("torch").or_insert_with(|| Map::new().into());
        torch["loss"] = loss;
    }
    different.insert("id_version".into(), ID_VERSION.into());
    digest(&Value::Object(different))
}

/// The first 12 hex digits of the SHA-256 of a value's canonical JSON.
fn digest(value: &Value) -> String {
    let digest = Sha256::digest(canonical(value).as_bytes());
    hex(&digest[..6])
}

/// The keys that differ from `defaults`; maps are compared key by key.
fn difference(keys: &Map<String, Value>, defaults: &Map<String, Value>) -> Map<String, Value> {
    let differs = |(key, value): (&String, &Value)| match (value, defaults.get(key)) {
        (value, Some(default)) if value == default => None,
        (Value::Object(map), Some(Value::Object(defaults))) => Some((key.clone(), difference(map, defaults).into())),
        (value, _) => Some((key.clone(), value.clone())),
    };
    keys.iter().filter_map(differs).collect()
}

/// JSON without spaces, with sorted keys.
fn canonical(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let sorted: BTreeMap<_, _> = map.iter().collect();
            let entry = |(key, value): (&String, &Value)| format!("{}:{}", Value::from(key.as_str()), canonical(value));
            format!("{{{}}}", sorted.into_iter().map(entry).collect::<Vec<_>>().join(","))
        }
        Value::Array(list) => format!("[{}]", list.iter().map(canonical).collect::<Vec<_>>().join(",")),
        scalar => scalar.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use options::DEFAULT_LABEL_COLUMN;

    use super::*;
    use crate::configuration::TRANSFORMERS_INT8_THRESHOLD;
    use crate::{
        AllocatorBackend, Checkpointing, Data, DataFile, DataFormat, Dtype, InstructionSet, InstructionSetChoice, Loss,
        Optimizer, Synthetic, TargetModules, Weights,
    };

    fn cell(change: impl FnOnce(&mut Cell)) -> Cell {
        let mut cell = Cell::default();
        change(&mut cell);
        cell
    }

    #[test]
    fn ids_never_change() {
        let env = |cell: &mut Cell| {
            cell.env.insert("A".into(), Some("1".into()));
            cell.env.insert("B".into(), None);
        };
        let file = DataFile {
            column: Some("text".into()),
            ..DataFile::new("a.jsonl")
        };
        for (cell, id) in [
            (Cell::default(), "ca14c46dbc96"),
            (cell(|cell| cell.rank = 8), "d490f209450b"),
            (cell(|cell| cell.dtype = Dtype::Bfloat16), "5eca29bac383"),
            (cell(|cell| cell.learning_rate = 2.5e-5), "4083f43aaf5f"),
            (cell(|cell| cell.seed = u64::MAX), "bd216fca3ec9"),
            (cell(env), "27a2a01d6600"),
            (cell(|cell| cell.data = file.into()), "b9b64f8c278a"),
        ] {
            assert_eq!(cell.id(), id, "{cell:?}");
        }
    }

    /// The hash of every default, with this [`ID_VERSION`].
    const DEFAULTS_HASH: &str = "8859b9515ea5";

    /// Ids leave defaults out, so results of other settings would be reused after a default changed.
    #[test]
    fn a_changed_default_raises_the_version() {
        let defaults = Cell::default();
        let every = serde_json::json!({
            "keys": defaults.to_map(),
            "synthetic": Synthetic::default(),
            "label_column": DEFAULT_LABEL_COLUMN,
            "lora_alpha": defaults.lora_alpha(),
            "max_steps": defaults.max_steps(),
            "optim_rank": defaults.optim_rank(),
            "update_proj_gap": defaults.update_proj_gap(),
            "galore_scale": defaults.galore_scale(),
            "llm_int8_threshold": TRANSFORMERS_INT8_THRESHOLD,
            "adam_beta2": Optimizer::ALL.iter().map(|optim| optim.default_beta2()).collect::<Vec<_>>(),
            "id_version": ID_VERSION,
        });
        assert_eq!(
            digest(&every),
            DEFAULTS_HASH,
            "a default changed: raise ID_VERSION, then write this hash (a new key needs the hash alone)"
        );
    }

    #[test]
    fn equal_meanings_have_equal_ids() {
        let same = |a: Cell, b: Cell| assert_eq!(a.id(), b.id());
        same(cell(|cell| cell.lora_alpha = Some(32.0)), Cell::default());
        same(cell(|cell| cell.max_steps = Some(10)), Cell::default());
        let blocks = |checkpointing| cell(|cell| cell.gradient_checkpointing = checkpointing);
        same(
            blocks(Checkpointing::Layers(vec![0, 1])),
            blocks(Checkpointing::First(2)),
        );
        same(
            cell(|cell| cell.allocator.backend = Some(AllocatorBackend::Retain)),
            Cell::default(),
        );
        same(cell(|cell| cell.weights = Some(Weights::Random)), Cell::default());
        same(
            cell(|cell| (cell.optim, cell.optim_rank, cell.update_proj_gap) = (Optimizer::Rsvd, Some(4), Some(200))),
            cell(|cell| cell.optim = Optimizer::Rsvd),
        );
        same(cell(|cell| cell.loss = Some(Loss::Chunked)), Cell::default());
        same(
            cell(|cell| (cell.stack, cell.loss) = (Stack::Torch, Some(Loss::Full))),
            cell(|cell| cell.stack = Stack::Torch),
        );
        let int8 = |stack, threshold| {
            cell(|cell| (cell.dtype, cell.stack, cell.llm_int8_threshold) = (Dtype::Int8, stack, threshold))
        };
        same(int8(Stack::Torch, Some(6.0)), int8(Stack::Torch, None));
        assert_ne!(int8(Stack::Candle, Some(6.0)).id(), int8(Stack::Candle, None).id());
        same(cell(|cell| cell.adam_beta2 = Some(0.999)), Cell::default());
        same(
            cell(|cell| (cell.optim, cell.adam_beta2) = (Optimizer::Lion, Some(0.99))),
            cell(|cell| cell.optim = Optimizer::Lion),
        );
        same(
            cell(|cell| cell.data = Data::Synthetic(Synthetic::default())),
            Cell::default(),
        );
        let labels = |label_column: Option<&str>| {
            Data::from(DataFile {
                label_column: label_column.map(str::to_owned),
                ..DataFile::new("a.jsonl")
            })
        };
        same(
            cell(|cell| cell.data = labels(Some("label"))),
            cell(|cell| cell.data = labels(None)),
        );
        let names = |names: [&str; 2]| TargetModules::Names(names.map(str::to_owned).to_vec());
        same(
            cell(|cell| cell.target_modules = Some(names(["q_proj", "v_proj"]))),
            cell(|cell| cell.target_modules = Some(names(["v_proj", "q_proj"]))),
        );
        let file = |format| {
            Data::from(DataFile {
                format,
                ..DataFile::new("a.parquet")
            })
        };
        same(
            cell(|cell| cell.data = file(Some(DataFormat::Parquet))),
            cell(|cell| cell.data = file(None)),
        );
    }

    #[test]
    fn different_meanings_have_different_ids() {
        let different = |a: Cell, b: Cell| assert_ne!(a.id(), b.id());
        different(cell(|cell| cell.rank = 8), cell(|cell| cell.rank = 4));
        different(cell(|cell| cell.lora_alpha = Some(16.0)), Cell::default());
        different(
            cell(|cell| (cell.rank, cell.lora_alpha) = (8, Some(32.0))),
            cell(|cell| cell.rank = 8),
        );
        different(cell(|cell| _ = cell.env.insert("A".into(), None)), Cell::default());
        different(cell(|cell| cell.num_train_epochs = Some(1.0)), Cell::default());
        different(cell(|cell| cell.optim = Optimizer::Galore), Cell::default());
        different(
            cell(|cell| (cell.optim, cell.optim_rank) = (Optimizer::Rsvd, Some(8))),
            cell(|cell| cell.optim = Optimizer::Rsvd),
        );
        different(
            cell(|cell| cell.allocator.backend = Some(AllocatorBackend::System)),
            Cell::default(),
        );
        different(
            cell(|cell| cell.instruction_set = InstructionSetChoice::Level(InstructionSet::Avx2)),
            Cell::default(),
        );
        assert_eq!(cell(|cell| cell.seed = 7).group_id(), Cell::default().id());
    }

    #[test]
    fn canonical_json_is_sorted_at_every_level() {
        let value = serde_json::json!({"b": [1, {"d": null, "c": "x\"y"}], "a": 1e-4});
        assert_eq!(canonical(&value), r#"{"a":0.0001,"b":[1,{"c":"x\"y","d":null}]}"#);
    }
}
