//! The fields of `adapter_config.json`, each read by itself, so that a mistake is one of a field.

use base::text::{either, suggestion};
use options::invalid::{Invalid, alpha, probability, rank};
use options::methods::interface::{Field, KeyField, Of};
use options::{Adapter, AdapterOptions};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::config::{Common, Config, is_neutral};
use super::field_error::FieldError;

/// The field that names the method.
const TYPE: &str = "peft_type";

/// Fields that say what the adapter is of.
const COMMON: [&str; 3] = ["task_type", "base_model_name_or_path", "inference_mode"];

/// Fields of any method that say which modules are meant.
const OF_MODULES: [&str; 4] = ["target_modules", "layers_to_transform", "modules_to_save", EXCLUDED];
/// Modules that get no adapter, although they are targets.
const EXCLUDED: &str = "exclude_modules";

/// Fields of PEFT's configuration that say nothing of what an adapter computes.
const REMARKS: [&str; 6] = [
    "auto_mapping",
    "megatron_core",
    "peft_version",
    "qalora_group_size",
    "revision",
    "runtime_config",
];

/// Reads a configuration from its fields.
pub(super) fn read(fields: &Map<String, Value>) -> Result<Config, FieldError> {
    let adapter = adapter(fields)?;
    let facts = adapter.facts();
    let mut options = new(adapter)?;
    let mut other_start = None;
    for field in facts.fields.iter() {
        let (name, value) = (field.name(), fields.get(field.name()));
        let Some(key) = field.key() else {
            let other = value.filter(|value| !value.is_null() && !field.permits(value));
            match (other, field) {
                (Some(value), Field::Fixed { is_of_start: true, .. }) => {
                    let _ = other_start.get_or_insert((name.to_owned(), in_message(value)));
                }
                (Some(value), _) => return Err(FieldError::unsupported(name, in_message(value))),
                (None, _) => {}
            }
            continue;
        };
        let Some(value) = value.cloned().or_else(|| key.default_value()) else {
            continue;
        };
        options.set(key.key, key.read(&value)).map_err(|error| {
            let error = key.in_peft_words(&error.to_string());
            FieldError::value(name, &value, &error)
        })?;
        if key.is_other_start(&value) {
            let _ = other_start.get_or_insert((name.to_owned(), in_message(&value)));
        }
    }
    check_values(&mut options, fields)?;
    check_known(fields, adapter)?;
    // PEFT takes an empty list or text for none.
    let excluded = fields.get(EXCLUDED).filter(|value| !is_neutral(value) && *value != "");
    if let Some(value) = excluded {
        if facts.of != Of::Layers {
            return Err(FieldError::unsupported(EXCLUDED, value));
        }
        let read = serde_json::from_value(value.clone());
        options.exclude_modules = read.map_err(|error| FieldError::value(EXCLUDED, value, &error.to_string()))?;
    }
    let common = COMMON.map(|name| (name.to_owned(), fields.get(name).cloned()));
    let common = common.into_iter().filter_map(|(name, value)| Some((name, value?)));
    let common: Map<String, Value> = common.collect();
    Ok(Config {
        common: common_of(&common)?,
        adapter: options,
        target_modules: value(fields, OF_MODULES[0])?,
        layers_to_transform: value(fields, OF_MODULES[1])?,
        modules_to_save: value(fields, OF_MODULES[2])?,
        other_start,
    })
}

/// The method: of those with the type, the one whose mark is set, else the one without a mark.
fn adapter(fields: &Map<String, Value>) -> Result<Adapter, FieldError> {
    let kind = fields.get(TYPE);
    let kind = kind.ok_or_else(|| FieldError::new(TYPE, format!("`{TYPE}` is missing")))?;
    let of_type = |adapter: &Adapter| *kind == adapter.facts().peft_type;
    let is_marked = |adapter: &Adapter| {
        let mark = adapter.facts().mark;
        mark.is_none_or(|mark| fields.get(mark) == Some(&Value::Bool(true)))
    };
    // Those with a mark stand behind the one without.
    let mut methods = Adapter::ALL.into_iter().rev().filter(of_type);
    if let Some(adapter) = methods.find(is_marked) {
        return Ok(adapter);
    }
    let mut types: Vec<&str> = Adapter::ALL.iter().map(|adapter| adapter.facts().peft_type).collect();
    types.dedup();
    let mut error = FieldError::unsupported(TYPE, kind);
    // One that is near may be another method of PEFT, such as BOFT.
    let help = format!("the supported types are {}", either(&types).replace(" or ", " and "));
    error.mistake = error.mistake.help(help);
    Err(error)
}

