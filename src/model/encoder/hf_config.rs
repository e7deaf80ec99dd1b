//! Hugging Face's `config.json` of DistilBERT and BERT, which name the same things differently.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::config::{EncoderConfig, Family};
use crate::model::random_weights::{INITIALIZER_RANGE, check_range};

/// The keys that decide what a DistilBERT model computes. Defaults are `DistilBertConfig`'s in transformers.
#[derive(Deserialize)]
#[serde(default)]
struct DistilBert {
    vocab_size: usize,
    max_position_embeddings: usize,
    sinusoidal_pos_embds: bool,
    n_layers: usize,
    n_heads: usize,
    dim: usize,
    hidden_dim: usize,
    dropout: f64,
    attention_dropout: f64,
    activation: String,
    seq_classif_dropout: f64,
    pad_token_id: Option<i64>,
    initializer_range: f64,
}

impl Default for DistilBert {
    fn default() -> Self {
        Self {
            vocab_size: 30_522,
            max_position_embeddings: 512,
            sinusoidal_pos_embds: false,
            n_layers: 6,
            n_heads: 12,
            dim: 768,
            hidden_dim: 3072,
            dropout: 0.1,
            attention_dropout: 0.1,
            activation: "gelu".into(),
            seq_classif_dropout: 0.2,
            pad_token_id: Some(0),
            initializer_range: INITIALIZER_RANGE,
        }
    }
}

/// The same of BERT, by `BertConfig`.
#[derive(Deserialize)]
#[serde(default)]
struct Bert {
    vocab_size: usize,
    hidden_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    intermediate_size: usize,
    hidden_act: String,
    hidden_dropout_prob: f64,
    attention_probs_dropout_prob: f64,
    max_position_embeddings: usize,
    type_vocab_size: usize,
    layer_norm_eps: f64,
    pad_token_id: Option<i64>,
    classifier_dropout: Option<f64>,
    is_decoder: bool,
    add_cross_attention: bool,
    position_embedding_type: Option<String>,
    initializer_range: f64,
}

impl Default for Bert {
    fn default() -> Self {
        Self {
            vocab_size: 30_522,
            hidden_size: 768,
            num_hidden_layers: 12,
            num_attention_heads: 12,
            intermediate_size: 3072,
            hidden_act: "gelu".into(),
            hidden_dropout_prob: 0.1,
            attention_probs_dropout_prob: 0.1,
            max_position_embeddings: 512,
            type_vocab_size: 2,
            layer_norm_eps: 1e-12,
            pad_token_id: Some(0),
            classifier_dropout: None,
            is_decoder: false,
            add_cross_attention: false,
            position_embedding_type: None,
            initializer_range: INITIALIZER_RANGE,
        }
    }
}

/// What both have of the head.
#[derive(Deserialize)]
struct Head {
    architectures: Option<Vec<String>>,
    id2label: Option<Map<String, Value>>,
    problem_type: Option<String>,
    quantization_config: Option<Value>,
}

/// Reads and checks the text of a `config.json`. A head that the checkpoint has decides the number of labels; without one
/// there are two until the options say how many.
pub(in crate::model) fn parse(text: &[u8], family: Family) -> Result<EncoderConfig, String> {
    let head: Head = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    if head.quantization_config.is_some() {
        return Err("the checkpoint is quantised already (`quantization_config`); give the original one".into());
    }
    if let Some(problem) = head
        .problem_type
        .filter(|problem| problem != "single_label_classification")
    {
        return Err(format!(
            "`problem_type: {problem}` is not supported; single_label_classification is"
        ));
    }
    let classifies = head.architectures.iter().flatten();
    let classifies = classifies
        .into_iter()
        .any(|name| name.ends_with("ForSequenceClassification"));
    let labels = head.id2label.map_or(2, |labels| labels.len());
    let config = EncoderConfig {
        num_labels: labels,
        has_head: classifies,
        ..match family {
            Family::DistilBert => distilbert(serde_json::from_slice(text).map_err(|error| error.to_string())?)?,
            Family::Bert => bert(serde_json::from_slice(text).map_err(|error| error.to_string())?)?,
        }
    };
    check(&config)?;
    Ok(config)
}

