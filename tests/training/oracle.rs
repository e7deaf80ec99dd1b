//! candle-transformers' Llama as a second opinion on logits.

use std::collections::HashMap;
use std::path::Path;

use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::llama;
use expctl::arch::{Location, ModelConfig, RopeScaling};
use expctl::cell::{Cell, Weights};
use expctl::data::MicroBatch;
use expctl::kernels::Sequences;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::setup::{Training, cell, turn, values};

const BATCH: usize = 2;
const LEN: usize = 24;
const VOCABULARY: usize = 96;

/// Two blocks; the rest of `config.json` is `more`.
fn config_json(more: &Value) -> Value {
    let mut config = json!({
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": 64,
        "intermediate_size": 80,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "vocab_size": VOCABULARY,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10_000.0,
        "max_position_embeddings": 64,
    });
    let (Some(config_keys), Some(more)) = (config.as_object_mut(), more.as_object()) else {
        unreachable!("both are objects")
    };
    config_keys.extend(more.clone());
    config
}

/// Weights that keep activations near 1, so that attention looks at some places more than at others.
fn weights(config: &ModelConfig) -> HashMap<String, Tensor> {
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let mut uniform = |count: usize, low: f32, high: f32| -> Vec<f32> {
        (0..count).map(|_| random.random_range(low..high)).collect()
    };
    let tensors = config.weights().into_iter();
    tensors
        .map(|tensor| {
            let count = tensor.rows() * tensor.columns();
            let values = if tensor.shape.len() == 1 {
                uniform(count, 0.5, 1.5)
            } else {
                let bound = 2.0 / (tensor.columns() as f32).sqrt();
                uniform(count, -bound, bound)
            };
            let values = Tensor::from_vec(values, tensor.shape, &Device::Cpu).expect("a tensor");
            (tensor.name, values)
        })
        .collect()
}

fn ids() -> Vec<u32> {
    let mut random = ChaCha8Rng::seed_from_u64(8);
    (0..BATCH * LEN)
        .map(|_| random.random_range(0..VOCABULARY as u32))
        .collect()
}

/// Logits of every token, by our trainer, from a checkpoint in `dir`.
fn ours(dir: &Path) -> Vec<f32> {
    let cell = Cell {
        model: "./model".into(),
        weights: Some(Weights::Pretrained),
        max_seq_length: LEN,
        ..cell()
    };
    let batch = MicroBatch {
        ids: ids(),
        lengths: vec![LEN as u32; BATCH],
        separators: Vec::new(),
        targets: None,
        labels: Vec::new(),
        sample_ids: vec![0, 1],
        sequences: Sequences::even(BATCH, LEN),
    };
    let mut trainer = Training::in_dir(&cell, dir).trainer;
    values(&trainer.logits(&batch).expect("logits"))
}

/// Logits of every token by candle-transformers, which gives those of the last one: one forward pass for each length.
fn theirs(config: &ModelConfig, weights: HashMap<String, Tensor>) -> Vec<f32> {
    let scaling = match &config.rope.scaling {
        Some(RopeScaling::Llama3(scaling)) => Some(llama::Llama3RopeConfig {
            factor: scaling.factor as f32,
            low_freq_factor: scaling.low_freq_factor as f32,
            high_freq_factor: scaling.high_freq_factor as f32,
            original_max_position_embeddings: scaling.original_max_position_embeddings,
            rope_type: llama::Llama3RopeType::Llama3,
        }),
        other => {
            assert_eq!(other, &None);
            None
        }
    };
    let config = llama::Config {
        hidden_size: config.hidden_size,
        intermediate_size: config.intermediate_size,
        vocab_size: config.vocab_size,
        num_hidden_layers: config.num_hidden_layers,
        num_attention_heads: config.num_attention_heads,
        num_key_value_heads: config.num_key_value_heads,
        use_flash_attn: false,
        rms_norm_eps: config.norm_eps,
        rope_theta: config.rope.theta as f32,
        bos_token_id: None,
        eos_token_id: None,
        rope_scaling: scaling,
        max_position_embeddings: config.max_position_embeddings,
        tie_word_embeddings: config.tie_word_embeddings,
    };
    let logits = || -> candle_core::Result<Tensor> {
        let model = llama::Llama::load(VarBuilder::from_tensors(weights, DType::F32, &Device::Cpu), &config)?;
        let ids = Tensor::from_vec(ids(), (BATCH, LEN), &Device::Cpu)?;
        let of_lengths = (1..=LEN).map(|len| {
            let mut cache = llama::Cache::new(false, DType::F32, &config, &Device::Cpu)?;
            model.forward(&ids.narrow(1, 0, len)?.contiguous()?, 0, &mut cache)
        });
        Tensor::stack(&of_lengths.collect::<Result<Vec<_>, _>>()?, 1)
    };
    let logits = logits().and_then(|logits| logits.flatten_all()?.to_vec1());
    logits.expect("candle's logits")
}

/// The largest difference, over the largest logit.
fn distance(got: &[f32], want: &[f32]) -> f32 {
    assert_eq!(got.len(), want.len());
    let largest = want.iter().fold(0f32, |max, want| max.max(want.abs()));
    let differences = got.iter().zip(want).map(|(got, want)| (got - want).abs());
    differences.fold(0f32, f32::max) / largest
}

/// Writes a checkpoint, and returns our logits after they were compared.
fn compared(more: &Value) -> Vec<f32> {
    let dir = TempDir::new().expect("a folder");
    let model = dir.path().join("model");
    std::fs::create_dir(&model).expect("a folder");
    std::fs::write(model.join("config.json"), config_json(more).to_string()).expect("the configuration");
    let config = Location::Directory(model.clone()).config().expect("a configuration");
    let weights = weights(&config);
    candle_core::safetensors::save(&weights, model.join("model.safetensors")).expect("the weights");

    let (ours, theirs) = (ours(dir.path()), theirs(&config, weights));
    let distance = distance(&ours, &theirs);
    assert!(distance < 1e-4, "{more}: {distance:e}");
    ours
}

#[test]
fn logits_are_those_of_candle_transformers() {
    let _turn = turn();
    for kv_heads in [4, 2, 1] {
        for tied in [true, false] {
            compared(&json!({ "num_key_value_heads": kv_heads, "tie_word_embeddings": tied }));
        }
    }
}

#[test]
fn logits_with_llama_3_scaling_are_those_of_candle_transformers() {
    let _turn = turn();
    let plain = compared(&json!({ "num_key_value_heads": 2 }));
    // Of this head's 8 wavelengths one is kept, two are in between, and five are stretched.
    let scaled = compared(&json!({
        "num_key_value_heads": 2,
        "rope_scaling": {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        },
    }));
    assert!(distance(&scaled, &plain) > 1e-2, "the scaling shows");
}