/// A method with its defaults.
fn new(adapter: Adapter) -> Result<AdapterOptions, FieldError> {
    let method = adapter.with_options(Value::Object(Map::new()));
    let method = method.map_err(|error| FieldError::new(TYPE, error.to_string()))?;
    Ok(AdapterOptions::new(method))
}

/// A value in a message: words without quotes.
fn in_message(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Checks the ranges of the values. Those that have no effect are left out.
fn check_values(options: &mut AdapterOptions, fields: &Map<String, Value>) -> Result<(), FieldError> {
    let own = || options.adapter().facts().fields.iter().filter_map(Field::key);
    let in_range = |key: &str| match key {
        "rank" => rank(key, options.rank),
        "lora_alpha" => alpha(key, options.lora_alpha),
        "lora_dropout" => probability(key, options.lora_dropout),
        _ => Ok(()),
    };
    let mut found: Vec<Invalid> = own().filter_map(|field| in_range(field.key).err()).collect();
    let method = options.method.options();
    method.check_values(&mut found);
    method.check_patterns(options.rank, options.lora_alpha, &mut found);
    if let Some(invalid) = found.iter().find(|invalid| !invalid.is_idle) {
        let place = own().find_map(|field| Some((field, within(&invalid.key, field.key)?)));
        return Err(out_of_range(place, &invalid.mistake.message, fields));
    }
    let is_idle = |field: &&KeyField| {
        let of_field = |invalid: &&Invalid| within(&invalid.key, field.key).is_some();
        let idle = found.iter().filter(of_field).count();
        // A module that an idle pattern matches could be one of another pattern, too.
        match options.value(field.key) {
            Value::Object(patterns) => idle > 0 && idle == patterns.len(),
            _ => idle > 0,
        }
    };
    let idle: Vec<&KeyField> = own().filter(is_idle).collect();
    for field in idle {
        leave_out(options, field.key).map_err(|error| FieldError::new(field.name, error.to_string()))?;
    }
    Ok(())
}

/// What follows `outer` in a key that is or lies in it; empty for the key itself.
fn within<'k>(key: &'k str, outer: &str) -> Option<&'k str> {
    let rest = key.strip_prefix(outer)?;
    if rest.is_empty() {
        Some(rest)
    } else {
        rest.strip_prefix('.')
    }
}

/// The mistake in a field, or in what it has under a name.
fn out_of_range(place: Option<(&KeyField, &str)>, message: &str, fields: &Map<String, Value>) -> FieldError {
    let (field, inner) = place.map_or((TYPE, ""), |(field, inner)| (field.name, inner));
    let value = fields.get(field);
    let (name, value) = match value.and_then(|value| value.get(inner)) {
        Some(own) => (format!("{field}.{inner}"), Some(own)),
        None => (field.to_owned(), value),
    };
    let value = match value {
        Some(value) => format!("`{name}: {value}`"),
        None => format!("`{name}` is left out"),
    };
    FieldError::new(field, format!("{value}: {message}"))
}

/// Gives a key of the method's own its default.
fn leave_out(options: &mut AdapterOptions, key: &str) -> Result<(), serde_json::Error> {
    let mut map = serde_json::to_value(&options.method)?;
    if let (Some((_, own)), Some(map)) = (key.split_once('.'), map.as_object_mut()) {
        map.remove(own);
    }
    options.method = options.adapter().with_options(map)?;
    Ok(())
}

