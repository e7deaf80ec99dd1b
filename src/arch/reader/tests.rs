//! The reader against configurations of transformers: keys that it finds, and values that it refuses.

use serde_json::{Value, json};

use crate::arch::check::check;
use crate::arch::config::ModelConfig;
use crate::arch::family::Family;
use crate::arch::presets::Preset;
use crate::arch::rope::{LongRopeScaling, RopeScaling};
use crate::options::{Stack, Task};

fn read(config: Value) -> Result<ModelConfig, String> {
    ModelConfig::from_json(config.to_string().as_bytes()).map_err(|error| error.to_string())
}

/// `base` with `changes`.
fn merged(mut base: Value, changes: &Value) -> Value {
    let entries = changes.as_object().unwrap().clone();
    base.as_object_mut().unwrap().extend(entries);
    base
}

/// A small Llama with `changes`.
fn llama(changes: &Value) -> Result<ModelConfig, String> {
    let small = json!({
        "architectures": ["LlamaForCausalLM"], "hidden_size": 64, "intermediate_size": 160,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 512,
        "tie_word_embeddings": true, "max_position_embeddings": 512
    });
    read(merged(small, changes))
}

/// The message of what our trainer does not compute, or of what is not understood.
fn refused(config: Result<ModelConfig, String>) -> String {
    match config {
        Ok(config) => check(&config, Stack::Candle).unwrap_err().to_string(),
        Err(message) => message,
    }
}

fn preset(name: &str) -> ModelConfig {
    Preset::named(name).unwrap().config()
}

#[test]
fn families_are_known_by_type_or_architecture() {
    for (architecture, family) in [
        ("LlamaForCausalLM", Family::Llama),
        ("MistralForCausalLM", Family::Mistral),
        ("DistilBertForSequenceClassification", Family::DistilBert),
        ("DistilBertForMaskedLM", Family::DistilBert),
        ("DistilBertModel", Family::DistilBert),
        ("BertForPreTraining", Family::Bert),
        ("BertModel", Family::Bert),
    ] {
        let config = read(json!({"architectures": [architecture]}));
        assert_eq!(config.map(|config| config.family), Ok(family), "{architecture}");
    }
    for family in Family::ALL {
        let config = read(json!({"model_type": family.name()})).unwrap();
        assert_eq!(config.family, *family);
        assert_eq!(check(&config, Stack::Torch), Ok(()));
    }
}

#[test]
fn other_families_are_errors_that_name_those_that_are_known() {
    for (config, part) in [
        (
            json!({"architectures": ["RobertaModel"]}),
            "unknown model family RobertaModel",
        ),
        (
            json!({"architectures": ["BertGenerationDecoder"]}),
            "unknown model family",
        ),
        (
            json!({"model_type": "t5"}),
            "unknown model family t5; known are llama, mistral, ",
        ),
        (
            json!({}),
            "neither `model_type` nor `architectures` names the model's family; known are llama, mistral",
        ),
        (json!([]), "not a JSON object"),
    ] {
        let message = read(config).unwrap_err();
        assert!(message.contains(part), "{message}");
    }
    let broken = ModelConfig::from_json(b"{").unwrap_err().to_string();
    assert!(broken.starts_with("not JSON") && broken.contains("line 1"), "{broken}");
}

#[test]
fn a_decoder_with_another_head_is_an_error() {
    let headless = refused(llama(&json!({"architectures": ["LlamaForSequenceClassification"]})));
    assert!(headless.contains("LlamaForCausalLM is"), "{headless}");
}

#[test]
fn defaults_are_those_of_transformers() {
    assert_eq!(llama(&json!({})).unwrap(), preset("tiny"));
    for name in ["distilbert-base", "bert-base"] {
        let preset = preset(name);
        assert_eq!(read(json!({"model_type": preset.family.name()})).unwrap(), preset);
    }
    let mistral = read(json!({"model_type": "mistral"})).unwrap();
    let windows = [mistral.window(0), mistral.window(31), mistral.window(32)];
    assert_eq!(
        (mistral.num_key_value_heads, mistral.head_dim, windows),
        (8, 128, [Some(4096), Some(4096), None])
    );
    let unwindowed = read(json!({"model_type": "mistral", "sliding_window": null})).unwrap();
    assert_eq!(unwindowed.sliding_window, None);
    let llama = read(json!({"model_type": "llama", "num_attention_heads": 16, "hidden_size": 1024})).unwrap();
    assert_eq!(
        (llama.num_key_value_heads, llama.head_dim, llama.attention_bias),
        (16, 64, false)
    );
    let qwen2 = read(json!({"model_type": "qwen2", "sliding_window": 4096})).unwrap();
    let is_bias = |name: &str| name.ends_with("v_proj.bias");
    assert!(qwen2.weights().iter().any(|weight| is_bias(&weight.name)) && qwen2.sliding_window.is_none());
    let qwen3 = read(json!({"model_type": "qwen3", "hidden_size": 1024})).unwrap();
    assert_eq!(qwen3.head_dim, 128);
    let phi = read(json!({"model_type": "phi3", "rope_scaling": {"partial_rotary_factor": 0.75}})).unwrap();
    assert_eq!((phi.rope.partial_factor, phi.rotary_dim()), (0.75, 72));
    let distilbert = read(json!({"model_type": "distilbert", "n_layers": 3, "dim": 384})).unwrap();
    assert_eq!((distilbert.num_hidden_layers, distilbert.hidden_size), (3, 384));
}

