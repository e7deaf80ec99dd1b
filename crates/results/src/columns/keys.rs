//! The keys of a cell as columns.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use cell::{Cell, is_size};
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
    static MAPS: LazyLock<Vec<&str>> = LazyLock::new(|| {
        let maps = cell::keys::keys().iter().filter_map(|key| key.path.strip_suffix('*'));
        maps.collect()
    });
    MAPS.iter().any(|map| key.starts_with(map))
}

/// The keys with the values that their defaults come to.
fn resolved(cell: &Cell) -> Vec<(String, Datum)> {
    let mut columns = Vec::new();
    for ((name, shape), (_, value)) in Cell::example().to_map().iter().zip(cell.resolved().to_map()) {
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
        // The example has all names of a map of known names.
        Json::Object(map) if !map.is_empty() => map
            .into_iter()
            .map(|(key, value)| (format!("{name}.{key}"), value))
            .collect(),
        value => vec![(name, value)],
    };
    Cell::example().to_map().into_iter().flat_map(flat).map(kind).collect()
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

    use cell::{AllocatorBackend, Checkpointing, Dtype, Stack, TargetModules};
    use options::ByteSize;

    use super::*;
    use crate::columns::outcomes;

    #[test]
    fn every_key_has_a_type() {
        for (name, value) in Cell::example().to_map() {
            let open = value.is_null() || value.as_object().is_some_and(|map| map.values().any(Json::is_null));
            assert!(!open, "the example leaves `{name}` open");
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