/// Checks that each field is known, or has PEFT's neutral value.
fn check_known(fields: &Map<String, Value>, adapter: Adapter) -> Result<(), FieldError> {
    let own = adapter.facts().fields.iter().map(Field::name);
    let marks = adapter.facts().mark.into_iter();
    let known: Vec<&str> = [TYPE]
        .into_iter()
        .chain(COMMON)
        .chain(OF_MODULES)
        .chain(own)
        .chain(marks)
        .collect();
    let is_known = |name: &str| known.contains(&name) || REMARKS.contains(&name);
    let mut others = fields.iter().filter(|(name, _)| !is_known(name));
    let Some((name, value)) = others.find(|(_, value)| !is_neutral(value)) else {
        return Ok(());
    };
    let mut error = FieldError::unsupported(name, value);
    error.mistake = error.mistake.help_if(suggestion(name, known));
    Err(error)
}

fn common_of(fields: &Map<String, Value>) -> Result<Common, FieldError> {
    for (name, value) in fields {
        let one = Value::Object(Map::from_iter([(name.clone(), value.clone())]));
        serde_json::from_value::<Common>(one).map_err(|error| FieldError::value(name, value, &error.to_string()))?;
    }
    serde_json::from_value(Value::Object(fields.clone())).map_err(|error| FieldError::new(TYPE, error.to_string()))
}

/// The value of a field that may be left out.
fn value<T: DeserializeOwned>(fields: &Map<String, Value>, name: &str) -> Result<Option<T>, FieldError> {
    let Some(value) = fields.get(name) else { return Ok(None) };
    serde_json::from_value(value.clone()).map_err(|error| FieldError::value(name, value, &error.to_string()))
}

#[cfg(test)]
mod tests {
    use options::AdapterMethod;
    use serde_json::json;

    use super::*;

    /// A method's configuration with these fields.
    fn with(peft_type: &str, fields: Value) -> Result<Config, FieldError> {
        let mut map = fields.as_object().expect("a map").clone();
        map.insert(TYPE.into(), peft_type.into());
        super::read(&map)
    }

    #[test]
    fn ranks_and_alphas_are_in_their_ranges() {
        for peft_type in ["LORA", "LOHA", "LOKR", "VERA", "MISS"] {
            for (rank, range) in [(0, "at least 1"), (65_537, "at most 65536")] {
                let error = with(peft_type, json!({ "r": rank })).expect_err(peft_type);
                let expected = format!("`r: {rank}`: must be {range}, got {rank}");
                assert_eq!((&*error.field, error.to_string()), ("r", expected), "{peft_type}");
            }
            let config = with(peft_type, json!({ "r": 65_536 })).expect(peft_type);
            assert_eq!(config.rank_of("q_proj"), 65_536, "{peft_type}");
        }
        for (peft_type, field, value, range) in [
            ("LORA", "lora_alpha", 0.0, "more than 0 and at most 1e6"),
            ("LORA", "lora_alpha", 1e7, "more than 0 and at most 1e6"),
            ("LORA", "lora_dropout", 1.0, "at least 0 and less than 1"),
            ("LOHA", "alpha", -1.0, "more than 0 and at most 1e6"),
            ("LOKR", "alpha", 0.0, "more than 0 and at most 1e6"),
        ] {
            let error = with(peft_type, json!({ field: value })).expect_err(field);
            let expected = format!("`{field}: {value:?}`: must be {range}, got {value}");
            assert_eq!((&*error.field, error.to_string()), (field, expected), "{peft_type}");
        }
    }

    #[test]
    fn a_mistake_in_a_pattern_is_one_of_its_field() {
        for peft_type in ["LORA", "LOHA", "LOKR"] {
            let ranks = json!({ "rank_pattern": { "q_proj": 4, r"layers.\d.mlp.*": 0 } });
            let error = with(peft_type, ranks).expect_err(peft_type);
            let expected = r"`rank_pattern.layers.\d.mlp.*: 0`: must be at least 1, got 0";
            assert_eq!((&*error.field, &*error.to_string()), ("rank_pattern", expected));
            let error = with(peft_type, json!({ "alpha_pattern": { "q_proj": -2.5 } })).expect_err(peft_type);
            let expected = "`alpha_pattern.q_proj: -2.5`: must be more than 0 and at most 1e6, got -2.5";
            assert_eq!((&*error.field, &*error.to_string()), ("alpha_pattern", expected));
        }
    }