#[test]
fn windows_of_some_layers_are_found() {
    let windows = |layers: Value| {
        let keys = json!({"model_type": "qwen2", "use_sliding_window": true, "sliding_window": 64,
            "num_hidden_layers": 4});
        let config = read(merged(keys, &layers))?;
        Ok::<_, String>(config.sliding_window.map(|window| window.layers))
    };
    let (full, windowed) = ("full_attention", "sliding_attention");
    let later = Some(vec![false, true, true, true]);
    assert_eq!(windows(json!({"max_window_layers": 1})), Ok(later));
    assert_eq!(windows(json!({"max_window_layers": 4})), Ok(None));
    let mixed = Some(vec![true, false, true, false]);
    let types = json!({"layer_types": [windowed, full, windowed, full]});
    assert_eq!(windows(types.clone()), Ok(mixed.clone()));
    for wrong in [
        json!([windowed, full]),
        json!([windowed, full, windowed, "chunked_attention"]),
        json!(4),
    ] {
        let message = windows(json!({ "layer_types": wrong })).unwrap_err();
        assert!(
            message.starts_with("`layer_types`: ") && message.contains("4 layers"),
            "{message}"
        );
    }
    // Gemma's pattern, if the types are not listed.
    let gemma = |keys: Value| {
        let config = read(merged(json!({"model_type": "gemma2", "num_hidden_layers": 4}), &keys)).unwrap();
        config.sliding_window.map(|window| window.layers)
    };
    assert_eq!(gemma(json!({})), mixed);
    assert_eq!(gemma(json!({"sliding_window": null})), None);
    assert_eq!(
        gemma(json!({"sliding_window_pattern": 3})),
        Some(vec![true, true, false, true])
    );
}

#[test]
fn gemmas_keys_are_read() {
    let old = json!({"model_type": "gemma3_text", "rope_theta": 500.0, "rope_local_base_freq": 200.0,
        "rope_scaling": {"rope_type": "linear", "factor": 8.0}, "query_pre_attn_scalar": 144});
    let new = json!({"model_type": "gemma3_text", "query_pre_attn_scalar": 144, "rope_parameters": {
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 500.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 200.0}}});
    let [old, new] = [old, new].map(|keys| read(keys).unwrap());
    assert_eq!(old, new);
    assert_eq!(
        (old.rope.theta, old.rope.scaling),
        (500.0, Some(RopeScaling::Linear(8.0)))
    );
    assert_eq!(old.local_rope.map(|rope| rope.theta), Some(200.0));
    let scale = (new.attention_scale(), new.embedding_scale(), new.tie_word_embeddings);
    assert_eq!(scale, (1.0 / 12.0, Some(48.0), true));
    let gemma2 = read(json!({"model_type": "gemma2", "final_logit_softcapping": null})).unwrap();
    assert_eq!((gemma2.attention_softcap, gemma2.logit_softcap), (Some(50.0), None));
    let images =
        json!({"model_type": "gemma3", "architectures": ["Gemma3ForConditionalGeneration"], "text_config": {}});
    let message = read(images).unwrap_err();
    assert!(
        message.contains("unknown model family gemma3;") && message.contains("gemma3_text"),
        "{message}"
    );
}

