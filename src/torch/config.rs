//! A model's shape, read from its `config.json`; what is not in it is as transformers has it for the family.

use serde_json::{Map, Value};
use thiserror::Error;

/// Families whose modelling code is here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    Llama,
    Mistral,
    Qwen2,
    Qwen3,
    Phi3,
    Bert,
    DistilBert,
}

impl Family {
    const ALL: [(&'static str, Self); 7] = [
        ("llama", Self::Llama),
        ("mistral", Self::Mistral),
        ("qwen2", Self::Qwen2),
        ("qwen3", Self::Qwen3),
        ("phi3", Self::Phi3),
        ("bert", Self::Bert),
        ("distilbert", Self::DistilBert),
    ];

    /// Whether it is an encoder with a classifier, not a causal language model.
    pub fn is_encoder(self) -> bool {
        matches!(self, Self::Bert | Self::DistilBert)
    }
}

/// What decides a model's memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ModelConfig {
    pub family: Family,
    pub vocab_size: u32,
    pub hidden_size: u32,
    pub intermediate_size: u32,
    pub num_hidden_layers: u32,
    pub num_attention_heads: u32,
    pub num_key_value_heads: u32,
    pub head_dim: u32,
    pub max_position_embeddings: u32,
    pub tie_word_embeddings: bool,
    /// Of the query, key and value projections, and of the output projection in Llama.
    pub attention_bias: bool,
    pub mlp_bias: bool,
    /// Share of a head's width that is turned by its position.
    pub partial_rotary_factor: f64,
    /// Tokens that a token sees, where it does not see all.
    pub sliding_window: Option<u32>,
    /// The first layer with such a window: of Qwen's, those before it are without.
    pub first_windowed_layer: u32,
    /// Dropout of an encoder's hidden states and attention.
    pub dropout: f64,
    pub attention_dropout: f64,
    /// Kinds of segments of an encoder.
    pub type_vocab_size: u32,
    pub num_labels: u32,
}

/// Why a `config.json` is not understood.
#[derive(Debug, Error, PartialEq)]
pub enum ConfigError {
    #[error("not JSON: {0}")]
    Json(String),
    #[error("not a JSON object")]
    NotAnObject,
    #[error("no model_type; it says which of the known families the model is of: {}", families())]
    NoFamily,
    #[error("model_type {name}: not one of the known families: {}", families())]
    UnknownFamily { name: String },
    #[error("{key}: expected {expected}, found {found}")]
    Value {
        key: &'static str,
        expected: &'static str,
        found: String,
    },
    #[error("num_attention_heads {heads} is not a multiple of num_key_value_heads {shared}")]
    Heads { heads: u32, shared: u32 },
    #[error("head_dim is missing, and hidden_size {hidden} is not a multiple of num_attention_heads {heads}")]
    HeadDim { hidden: u32, heads: u32 },
    #[error("layer_types: layers with a sliding window before layers without are not planned")]
    Windows,
}

fn families() -> String {
    Family::ALL.map(|(name, _)| name).join(", ")
}

struct Keys<'a>(&'a Map<String, Value>);

impl Keys<'_> {
    fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    fn count(&self, key: &'static str) -> Result<Option<u32>, ConfigError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let count = value.as_u64().and_then(|count| u32::try_from(count).ok());
        count
            .filter(|&count| count > 0)
            .map(Some)
            .ok_or_else(|| ConfigError::Value {
                key,
                expected: "a number from 1",
                found: value.to_string(),
            })
    }

    fn flag(&self, key: &'static str) -> Result<Option<bool>, ConfigError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        value.as_bool().map(Some).ok_or_else(|| ConfigError::Value {
            key,
            expected: "true or false",
            found: value.to_string(),
        })
    }

    /// Qwen's `layer_types`, or `max_window_layers`, from which transformers makes them.
    fn first_windowed_layer(&self) -> Result<u32, ConfigError> {
        const MAX_WINDOW_LAYERS: u64 = 28;
        let Some(types) = self.get("layer_types").and_then(Value::as_array) else {
            let layers = self
                .get("max_window_layers")
                .map_or(Some(MAX_WINDOW_LAYERS), Value::as_u64);
            return layers
                .and_then(|layers| u32::try_from(layers).ok())
                .ok_or_else(|| ConfigError::Value {
                    key: "max_window_layers",
                    expected: "a number of layers",
                    found: self.0["max_window_layers"].to_string(),
                });
        };
        let is_full = |layer: &&Value| layer.as_str() == Some("full_attention");
        let first = types.iter().take_while(is_full).count();
        match types.iter().filter(is_full).count() == first {
            true => Ok(first as u32),
            false => Err(ConfigError::Windows),
        }
    }

    fn share(&self, key: &'static str) -> Result<Option<f64>, ConfigError> {
        let nested = ["rope_parameters", "rope_scaling"].into_iter().find_map(|group| {
            self.get(group)
                .and_then(|group| group.get(key))
                .filter(|value| !value.is_null())
        });
        let Some(value) = self.get(key).or(nested) else {
            return Ok(None);
        };
        let share = value.as_f64().filter(|share| (0.0..=1.0).contains(share));
        share.map(Some).ok_or_else(|| ConfigError::Value {
            key,
            expected: "a share from 0 to 1",
            found: value.to_string(),
        })
    }
}