    #[test]
    fn what_has_no_effect_is_left_out() {
        for terms in [7, 1] {
            let fields = json!({ "use_cayley_neumann": false, "num_cayley_neumann_terms": terms });
            let config = with("OFT", fields).expect("PEFT accepts it");
            let AdapterMethod::Oft(oft) = &config.adapter.method else {
                panic!("OFT")
            };
            assert_eq!((oft.num_cayley_neumann_terms, oft.terms()), (5, None));
        }
        let used = with("OFT", json!({ "num_cayley_neumann_terms": 7 })).expect("a configuration");
        assert_eq!(used.adapter.value("oft.num_cayley_neumann_terms"), 7);
        for (peft_type, map) in [("LORA", "lora"), ("LOHA", "loha"), ("LOKR", "lokr")] {
            let read = |ranks: Value, alphas: Value| {
                let config = with(peft_type, json!({ "rank_pattern": ranks, "alpha_pattern": alphas }));
                let options = config.expect(peft_type).adapter;
                ["rank", "alpha"].map(|own| options.value(&format!("{map}.{own}_pattern")))
            };
            // The defaults of both are 8.
            let idle = read(json!({ "q_proj": 8, "v_proj": 8 }), json!({ "q_proj": 8 }));
            assert_eq!(idle, [json!({}), json!({})], "{peft_type}");
            let (ranks, alphas) = (json!({ "q_proj": 8, "v_proj": 4 }), json!({ "q_proj": 4.0 }));
            assert_eq!(read(ranks.clone(), alphas.clone()), [ranks, alphas], "{peft_type}");
        }
    }

    #[test]
    fn types_have_plain_names() {
        for (field, value, expected) in [
            (
                "r",
                json!("eight"),
                r#"`r: "eight"`: invalid type: string "eight", expected a whole number of 0 or more"#,
            ),
            (
                "r",
                json!(-1),
                "`r: -1`: invalid value: integer `-1`, expected a whole number of 0 or more",
            ),
            (
                "lora_alpha",
                json!([]),
                "`lora_alpha: []`: invalid type: sequence, expected a number",
            ),
            (
                "use_rslora",
                json!(1),
                "`use_rslora: 1`: invalid type: integer `1`, expected true or false",
            ),
            (
                "modules_to_save",
                json!(true),
                "`modules_to_save: true`: invalid type: boolean `true`, expected a list",
            ),
        ] {
            let error = with("LORA", json!({ field: value })).expect_err(field);
            assert_eq!((&*error.field, &*error.to_string()), (field, expected));
        }
    }

    #[test]
    fn another_method_of_peft_is_no_typing_error() {
        for other in ["BOFT", "XLORA"] {
            let error = with(other, json!({})).expect_err(other).to_string();
            let expected = format!("`peft_type: \"{other}\"` is not supported; the supported types are `LORA`, `IA3`");
            assert!(error.starts_with(&expected), "{error}");
        }
    }

    #[test]
    fn the_factor_of_lokr_is_one_or_left_open() {
        let factor = |value: i64| {
            let config = with("LOKR", json!({ "decompose_factor": value }))?;
            Ok::<_, FieldError>(config.adapter.value("lokr.decompose_factor"))
        };
        assert_eq!(factor(-1).expect("PEFT's default"), Value::Null);
        assert_eq!(factor(4).expect("a factor"), 4);
        for wrong in [0, -2] {
            let error = factor(wrong).expect_err("no factor").to_string();
            let expected = format!("`decompose_factor: {wrong}`: must be at least 1, got {wrong}");
            assert!(error.starts_with(&expected), "{error}");
        }
    }
}
