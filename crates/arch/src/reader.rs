//! Reads a `config.json` in Hugging Face's layout.

use options::{DEFAULT_LABELS, Dtype, Task};
use serde_json::{Map, Value};

use super::config::{BITSANDBYTES, ModelConfig, Quantised, SlidingWindow};
use super::description::Windows;
use super::error::ConfigError;
use super::family::Family;
use super::keys::{Keys, WIDEST};
use super::presets::Preset;
use super::rope::Rope;

/// The standard deviation of random weights that all families have by default.
const INITIALIZER_RANGE: f64 = 0.02;

/// transformers' default of Qwen's `max_window_layers`.
const MAX_WINDOW_LAYERS: u64 = 28;

impl ModelConfig {
    /// Reads the text of a `config.json`.
    ///
    /// # Errors
    /// Names the key that is wrong, and what would be right.
    pub fn from_json(text: &[u8]) -> Result<Self, ConfigError> {
        let value: Value = serde_json::from_slice(text).map_err(|error| ConfigError::Json(error.to_string()))?;
        let values = value.as_object().ok_or(ConfigError::NotAnObject)?;
        let (family, told_by) = family(values)?;
        let keys = Keys {
            values,
            family: family.description(),
        };
        keys.check_fixed()?;
        let config = match keys.family.task {
            Task::CausalLm => decoder(family, &keys),
            Task::SequenceClassification => encoder(family, &keys),
        };
        config.map(|config| Self { told_by, ..config })
    }

    /// What is to be said of the model: that its family was told by a class alone.
    pub fn remark(&self) -> Option<String> {
        let (class, family) = (self.told_by.as_ref()?, self.family.name());
        Some(format!(
            "the model's config.json has no `model_type`; it is taken for a {family} model, since `architectures` names \
             {class}"
        ))
    }
}

/// The file's family: by `model_type`, or by a class among its `architectures` if it has none; then the class, too.
fn family(values: &Map<String, Value>) -> Result<(Family, Option<String>), ConfigError> {
    let model_type = values.get("model_type").and_then(Value::as_str);
    let classes = architectures(values);
    let is_of = |family: &Family, class: &str| {
        let rest = class.strip_prefix(family.description().class);
        rest.is_some_and(|rest| rest == "Model" || rest.starts_with("For"))
    };
    // The parts of a model of images and texts have configurations of their own.
    if values.get("text_config").is_some_and(|part| !part.is_null()) {
        return Err(of_parts(values, model_type.unwrap_or("composite")));
    }
    if let Some(family) = Family::ALL.iter().find(|family| Some(family.name()) == model_type) {
        return Ok((*family, None));
    }
    let class_of = |family: &Family| classes.iter().find(|class| is_of(family, class));
    let by_class = Family::ALL
        .iter()
        .find_map(|family| Some((*family, *class_of(family)?)));
    match (by_class, model_type) {
        (Some((family, class)), None) => Ok((family, Some(class.into()))),
        // Its modelling code may be another's.
        (Some((family, class)), Some(name)) => Err(ConfigError::UnknownType {
            name: name.into(),
            class: class.into(),
            known: family.name(),
        }),
        (None, Some(name)) => Err(ConfigError::UnknownFamily { name: name.into() }),
        (None, None) if classes.is_empty() => Err(ConfigError::NoFamily),
        (None, None) => Err(ConfigError::UnknownFamily {
            name: classes.join(", "),
        }),
    }
}

/// The error of a model of several parts.
fn of_parts(values: &Map<String, Value>, name: &str) -> ConfigError {
    let text = &values["text_config"];
    let of_type = text["model_type"].as_str().or_else(|| {
        // Old files leave it to the whole.
        let mut families = Family::ALL.iter().map(|family| family.name());
        families.find(|family| family.strip_suffix("_text") == Some(name))
    });
    let size = |key: &str| text[key].as_u64();
    let is_of_size = |preset: &&Preset| {
        let config = preset.config();
        Some(config.hidden_size as u64) == size("hidden_size")
            && Some(config.num_hidden_layers as u64) == size("num_hidden_layers")
            && of_type.is_none_or(|name| name == config.family.name())
    };
    let preset = Preset::all().iter().find(is_of_size);
    ConfigError::OfParts {
        name: name.into(),
        of_type: of_type.map_or_else(String::new, |name| format!(" with `model_type: {name}`")),
        preset: preset.map_or_else(String::new, |preset| format!(": `model: {}`", preset.name())),
    }
}

