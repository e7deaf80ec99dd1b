//! The keys of the rotary embedding.

use serde_json::{Value, json};

use super::{llama, merged, preset, read};
use crate::config::ModelConfig;
use crate::rope::{LongRopeScaling, RopeScaling, YarnScaling};

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
    // The file's own key wins.
    let inner = found(json!({"original_max_position_embeddings": 2048}));
    assert_eq!(inner.original_max_position_embeddings, 4096);
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
            json!({"attention_factor": -1.0}),
            "`attention_factor`: expected a number above 0",
        ),
    ] {
        let message = phi(merged(long_rope(24), &change)).unwrap_err();
        assert!(message.contains(part), "{message}");
    }
    for original in [json!(null), json!(1)] {
        let scaling = merged(long_rope(8), &json!({"original_max_position_embeddings": original}));
        let message = llama(&json!({ "rope_scaling": scaling })).unwrap_err();
        assert!(
            message.contains("`original_max_position_embeddings`, above 1"),
            "{message}"
        );
    }
}

#[test]
fn a_stretched_context_has_more_positions() {
    let positions = |scaling| {
        let config = json!({ "max_position_embeddings": 32_768, "rope_scaling": scaling });
        llama(&config).unwrap().max_position_embeddings
    };
    let yarn = |original: usize| json!({"type": "yarn", "factor": 4.0, "original_max_position_embeddings": original});
    assert_eq!(positions(yarn(32_768)), 131_072);
    assert_eq!(positions(yarn(8192)), 32_768);
    assert_eq!(positions(yarn(1024)), 32_768, "the file's own");
    assert_eq!(
        positions(json!({"type": "yarn", "original_max_position_embeddings": 8192})),
        32_768
    );
    assert_eq!(positions(json!({"type": "linear", "factor": 4.0})), 131_072);
    assert_eq!(
        positions(json!({"type": "dynamic", "factor": 4.0})),
        32_768,
        "another base beyond them"
    );
}

/// Qwen 2.5's way to read four times as long texts.
#[test]
fn yarn_is_read_with_the_defaults_of_transformers() {
    let found = |scaling: Value| {
        let config =
            json!({ "max_position_embeddings": 32_768, "rope_scaling": merged(json!({"type": "yarn"}), &scaling) });
        match llama(&config).unwrap().rope.scaling {
            Some(RopeScaling::Yarn(found)) => found,
            other => panic!("{other:?}"),
        }
    };
    let scaling = found(json!({"factor": 4.0, "original_max_position_embeddings": 8192}));
    let expected = YarnScaling {
        factor: 4.0,
        beta_fast: 32.0,
        beta_slow: 1.0,
        original_max_position_embeddings: 8192,
        truncate: true,
        attention_factor: 0.1 * 4f64.ln() + 1.0,
    };
    assert_eq!(scaling, expected);
    // The ratio of the positions stands for a factor, and the model's own for the original ones.
    assert_eq!(found(json!({"original_max_position_embeddings": 8192})), expected);
    assert_eq!(found(json!({"factor": 4.0})).original_max_position_embeddings, 32_768);
    let scales = found(json!({"factor": 4.0, "mscale": 2.0, "mscale_all_dim": 1.0, "beta_fast": 0}));
    let ratio = (0.2 * 4f64.ln() + 1.0) / (0.1 * 4f64.ln() + 1.0);
    assert_eq!((scales.attention_factor, scales.beta_fast), (ratio, 32.0));
    assert_eq!(
        found(json!({"factor": 4.0, "mscale": 2.0})).attention_factor,
        expected.attention_factor
    );
    assert_eq!(
        found(json!({"factor": 4.0, "attention_factor": 1.5})).attention_factor,
        1.5
    );
    let message = llama(&json!({"rope_scaling": {"type": "yarn", "factor": 4.0, "beta_slow": -1}})).unwrap_err();
    assert!(
        message.contains("`beta_slow`: expected a number, 0 or above"),
        "{message}"
    );
}