impl ModelConfig {
    /// Reads the text of a `config.json`.
    ///
    /// # Errors
    ///
    /// Names the key that is wrong, and what would be right.
    pub fn from_json(text: &str) -> Result<Self, ConfigError> {
        let value: Value = serde_json::from_str(text).map_err(|error| ConfigError::Json(error.to_string()))?;
        let keys = Keys(value.as_object().ok_or(ConfigError::NotAnObject)?);
        let name = keys
            .get("model_type")
            .and_then(Value::as_str)
            .ok_or(ConfigError::NoFamily)?;
        let (_, family) = Family::ALL
            .into_iter()
            .find(|&(known, _)| known == name)
            .ok_or_else(|| ConfigError::UnknownFamily { name: name.into() })?;
        let base = Self::default_of(family);
        let heads_key = if family == Family::DistilBert {
            "n_heads"
        } else {
            "num_attention_heads"
        };
        let heads = keys.count(heads_key)?.unwrap_or(base.num_attention_heads);
        let hidden_key = if family == Family::DistilBert {
            "dim"
        } else {
            "hidden_size"
        };
        let hidden = keys.count(hidden_key)?.unwrap_or(base.hidden_size);
        let shared = match (keys.count("num_key_value_heads")?, family) {
            (Some(shared), _) => shared,
            (None, Family::Mistral | Family::Qwen2 | Family::Qwen3) => base.num_key_value_heads,
            (None, _) => heads,
        };
        if family.is_encoder() {
            return Self::encoder(base, &keys, heads, hidden);
        }
        if !heads.is_multiple_of(shared) {
            return Err(ConfigError::Heads { heads, shared });
        }
        let head_dim = match (keys.count("head_dim")?, family) {
            (Some(width), _) => width,
            (None, Family::Qwen3) => base.head_dim,
            (None, _) if hidden.is_multiple_of(heads) => hidden / heads,
            (None, _) => return Err(ConfigError::HeadDim { hidden, heads }),
        };
        let windowed = keys
            .flag("use_sliding_window")?
            .unwrap_or(!matches!(family, Family::Qwen2 | Family::Qwen3));
        let window = if keys.0.contains_key("sliding_window") {
            keys.count("sliding_window")?
        } else {
            base.sliding_window
        };
        let layers = keys.count("num_hidden_layers")?.unwrap_or(base.num_hidden_layers);
        let first_windowed_layer = match family {
            Family::Qwen2 | Family::Qwen3 => keys.first_windowed_layer()?,
            _ => 0,
        };
        let has_windows = windowed && family != Family::Llama && first_windowed_layer < layers;
        Ok(Self {
            family,
            vocab_size: keys.count("vocab_size")?.unwrap_or(base.vocab_size),
            hidden_size: hidden,
            intermediate_size: keys.count("intermediate_size")?.unwrap_or(base.intermediate_size),
            num_hidden_layers: layers,
            num_attention_heads: heads,
            num_key_value_heads: shared,
            head_dim,
            max_position_embeddings: keys
                .count("max_position_embeddings")?
                .unwrap_or(base.max_position_embeddings),
            tie_word_embeddings: keys.flag("tie_word_embeddings")?.unwrap_or(false),
            attention_bias: match family {
                Family::Qwen2 => true,
                Family::Llama | Family::Qwen3 => keys.flag("attention_bias")?.unwrap_or(false),
                _ => false,
            },
            mlp_bias: family == Family::Llama && keys.flag("mlp_bias")?.unwrap_or(false),
            partial_rotary_factor: match family {
                Family::Phi3 => keys.share("partial_rotary_factor")?.unwrap_or(1.0),
                _ => 1.0,
            },
            sliding_window: window.filter(|_| has_windows),
            first_windowed_layer,
            ..base
        })
    }