fn architectures(values: &Map<String, Value>) -> Vec<&str> {
    let names = values.get("architectures").and_then(Value::as_array);
    names.into_iter().flatten().filter_map(Value::as_str).collect()
}

fn decoder(family: Family, keys: &Keys) -> Result<ModelConfig, ConfigError> {
    let defaults = &keys.family.defaults;
    let base = common(family, keys)?;
    let (hidden, heads) = (base.hidden_size, base.num_attention_heads);
    let kv_heads = keys.optional_size("num_key_value_heads")?;
    let kv_heads = kv_heads.or(defaults.num_key_value_heads).unwrap_or(heads);
    if !heads.is_multiple_of(kv_heads) {
        return Err(ConfigError::NotAMultiple {
            multiple_key: "num_attention_heads",
            multiple: heads,
            key: "num_key_value_heads",
            number: kv_heads,
            hint: "",
        });
    }
    let head_dim = match keys.optional_size("head_dim")?.or(defaults.head_dim) {
        Some(width) => width,
        None => head_width(keys, hidden, heads, ", and `head_dim` is not given")?,
    };
    if heads * head_dim > WIDEST {
        return Err(ConfigError::Heads {
            heads,
            head_dim,
            most: WIDEST,
        });
    }
    let classes = architectures(keys.values);
    let causal = format!("{}ForCausalLM", keys.family.class);
    let predicts_tokens = classes.is_empty() || classes.contains(&causal.as_str());
    let other_head = format!("{}For", keys.family.class);
    if let Some(class) = classes
        .iter()
        .find(|class| !predicts_tokens && class.starts_with(&other_head))
    {
        return Err(ConfigError::OtherHead {
            class: (*class).into(),
            known: causal,
        });
    }
    let rope = Rope::read(keys, head_dim, base.max_position_embeddings)?;
    Ok(ModelConfig {
        num_key_value_heads: kv_heads,
        head_dim,
        norm_eps: keys.positive("rms_norm_eps", defaults.norm_eps)?,
        max_position_embeddings: rope.positions(base.max_position_embeddings),
        rope,
        local_rope: Rope::read_local(keys, head_dim, base.max_position_embeddings)?,
        query_pre_attn_scalar: keys
            .optional_size("query_pre_attn_scalar")?
            .or(defaults.query_pre_attn_scalar),
        attention_softcap: keys.optional_positive("attn_logit_softcapping", defaults.attention_softcap)?,
        logit_softcap: keys.optional_positive("final_logit_softcapping", defaults.logit_softcap)?,
        sliding_window: sliding_window(keys, base.num_hidden_layers)?,
        attention_bias: keys.flag("attention_bias")?.unwrap_or(false),
        mlp_bias: keys.flag("mlp_bias")?.unwrap_or(false),
        tie_word_embeddings: keys
            .flag("tie_word_embeddings")?
            .unwrap_or(defaults.tie_word_embeddings),
        head: predicts_tokens.then_some(Task::CausalLm),
        ..base
    })
}

fn encoder(family: Family, keys: &Keys) -> Result<ModelConfig, ConfigError> {
    let defaults = &keys.family.defaults;
    let base = common(family, keys)?;
    let (hidden, heads) = (base.hidden_size, base.num_attention_heads);
    if base.pad_token_id.is_some_and(|id| id as usize >= base.vocab_size) {
        return Err(ConfigError::Padding);
    }
    let dropout = |key, default| Ok(keys.probability(key)?.unwrap_or(default));
    let hidden_dropout = dropout("hidden_dropout_prob", defaults.hidden_dropout)?;
    let labels = match keys.get("id2label").and_then(Value::as_object) {
        Some(names) => names.len(),
        None => keys.optional_size("num_labels")?.unwrap_or(DEFAULT_LABELS),
    };
    let mut classes = architectures(keys.values).into_iter();
    let classifies = classes.any(|class| class.ends_with("ForSequenceClassification"));
    Ok(ModelConfig {
        head_dim: head_width(keys, hidden, heads, "")?,
        type_vocab_size: keys.size("type_vocab_size", defaults.type_vocab_size)?,
        norm_eps: keys.positive("layer_norm_eps", defaults.norm_eps)?,
        hidden_dropout,
        attention_dropout: dropout("attention_probs_dropout_prob", defaults.attention_dropout)?,
        classifier_dropout: dropout(
            "classifier_dropout",
            defaults.classifier_dropout.unwrap_or(hidden_dropout),
        )?,
        num_labels: labels,
        head: classifies.then_some(Task::SequenceClassification),
        ..base
    })
}

