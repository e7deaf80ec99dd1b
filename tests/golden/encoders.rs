//! DistilBERT and BERT with a classification head against transformers and PEFT.

use std::collections::BTreeMap;
use std::path::Path;

use candle_core::{Device, Tensor};
use expctl::adapter::peft;
use expctl::data::{EffectiveBatch, MicroBatch};
use expctl::model::{self, Source};
use expctl::options::LoraOptions;
use expctl::spec::cell::{Cell, Checkpointing, Dtype, LrScheduler, TargetModules, Task, Weights};
use expctl::train::Trainer;
use serde::Deserialize;
use tempfile::TempDir;

use crate::fixtures::{Tensors, assert_close, assert_relative, fixture, json, values};

const MODELS: [&str; 2] = ["tiny_distilbert", "tiny_bert"];
const LABELS: usize = 3;

/// What golden_encoders.json says of a model.
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
    labels: Vec<u32>,
}

#[derive(Deserialize)]
struct Run {
    losses: Vec<f64>,
    gradient_norms: Vec<f64>,
}

impl Golden {
    fn of(model: &str) -> Self {
        let golden = json("golden_encoders.json");
        serde_json::from_value(golden["models"][model].clone()).expect("a model of golden_encoders.json")
    }

    /// The effective batch of these micro-batches.
    fn effective(&self, taken: &[usize]) -> EffectiveBatch {
        let mut first = 0;
        let micro: Vec<MicroBatch> = taken
            .iter()
            .map(|&index| {
                let Batch { ids, lengths, labels } = &self.batches[index];
                let sample_ids = (first..).take(ids.len()).collect();
                first += ids.len() as u32;
                MicroBatch {
                    ids: ids.concat(),
                    lengths: lengths.clone(),
                    labels: labels.clone(),
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
        task: Task::SequenceClassification,
        num_labels: LABELS,
        dtype: Dtype::Float32,
        rank,
        max_seq_length: 12,
        learning_rate: json("golden_encoders.json")["learning_rate"].as_f64().expect("a rate"),
        lr_scheduler_type: LrScheduler::Constant,
        max_grad_norm: 0.0,
        ..Cell::default()
    }
}

/// The cell of PEFT's adapter.
fn adapter_cell(model: &str) -> Cell {
    let (config, _) = peft::read(&fixture(&format!("{model}_adapter"))).expect("PEFT's adapter");
    Cell {
        lora_alpha: Some(config.lora_alpha),
        ..cell(model, config.r)
    }
}

/// A trainer of the fixture's weights, and of its adapter where the cell has one.
fn trainer(cell: &Cell) -> Trainer {
    assert_eq!(cell.validate(), Ok(()));
    let options = cell.train_options();
    let source = Source::open(&options.model, &fixture("")).expect("the checkpoint");
    let mut trainer = Trainer::new(
        &options,
        model::load(&options.model, &source, &Device::Cpu).expect("the model"),
    )
    .expect("a trainer");
    if cell.rank > 0 {
        set(&mut trainer, &fixture(&format!("{}_adapter", cell.model)));
    }
    trainer
}

/// Puts an adapter and the head that was saved with it in place of the trainer's: each tensor, and no other.
fn set(trainer: &mut Trainer, adapter: &Path) {
    let (_, tensors) = peft::read(adapter).expect("the adapter");
    let mut params = trainer.trainable();
    assert_eq!(params.len(), tensors.len());
    for tensor in tensors {
        let param = params.iter_mut().find(|param| param.name == tensor.name);
        let param = param.expect(&tensor.name);
        let value = Tensor::from_vec(tensor.values, tensor.shape, &Device::Cpu).expect("a tensor");
        param.set(value.to_dtype(param.value.dtype()).expect("another format"));
    }
}

fn cases(model: &str) -> [(Cell, &'static str); 2] {
    [(adapter_cell(model), ""), (cell(model, 0), "full.")]
}

#[test]
fn logits_are_those_of_transformers() {
    for model in MODELS {
        let tensors = Tensors::open(&format!("{model}.safetensors"));
        let batch = Golden::of(model).effective(&[2]).micro.remove(0);
        for (cell, prefix) in cases(model) {
            let ours = values(&trainer(&cell).logits(&batch).expect("logits"));
            let name = format!("{prefix}logits");
            assert_close(&ours, &tensors.f32(&name), 1e-5, &format!("{model}: {name}"));
        }
    }
}

#[test]
fn loss_and_gradients_are_those_of_transformers() {
    for model in MODELS {
        let golden = Golden::of(model);
        let tensors = Tensors::open(&format!("{model}.safetensors"));
        for (cell, prefix) in cases(model) {
            let loss = if cell.rank > 0 { golden.loss } else { golden.full_loss };
            for gradient_checkpointing in [Checkpointing::None, Checkpointing::Full] {
                let cell = Cell {
                    gradient_checkpointing,
                    ..cell.clone()
                };
                let mut trainer = trainer(&cell);
                let ours = trainer
                    .forward_backward(&golden.effective(&[2]), 0, &mut || ())
                    .expect("a step");
                assert_relative(ours, loss, 1e-5, model);
                for param in trainer.trainable() {
                    let name = format!("{prefix}gradient.{}", param.name);
                    let gradient = param.gradient().unwrap_or_else(|| panic!("{model}: {name} is missing"));
                    let (ours, theirs) = (values(gradient), tensors.f32(&name));
                    // A key's bias moves all scores of a query alike: what there is of its gradient is rounding.
                    if name.ends_with("k_lin.bias") || name.ends_with("key.bias") {
                        assert!(
                            ours.iter().chain(&theirs).all(|value| value.abs() < 1e-6),
                            "{model}: {name}"
                        );
                    } else {
                        assert_close(&ours, &theirs, 1e-4, &format!("{model}: {name}"));
                    }
                }
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
    assert_eq!(steps, 20);
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
        if cell.dtype == Dtype::Float32 {
            assert_relative(ours.loss, run.losses[step], tolerance, &what("loss"));
            let norm = run.gradient_norms[step];
            assert_relative(ours.gradient_norm, norm, 10.0 * tolerance, &what("gradient norm"));
        } else {
            // Theirs is rounded to sixteen bits too, so what is small is not known better than what is large.
            let (ours, theirs) = (ours.loss, run.losses[step]);
            let largest = run.losses.iter().fold(0.0, |largest: f64, loss| largest.max(*loss));
            assert!(
                (ours - theirs).abs() <= tolerance * largest,
                "{}: ours {ours}, theirs {theirs}",
                what("loss")
            );
        }
    }
}

#[test]
fn twenty_steps_of_adapters() {
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
        let cell = Cell {
            gradient_accumulation_steps: 4,
            ..adapter_cell(model)
        };
        assert_run(model, "accumulated", &cell, 1e-4);
    }
}

#[test]
fn twenty_steps_in_sixteen_bits() {
    for model in MODELS {
        let dtype = Dtype::Bfloat16;
        assert_run(
            model,
            "bfloat16",
            &Cell {
                dtype,
                ..adapter_cell(model)
            },
            2e-2,
        );
        assert_run(
            model,
            "full_bfloat16",
            &Cell {
                dtype,
                ..cell(model, 0)
            },
            2e-2,
        );
        // Theirs has its optimizer's state in float16 as well, where 1e-8 is 0.
        let dtype = Dtype::Float16;
        assert_run(
            model,
            "float32",
            &Cell {
                dtype,
                ..adapter_cell(model)
            },
            2e-2,
        );
    }
}

/// What we write of a trained adapter and head is what PEFT writes: the same tensors under the same names.
#[test]
fn an_adapter_is_saved_as_peft_saves_it() {
    for model in MODELS {
        let theirs = Tensors::open(&format!("{model}_adapter/adapter_model.safetensors"));
        let (config, tensors) = peft::read(&fixture(&format!("{model}_adapter"))).expect("PEFT's adapter");
        let dir = TempDir::new().expect("a folder");
        let lora = LoraOptions {
            rank: config.r,
            alpha: config.lora_alpha,
            dropout: 0.0,
            target_modules: TargetModules::AllLinear,
        };
        let ours = peft::Config::new(Task::SequenceClassification, model, &lora);
        peft::write(dir.path(), &ours, &tensors).expect("the adapter");
        let written = std::fs::read(dir.path().join(peft::WEIGHTS_FILE)).expect("the weights");
        let written = safetensors::SafeTensors::deserialize(&written).expect("a safetensors file");
        assert_eq!(written.len(), tensors.len());
        for (name, tensor) in written.iter() {
            assert_eq!(tensor.data(), theirs.u8(name), "{name}");
        }
        let (read, _) = peft::read(dir.path()).expect("our adapter");
        assert_eq!(read.modules_to_save, config.modules_to_save);
        // PEFT writes the whole names where it is asked for all linear layers; their last parts are the same modules.
        let last = |name: &String| name.rsplit('.').next().unwrap_or(name).to_owned();
        assert!(
            read.target_modules.iter().eq(&config
                .target_modules
                .iter()
                .map(last)
                .collect::<std::collections::BTreeSet<_>>())
        );
        let trained: Vec<String> = trainer(&adapter_cell(model))
            .trainable()
            .iter()
            .map(|param| param.name.clone())
            .collect();
        assert!(tensors.iter().all(|tensor| trained.contains(&tensor.name)));
    }
}

/// A checkpoint of the encoder alone, without the family's prefix and with the old names of norms: the head is new.
#[test]
fn a_bare_encoder_gets_a_new_head() {
    for (model, prefix) in [("tiny_distilbert", "distilbert."), ("tiny_bert", "bert.")] {
        let dir = TempDir::new().expect("a folder");
        let tensors =
            candle_core::safetensors::load(fixture(model).join("model.safetensors"), &Device::Cpu).expect("weights");
        let bare = tensors.into_iter().filter_map(|(name, tensor)| {
            let name = name
                .strip_prefix(prefix)?
                .replace("LayerNorm.weight", "LayerNorm.gamma");
            Some((name.replace("LayerNorm.bias", "LayerNorm.beta"), tensor))
        });
        let bare: std::collections::HashMap<_, _> = bare.collect();
        candle_core::safetensors::save(&bare, dir.path().join("model.safetensors")).expect("the file");
        let config = std::fs::read_to_string(fixture(model).join("config.json")).expect("the configuration");
        let bare_config = config.replace("ForSequenceClassification", "Model");
        std::fs::write(dir.path().join("config.json"), bare_config).expect("the file");

        let open = |cell: &Cell, dir: &Path| {
            let cell = Cell {
                model: ".".into(),
                ..cell.clone()
            };
            Source::open(&cell.model_options(), dir)
        };
        let cell = Cell {
            num_labels: 5,
            ..cell(model, 0)
        };
        let source = open(&cell, dir.path()).expect("the bare encoder");
        let mut weights = vec![0.0; 5 * source.shape("classifier.weight").expect("a head")[1]];
        source
            .read_rows("classifier.weight", 0..5, &mut weights)
            .expect("new weights");
        assert!(weights.iter().all(|weight| *weight != 0.0 && weight.abs() < 0.2));
        let known = format!("{prefix}embeddings.LayerNorm.weight");
        let mut norm = vec![0.0; source.shape(&known).expect("a norm")[0]];
        source.read_rows(&known, 0..1, &mut norm).expect("known weights");
        assert_ne!(norm, vec![1.0; norm.len()], "the checkpoint's, not a new one's");

        std::fs::write(dir.path().join("config.json"), &config).expect("the file");
        let message = open(&cell, dir.path())
            .expect_err("another number of labels")
            .to_string();
        assert!(message.contains("has 3 labels; write `num_labels: 3`"), "{message}");
        let cell = Cell {
            num_labels: LABELS,
            ..cell
        };
        let message = open(&cell, dir.path())
            .expect_err("a classifier without its head")
            .to_string();
        assert!(message.contains("is missing"), "{message}");
    }
}

#[test]
fn a_model_is_for_its_task_and_has_its_modules() {
    let error = |cell: &Cell| {
        Source::open(&cell.model_options(), &fixture(""))
            .expect_err("a wrong cell")
            .to_string()
    };
    let bert = cell("tiny_bert", 4);
    let decoder = Cell {
        task: Task::CausalLm,
        num_labels: 2,
        ..bert.clone()
    };
    assert_eq!(
        error(&decoder),
        "`task: causal_lm`: the model is for sequence_classification; write `task: sequence_classification`"
    );
    let llama = Cell {
        model: "./tiny_llama".into(),
        ..bert.clone()
    };
    assert!(error(&llama).ends_with("write `task: causal_lm`"), "{}", error(&llama));
    let modules = TargetModules::Names(vec!["query".into(), "q_lin".into()]);
    let foreign = Cell {
        target_modules: modules,
        ..bert
    };
    assert_eq!(
        error(&foreign),
        "`target_modules`: the model has no linear layer `q_lin`; it has query, key, value, dense"
    );
}
