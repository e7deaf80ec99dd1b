//! Encoders, on small shapes of both families. tests/golden compares them with transformers.

use std::fs;
use std::path::Path;

use expctl::arch::Location;
use expctl::cell::{Cell, Checkpointing, Data, DataFile, Dtype, Lengths, Padding, Synthetic, Task, Weights};
use expctl::memory;
use expctl::model::Source;
use expctl::trace::Category;
use serde_json::json;
use tempfile::TempDir;

use crate::offload::{numbers, parts};
use crate::setup::{Training, distance, turn};

const FAMILIES: [&str; 2] = ["distilbert", "bert"];

/// A folder with the `config.json` of a small model, with dropout or without.
fn folder(family: &str, dropout: f64) -> TempDir {
    let config = match family {
        "distilbert" => json!({
            "architectures": ["DistilBertModel"], "dim": 24, "hidden_dim": 40, "n_layers": 2, "n_heads": 4,
            "vocab_size": 80, "max_position_embeddings": 48, "dropout": dropout, "attention_dropout": dropout,
            "seq_classif_dropout": dropout, "pad_token_id": 0
        }),
        _ => json!({
            "architectures": ["BertModel"], "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2,
            "num_attention_heads": 3, "vocab_size": 80, "max_position_embeddings": 48, "hidden_dropout_prob": dropout,
            "attention_probs_dropout_prob": dropout, "pad_token_id": 0
        }),
    };
    let dir = TempDir::new().expect("a folder");
    fs::write(dir.path().join("config.json"), config.to_string()).expect("the configuration");
    dir
}

/// Random weights; micro-batches of four samples that differ in length.
fn cell() -> Cell {
    Cell {
        model: "./.".into(),
        weights: Some(Weights::Random),
        task: Task::SequenceClassification,
        num_labels: 3,
        dtype: Dtype::Float32,
        rank: 0,
        batch_size: 4,
        max_seq_length: 24,
        max_steps: Some(5),
        learning_rate: 1e-3,
        data: Data::Synthetic(Synthetic {
            lengths: Lengths::List(vec![7, 24, 2, 15, 11]),
            samples: 40,
            between: None,
        }),
        ..Cell::default()
    }
}

fn open(cell: &Cell, dir: &Path) -> Training {
    Training::in_dir(cell, dir)
}

/// Loss and gradients of the first batch; a key's bias, whose gradient is rounding alone, is left out.
fn first_batch(cell: &Cell, dir: &Path) -> (f64, Vec<(String, Vec<f32>)>) {
    let mut training = open(cell, dir);
    training.fill_adapters();
    let loss = training.forward_backward(0);
    let gradients = training.gradients().into_iter();
    let kept = gradients.filter(|(name, _)| !name.ends_with("k_lin.bias") && !name.ends_with("key.bias"));
    (loss, kept.collect())
}

fn assert_same(got: &Cell, want: &Cell, dir: &Path, what: &str) {
    let ((got_loss, got), (want_loss, want)) = (first_batch(got, dir), first_batch(want, dir));
    assert!(
        (got_loss - want_loss).abs() <= 1e-6 * want_loss,
        "{what}: {got_loss} against {want_loss}"
    );
    assert_eq!(got.len(), want.len(), "{what}");
    for ((name, got), (_, want)) in got.iter().zip(&want) {
        let distance = distance(got, want);
        assert!(distance <= 5e-6, "{what}: {name} is {distance:e} off");
    }
}

#[test]
fn micro_batches_and_padding_change_nothing_but_rounding() {
    let _turn = turn();
    for family in FAMILIES {
        for (rank, dropout) in [(0, 0.0), (0, 0.2), (3, 0.2)] {
            let dir = folder(family, dropout);
            let whole = Cell { rank, ..cell() };
            let what = format!("{family}, rank {rank}, dropout {dropout}");
            let parts = Cell {
                batch_size: 1,
                gradient_accumulation_steps: 4,
                ..whole.clone()
            };
            assert_same(&parts, &whole, dir.path(), &what);
            let padded = Cell {
                max_seq_length: 40,
                padding: Padding::MaxLength,
                ..whole.clone()
            };
            let tight = Cell {
                padding: Padding::Longest,
                ..whole
            };
            assert_same(&padded, &tight, dir.path(), &format!("{what}, padded"));
        }
    }
}