/// The keys that decoders and encoders share; the other fields are empty.
fn common(family: Family, keys: &Keys) -> Result<ModelConfig, ConfigError> {
    let defaults = &keys.family.defaults;
    let heads = keys.size("num_attention_heads", defaults.num_attention_heads)?;
    let vocab_size = keys.size("vocab_size", defaults.vocab_size)?;
    let pad_token_id = pad_token(keys)?;
    let activation = keys.text("hidden_act")?;
    let activation = activation.filter(|name| !defaults.activation.contains(&name.as_str()));
    Ok(ModelConfig {
        family,
        vocab_size,
        hidden_size: keys.size("hidden_size", defaults.hidden_size)?,
        intermediate_size: keys.size("intermediate_size", defaults.intermediate_size)?,
        num_hidden_layers: keys.size("num_hidden_layers", defaults.num_hidden_layers)?,
        num_attention_heads: heads,
        num_key_value_heads: heads,
        head_dim: 0,
        max_position_embeddings: keys.size("max_position_embeddings", defaults.max_position_embeddings)?,
        type_vocab_size: 0,
        activation: activation.unwrap_or_else(|| defaults.activation[0].into()),
        norm_eps: defaults.norm_eps,
        rope: Rope::default(),
        local_rope: None,
        sliding_window: None,
        query_pre_attn_scalar: None,
        attention_softcap: None,
        logit_softcap: None,
        attention_bias: false,
        mlp_bias: false,
        tie_word_embeddings: false,
        hidden_dropout: 0.0,
        attention_dropout: 0.0,
        classifier_dropout: 0.0,
        pad_token_id,
        padding_row: padding_row(keys, vocab_size, pad_token_id),
        eos_token_id: eos_token(keys)?,
        num_labels: DEFAULT_LABELS,
        head: None,
        told_by: None,
        quantised: keys.get("quantization_config").map(quantised),
        initializer_range: keys.deviation("initializer_range", INITIALIZER_RANGE)?,
    })
}

/// What a `quantization_config` says. bitsandbytes' of old files has no method, but keys of its own.
fn quantised(config: &Value) -> Quantised {
    let is_true = |key: &str| config[key].as_bool() == Some(true);
    let is_bitsandbytes =
        is_true("load_in_4bit") || is_true("load_in_8bit") || config.get("bnb_4bit_quant_type").is_some();
    let by = config["quant_method"]
        .as_str()
        .or(is_bitsandbytes.then_some(BITSANDBYTES));
    Quantised {
        by: by.unwrap_or("another program").to_owned(),
        dtype: match (is_true("load_in_4bit"), is_true("load_in_8bit")) {
            (true, _) => Some(Dtype::Int4),
            (_, true) => Some(Dtype::Int8),
            _ => None,
        },
        quant_type: serde_json::from_value(config["bnb_4bit_quant_type"].clone()).ok(),
    }
}

/// An equal share of the hidden size for each head.
fn head_width(keys: &Keys, hidden: usize, heads: usize, hint: &'static str) -> Result<usize, ConfigError> {
    if hidden.is_multiple_of(heads) {
        return Ok(hidden / heads);
    }
    Err(ConfigError::NotAMultiple {
        multiple_key: keys.name("hidden_size"),
        multiple: hidden,
        key: keys.name("num_attention_heads"),
        number: heads,
        hint,
    })
}

/// The padding token; a null or, in old files, -1 means none.
fn pad_token(keys: &Keys) -> Result<Option<u32>, ConfigError> {
    let Some(value) = keys.entry("pad_token_id") else {
        return Ok(keys.family.defaults.pad_token_id);
    };
    match value.as_i64() {
        None if value.is_null() => Ok(None),
        Some(id) => Ok(u32::try_from(id).ok()),
        None => Err(keys.wrong("pad_token_id", "a token's id", value)),
    }
}