#[test]
fn theta_and_scaling_are_found_under_old_and_new_keys() {
    let expected = preset("llama-3.2-1b").rope;
    assert!(matches!(expected.scaling, Some(RopeScaling::Llama3(_))));
    let values = json!({"factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192});
    let scaling = |extra: Value| merged(values.clone(), &extra);
    for change in [
        json!({"rope_theta": 500000.0, "rope_scaling": scaling(json!({"rope_type": "llama3"}))}),
        json!({"rope_theta": 500000.0, "rope_scaling": scaling(json!({"type": "llama3"}))}),
        json!({"rope_parameters": scaling(json!({"rope_type": "llama3", "rope_theta": 500000.0}))}),
    ] {
        assert_eq!(llama(&change).unwrap().rope, expected);
    }
    assert_eq!(llama(&json!({"rope_scaling": null})).unwrap().rope.scaling, None);
}

/// Phi 3 with 48 rotated dimensions of 64, whose context of 4096 positions is stretched to 131,072.
fn phi(scaling: Value) -> Result<ModelConfig, String> {
    read(json!({
        "model_type": "phi3", "hidden_size": 256, "num_attention_heads": 4, "max_position_embeddings": 131_072,
        "original_max_position_embeddings": 4096, "partial_rotary_factor": 0.75, "rope_scaling": scaling
    }))
}

/// LongRoPE's keys, with so many factors.
fn long_rope(pairs: usize) -> Value {
    json!({"rope_type": "longrope", "short_factor": vec![1.5; pairs], "long_factor": vec![4; pairs]})
}

#[test]
fn long_rope_is_found_under_old_and_new_keys() {
    let expected = LongRopeScaling {
        short_factor: vec![1.5; 24],
        long_factor: vec![4.0; 24],
        original_max_position_embeddings: 4096,
        // sqrt(1 + ln(32) / ln(4096)) = sqrt(1 + 5 / 12)
        attention_factor: (17f64 / 12.0).sqrt(),
    };
    let found = |extra: Value| match phi(merged(long_rope(24), &extra)).unwrap().rope.scaling {
        Some(RopeScaling::LongRope(found)) => found,
        other => panic!("{other:?}"),
    };
    let close = |found: &LongRopeScaling, factor: f64| (found.attention_factor - factor).abs() < 1e-12;
    for names in [
        json!({}),
        json!({"type": "longrope"}),
        json!({"rope_type": null, "type": "su"}),
    ] {
        let found = found(names);
        assert!(close(&found, expected.attention_factor), "{found:?}");
        let attention_factor = expected.attention_factor;
        assert_eq!(
            LongRopeScaling {
                attention_factor,
                ..found
            },
            expected
        );
    }
    assert!(close(&found(json!({"attention_factor": 1.25})), 1.25));
    assert!(close(&found(json!({"factor": 1.0})), 1.0));
    assert!(close(&found(json!({"factor": 4096.0})), 2f64.sqrt()));
    let inner = found(json!({"original_max_position_embeddings": 2048}));
    assert_eq!(inner.original_max_position_embeddings, 2048);
}

#[test]
fn what_long_rope_cannot_have_is_an_error() {
    for (change, part) in [
        (
            json!({"short_factor": null}),
            "rotary scaling longrope needs `short_factor`",
        ),
        (
            json!({"long_factor": null}),
            "rotary scaling longrope needs `long_factor`",
        ),
        (
            json!({"short_factor": vec![1.0; 32]}),
            "`short_factor`: expected 24 numbers, one for each pair of rotated dimensions, found 32",
        ),
        (
            json!({"long_factor": [0]}),
            "`long_factor`: expected numbers above 0, found 0",
        ),
        (
            json!({"long_factor": 4.0}),
            "`long_factor`: expected a list of 24 numbers above 0, found 4.0",
        ),
        (
            json!({"original_max_position_embeddings": 1}),
            "`original_max_position_embeddings`, above 1",
        ),
        (
            json!({"attention_factor": -1.0}),
            "`attention_factor`: expected a number above 0",
        ),
    ] {
        let message = phi(merged(long_rope(24), &change)).unwrap_err();
        assert!(message.contains(part), "{message}");
    }
    let elsewhere = json!({"rope_scaling": long_rope(8)});
    let message = llama(&elsewhere).unwrap_err();
    assert!(message.contains("`original_max_position_embeddings`"), "{message}");
}

#[test]
fn dropout_and_labels_are_found_under_each_familys_keys() {
    let distilbert = read(
        json!({"dropout": 0.3, "attention_dropout": 0.0, "seq_classif_dropout": 0.5,
            "architectures": ["DistilBertForSequenceClassification"], "id2label": {"0": "a", "1": "b", "2": "c"}}),
    )
    .unwrap();
    let rates = |config: &ModelConfig| {
        [
            config.hidden_dropout,
            config.attention_dropout,
            config.classifier_dropout,
        ]
    };
    assert_eq!(rates(&distilbert), [0.3, 0.0, 0.5]);
    assert_eq!(
        (distilbert.num_labels, distilbert.head),
        (3, Some(Task::SequenceClassification))
    );
    let bert = |extra: Value| {
        let config = json!({"model_type": "bert", "hidden_dropout_prob": 0.3, "attention_probs_dropout_prob": 0.2});
        read(merged(config, &extra)).unwrap()
    };
    assert_eq!(rates(&bert(json!({}))), [0.3, 0.2, 0.3]);
    assert_eq!(rates(&bert(json!({"classifier_dropout": 0.0}))), [0.3, 0.2, 0.0]);
    assert_eq!(bert(json!({"architectures": ["BertForMaskedLM"]})).head, None);
}

#[test]
fn what_a_decoder_cannot_have_is_an_error() {
    for (change, part) in [
        (
            json!({"hidden_act": "gelu"}),
            "`hidden_act: gelu` is not supported; silu is",
        ),
        (
            json!({"attention_dropout": 0.1}),
            "`attention_dropout: 0.1` is not supported",
        ),
        (json!({"rope_scaling": {"type": "yarn", "factor": 4.0}}), "yarn"),
        (
            json!({"rope_scaling": {"rope_type": "llama3", "factor": 4.0}}),
            "low_freq_factor",
        ),
        (
            json!({"rope_parameters": {"partial_rotary_factor": 0.5}}),
            "partial_rotary_factor",
        ),
        (json!({"quantization_config": {"load_in_4bit": true}}), "quantised"),
        (
            json!({"num_attention_heads": 7}),
            "`num_attention_heads` (7) is not a multiple of `num_key_value_heads` (2)",
        ),
        (json!({"num_key_value_heads": 3}), "not a multiple"),
        (
            json!({"hidden_size": 65}),
            "`hidden_size` (65) is not a multiple of `num_attention_heads` (4), and `head_dim` is not given",
        ),
        (
            json!({"vocab_size": 0}),
            "`vocab_size`: expected a number from 1 to 16777216, found 0",
        ),
        (json!({"head_dim": 15}), "even"),
        (json!({"hidden_size": "64"}), "`hidden_size`: expected a number"),
        (json!({"hidden_size": null}), "found null"),
        (
            json!({"rms_norm_eps": 0.0}),
            "`rms_norm_eps`: expected a number above 0",
        ),
    ] {
        let message = refused(llama(&change));
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn what_an_encoder_cannot_have_is_an_error() {
    for (family, change, part) in [
        ("distilbert", json!({"activation": "relu"}), "`activation: relu`"),
        (
            "distilbert",
            json!({"sinusoidal_pos_embds": true}),
            "`sinusoidal_pos_embds: true` is not supported; false is",
        ),
        (
            "distilbert",
            json!({"dim": 7}),
            "`dim` (7) is not a multiple of `n_heads` (12)",
        ),
        (
            "distilbert",
            json!({"dropout": 1.0}),
            "`dropout`: expected a number of at least 0 and less than 1, found 1",
        ),
        ("distilbert", json!({"n_layers": 0}), "`n_layers`"),
        ("bert", json!({"hidden_act": "gelu_new"}), "gelu_new"),
        ("bert", json!({"is_decoder": true}), "is_decoder"),
        (
            "bert",
            json!({"initializer_range": -0.02}),
            "`initializer_range`: expected a number between 0 and 1000, found -0.02",
        ),
        (
            "bert",
            json!({"position_embedding_type": "relative_key"}),
            "`position_embedding_type: relative_key` is not supported; absolute is",
        ),
        ("bert", json!({"problem_type": "regression"}), "regression"),
        ("bert", json!({"type_vocab_size": 0}), "type_vocab_size"),
        ("bert", json!({"pad_token_id": 30522}), "pad_token_id"),
        ("bert", json!({"layer_norm_eps": 0.0}), "layer_norm_eps"),
        ("bert", json!({"quantization_config": {}}), "quantised"),
        ("bert", json!({"hidden_size": "64"}), "`hidden_size`: expected a number"),
    ] {
        let message = refused(read(merged(json!({"model_type": family}), &change)));
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn minus_one_means_no_padding_token() {
    assert_eq!(llama(&json!({"pad_token_id": -1})).unwrap().pad_token_id, None);
    assert_eq!(llama(&json!({"pad_token_id": 2})).unwrap().pad_token_id, Some(2));
}
