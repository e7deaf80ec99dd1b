//! Hugging Face's `config.json`: which family it is of.

use std::fs;
use std::path::Path;

use serde::Deserialize;

use super::{Config, ModelError, encoder, llama};

/// What is computed here, for messages.
const SUPPORTED: &str =
    "LlamaForCausalLM, DistilBertForSequenceClassification and BertForSequenceClassification are supported";

/// Reads and checks a `config.json`.
pub(super) fn read(path: &Path) -> Result<Config, ModelError> {
    let text = fs::read(path).map_err(|source| ModelError::Read {
        path: path.into(),
        source,
    })?;
    parse(&text).map_err(|reason| ModelError::Config {
        path: path.into(),
        reason,
    })
}

#[derive(Debug, PartialEq, Eq)]
enum Found {
    Llama,
    Encoder(encoder::Family),
}

fn parse(text: &[u8]) -> Result<Config, String> {
    match family(text)? {
        Found::Llama => llama::hf_config::parse(text).map(Config::Llama),
        Found::Encoder(family) => encoder::hf_config::parse(text, family).map(Config::Encoder),
    }
}

/// Looks at the architecture alone, so that another model's missing keys are not what the user is told. Of an encoder any
/// architecture will do: what it has beside the encoder itself is left alone, and the head is new.
fn family(text: &[u8]) -> Result<Found, String> {
    #[derive(Deserialize)]
    struct Architecture {
        architectures: Option<Vec<String>>,
        model_type: Option<String>,
    }
    let found: Architecture = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    let encoder = |prefix: &str| {
        let model = format!("{prefix}Model");
        move |name: &String| {
            name == &model
                || name
                    .strip_prefix(&model[..model.len() - 5])
                    .is_some_and(|rest| rest.starts_with("For"))
        }
    };
    match (&found.architectures, found.model_type.as_deref()) {
        (Some(names), _) if names.iter().any(|name| name == "LlamaForCausalLM") => Ok(Found::Llama),
        (Some(names), _) if names.iter().any(encoder("DistilBert")) => Ok(Found::Encoder(encoder::Family::DistilBert)),
        (Some(names), _) if names.iter().any(encoder("Bert")) => Ok(Found::Encoder(encoder::Family::Bert)),
        (Some(names), _) => Err(format!("unknown architecture {}; {SUPPORTED}", names.join(", "))),
        (None, Some("llama")) => Ok(Found::Llama),
        (None, Some("distilbert")) => Ok(Found::Encoder(encoder::Family::DistilBert)),
        (None, Some("bert")) => Ok(Found::Encoder(encoder::Family::Bert)),
        (None, Some(kind)) => Err(format!("unknown architecture {kind}; {SUPPORTED}")),
        (None, None) => Err(format!("`architectures` is missing; {SUPPORTED}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn found(config: Value) -> Result<Found, String> {
        family(config.to_string().as_bytes())
    }

    #[test]
    fn families_are_known_by_architecture_or_type() {
        let (distilbert, bert) = (encoder::Family::DistilBert, encoder::Family::Bert);
        for (architecture, family) in [
            ("LlamaForCausalLM", Found::Llama),
            ("DistilBertForSequenceClassification", Found::Encoder(distilbert)),
            ("DistilBertForMaskedLM", Found::Encoder(distilbert)),
            ("DistilBertModel", Found::Encoder(distilbert)),
            ("BertForPreTraining", Found::Encoder(bert)),
            ("BertModel", Found::Encoder(bert)),
        ] {
            assert_eq!(found(json!({"architectures": [architecture]})), Ok(family));
        }
        assert_eq!(found(json!({"model_type": "bert"})), Ok(Found::Encoder(bert)));
    }

    #[test]
    fn others_are_errors_that_say_what_is_supported() {
        for (config, part) in [
            (
                json!({"architectures": ["MistralForCausalLM"]}),
                "unknown architecture MistralForCausalLM; LlamaForCausalLM, ",
            ),
            (
                json!({"architectures": ["RobertaModel"]}),
                "unknown architecture RobertaModel",
            ),
            (
                json!({"architectures": ["BertGenerationDecoder"]}),
                "unknown architecture",
            ),
            (json!({"model_type": "roberta"}), "unknown architecture roberta"),
            (json!({}), "`architectures` is missing"),
        ] {
            let message = found(config).unwrap_err();
            assert!(message.contains(part), "{message}");
        }
        assert!(parse(b"{").unwrap_err().contains("line 1"));
    }
}
