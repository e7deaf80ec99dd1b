//! The reader against configurations of transformers: keys that it finds, and values that it refuses.

use std::collections::BTreeSet;

use options::{Stack, Task};
use serde_json::{Value, json};

use crate::check::check;
use crate::config::ModelConfig;
use crate::family::Family;
use crate::presets::Preset;
use crate::rope::RopeScaling;

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
        ("DistilBertForMaskedLM", Family::DistilBert),
        ("BertForPreTraining", Family::Bert),
    ] {
        let config = read(json!({"architectures": [architecture]}));
        let config = config.unwrap();
        assert_eq!(config.family, family, "{architecture}");
        let remark = config.remark().unwrap();
        assert!(
            remark.contains("no `model_type`") && remark.ends_with(architecture),
            "{remark}"
        );
    }
    for family in Family::ALL {
        let class = family.description().class;
        let head = if family.is_encoder() {
            "ForSequenceClassification"
        } else {
            "ForCausalLM"
        };
        for end in [head, "Model"] {
            let config = read(json!({"architectures": [format!("{class}{end}")]}));
            assert_eq!(config.map(|config| config.family), Ok(*family), "{class}{end}");
        }
        let config = read(json!({"model_type": family.name()})).unwrap();
        assert_eq!(config.family, *family);
        assert_eq!(check(&config, Stack::Torch), Ok(()));
    }
}

#[test]
fn bitsandbytes_alone_quantises_what_is_planned() {
    let checked = |quantised: Value| {
        let config = read(json!({"model_type": "llama", "quantization_config": quantised})).unwrap();
        check(&config, Stack::Torch).map_err(|error| error.to_string())
    };
    assert_eq!(checked(json!({"load_in_4bit": true})), Ok(()));
    assert_eq!(
        checked(json!({"quant_method": "bitsandbytes", "load_in_4bit": true})),
        Ok(())
    );
    let gptq = checked(json!({"bits": 4, "quant_method": "gptq"})).unwrap_err();
    assert!(gptq.contains("weights that GPTQ quantised"), "{gptq}");
    let unnamed = checked(json!({"bits": 4, "group_size": 128})).unwrap_err();
    assert!(unnamed.contains("weights that another program quantised"), "{unnamed}");
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
            json!({"model_type": "mine", "architectures": ["LlamaForCausalLM"]}),
            "unknown `model_type` mine, though `architectures` names LlamaForCausalLM; write `model_type: llama`",
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
    let headless = refused(llama(&json!({"architectures": ["LlamaModel"]})));
    assert!(headless.contains("LlamaForCausalLM is"), "{headless}");
}

#[test]
fn defaults_are_those_of_transformers() {
    assert_eq!(llama(&json!({"model_type": "llama"})).unwrap(), preset("tiny"));
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
    let windowed = json!({"model_type": "qwen2", "use_sliding_window": true, "max_window_layers": 30});
    let windowed = read(windowed).unwrap();
    assert_eq!([windowed.window(29), windowed.window(30)], [None, Some(4096)]);
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
    let ministral = |keys: Value| {
        read(merged(
            json!({"model_type": "ministral", "num_hidden_layers": 4}),
            &keys,
        ))
        .unwrap()
    };
    assert_eq!(
        [0, 3].map(|at| ministral(json!({})).window(at)),
        [Some(4096), Some(4096)]
    );
    assert_eq!(ministral(types).sliding_window.map(|window| window.layers), mixed);
    // Gemma's pattern, if the types are not listed.
    let gemma = |keys: Value| {
        let config = read(merged(json!({"model_type": "gemma2", "num_hidden_layers": 4}), &keys)).unwrap();
        config.sliding_window.map(|window| window.layers)
    };
    assert_eq!(gemma(json!({})), mixed);
    // transformers makes the window's mask even then.
    assert_eq!(
        gemma(json!({"layer_types": [full, full, full, full]})),
        Some(vec![false; 4])
    );
    let pattern = json!({"model_type": "gemma3_text", "num_hidden_layers": 4, "sliding_window_pattern": 3});
    let window = read(pattern).unwrap().sliding_window.unwrap();
    assert_eq!((window.tokens, window.layers), (4096, vec![true, true, false, true]));
}

