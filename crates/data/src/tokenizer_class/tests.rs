use std::path::PathBuf;

use serde_json::{Value, json};

use super::*;
use crate::EMBEDDED_TOKENIZER;

/// The presets' tokenizer as a class takes it, with these keys in tokenizer_config.json and config.json.
fn made(config: Value, model: Value) -> (Tokenizer, Option<String>) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("tokenizer_config.json"), config.to_string()).unwrap();
    std::fs::write(dir.path().join("config.json"), model.to_string()).unwrap();
    let file = Tokenizer::from_bytes(EMBEDDED_TOKENIZER).unwrap();
    as_in_transformers(file, EMBEDDED_TOKENIZER, dir.path()).unwrap()
}

fn class(config: Value, model: Value, text: &str) -> Class {
    let files = Files {
        config,
        model,
        ..Files::default()
    };
    Class::of(&files, text.as_bytes())
}

#[test]
fn the_class_follows_from_the_files() {
    let named = |name: &str| json!({ "tokenizer_class": name });
    let model = |name: &str| json!({ "model_type": name });
    let llama = Class::Rebuilt(choice::Rebuilt::Llama);
    assert_eq!(class(named("LlamaTokenizerFast"), model("llama"), "{}"), llama);
    assert_eq!(
        class(named("LlamaTokenizer"), model("llama"), "\"ByteLevel\""),
        Class::AsFile,
        "Llama 3"
    );
    assert_eq!(class(named("LlamaTokenizer"), model("mistral"), "{}"), Class::AsFile);
    assert_eq!(class(named("LlamaTokenizer"), model("phi3"), "{}"), Class::AsFile);
    assert_eq!(
        class(named("PreTrainedTokenizerFast"), model("llama"), "{}"),
        Class::AsFile
    );
    let qwen = Class::Rebuilt(choice::Rebuilt::Qwen2);
    assert_eq!(
        class(named("LlamaTokenizerFast"), model("qwen2"), "\"ByteLevel\""),
        qwen,
        "a wrong name"
    );
    assert_eq!(class(json!({}), model("qwen3"), "{}"), qwen);
    assert_eq!(class(json!({}), model("llama"), "{}"), Class::AsFile);
    assert_eq!(
        class(named("T5TokenizerFast"), model("t5"), "{}"),
        Class::Unknown("T5Tokenizer")
    );
}

#[test]
fn a_class_that_takes_the_file_adds_the_tokens_that_are_named() {
    let named =
        json!({"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<end>", "extra_special_tokens": ["<a>"]});
    let (made, remark) = made(named, json!({}));
    let ids = made.encode("x<end><a>", false).unwrap();
    assert_eq!(ids.get_tokens()[1..], ["<end>", "<a>"]);
    assert_eq!((ids.get_ids()[1], remark), (512, None));
}

#[test]
fn a_class_that_is_not_described_is_named() {
    let (_, remark) = made(json!({"tokenizer_class": "T5Tokenizer"}), json!({}));
    assert_eq!(
        remark.unwrap(),
        "the tokenizer is read as its file says; transformers' T5Tokenizer may make other tokens of it"
    );
}

/// Llama's class puts a space before a text, and none before what follows a special token.
#[test]
fn ids_are_those_of_transformers() {
    let golden: Vec<Value> =
        serde_json::from_str(include_str!("../../../../tests/fixtures/tokenizer_classes.json")).unwrap();
    assert!(golden.len() > 10);
    for case in golden {
        let dir = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/tokenizers"));
        let text = std::fs::read(dir.join(case["file"].as_str().unwrap())).unwrap();
        let beside = tempfile::tempdir().unwrap();
        for (name, content) in case["beside"].as_object().unwrap() {
            std::fs::write(beside.path().join(name), content.to_string()).unwrap();
        }
        let file = Tokenizer::from_bytes(&text).unwrap();
        let (made, _) = as_in_transformers(file, &text, beside.path()).unwrap();
        for sample in case["samples"].as_array().unwrap() {
            let text = sample["text"].as_str().unwrap();
            for (key, special) in [("ids", false), ("with_special_tokens", true)] {
                let ids = made.encode(text, special).unwrap().get_ids().to_vec();
                assert_eq!(json!(ids), sample[key], "{}: {text:?} {key}", case["name"]);
            }
        }
    }
}
