//! Our trainer against transformers, PEFT and bitsandbytes.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use candle_core::{Device, Tensor};
use expctl::adapter::peft;
use expctl::data::{EffectiveBatch, MicroBatch};
use expctl::model::{self, Source};
use expctl::spec::cell::{Cell, Dtype, LrScheduler, TargetModules, Weights};
use expctl::train::Trainer;
use serde::Deserialize;
use tokenizers::Tokenizer;

use crate::fixtures::{Tensors, assert_close, assert_relative, fixture, golden, values};

const MODELS: [&str; 2] = ["tiny_llama", "tiny_llama3"];

/// What golden.json says of a model.
#[derive(Deserialize)]
struct Golden {
    batches: Vec<Batch>,
    loss: f64,
    full_loss: f64,
    runs: BTreeMap<String, Run>,
}

#[derive(Deserialize)]
struct Batch {
    ids: Vec<Vec<u32>>,
    lengths: Vec<u32>,
}

#[derive(Deserialize)]
struct Run {
    losses: Vec<f64>,
    gradient_norms: Vec<f64>,
    learning_rates: Vec<f64>,
}

impl Golden {
    fn of(model: &str) -> Self {
        serde_json::from_value(golden()["models"][model].clone()).expect("a model of golden.json")
    }

    /// The effective batch of these micro-batches.
    fn effective(&self, taken: &[usize]) -> EffectiveBatch {
        let mut first = 0;
        let micro: Vec<MicroBatch> = taken
            .iter()
            .map(|&index| {
                let Batch { ids, lengths } = &self.batches[index];
                let sample_ids = (first..).take(ids.len()).collect();
                first += ids.len() as u32;
                MicroBatch {
                    ids: ids.concat(),
                    lengths: lengths.clone(),
                    labels: Vec::new(),
                    sample_ids,
                    batch: ids.len(),
                    len: ids[0].len(),
                }
            })
            .collect();
        EffectiveBatch {
            counted: micro.iter().map(MicroBatch::counted).sum(),
            micro,
        }
    }
}

/// The configuration that the golden runs have in common.
fn cell(model: &str, rank: usize) -> Cell {
    Cell {
        model: format!("./{model}"),
        weights: Some(Weights::Pretrained),
        dtype: Dtype::Float32,
        rank,
        lora_alpha: Some(8.0),
        max_seq_length: 12,
        learning_rate: golden()["learning_rate"].as_f64().expect("a learning rate"),
        lr_scheduler_type: LrScheduler::Constant,
        max_grad_norm: 0.0,
        ..Cell::default()
    }
}

/// The cell of PEFT's adapter.
fn adapter_cell(model: &str) -> Cell {
    let (config, _) = peft::read(&fixture(&format!("{model}_adapter"))).expect("PEFT's adapter");
    assert_eq!(config.lora_alpha, 8.0, "{model}");
    cell(model, config.r)
}

/// A trainer of the fixture's weights, and of its adapter where the cell has one.
fn trainer(cell: &Cell) -> Trainer {
    let adapter = (cell.rank > 0).then(|| fixture(&format!("{}_adapter", cell.model)));
    load(cell, &fixture(""), adapter.as_deref())
}

fn load(cell: &Cell, base_dir: &Path, adapter: Option<&Path>) -> Trainer {
    let options = cell.train_options();
    let source = Source::open(&options.model, base_dir).expect("the checkpoint");
    let mut trainer = Trainer::new(
        &options,
        model::load(&options.model, &source, &Device::Cpu).expect("the model"),
    )
    .expect("a trainer");
    if let Some(adapter) = adapter {
        let (_, tensors) = peft::read(adapter).expect("the adapter");
        let mut params = trainer.trainable();
        assert_eq!(params.len(), tensors.len());
        for tensor in tensors {
            let param = params
                .iter_mut()
                .find(|param| param.name == tensor.name)
                .expect(&tensor.name);
            param.set(Tensor::from_vec(tensor.values, tensor.shape, &Device::Cpu).expect("a tensor"));
        }
    }
    trainer
}

#[test]
fn logits_are_those_of_transformers() {
    for model in MODELS {
        let golden = Golden::of(model);
        let tensors = Tensors::open(&format!("{model}.safetensors"));
        for (cell, name) in [(adapter_cell(model), "logits"), (cell(model, 0), "full.logits")] {
            let batch = golden.effective(&[0]).micro.remove(0);
            let ours = values(&trainer(&cell).logits(&batch).expect("logits"));
            let theirs = tensors.f32(name);
            let vocabulary = theirs.len() / (batch.batch * batch.len);
            for (row, &length) in batch.lengths.iter().enumerate() {
                let counted = row * batch.len * vocabulary..(row * batch.len + length as usize) * vocabulary;
                assert_close(
                    &ours[counted.clone()],
                    &theirs[counted],
                    1e-5,
                    &format!("{model}: {name} of row {row}"),
                );
            }
        }
    }
}

#[test]
fn loss_and_gradients_are_those_of_transformers() {
    for model in MODELS {
        let golden = Golden::of(model);
        let tensors = Tensors::open(&format!("{model}.safetensors"));
        let cases = [
            (adapter_cell(model), golden.loss, "gradient"),
            (cell(model, 0), golden.full_loss, "full.gradient"),
        ];
        for (cell, loss, prefix) in cases {
            let mut trainer = trainer(&cell);
            let ours = trainer
                .forward_backward(&golden.effective(&[0]), 0, &mut || ())
                .expect("a step");
            assert_relative(ours, loss, 1e-5, model);
            for param in trainer.trainable() {
                let name = format!("{prefix}.{}", param.name);
                let gradient = param
                    .gradient()
                    .unwrap_or_else(|| panic!("{model}: {name} has no gradient"));
                assert_close(
                    &values(gradient),
                    &tensors.f32(&name),
                    1e-4,
                    &format!("{model}: {name}"),
                );
            }
        }
    }
}

