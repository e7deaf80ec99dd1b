//! The keys of a cell as columns.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use cell::{
    Allocator, AllocatorBackend, Cell, Checkpointing, Data, Ia3, Lora, Miss, PromptTuning, TargetModules, Torch,
    Weights, is_size,
};
use options::{AutoBatchSize, BatchSearch, ByteSize, Generation, Loss, LossScaling};
use serde_json::Value as Json;

use super::kind::Kind;
use crate::datum::Datum;

/// The keys of a cell as columns, in the spec's order and with dotted names for maps. A key that is left out has the
/// value that its default comes to, and one that the cell does not heed is null. `device_memory` and `host_memory` are
/// in bytes.
pub fn keys(cell: &Cell) -> Vec<(String, Datum)> {
    let heeded = |(name, value): (String, Datum)| match cell.heeds(&name) {
        true => (name, value),
        false => (name, Datum::Null),
    };
    resolved(cell).into_iter().map(heeded).collect()
}

/// The keys with their defaults, whether or not the default cell heeds them.
pub fn default_keys() -> Vec<(String, Datum)> {
    resolved(&Cell::default())
}

/// True if a cell that heeds a key may leave it open. Null is then a value; in other columns it says that the key does
/// not apply.
pub fn is_optional(key: &str) -> bool {
    static OPTIONAL: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
        let open = default_keys().into_iter().filter(|(_, value)| value.is_null());
        open.map(|(name, _)| name).collect()
    });
    OPTIONAL.contains(key) || is_of_free_map(key)
}

/// True for an entry of a map of free names, such as `env.OMP_NUM_THREADS`.
pub fn is_of_free_map(key: &str) -> bool {
    const MAPS: [&str; 4] = ["env.", "allocator.env.", "lora.rank_pattern.", "lora.alpha_pattern."];
    MAPS.iter().any(|map| key.starts_with(map))
}

/// The keys with the values that their defaults come to.
fn resolved(cell: &Cell) -> Vec<(String, Datum)> {
    let mut columns = Vec::new();
    for ((name, shape), (_, value)) in exemplar().to_map().iter().zip(cell.resolved().to_map()) {
        match value {
            _ if name == "device_memory" => {
                columns.push((name.clone(), cell.device_memory.map(|size| size.0).into()));
            }
            _ if name == "host_memory" => {
                columns.push((name.clone(), cell.host_memory.map(|size| size.0).into()));
            }
            Json::Object(map) if shape.is_object() => dotted(name, map, &mut columns),
            value => columns.push((name.clone(), value.into())),
        }
    }
    columns
}

/// The keys of a cell with the type of their column; `None` for a map of free names, whose entries are columns of text.
pub fn key_kinds() -> Vec<(String, Option<Kind>)> {
    let kind = |(name, value): (String, Json)| {
        let kind = match value {
            _ if is_size(&name) => Some(Kind::Int),
            _ if name == "seed" => Some(Kind::Unsigned),
            Json::Object(_) if is_of_free_map(&format!("{name}.")) => None,
            Json::Bool(_) => Some(Kind::Bool),
            Json::Number(number) if number.is_f64() => Some(Kind::Float),
            Json::Number(_) => Some(Kind::Int),
            _ => Some(Kind::Text),
        };
        (name, kind)
    };
    let flat = |(name, value): (String, Json)| match value {
        // The exemplar has all names of a map of known names.
        Json::Object(map) if !map.is_empty() => map
            .into_iter()
            .map(|(key, value)| (format!("{name}.{key}"), value))
            .collect(),
        value => vec![(name, value)],
    };
    exemplar().to_map().into_iter().flat_map(flat).map(kind).collect()
}

/// A cell in which every optional key has a value and every choice has its short form. It shows the columns' types.
fn exemplar() -> Cell {
    Cell {
        weights: Some(Weights::Random),
        lora_alpha: Some(32.0),
        lora: Lora {
            loraplus_lr_ratio: Some(1.0),
            ..Lora::default()
        },
        ia3: Ia3 {
            feedforward_modules: Some(Vec::new()),
        },
        miss: Miss {
            mini_r: Some(1),
            ..Miss::default()
        },
        prompt_tuning: PromptTuning {
            init_text: Some(String::new()),
            ..PromptTuning::default()
        },
        loss: Some(Loss::Chunked),
        loss_scaling: Some(LossScaling::Dynamic),
        target_modules: Some(TargetModules::AllLinear),
        layers_to_transform: Some(vec![0]),
        modules_to_save: Some(Vec::new()),
        adapter_config: Some(String::new()),
        init_adapter: Some(String::new()),
        trainable: Some(Vec::new()),
        gradient_checkpointing: Checkpointing::None,
        auto_batch_size: Some(AutoBatchSize {
            start: 1,
            min: 1,
            max: 1,
            search: BatchSearch::Largest,
        }),
        max_steps: Some(1),
        num_train_epochs: Some(1.0),
        pad_to_multiple_of: Some(8),
        max_tokens_per_batch: Some(1024),
        length_buckets: Some(20),
        llm_int8_threshold: Some(6.0),
        optim_rank: Some(4),
        update_proj_gap: Some(200),
        galore_scale: Some(0.25),
        adam_beta2: Some(0.999),
        data: Data::Sample,
        gpu: Some(String::new()),
        torch: Torch {
            use_reentrant: Some(true),
            device_map: Some(true),
            repeat_kv: Some(true),
            embedding_states_32bit: Some(true),
            transformers_version: Some(String::new()),
            peft_version: Some(String::new()),
            bitsandbytes_version: Some(String::new()),
            torch_version: Some(String::new()),
            generation: Some(Generation {
                eval_steps: 1,
                batch_size: 1,
                prompt_tokens: 1,
                max_new_tokens: 1,
            }),
            ..Torch::default()
        },
        threads: Some(1),
        device_memory: Some(ByteSize(0)),
        host_memory: Some(ByteSize(0)),
        allocator: Allocator {
            backend: Some(AllocatorBackend::DEFAULT),
            ..Allocator::default()
        },
        ..Cell::default()
    }
}