    fn encoder(base: Self, keys: &Keys, heads: u32, hidden: u32) -> Result<Self, ConfigError> {
        if !hidden.is_multiple_of(heads) {
            return Err(ConfigError::HeadDim { hidden, heads });
        }
        let distil = base.family == Family::DistilBert;
        let name = |bert, distilbert| if distil { distilbert } else { bert };
        Ok(Self {
            vocab_size: keys.count("vocab_size")?.unwrap_or(base.vocab_size),
            hidden_size: hidden,
            intermediate_size: keys
                .count(name("intermediate_size", "hidden_dim"))?
                .unwrap_or(base.intermediate_size),
            num_hidden_layers: keys
                .count(name("num_hidden_layers", "n_layers"))?
                .unwrap_or(base.num_hidden_layers),
            num_attention_heads: heads,
            num_key_value_heads: heads,
            head_dim: hidden / heads,
            max_position_embeddings: keys
                .count("max_position_embeddings")?
                .unwrap_or(base.max_position_embeddings),
            dropout: keys
                .share(name("hidden_dropout_prob", "dropout"))?
                .unwrap_or(base.dropout),
            attention_dropout: keys
                .share(name("attention_probs_dropout_prob", "attention_dropout"))?
                .unwrap_or(base.attention_dropout),
            type_vocab_size: if distil {
                0
            } else {
                keys.count("type_vocab_size")?.unwrap_or(base.type_vocab_size)
            },
            num_labels: keys.count("num_labels")?.unwrap_or(base.num_labels),
            ..base
        })
    }

    /// The family's shape where a `config.json` says nothing.
    pub(super) fn default_of(family: Family) -> Self {
        let llama = Self {
            family,
            vocab_size: 32_000,
            hidden_size: 4096,
            intermediate_size: 11_008,
            num_hidden_layers: 32,
            num_attention_heads: 32,
            num_key_value_heads: 32,
            head_dim: 128,
            max_position_embeddings: 2048,
            tie_word_embeddings: false,
            attention_bias: false,
            mlp_bias: false,
            partial_rotary_factor: 1.0,
            sliding_window: None,
            first_windowed_layer: 0,
            dropout: 0.0,
            attention_dropout: 0.0,
            type_vocab_size: 0,
            num_labels: 2,
        };
        let bert = Self {
            vocab_size: 30_522,
            hidden_size: 768,
            intermediate_size: 3072,
            num_hidden_layers: 12,
            num_attention_heads: 12,
            num_key_value_heads: 12,
            head_dim: 64,
            max_position_embeddings: 512,
            dropout: 0.1,
            attention_dropout: 0.1,
            type_vocab_size: 2,
            ..llama
        };
        match family {
            Family::Llama => llama,
            Family::Mistral => Self {
                intermediate_size: 14_336,
                num_key_value_heads: 8,
                max_position_embeddings: 131_072,
                sliding_window: Some(4096),
                ..llama
            },
            Family::Qwen2 | Family::Qwen3 => Self {
                vocab_size: 151_936,
                intermediate_size: 22_016,
                max_position_embeddings: 32_768,
                attention_bias: family == Family::Qwen2,
                ..llama
            },
            Family::Phi3 => Self {
                vocab_size: 32_064,
                hidden_size: 3072,
                intermediate_size: 8192,
                head_dim: 96,
                max_position_embeddings: 4096,
                ..llama
            },
            Family::Bert => bert,
            Family::DistilBert => Self {
                num_hidden_layers: 6,
                type_vocab_size: 0,
                ..bert
            },
        }
    }

    /// Width of a head that is turned by its position.
    pub(super) fn rotary_dim(&self) -> u32 {
        (f64::from(self.head_dim) * self.partial_rotary_factor) as u32
    }
}