/// Runs the cell like the golden run, and compares every step.
fn assert_run(model: &str, name: &str, cell: &Cell, tolerance: f64) {
    let golden = Golden::of(model);
    let run = &golden.runs[name];
    let mut trainer = trainer(cell);
    let steps = run.losses.len();
    for step in 0..steps {
        let taken: Vec<usize> = if cell.gradient_accumulation_steps > 1 {
            (0..4).collect()
        } else {
            vec![step % golden.batches.len()]
        };
        let ours = trainer
            .step(&golden.effective(&taken), step, steps, &mut || ())
            .expect("a step");
        trainer.release_gradients();
        let what = |value: &str| format!("{model}, {name}, {value} of step {step}");
        assert_relative(ours.loss, run.losses[step], tolerance, &what("loss"));
        assert_relative(
            ours.learning_rate,
            run.learning_rates[step],
            1e-9,
            &what("learning rate"),
        );
        if cell.dtype == Dtype::Float32 {
            assert_relative(
                ours.gradient_norm,
                run.gradient_norms[step],
                10.0 * tolerance,
                &what("gradient norm"),
            );
        }
    }
}

#[test]
fn twenty_steps_in_float32() {
    for model in MODELS {
        assert_run(model, "float32", &adapter_cell(model), 1e-4);
    }
}

#[test]
fn twenty_steps_of_every_weight() {
    for model in MODELS {
        assert_run(model, "full", &cell(model, 0), 1e-4);
    }
}

#[test]
fn twenty_steps_with_accumulated_gradients() {
    for model in MODELS {
        assert_run(
            model,
            "accumulated",
            &Cell {
                gradient_accumulation_steps: 4,
                ..adapter_cell(model)
            },
            1e-4,
        );
    }
}

#[test]
fn twenty_steps_with_schedule_decay_and_clipping() {
    for (name, lr_scheduler_type) in [("linear", LrScheduler::Linear), ("cosine", LrScheduler::Cosine)] {
        for model in MODELS {
            let cell = Cell {
                lr_scheduler_type,
                warmup_ratio: 0.1,
                weight_decay: 0.1,
                max_grad_norm: 0.5,
                ..adapter_cell(model)
            };
            assert_run(model, name, &cell, 1e-4);
        }
    }
}

#[test]
fn twenty_steps_in_sixteen_bits() {
    for model in MODELS {
        assert_run(
            model,
            "bfloat16",
            &Cell {
                dtype: Dtype::Bfloat16,
                ..adapter_cell(model)
            },
            2e-2,
        );
        assert_run(
            model,
            "float16",
            &Cell {
                dtype: Dtype::Float16,
                ..adapter_cell(model)
            },
            2e-2,
        );
    }
}

#[test]
fn twenty_steps_on_quantised_weights() {
    for model in MODELS {
        let int4 = Cell {
            dtype: Dtype::Int4,
            ..adapter_cell(model)
        };
        assert_run(model, "int4", &int4, 2e-2);
        assert_run(
            model,
            "int4_single",
            &Cell {
                bnb_4bit_use_double_quant: false,
                ..int4
            },
            2e-2,
        );
        assert_run(
            model,
            "int8",
            &Cell {
                dtype: Dtype::Int8,
                ..adapter_cell(model)
            },
            2e-2,
        );
    }
}

/// Writes what python/real_input/check_adapter.py compares with PEFT's: our logits, in float32, of the first tokens of a text,
/// from a checkpoint with an adapter that a run left.
///
///     BASE=checkpoint ADAPTER=.../adapter TEXT=prose.txt OUT=logits.safetensors \
///         cargo test --release --test golden -- --ignored writes_logits
#[test]
#[ignore = "used by hand, on a checkpoint and an adapter of one's own"]
fn writes_logits_for_check_adapter() {
    let path = |name: &str| {
        let value = std::env::var(name).unwrap_or_else(|error| panic!("{name}: {error}"));
        std::path::absolute(value).expect("a path")
    };
    let (base, adapter) = (path("BASE"), path("ADAPTER"));
    let tokenizer = Tokenizer::from_file(base.join("tokenizer.json")).expect("the tokenizer");
    let text: String = std::fs::read_to_string(path("TEXT"))
        .expect("the text")
        .chars()
        .take(4_000)
        .collect();
    let ids: Vec<u32> = tokenizer
        .encode(text, true)
        .expect("tokens")
        .get_ids()
        .iter()
        .copied()
        .take(256)
        .collect();

    let (config, _) = peft::read(&adapter).expect("the adapter");
    let cell = Cell {
        lora_alpha: Some(config.lora_alpha),
        target_modules: TargetModules::Names(config.target_modules.into_iter().collect()),
        max_seq_length: ids.len(),
        ..cell("tiny_llama", config.r)
    };
    let cell = Cell {
        model: base.display().to_string(),
        ..cell
    };
    let len = ids.len();
    let input_ids = Tensor::new(ids.as_slice(), &Device::Cpu)
        .and_then(|ids| ids.reshape((1, len)))
        .expect("a row");
    let batch = MicroBatch {
        ids,
        lengths: vec![len as u32],
        labels: Vec::new(),
        sample_ids: vec![0],
        batch: 1,
        len,
    };
    let logits = load(&cell, "/".as_ref(), Some(&adapter))
        .logits(&batch)
        .expect("logits");
    let logits = logits.unsqueeze(0).expect("a batch of one");
    let tensors = HashMap::from([("input_ids", input_ids), ("logits", logits)]);
    candle_core::safetensors::save(&tensors, path("OUT")).expect("the file is written");
}
