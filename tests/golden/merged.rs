//! Adapters merged into checkpoints, against PEFT's `merge_and_unload`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use expctl::model::{self, MergeError};
use half::bf16;
use safetensors::tensor::{Dtype, SafeTensors, TensorView};

use crate::fixtures::{Tensors, assert_close, fixture};

/// The file of PEFT's merged weights has so many of their first rows, and of their last.
const ROWS: usize = 3;

/// Each adapter with its base.
const ADAPTERS: [(&str, &str); 36] = [
    ("tiny_llama", "tiny_llama"),
    ("tiny_llama_rslora", "tiny_llama"),
    ("tiny_llama_patterns", "tiny_llama"),
    ("tiny_llama_pissa", "tiny_llama"),
    ("tiny_llama_olora", "tiny_llama"),
    ("tiny_llama_layers", "tiny_llama"),
    ("tiny_llama_save", "tiny_llama"),
    ("tiny_llama_save_head", "tiny_llama"),
    ("tiny_llama_dora", "tiny_llama"),
    ("tiny_llama_ia3", "tiny_llama"),
    ("tiny_llama_ia3_inputs", "tiny_llama"),
    ("tiny_llama_miss", "tiny_llama"),
    ("tiny_llama_miss_odd", "tiny_llama"),
    ("tiny_llama_miss_mini", "tiny_llama"),
    ("tiny_llama_vera", "tiny_llama"),
    ("tiny_llama_oft", "tiny_llama"),
    ("tiny_llama_oft_exact", "tiny_llama"),
    ("tiny_llama_oft_share", "tiny_llama"),
    ("tiny_llama_loha", "tiny_llama"),
    ("tiny_llama_loha_patterns", "tiny_llama"),
    ("tiny_llama_lokr", "tiny_llama"),
    ("tiny_llama_lokr_both", "tiny_llama"),
    ("tiny_llama_lokr_factor", "tiny_llama"),
    ("tiny_llama_ln", "tiny_llama"),
    ("tiny_qwen2_bias_some", "tiny_qwen2"),
    ("tiny_qwen2_ia3", "tiny_qwen2"),
    ("tiny_phi3", "tiny_phi3"),
    ("tiny_gemma3_ln", "tiny_gemma3"),
    ("tiny_bert", "tiny_bert"),
    ("tiny_bert_ia3", "tiny_bert"),
    ("tiny_bert_miss", "tiny_bert"),
    ("tiny_bert_vera", "tiny_bert"),
    ("tiny_bert_oft", "tiny_bert"),
    ("tiny_bert_loha", "tiny_bert"),
    ("tiny_bert_lokr", "tiny_bert"),
    ("tiny_distilbert", "tiny_distilbert"),
];

/// A tensor of a file, with its columns; a vector's are 1.
fn tensor(bytes: &[u8], name: &str) -> (Vec<f32>, usize) {
    let file = SafeTensors::deserialize(bytes).expect("a safetensors file");
    let view = file.tensor(name).expect(name);
    let columns = if view.shape().len() > 1 { view.shape()[1] } else { 1 };
    (values(&view), columns)
}

fn values(view: &TensorView<'_>) -> Vec<f32> {
    match view.dtype() {
        Dtype::F32 => {
            let numbers = view.data().as_chunks().0.iter();
            numbers.map(|bytes| f32::from_le_bytes(*bytes)).collect()
        }
        Dtype::BF16 => {
            let numbers = view.data().as_chunks().0.iter();
            numbers.map(|bytes| bf16::from_le_bytes(*bytes).to_f32()).collect()
        }
        other => panic!("{other:?}"),
    }
}

fn weights(folder: &Path) -> Vec<u8> {
    fs::read(folder.join("model.safetensors")).expect("the weights")
}

/// A checkpoint in float32, in which PEFT merged.
fn wide(base: &str, folder: &Path) -> PathBuf {
    let to = folder.join("base");
    fs::create_dir(&to).expect("a folder");
    fs::copy(fixture(base).join("config.json"), to.join("config.json")).expect("a copy");
    let bytes = weights(&fixture(base));
    let file = SafeTensors::deserialize(&bytes).expect("a safetensors file");
    let tensors: Vec<(String, Vec<usize>, Vec<u8>)> = file
        .iter()
        .map(|(name, view)| {
            let numbers = values(&view).into_iter().flat_map(f32::to_le_bytes);
            (name.to_string(), view.shape().to_vec(), numbers.collect())
        })
        .collect();
    let views = tensors.iter().map(|(name, shape, bytes)| {
        let view = TensorView::new(Dtype::F32, shape.clone(), bytes).expect("a tensor");
        (name.clone(), view)
    });
    safetensors::serialize_to_file(views, None, &to.join("model.safetensors")).expect("a file");
    to
}