fn distilbert(hf: DistilBert) -> Result<EncoderConfig, String> {
    if hf.sinusoidal_pos_embds {
        return Err("`sinusoidal_pos_embds: true` is not supported: positions are learned here".into());
    }
    check_activation("activation", &hf.activation)?;
    Ok(EncoderConfig {
        family: Family::DistilBert,
        hidden_size: hf.dim,
        intermediate_size: hf.hidden_dim,
        num_hidden_layers: hf.n_layers,
        num_attention_heads: hf.n_heads,
        vocab_size: hf.vocab_size,
        max_position_embeddings: hf.max_position_embeddings,
        type_vocab_size: 0,
        layer_norm_eps: 1e-12,
        pad_token_id: token(hf.pad_token_id),
        num_labels: 2,
        has_head: false,
        hidden_dropout: hf.dropout,
        attention_dropout: hf.attention_dropout,
        classifier_dropout: hf.seq_classif_dropout,
        initializer_range: hf.initializer_range,
    })
}

fn bert(hf: Bert) -> Result<EncoderConfig, String> {
    check_activation("hidden_act", &hf.hidden_act)?;
    for (key, set) in [
        ("is_decoder", hf.is_decoder),
        ("add_cross_attention", hf.add_cross_attention),
    ] {
        if set {
            return Err(format!("`{key}: true` is not supported: BERT is an encoder here"));
        }
    }
    if let Some(kind) = hf.position_embedding_type.filter(|kind| kind != "absolute") {
        return Err(format!(
            "`position_embedding_type: {kind}` is not supported; absolute is"
        ));
    }
    Ok(EncoderConfig {
        family: Family::Bert,
        hidden_size: hf.hidden_size,
        intermediate_size: hf.intermediate_size,
        num_hidden_layers: hf.num_hidden_layers,
        num_attention_heads: hf.num_attention_heads,
        vocab_size: hf.vocab_size,
        max_position_embeddings: hf.max_position_embeddings,
        type_vocab_size: hf.type_vocab_size,
        layer_norm_eps: hf.layer_norm_eps,
        pad_token_id: token(hf.pad_token_id),
        num_labels: 2,
        has_head: false,
        hidden_dropout: hf.hidden_dropout_prob,
        attention_dropout: hf.attention_probs_dropout_prob,
        classifier_dropout: hf.classifier_dropout.unwrap_or(hf.hidden_dropout_prob),
        initializer_range: hf.initializer_range,
    })
}

/// Old checkpoints say -1 for "none".
fn token(id: Option<i64>) -> Option<u32> {
    id.and_then(|id| u32::try_from(id).ok())
}

fn check_activation(key: &str, name: &str) -> Result<(), String> {
    if name == "gelu" {
        Ok(())
    } else {
        Err(format!("`{key}: {name}` is not supported; gelu is"))
    }
}