#[test]
fn checkpointing_gives_the_same_bits_and_holds_fewer_activations() {
    let _turn = turn();
    for family in FAMILIES {
        for (dtype, rank) in [(Dtype::Float32, 0), (Dtype::Bfloat16, 3), (Dtype::Int4, 3)] {
            let dir = folder(family, 0.1);
            let run = |gradient_checkpointing| {
                let cell = Cell {
                    dtype,
                    rank,
                    gradient_checkpointing,
                    ..cell()
                };
                let mut training = open(&cell, dir.path());
                memory::reset_peaks();
                let losses: Vec<u64> = training.losses(3).into_iter().map(f64::to_bits).collect();
                training.forward_backward(3);
                (
                    losses,
                    training.gradients(),
                    memory::peaks().by_category[Category::Activation],
                )
            };
            let none = run(Checkpointing::None);
            for checkpointing in [Checkpointing::Full, Checkpointing::Every(2)] {
                let what = format!("{family}, {dtype:?}, {checkpointing:?}");
                let (losses, gradients, activations) = run(checkpointing);
                assert!(losses == none.0 && gradients == none.1, "{what}");
                assert!(activations < none.2, "{what}: {activations} of {}", none.2);
            }
        }
    }
}

#[test]
fn every_number_format_trains_and_what_is_frozen_has_no_gradient() {
    let _turn = turn();
    for family in FAMILIES {
        let dir = folder(family, 0.1);
        for (dtype, rank) in [
            (Dtype::Float32, 0),
            (Dtype::Bfloat16, 0),
            (Dtype::Float16, 0),
            (Dtype::Float32, 3),
            (Dtype::Bfloat16, 3),
            (Dtype::Float16, 3),
            (Dtype::Int8, 3),
            (Dtype::Int4, 3),
        ] {
            let mut training = open(&Cell { dtype, rank, ..cell() }, dir.path());
            let losses = training.losses(5);
            assert!(
                losses.iter().all(|loss| (0.1..2.0).contains(loss)),
                "{family}, {dtype:?}: {losses:?}"
            );
            training.forward_backward(0);
            let names: Vec<String> = training.gradients().into_keys().collect();
            if rank == 0 {
                let config = Location::Directory(dir.path().into())
                    .config()
                    .expect("a configuration");
                assert_eq!(names.len(), config.weights().len());
            } else {
                let whole: Vec<&String> = names.iter().filter(|name| !name.contains(".lora_")).collect();
                let head = match family {
                    "distilbert" => vec![
                        "classifier.bias",
                        "classifier.weight",
                        "pre_classifier.bias",
                        "pre_classifier.weight",
                    ],
                    _ => vec!["classifier.bias", "classifier.weight"],
                };
                assert_eq!(whole, head, "the head is trained whole");
                // Two blocks of six layers, and BERT's pooler.
                let adapted = if family == "bert" { 13 } else { 12 };
                assert_eq!(names.len() - head.len(), 2 * adapted, "{family}");
            }
        }
    }
}

/// The preset's figures of the published case: 255.41 MiB of parameters, and as much of gradients.
#[test]
fn parameters_and_gradients_are_exact() {
    let _turn = turn();
    let cell = Cell {
        model: "distilbert-base".into(),
        num_labels: 2,
        batch_size: 1,
        max_seq_length: 4,
        data: Data::Synthetic(Synthetic {
            lengths: Lengths::Fixed,
            samples: 5,
            between: None,
        }),
        ..cell()
    };
    let before = memory::live().by_category;
    let mut training = Training::new(&Cell { weights: None, ..cell });
    let since = |category| memory::live().by_category[category] - before[category];
    assert_eq!(since(Category::Parameter), 66_955_010 * 4);
    training.forward_backward(0);
    assert_eq!(since(Category::Gradient), 66_955_010 * 4);
    assert_eq!((since(Category::Activation), since(Category::Input)), (0, 0));
}

#[test]
fn synthetic_labels_can_be_learned_and_accuracy_tells() {
    let _turn = turn();
    for family in FAMILIES {
        let dir = folder(family, 0.1);
        let cell = Cell {
            max_steps: Some(80),
            learning_rate: 3e-3,
            eval_fraction: 0.25,
            data: Data::Synthetic(Synthetic {
                lengths: Lengths::Uniform,
                samples: 400,
                between: None,
            }),
            ..cell()
        };
        let mut training = open(&cell, dir.path());
        let held_out = std::mem::take(&mut training.held_out);
        let before = training
            .trainer
            .evaluate(held_out.clone().into_iter().map(Ok))
            .expect("a loss");
        let losses = training.losses(80);
        let after = training.trainer.evaluate(held_out.into_iter().map(Ok)).expect("a loss");
        let (guessed, learned) = (
            before.accuracy.expect("an accuracy"),
            after.accuracy.expect("an accuracy"),
        );
        assert!(
            (before.loss - 3f64.ln()).abs() < 0.2 && guessed < 0.6,
            "{family}: {before:?}"
        );
        assert!(learned > 0.9 && after.loss < 0.5, "{family}: {after:?}, {losses:?}");
    }
}

