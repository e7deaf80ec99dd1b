//! Hugging Face's `config.json` of a Llama model.

use serde::Deserialize;
use serde_json::Value;

use super::config::{Llama3Scaling, LlamaConfig};
use crate::model::random_weights::{INITIALIZER_RANGE, check_range};

/// The keys that decide what a Llama model computes. Defaults are `LlamaConfig`'s in transformers.
#[derive(Deserialize)]
struct HfConfig {
    hidden_size: usize,
    intermediate_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    num_key_value_heads: Option<usize>,
    head_dim: Option<usize>,
    vocab_size: usize,
    #[serde(default = "default_eps")]
    rms_norm_eps: f64,
    rope_theta: Option<f64>,
    /// Where transformers 4 keeps the scaling.
    rope_scaling: Option<Rope>,
    /// Where transformers 5 keeps the scaling, and theta with it.
    rope_parameters: Option<Rope>,
    #[serde(default)]
    tie_word_embeddings: bool,
    #[serde(default = "default_positions")]
    max_position_embeddings: usize,
    #[serde(default = "default_act")]
    hidden_act: String,
    #[serde(default)]
    attention_bias: bool,
    #[serde(default)]
    mlp_bias: bool,
    pad_token_id: Option<i64>,
    #[serde(default = "default_range")]
    initializer_range: f64,
    quantization_config: Option<Value>,
}

fn default_eps() -> f64 {
    1e-6
}

fn default_positions() -> usize {
    2048
}

fn default_range() -> f64 {
    INITIALIZER_RANGE
}

fn default_act() -> String {
    "silu".into()
}

#[derive(Deserialize)]
struct Rope {
    rope_type: Option<String>,
    /// What old files call `rope_type`; some have both.
    r#type: Option<String>,
    rope_theta: Option<f64>,
    factor: Option<f64>,
    low_freq_factor: Option<f64>,
    high_freq_factor: Option<f64>,
    original_max_position_embeddings: Option<usize>,
    partial_rotary_factor: Option<f64>,
}

/// Reads and checks the text of a `config.json`.
pub(in crate::model) fn parse(text: &[u8]) -> Result<LlamaConfig, String> {
    let hf: HfConfig = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    check_features(&hf)?;
    let config = LlamaConfig {
        hidden_size: hf.hidden_size,
        intermediate_size: hf.intermediate_size,
        num_hidden_layers: hf.num_hidden_layers,
        num_attention_heads: hf.num_attention_heads,
        num_key_value_heads: hf.num_key_value_heads.unwrap_or(hf.num_attention_heads),
        head_dim: match hf.head_dim {
            Some(width) => width,
            None if hf.num_attention_heads > 0 && hf.hidden_size.is_multiple_of(hf.num_attention_heads) => {
                hf.hidden_size / hf.num_attention_heads
            }
            None => {
                return Err(format!(
                    "`hidden_size` ({}) is no multiple of `num_attention_heads` ({}), and `head_dim` is not given",
                    hf.hidden_size, hf.num_attention_heads
                ));
            }
        },
        vocab_size: hf.vocab_size,
        rms_norm_eps: hf.rms_norm_eps,
        rope_theta: theta(&hf),
        rope_scaling: scaling(&hf)?,
        tie_word_embeddings: hf.tie_word_embeddings,
        max_position_embeddings: hf.max_position_embeddings,
        // Old checkpoints say -1 for "none".
        pad_token_id: hf.pad_token_id.and_then(|id| u32::try_from(id).ok()),
        initializer_range: hf.initializer_range,
    };
    check_sizes(&config)?;
    Ok(config)
}

fn check_features(hf: &HfConfig) -> Result<(), String> {
    for (key, set) in [("attention_bias", hf.attention_bias), ("mlp_bias", hf.mlp_bias)] {
        if set {
            return Err(format!(
                "`{key}: true` is not supported: linear layers have no biases here"
            ));
        }
    }
    if hf.hidden_act != "silu" {
        return Err(format!("`hidden_act: {}` is not supported; silu is", hf.hidden_act));
    }
    if hf.quantization_config.is_some() {
        return Err("the checkpoint is quantised already (`quantization_config`); give the original one".into());
    }
    Ok(())
}

fn rope(hf: &HfConfig) -> Option<&Rope> {
    hf.rope_parameters.as_ref().or(hf.rope_scaling.as_ref())
}

fn theta(hf: &HfConfig) -> f64 {
    rope(hf)
        .and_then(|rope| rope.rope_theta)
        .or(hf.rope_theta)
        .unwrap_or(10_000.0)
}

fn scaling(hf: &HfConfig) -> Result<Option<Llama3Scaling>, String> {
    let Some(rope) = rope(hf) else { return Ok(None) };
    if rope.partial_rotary_factor.is_some_and(|part| part != 1.0) {
        return Err("`partial_rotary_factor` is not supported: the whole head is rotated here".into());
    }
    match rope.rope_type.as_deref().or(rope.r#type.as_deref()) {
        None | Some("default") => Ok(None),
        Some("llama3") => {
            let needed = |value: Option<f64>, key: &str| {
                value
                    .filter(|value| *value > 0.0)
                    .ok_or_else(|| format!("rotary scaling llama3 needs `{key}`, above 0"))
            };
            let scaling = Llama3Scaling {
                factor: needed(rope.factor, "factor")?,
                low_freq_factor: needed(rope.low_freq_factor, "low_freq_factor")?,
                high_freq_factor: needed(rope.high_freq_factor, "high_freq_factor")?,
                original_max_position_embeddings: rope
                    .original_max_position_embeddings
                    .ok_or("rotary scaling llama3 needs `original_max_position_embeddings`")?,
            };
            if scaling.high_freq_factor <= scaling.low_freq_factor {
                return Err("rotary scaling llama3 needs `high_freq_factor` above `low_freq_factor`".into());
            }
            Ok(Some(scaling))
        }
        Some(other) => Err(format!(
            "rotary scaling `{other}` is not supported; default and llama3 are"
        )),
    }
}