/// PyTorch's `padding_idx`: the padding token's row; of a negative one, as many rows before the end.
fn padding_row(keys: &Keys, rows: usize, pad_token_id: Option<u32>) -> Option<u32> {
    let given = keys.get("pad_token_id").and_then(Value::as_i64);
    let row = match given.filter(|id| *id < 0) {
        Some(before_end) => u32::try_from(rows as i64 + before_end).ok(),
        None => pad_token_id,
    };
    row.filter(|row| (*row as usize) < rows)
}

/// The token that ends a text, or the first of several.
fn eos_token(keys: &Keys) -> Result<Option<u32>, ConfigError> {
    let Some(value) = keys.get("eos_token_id") else {
        return Ok(None);
    };
    let first = value.as_array().map_or(Some(value), |ids| ids.first());
    match first.map(Value::as_u64) {
        None => Ok(None),
        Some(Some(id)) => Ok(u32::try_from(id).ok()),
        Some(None) => Err(keys.wrong("eos_token_id", "a token's id", value)),
    }
}

/// The window, if the model has one. transformers makes the mask of Gemma's even if no block has it.
fn sliding_window(keys: &Keys, layers: usize) -> Result<Option<SlidingWindow>, ConfigError> {
    let defaults = &keys.family.defaults;
    let tokens = match keys.entry("sliding_window") {
        Some(_) => keys.optional_size("sliding_window")?,
        None => defaults.sliding_window,
    };
    match defaults.windows {
        Windows::Never => Ok(None),
        Windows::All => {
            let Some(tokens) = tokens else { return Ok(None) };
            let layers = layer_types(keys, layers)?.unwrap_or_else(|| vec![true; layers]);
            Ok(Some(SlidingWindow { tokens, layers }))
        }
        Windows::Later => {
            let is_used = keys.flag("use_sliding_window")?.unwrap_or(false);
            let tokens = tokens.filter(|_| is_used);
            let first = first_windowed_layer(keys)?;
            let later = || (0..layers).map(|layer| tokens.is_some() && layer >= first).collect();
            let layers: Vec<bool> = layer_types(keys, layers)?.unwrap_or_else(later);
            match (tokens, layers.contains(&true)) {
                (Some(tokens), true) => Ok(Some(SlidingWindow { tokens, layers })),
                (None, true) => Err(ConfigError::NoWindow),
                (_, false) => Ok(None),
            }
        }
        Windows::AllBut(every) => {
            let tokens = keys.size("sliding_window", tokens.unwrap_or_default())?;
            let every = keys.size("sliding_window_pattern", every)?;
            let pattern = || (1..=layers).map(|layer| !layer.is_multiple_of(every)).collect();
            let layers = layer_types(keys, layers)?.unwrap_or_else(pattern);
            Ok(Some(SlidingWindow { tokens, layers }))
        }
    }
}

/// `layer_types`: true for each layer with the window.
fn layer_types(keys: &Keys, layers: usize) -> Result<Option<Vec<bool>>, ConfigError> {
    let Some(value) = keys.get("layer_types") else {
        return Ok(None);
    };
    let of = |layer: &Value| match layer.as_str() {
        Some("full_attention") => Some(false),
        Some("sliding_attention") => Some(true),
        _ => None,
    };
    let types = value
        .as_array()
        .and_then(|types| types.iter().map(of).collect::<Option<Vec<bool>>>());
    match types.filter(|types| types.len() >= layers) {
        Some(mut types) => {
            types.truncate(layers);
            Ok(Some(types))
        }
        None => Err(ConfigError::LayerTypes {
            layers,
            found: value.to_string(),
        }),
    }
}

/// `max_window_layers`, from which transformers makes Qwen's `layer_types`.
fn first_windowed_layer(keys: &Keys) -> Result<usize, ConfigError> {
    let Some(value) = keys.get("max_window_layers") else {
        return Ok(MAX_WINDOW_LAYERS as usize);
    };
    let layers = value.as_u64().and_then(|layers| usize::try_from(layers).ok());
    layers.ok_or_else(|| keys.wrong("max_window_layers", "a number of layers", value))
}

#[cfg(test)]
mod tests;