#[test]
fn dropout_acts_in_training_alone() {
    let _turn = turn();
    for family in FAMILIES {
        let (without, with) = (folder(family, 0.0), folder(family, 0.3));
        let cell = Cell {
            eval_fraction: 0.25,
            ..cell()
        };
        let evaluated = |dir: &TempDir| {
            let mut training = open(&cell, dir.path());
            let held_out = std::mem::take(&mut training.held_out);
            training.trainer.evaluate(held_out.into_iter().map(Ok)).expect("a loss")
        };
        assert_eq!(evaluated(&without), evaluated(&with));
        let loss = |dir: &TempDir, step| {
            open(&cell, dir.path())
                .trainer
                .forward_backward(&open(&cell, dir.path()).batches[0], step, &mut || ())
                .expect("a loss")
        };
        assert_ne!(loss(&without, 0), loss(&with, 0), "{family}");
        assert_eq!(loss(&with, 0), loss(&with, 0), "{family}: a mask is a function");
        assert_ne!(loss(&with, 0), loss(&with, 1), "{family}: each step has its own");
    }
}

#[test]
fn labels_come_from_a_files_column() {
    let _turn = turn();
    let dir = folder("distilbert", 0.0);
    let tokenizer = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/data/embedded/tokenizer.json");
    fs::copy(tokenizer, dir.path().join("tokenizer.json")).expect("the tokenizer");
    let config = fs::read_to_string(dir.path().join("config.json")).expect("the configuration");
    fs::write(
        dir.path().join("config.json"),
        config.replace("\"vocab_size\":80", "\"vocab_size\":512"),
    )
    .expect("more tokens");
    let lines: String = (0..12)
        .map(|at| {
            let mood = ["sad", "glad", "mad"][at % 3];
            format!("{}\n", json!({"text": "word ".repeat(at + 2), "mood": mood}))
        })
        .collect();
    fs::write(dir.path().join("moods.jsonl"), lines).expect("the data");
    let cell = Cell {
        data: Data::from(DataFile {
            label_column: Some("mood".into()),
            ..DataFile::new("moods.jsonl")
        }),
        max_steps: Some(3),
        ..cell()
    };
    let mut training = open(&cell, dir.path());
    let mut of_label = [0; 3];
    for micro in training.batches.iter().flat_map(|batch| &batch.micro) {
        micro.labels.iter().for_each(|&label| of_label[label as usize] += 1);
    }
    assert_eq!(of_label, [4, 4, 4]);
    assert!(training.losses(3).iter().all(|loss| loss.is_finite()));
}

#[test]
fn random_weights_have_the_spread_that_config_json_says() {
    let llama = json!({
        "architectures": ["LlamaForCausalLM"], "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 1,
        "num_attention_heads": 4, "vocab_size": 80
    });
    let encoder = |family: &str| {
        let text = fs::read(folder(family, 0.0).path().join("config.json")).expect("the configuration");
        serde_json::from_slice(&text).expect("JSON")
    };
    for (mut config, table, task) in [
        (
            encoder("distilbert"),
            "distilbert.embeddings.word_embeddings.weight",
            Task::SequenceClassification,
        ),
        (
            encoder("bert"),
            "bert.embeddings.word_embeddings.weight",
            Task::SequenceClassification,
        ),
        (llama, "model.embed_tokens.weight", Task::CausalLm),
    ] {
        let dir = TempDir::new().expect("a folder");
        let mut weights = |range: Option<f64>| {
            if let Some(range) = range {
                config["initializer_range"] = range.into();
            }
            fs::write(dir.path().join("config.json"), config.to_string()).expect("the configuration");
            let source = Source::open(&Cell { task, ..cell() }.model_options(), &dir.path().into()).expect("a model");
            let mut rows = vec![0.0; 4 * 24];
            source.read_rows(table, 1..5, &mut rows).expect("some rows");
            rows
        };
        let (default, same, wider) = (weights(None), weights(Some(0.02)), weights(Some(0.08)));
        assert_eq!(default, same, "{table}");
        for (default, wider) in default.iter().zip(&wider) {
            assert!(
                (4.0 * default - wider).abs() <= 1e-6 * wider.abs(),
                "{table}: {default} and {wider}"
            );
        }
    }
}

#[test]
fn offloading_gives_the_same_bits() {
    let _turn = turn();
    for family in FAMILIES {
        let dir = folder(family, 0.1);
        let cell = Cell {
            rank: 4,
            gradient_checkpointing: Checkpointing::Full,
            ..cell()
        };
        let want = numbers(Training::in_dir(&cell, dir.path()));
        for offload in parts() {
            let what = format!("{family}: {offload:?}");
            let cell = Cell {
                offload,
                ..cell.clone()
            };
            assert!(numbers(Training::in_dir(&cell, dir.path())) == want, "{what}");
        }
    }
}