#[test]
fn merged_weights_are_those_of_peft() {
    let theirs = Tensors::open("merged.safetensors");
    for (adapter, base) in ADAPTERS {
        // LAPACK finds singular vectors in float32, and ours come from float64.
        let tolerance = match adapter {
            "tiny_llama_pissa" => 2e-5,
            "tiny_llama_olora" => 2e-6,
            _ => 1e-6,
        };
        let dir = tempfile::tempdir().expect("a folder");
        let output = dir.path().join("merged");
        let base = wide(base, dir.path());
        model::merge(&fixture(&format!("{adapter}_adapter")), &base, &output, &|| false).expect(adapter);
        let (bytes, of_base) = (weights(&output), weights(&base));
        let mut changed = BTreeSet::new();
        for name in theirs.names() {
            let Some(name) = name.strip_prefix(&format!("{adapter}/")) else {
                continue;
            };
            let (ours, columns) = tensor(&bytes, name);
            let ends = [&ours[..ROWS * columns], &ours[ours.len() - ROWS * columns..]].concat();
            assert_close(
                &ends,
                &theirs.f32(&format!("{adapter}/{name}")),
                tolerance,
                &format!("{adapter}: {name}"),
            );
            changed.insert(name.to_owned());
        }
        assert!(!changed.is_empty(), "{adapter}");
        // All others are as they were.
        let file = SafeTensors::deserialize(&of_base).expect("a safetensors file");
        for stored in file.names() {
            let stored = stored.to_string();
            let merged = SafeTensors::deserialize(&bytes).expect("a safetensors file");
            // The merged model may have a prefix before its names.
            let is_it = |name: &&str| *name == stored || name.ends_with(&format!(".{stored}"));
            let Some(name) = merged.names().into_iter().find(is_it) else {
                panic!("{adapter}: {stored} is missing");
            };
            if !changed.contains(name) {
                let same = merged.tensor(name).expect(name) == file.tensor(&stored).expect(&stored);
                assert!(same, "{adapter}: {name}");
            }
        }
        let left = fs::read_dir(dir.path()).expect("the folder").count();
        assert_eq!(left, 2, "no temporary folder");
    }
}

#[test]
fn a_stopped_merge_leaves_nothing() {
    let dir = tempfile::tempdir().expect("a folder");
    let output = dir.path().join("merged");
    let stopped = model::merge(&fixture("tiny_llama_adapter"), &fixture("tiny_llama"), &output, &|| {
        true
    });
    assert!(matches!(stopped, Err(model::MergeError::Stopped)), "{stopped:?}");
    let left = fs::read_dir(dir.path()).expect("the folder").count();
    assert_eq!(left, 0, "neither a model nor a temporary folder");
}

#[test]
fn weights_keep_their_format() {
    let dir = tempfile::tempdir().expect("a folder");
    let bases = [wide("tiny_llama", dir.path()), fixture("tiny_llama")];
    let [wide, narrow] = bases.map(|base| {
        let output = dir.path().join(if base == fixture("tiny_llama") {
            "narrow"
        } else {
            "wide"
        });
        model::merge(&fixture("tiny_llama_adapter"), &base, &output, &|| false).expect("a checkpoint");
        weights(&output)
    });
    let name = "model.layers.1.mlp.down_proj.weight";
    let narrow_file = SafeTensors::deserialize(&narrow).expect("a safetensors file");
    assert_eq!(narrow_file.tensor(name).expect(name).dtype(), Dtype::BF16);
    let rounded = tensor(&wide, name)
        .0
        .into_iter()
        .map(|value| bf16::from_f32(value).to_f32());
    assert!(rounded.eq(tensor(&narrow, name).0), "rounded once");
}

/// The files of PEFT's adapter `adapter` in `folder`; `change` changes each line of its configuration.
fn copied(adapter: &str, folder: &Path, change: impl Fn(&str) -> String) {
    let theirs = fixture(&format!("{adapter}_adapter"));
    fs::copy(
        theirs.join("adapter_model.safetensors"),
        folder.join("adapter_model.safetensors"),
    )
    .expect("a copy");
    let text = fs::read_to_string(theirs.join("adapter_config.json")).expect("a file");
    let lines: Vec<String> = text.lines().map(change).collect();
    fs::write(folder.join("adapter_config.json"), lines.join("\n")).expect("a file");
}