#[test]
fn a_window_that_is_missing_is_an_error() {
    let null = json!({"model_type": "gemma2", "sliding_window": null});
    assert_eq!(
        read(null).unwrap_err(),
        "`sliding_window`: expected a number, found null"
    );
    let types = json!({"layer_types": ["full_attention", "sliding_attention"], "num_hidden_layers": 2});
    for change in [
        json!({"model_type": "qwen2"}),
        json!({"model_type": "qwen3", "use_sliding_window": true, "sliding_window": null}),
    ] {
        let message = read(merged(types.clone(), &change)).unwrap_err();
        assert!(
            message.contains("`layer_types` names layers with a window, but none is in use"),
            "{message}"
        );
    }
}

/// What a family does not list, transformers' code for it never reads: no value of it is wrong.
#[test]
fn keys_of_other_families_change_nothing() {
    let own = |family: &Family| family.description().keys.iter().copied();
    let all: BTreeSet<&str> = Family::ALL.iter().flat_map(own).collect();
    for family in Family::ALL {
        let plain = json!({"model_type": family.name()});
        for key in all.iter().filter(|key| !own(family).any(|own| own == **key)) {
            let changed = merged(plain.clone(), &json!({ *key: {"no": "value"} }));
            assert_eq!(read(changed), read(plain.clone()), "{}: {key}", family.name());
        }
        for key in own(family) {
            let wrong = merged(plain.clone(), &json!({ key: {"no": "value"} }));
            assert!(read(wrong).is_err(), "{}: {key}", family.name());
        }
    }
}

#[test]
fn the_row_without_a_gradient_is_the_padding_tokens() {
    let row = |pad: Value| llama(&json!({ "pad_token_id": pad })).unwrap().padding_row;
    let rows = [json!(2), json!(null), json!(-1), json!(512)].map(row);
    assert_eq!(rows, [Some(2), None, Some(511), None]);
    assert_eq!(read(json!({"model_type": "phi3"})).unwrap().padding_row, Some(32_000));
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
    // The first Gemma's files name another activation than the one that transformers computes.
    let activation = |name: &str| {
        read(json!({"model_type": "gemma", "hidden_act": name}))
            .unwrap()
            .activation
    };
    assert_eq!(["gelu", "silu"].map(activation), ["gelu_pytorch_tanh", "silu"]);
    let local = json!({"type": "linear", "factor": 2.0, "rope_theta": 200.0});
    let nested = json!({"model_type": "gemma3_text", "rope_parameters": {"sliding_attention": local}});
    let (theta, scaling) = read(nested)
        .unwrap()
        .local_rope
        .map(|rope| (rope.theta, rope.scaling))
        .unwrap();
    assert_eq!((theta, scaling), (200.0, Some(RopeScaling::Linear(2.0))));
    let text = json!({"model_type": "gemma3_text", "text_config": null});
    assert_eq!(read(text).unwrap().family, Family::Gemma3);
    let images =
        json!({"model_type": "gemma3", "architectures": ["Gemma3ForConditionalGeneration"], "text_config": {}});
    assert_eq!(
        read(images).unwrap_err(),
        "a gemma3 model has parts beside its text model, which has a configuration of its own in `text_config`; write those keys \
         into a config.json with `model_type: gemma3_text`, or plan a preset of its size"
    );
    let sizes = json!({"model_type": "gemma3_text", "hidden_size": 2560, "num_hidden_layers": 34});
    let message = read(json!({"model_type": "gemma3", "text_config": sizes})).unwrap_err();
    assert!(
        message.ends_with("or plan a preset of its size: `model: gemma-3-4b`"),
        "{message}"
    );
    let classifier = read(json!({"model_type": "llama", "architectures": ["LlamaForSequenceClassification"]}));
    let message = classifier.unwrap_err();
    assert!(
        message.starts_with("`architectures` names LlamaForSequenceClassification, which is no language model"),
        "{message}"
    );
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
        (json!({"rope_scaling": {"type": "ntk", "factor": 4.0}}), "ntk"),
        (
            json!({"rope_scaling": {"rope_type": "llama3", "factor": 4.0}}),
            "low_freq_factor",
        ),
        (
            json!({"rope_scaling": {"rope_type": "linear"}}),
            "rotary scaling linear needs `factor`, above 0",
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
        (
            json!({"hidden_size": 0}),
            "`hidden_size`: expected a number from 1 to 1048576, found 0",
        ),
        (
            json!({"intermediate_size": 1e18}),
            "`intermediate_size`: expected a number",
        ),
        (
            json!({"num_hidden_layers": 10_000_000}),
            "`num_hidden_layers`: expected a number from 1 to 4096, found 10000000",
        ),
        (
            json!({"num_attention_heads": 65536, "head_dim": 65536}),
            "`num_attention_heads` (65536) times `head_dim` (65536): expected at most 1048576",
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

mod rope;