fn check_sizes(config: &LlamaConfig) -> Result<(), String> {
    check_range(config.initializer_range)?;
    // Far above any model, and low enough that no product of shapes overflows.
    const MOST: usize = 1 << 24;
    for (key, size) in [
        ("hidden_size", config.hidden_size),
        ("intermediate_size", config.intermediate_size),
        ("num_hidden_layers", config.num_hidden_layers),
        ("num_attention_heads", config.num_attention_heads),
        ("num_key_value_heads", config.num_key_value_heads),
        ("head_dim", config.head_dim),
        ("vocab_size", config.vocab_size),
        ("max_position_embeddings", config.max_position_embeddings),
    ] {
        if size == 0 || size > MOST {
            return Err(format!("`{key}` is {size}; it must be between 1 and {MOST}"));
        }
    }
    let (heads, kv_heads) = (config.num_attention_heads, config.num_key_value_heads);
    if heads % kv_heads != 0 {
        return Err(format!(
            "`num_attention_heads` ({heads}) is no multiple of `num_key_value_heads` ({kv_heads})"
        ));
    }
    if !config.head_dim.is_multiple_of(2) {
        return Err(format!(
            "`head_dim` is {}; the rotary embedding needs an even one",
            config.head_dim
        ));
    }
    for (key, value) in [("rms_norm_eps", config.rms_norm_eps), ("rope_theta", config.rope_theta)] {
        if !(value.is_finite() && value > 0.0) {
            return Err(format!("`{key}` is {value}; it must be above 0"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::model::Config;

    fn llama() -> Value {
        json!({
            "architectures": ["LlamaForCausalLM"], "hidden_size": 64, "intermediate_size": 160,
            "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 512,
            "tie_word_embeddings": true, "max_position_embeddings": 512
        })
    }

    fn preset(name: &str) -> LlamaConfig {
        match Config::preset(name) {
            Some(Config::Llama(config)) => config,
            other => panic!("{other:?}"),
        }
    }

    fn with(changes: Value) -> Result<LlamaConfig, String> {
        let mut config = llama();
        for (key, value) in changes.as_object().unwrap() {
            config[key] = value.clone();
        }
        parse(config.to_string().as_bytes())
    }

    #[test]
    fn defaults_are_those_of_transformers() {
        assert_eq!(with(json!({})).unwrap(), preset("tiny"));
    }

    #[test]
    fn theta_and_scaling_are_found_under_old_and_new_keys() {
        let expected = preset("llama-3.2-1b");
        let values = json!({"factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192});
        let scaling = |extra: Value| {
            let mut scaling = values.clone();
            scaling
                .as_object_mut()
                .unwrap()
                .extend(extra.as_object().unwrap().clone());
            scaling
        };
        for change in [
            json!({"rope_theta": 500000.0, "rope_scaling": scaling(json!({"rope_type": "llama3"}))}),
            json!({"rope_theta": 500000.0, "rope_scaling": scaling(json!({"type": "llama3"}))}),
            json!({"rope_parameters": scaling(json!({"rope_type": "llama3", "rope_theta": 500000.0}))}),
        ] {
            let config = with(change).unwrap();
            assert_eq!(config.rope_theta, expected.rope_theta);
            assert_eq!(config.rope_scaling, expected.rope_scaling);
        }
        assert_eq!(with(json!({"rope_scaling": null})).unwrap().rope_scaling, None);
    }

    #[test]
    fn what_is_not_computed_is_an_error() {
        for (change, part) in [
            (json!({"attention_bias": true}), "attention_bias"),
            (json!({"mlp_bias": true}), "mlp_bias"),
            (json!({"hidden_act": "gelu"}), "silu"),
            (json!({"rope_scaling": {"type": "yarn", "factor": 4.0}}), "yarn"),
            (
                json!({"rope_scaling": {"rope_type": "llama3", "factor": 4.0}}),
                "low_freq_factor",
            ),
            (json!({"quantization_config": {"load_in_4bit": true}}), "quantised"),
            (json!({"num_attention_heads": 7}), "no multiple"),
            (json!({"num_key_value_heads": 3}), "no multiple"),
            (json!({"vocab_size": 0}), "vocab_size"),
            (json!({"head_dim": 15}), "even"),
            (json!({"hidden_size": "64"}), "invalid type"),
            (json!({"hidden_size": null}), "invalid type"),
        ] {
            let message = with(change).unwrap_err();
            assert!(message.contains(part), "{message}");
        }
        assert!(parse(b"{").unwrap_err().contains("line 1"));
    }

    #[test]
    fn minus_one_is_no_padding_token() {
        assert_eq!(with(json!({"pad_token_id": -1})).unwrap().pad_token_id, None);
        assert_eq!(with(json!({"pad_token_id": 2})).unwrap().pad_token_id, Some(2));
    }
}