#[test]
fn factors_that_were_not_saved_are_drawn() {
    let dir = tempfile::tempdir().expect("a folder");
    let adapter = dir.path().join("adapter");
    fs::create_dir(&adapter).expect("a folder");
    copied("tiny_llama_vera", &adapter, |line| {
        line.replace("\"save_projection\": true", "\"save_projection\": false")
    });
    let path = adapter.join("adapter_model.safetensors");
    let bytes = fs::read(&path).expect("a file");
    let file = SafeTensors::deserialize(&bytes).expect("a safetensors file");
    let own = file.iter().filter(|(name, _)| !name.starts_with("base_model.vera_"));
    let own: Vec<_> = own.collect();
    assert_eq!(own.len() + 2, file.len());
    safetensors::serialize_to_file(own, None, &path).expect("a file");
    let [saved, drawn] = [fixture("tiny_llama_vera_adapter"), adapter.clone()].map(|adapter| {
        let output = dir.path().join("merged");
        model::merge(&adapter, &fixture("tiny_llama"), &output, &|| false).expect("a checkpoint");
        let bytes = weights(&output);
        fs::remove_dir_all(output).expect("the folder");
        bytes
    });
    assert!(saved == drawn);

    copied("tiny_llama_vera", &adapter, str::to_owned);
    safetensors::serialize_to_file(
        SafeTensors::deserialize(&bytes)
            .expect("a safetensors file")
            .iter()
            .filter(|(name, _)| !name.ends_with("vera_B")),
        None,
        &path,
    )
    .expect("a file");
    let error =
        model::merge(&adapter, &fixture("tiny_llama"), &dir.path().join("merged"), &|| false).expect_err("a mistake");
    assert!(
        error
            .to_string()
            .ends_with("vera_B: `save_projection` says that it is there"),
        "{error}"
    );
}

#[test]
fn a_head_that_was_the_embedding_is_a_weight_of_its_own() {
    for (adapter, is_tied) in [
        ("tiny_llama", true),
        ("tiny_llama_save", false),
        ("tiny_llama_save_head", false),
    ] {
        let dir = tempfile::tempdir().expect("a folder");
        let output = dir.path().join("merged");
        model::merge(
            &fixture(&format!("{adapter}_adapter")),
            &fixture("tiny_llama"),
            &output,
            &|| false,
        )
        .expect(adapter);
        let config = fs::read_to_string(output.join("config.json")).expect("the configuration");
        assert!(
            config.contains(&format!("\"tie_word_embeddings\": {is_tied}")),
            "{config}"
        );
        let bytes = weights(&output);
        let file = SafeTensors::deserialize(&bytes).expect("a safetensors file");
        assert_eq!(file.tensor("lm_head.weight").is_ok(), !is_tied, "{adapter}");
    }
}

#[test]
fn what_cannot_be_merged_is_an_error_and_leaves_nothing() {
    let dir = tempfile::tempdir().expect("a folder");
    let output = dir.path().join("merged");
    let merge =
        |adapter: &Path, base: &str| model::merge(adapter, &fixture(base), &output, &|| false).expect_err("a mistake");
    let error = merge(&fixture("tiny_llama_adapter"), "tiny_bert").to_string();
    assert!(error.contains("the model has no weight model.layers."), "{error}");
    let error = merge(&fixture("tiny_llama_adapter"), "tiny_qwen2").to_string();
    assert!(error.contains("does not fit"), "{error}");

    let other = dir.path().join("adapter");
    fs::create_dir(&other).expect("a folder");
    for (field, expected) in [
        ("\"lora_bias\": true", "`lora_bias: true` is not supported"),
        ("\"fan_in_fan_out\": true", "`fan_in_fan_out: true` is not supported"),
        (
            "\"layer_replication\": [[0, 2]]",
            "`layer_replication: [[0,2]]` is not supported",
        ),
    ] {
        let key = field.split(':').next().expect("a key");
        copied("tiny_llama", &other, |line| match line.trim_start().starts_with(key) {
            true => format!("  {field},"),
            false => line.to_owned(),
        });
        let error = merge(&other, "tiny_llama").to_string();
        assert!(error.ends_with(expected), "{error}");
    }

    for adapter in ["tiny_llama_loha", "tiny_llama_lokr"] {
        copied(adapter, &other, |line| match line.trim_start().starts_with("\"r\":") {
            true => "  \"r\": 0,".to_owned(),
            false => line.to_owned(),
        });
        let error = merge(&other, "tiny_llama").to_string();
        assert!(error.ends_with("`r: 0`: must be at least 1, got 0"), "{error}");
    }

    assert!(!output.exists());
    fs::create_dir(&output).expect("a folder");
    let error = merge(&fixture("tiny_llama_adapter"), "tiny_llama");
    assert!(matches!(error, MergeError::Exists(_)), "{error}");
    assert_eq!(
        fs::read_dir(dir.path()).expect("the folder").count(),
        2,
        "no temporary folder"
    );
}