fn dotted(prefix: &str, map: serde_json::Map<String, Json>, columns: &mut Vec<(String, Datum)>) {
    for (key, value) in map {
        let name = format!("{prefix}.{key}");
        match value {
            Json::Object(map) if is_of_free_map(&format!("{name}.")) => dotted(&name, map, columns),
            Json::Number(number) if is_of_free_map(&name) => columns.push((name, number.to_string().into())),
            value => columns.push((name, value.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use cell::{Dtype, Stack};

    use super::*;
    use crate::columns::outcomes;

    #[test]
    fn every_key_has_a_type() {
        for (name, value) in exemplar().to_map() {
            let open = value.is_null() || value.as_object().is_some_and(|map| map.values().any(Json::is_null));
            assert!(!open, "the exemplar leaves `{name}` open");
        }
        let kinds: BTreeMap<_, _> = key_kinds().into_iter().collect();
        assert_eq!(kinds["allocator.backend"], Some(Kind::Text));
        assert_eq!((kinds["allocator.env"], kinds["env"]), (None, None));
    }

    #[test]
    fn maps_are_dotted_and_choices_are_flow_text() {
        let mut cell = Cell {
            gradient_checkpointing: Checkpointing::Every(2),
            target_modules: Some(TargetModules::Names(vec!["q_proj".into(), "v_proj".into()])),
            device_memory: Some(ByteSize(2 << 30)),
            ..Cell::default()
        };
        cell.allocator.env.insert("MALLOC_ARENA_MAX".into(), Some("1".into()));
        cell.env.insert("EMPTY".into(), None);
        let columns: BTreeMap<_, _> = keys(&cell).into_iter().collect();
        assert_eq!(columns["gradient_checkpointing"], Datum::from("{every: 2}"));
        assert_eq!(columns["target_modules"], Datum::from("[q_proj, v_proj]"));
        assert_eq!(columns["allocator.env.MALLOC_ARENA_MAX"], Datum::from("1"));
        assert_eq!(
            columns["allocator.backend"],
            Datum::from(AllocatorBackend::DEFAULT.name())
        );
        assert_eq!(columns["env.EMPTY"], Datum::Null);
        assert_eq!(columns["device_memory"], Datum::Int(2 << 30));
        assert_eq!(columns["lora_alpha"], Datum::Float(32.0));
        assert_eq!(columns["threads"], Datum::Null);
    }

    #[test]
    fn a_key_that_does_not_apply_has_no_value() {
        let columns = |cell: &Cell| keys(cell).into_iter().collect::<BTreeMap<_, _>>();
        let full = columns(&Cell {
            rank: 0,
            dtype: Dtype::Bfloat16,
            ..Cell::default()
        });
        for key in [
            "lora_alpha",
            "lora_dropout",
            "target_modules",
            "bnb_4bit_use_double_quant",
            "upcast",
        ] {
            assert_eq!(full[key], Datum::Null, "{key}");
        }
        assert!(!full["optim"].is_null() && full["optim_rank"].is_null() && full["galore_scale"].is_null());
        let torch = columns(&Cell {
            stack: Stack::Torch,
            dtype: Dtype::Int4,
            ..Cell::default()
        });
        for key in ["measure", "allocator.backend", "threads", "device"] {
            assert_eq!(torch[key], Datum::Null, "{key}");
        }
        assert_eq!(torch["bnb_4bit_use_double_quant"], Datum::Bool(true));
        assert_eq!(torch["torch.use_cache"], Datum::Bool(false));
        assert!(is_optional("gpu") && is_optional("env.X") && !is_optional("lora_alpha"));
    }

    #[test]
    fn outcomes_take_no_name_of_a_key() {
        let keys: Vec<String> = key_kinds().into_iter().map(|(name, _)| name).collect();
        for column in outcomes() {
            assert!(!keys.contains(&column.name), "{}", column.name);
        }
    }
}