fn check(config: &EncoderConfig) -> Result<(), String> {
    check_range(config.initializer_range)?;
    // Far above any model, and low enough that no product of shapes overflows.
    const MOST: usize = 1 << 24;
    for (key, size) in [
        ("hidden_size", config.hidden_size),
        ("intermediate_size", config.intermediate_size),
        ("num_hidden_layers", config.num_hidden_layers),
        ("num_attention_heads", config.num_attention_heads),
        ("vocab_size", config.vocab_size),
        ("max_position_embeddings", config.max_position_embeddings),
    ] {
        if size == 0 || size > MOST {
            let key = config.family.key(key);
            return Err(format!("`{key}` is {size}; it must be between 1 and {MOST}"));
        }
    }
    if config.family == Family::Bert && !(1..=MOST).contains(&config.type_vocab_size) {
        let size = config.type_vocab_size;
        return Err(format!("`type_vocab_size` is {size}; it must be between 1 and {MOST}"));
    }
    let (hidden, heads) = (config.hidden_size, config.num_attention_heads);
    if !hidden.is_multiple_of(heads) || heads >= 1 << 16 {
        let [hidden_key, heads_key] = ["hidden_size", "num_attention_heads"].map(|key| config.family.key(key));
        return Err(format!(
            "`{hidden_key}` ({hidden}) is no multiple of `{heads_key}` ({heads})"
        ));
    }
    if !(config.layer_norm_eps.is_finite() && config.layer_norm_eps > 0.0) {
        return Err(format!(
            "`layer_norm_eps` is {}; it must be above 0",
            config.layer_norm_eps
        ));
    }
    for (key, probability) in [
        ("hidden_dropout_prob", config.hidden_dropout),
        ("attention_probs_dropout_prob", config.attention_dropout),
        ("classifier_dropout", config.classifier_dropout),
    ] {
        if !(0.0..1.0).contains(&probability) {
            let key = config.family.key(key);
            return Err(format!(
                "`{key}` is {probability}; it must be at least 0 and less than 1"
            ));
        }
    }
    if config.pad_token_id.is_some_and(|id| id as usize >= config.vocab_size) {
        return Err("`pad_token_id` is not below `vocab_size`".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::{Config, Preset};

    fn parsed(family: Family, config: Value) -> Result<EncoderConfig, String> {
        parse(config.to_string().as_bytes(), family)
    }

    #[test]
    fn defaults_are_those_of_transformers() {
        for (family, preset) in [
            (Family::DistilBert, Preset::DistilbertBase),
            (Family::Bert, Preset::BertBase),
        ] {
            assert_eq!(Config::Encoder(parsed(family, json!({})).unwrap()), preset.config());
        }
    }

    #[test]
    fn dropout_and_labels_are_found_under_each_familys_keys() {
        let distilbert = parsed(
            Family::DistilBert,
            json!({"dropout": 0.3, "attention_dropout": 0.0, "seq_classif_dropout": 0.5,
                "architectures": ["DistilBertForSequenceClassification"], "id2label": {"0": "a", "1": "b", "2": "c"}}),
        )
        .unwrap();
        let rates = |config: &EncoderConfig| {
            [
                config.hidden_dropout,
                config.attention_dropout,
                config.classifier_dropout,
            ]
        };
        assert_eq!(rates(&distilbert), [0.3, 0.0, 0.5]);
        assert_eq!((distilbert.num_labels, distilbert.has_head), (3, true));
        let bert = |extra: Value| {
            let mut config = json!({"hidden_dropout_prob": 0.3, "attention_probs_dropout_prob": 0.2});
            config
                .as_object_mut()
                .unwrap()
                .extend(extra.as_object().unwrap().clone());
            parsed(Family::Bert, config).unwrap()
        };
        assert_eq!(rates(&bert(json!({}))), [0.3, 0.2, 0.3]);
        assert_eq!(rates(&bert(json!({"classifier_dropout": 0.0}))), [0.3, 0.2, 0.0]);
        assert!(!bert(json!({"architectures": ["BertForMaskedLM"]})).has_head);
    }

    #[test]
    fn what_is_not_computed_is_an_error() {
        for (family, change, part) in [
            (Family::DistilBert, json!({"activation": "relu"}), "`activation: relu`"),
            (
                Family::DistilBert,
                json!({"sinusoidal_pos_embds": true}),
                "sinusoidal_pos_embds",
            ),
            (
                Family::DistilBert,
                json!({"dim": 7}),
                "`dim` (7) is no multiple of `n_heads` (12)",
            ),
            (Family::DistilBert, json!({"dropout": 1.0}), "`dropout` is 1"),
            (Family::DistilBert, json!({"n_layers": 0}), "`n_layers` is 0"),
            (Family::Bert, json!({"hidden_act": "gelu_new"}), "gelu_new"),
            (Family::Bert, json!({"is_decoder": true}), "is_decoder"),
            (
                Family::Bert,
                json!({"initializer_range": -0.02}),
                "`initializer_range` is -0.02",
            ),
            (
                Family::Bert,
                json!({"position_embedding_type": "relative_key"}),
                "relative_key",
            ),
            (Family::Bert, json!({"problem_type": "regression"}), "regression"),
            (Family::Bert, json!({"type_vocab_size": 0}), "type_vocab_size"),
            (Family::Bert, json!({"pad_token_id": 30522}), "pad_token_id"),
            (Family::Bert, json!({"layer_norm_eps": 0.0}), "layer_norm_eps"),
            (Family::Bert, json!({"quantization_config": {}}), "quantised"),
            (Family::Bert, json!({"hidden_size": "64"}), "invalid type"),
        ] {
            let message = parsed(family, change).unwrap_err();
            assert!(message.contains(part), "{message}");
        }
    }
}
