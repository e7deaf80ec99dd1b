//! The golden runs of each model, and our trainer on the same weights and batches.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use candle_core::DType;
use expctl::cell::{Adapter, Cell, Dtype, LrScheduler, TargetModules, Task, Weights};
use expctl::data::{EffectiveBatch, MicroBatch};
use expctl::kernels::Sequences;
use expctl::nn::tensor::Tensor;
use expctl::options::NamePattern;
use expctl::options::methods::{PROMPT_EMBEDDING, PROMPT_EMBEDDINGS, PROMPT_ENCODER, VERA_SHARED};
use expctl::peft::{self, Layers, Targets};
use expctl::train::{StepOutcome, Trainer};
use serde::Deserialize;
use serde_json::Value;

use crate::common::training;
use crate::fixtures::{assert_relative, bits, fixture, json};

pub const DECODERS: [&str; 11] = [
    "tiny_llama",
    "tiny_llama3",
    "tiny_mistral",
    "tiny_ministral",
    "tiny_qwen2",
    "tiny_qwen2_window",
    "tiny_qwen3",
    "tiny_phi3",
    "tiny_gemma",
    "tiny_gemma2",
    "tiny_gemma3",
];
/// Steps of a run.
const STEPS: usize = 20;
/// Classifiers of three labels.
pub const ENCODERS: [&str; 2] = ["tiny_distilbert", "tiny_bert"];
pub const LABELS: usize = 3;

pub fn models() -> impl Iterator<Item = &'static str> {
    DECODERS.into_iter().chain(ENCODERS)
}

pub fn is_encoder(model: &str) -> bool {
    ENCODERS.contains(&checkpoint(model).as_str())
}

/// The folder of the model's weights.
fn checkpoint(model: &str) -> String {
    Golden::of(model).base.unwrap_or_else(|| model.into())
}

/// The files of golden runs.
const FILES: [&str; 25] = [
    "golden.json",
    "golden_adafactor.json",
    "golden_adamw_8bit.json",
    "golden_dora.json",
    "golden_encoders.json",
    "golden_head.json",
    "golden_ia3.json",
    "golden_lion.json",
    "golden_loha.json",
    "golden_lokr.json",
    "golden_oft.json",
    "golden_ln_tuning.json",
    "golden_lora.json",
    "golden_miss.json",
    "golden_partial.json",
    "golden_phi3.json",
    "golden_gemma.json",
    "golden_mistral.json",
    "golden_precision.json",
    "golden_prefix_tuning.json",
    "golden_prompt_tuning.json",
    "golden_vera.json",
    "golden_qwen2.json",
    "golden_qwen3.json",
    "golden_sgd.json",
];

#[derive(Deserialize)]
struct File {
    learning_rate: f64,
    models: BTreeMap<String, Golden>,
}

impl File {
    /// The file that has the model.
    fn of(model: &str) -> Self {
        let mut files = FILES
            .iter()
            .map(|name| serde_json::from_value::<Self>(json(name)).expect(name));
        files.find(|file| file.models.contains_key(model)).expect(model)
    }
}

/// One model's batches, losses and runs.
#[derive(Deserialize)]
pub struct Golden {
    /// The model that has the weights, if this one has none of its own.
    base: Option<String>,
    /// Keys of the cell that PEFT's configuration does not have.
    #[serde(default)]
    cell: BTreeMap<String, Value>,
    batches: Vec<Batch>,
    /// The loss of the sampled micro-batch with the adapter.
    pub loss: Option<f64>,
    /// The same without.
    pub full_loss: Option<f64>,
    /// A batch that is longer than the others.
    long: Option<Batch>,
    runs: BTreeMap<String, Run>,
}

#[derive(Deserialize)]
struct Batch {
    ids: Vec<Vec<u32>>,
    lengths: Vec<u32>,
    #[serde(default)]
    labels: Vec<u32>,
}

impl Batch {
    /// The micro-batch, with sample ids from `first` on.
    fn micro(&self, first: u32) -> MicroBatch {
        let Self { ids, lengths, labels } = self;
        MicroBatch {
            ids: ids.concat(),
            lengths: lengths.clone(),
            separators: Vec::new(),
            targets: None,
            labels: labels.clone(),
            sample_ids: (first..).take(ids.len()).collect(),
            sequences: Sequences::even(ids.len(), ids[0].len()),
        }
    }
}

#[derive(Deserialize)]
struct Run {
    losses: Vec<f64>,
    gradient_norms: Vec<f64>,
    /// Decoders' only.
    learning_rates: Option<Vec<f64>>,
}

impl Golden {
    pub fn of(model: &str) -> Self {
        File::of(model).models.remove(model).expect(model)
    }

    /// The micro-batch whose logits and gradients are kept. Encoders' has the padding token among those that count.
    pub fn sampled(&self, model: &str) -> EffectiveBatch {
        self.effective(if is_encoder(model) { &[2] } else { &[0] })
    }

    /// The long batch.
    pub fn long(&self) -> MicroBatch {
        self.long.as_ref().expect("a long batch").micro(0)
    }

    /// The effective batch of these micro-batches.
    fn effective(&self, taken: &[usize]) -> EffectiveBatch {
        let mut first = 0;
        let micro: Vec<MicroBatch> = taken
            .iter()
            .map(|&index| {
                let micro = self.batches[index].micro(first);
                first += micro.sequences.count() as u32;
                micro
            })
            .collect();
        EffectiveBatch {
            counted: micro.iter().map(MicroBatch::counted).sum(),
            micro,
        }
    }
}

/// The configuration that the golden runs have in common.
pub fn cell(model: &str, rank: usize) -> Cell {
    let cell = Cell {
        model: format!("./{}", checkpoint(model)),
        weights: Some(Weights::Pretrained),
        dtype: Dtype::Float32,
        rank,
        max_seq_length: 12,
        learning_rate: File::of(model).learning_rate,
        lr_scheduler_type: LrScheduler::Constant,
        max_grad_norm: 0.0,
        ..Cell::default()
    };
    let cell = match is_encoder(model) {
        true => Cell {
            task: Task::SequenceClassification,
            num_labels: LABELS,
            ..cell
        },
        false => cell,
    };
    with_own_keys(model, cell)
}

/// The cell with the keys that its golden numbers name.
fn with_own_keys(model: &str, cell: Cell) -> Cell {
    let keys = Golden::of(model).cell;
    let with = |cell: Cell, (key, value): (&String, &Value)| cell.with(key, value).expect("a key of a cell");
    keys.iter().fold(cell, with)
}

/// The folder of PEFT's adapter: the model's own, or that of the model with its weights.
fn adapter(model: &str) -> PathBuf {
    let folders = [model, &checkpoint(model)].map(|name| fixture(&format!("{name}_adapter")));
    folders.into_iter().find(|folder| folder.is_dir()).expect(model)
}

/// The cell of PEFT's adapter.
pub fn adapter_cell(model: &str) -> Cell {
    let (config, _) = peft::read(&adapter(model)).expect("PEFT's adapter");
    let options = config.options().expect("the adapter's options");
    if options.lora_options().is_some() {
        assert_eq!(options.lora_alpha, 8.0, "{model}");
    }
    with_own_keys(model, with_adapter(cell(model, Cell::default().rank), &config))
}

/// The cell with the options of an adapter's configuration.
pub fn with_adapter(cell: Cell, config: &peft::Config) -> Cell {
    let own = config.keys().expect("the adapter's keys");
    let own = own.iter().filter(|(_, key, _)| *key != "target_modules");
    let cell = own.fold(cell, |cell, (_, key, value)| cell.with(key, value).expect(key));
    Cell {
        adapter: config.adapter(),
        target_modules: match &config.target_modules {
            // PEFT lists its own choice.
            _ if matches!(config.adapter(), Adapter::Ia3 | Adapter::LnTuning) => None,
            None => None,
            Some(Targets::Pattern(text)) => Some(TargetModules::Pattern(NamePattern::whole(text).expect("a pattern"))),
            Some(names @ Targets::Names(_)) => {
                Some(TargetModules::Names(names.last_components().into_iter().collect()))
            }
        },
        layers_to_transform: config.layers_to_transform.as_ref().map(|layers| match layers {
            Layers::One(layer) => vec![*layer],
            Layers::Several(layers) => layers.clone(),
        }),
        ..cell
    }
}

/// A trainer of the model's weights, and of its adapter if the cell has one.
pub fn trainer(model: &str, cell: &Cell) -> Trainer {
    let (mut trainer, _) = training::trainer(cell, &fixture(""));
    if cell.rank > 0 {
        set_adapter(&mut trainer, &adapter(model));
    }
    trainer
}

/// Replaces the trainer's adapter, and the head that was saved with it: each tensor, and no other.
pub fn set_adapter(trainer: &mut Trainer, adapter: &Path) {
    let (_, tensors) = peft::read(adapter).expect("the adapter");
    // VeRA's shared factors follow from their key.
    let (shared, tensors): (Vec<_>, Vec<_>) = tensors
        .into_iter()
        .partition(|tensor| VERA_SHARED.contains(&tensor.name.as_str()));
    let ours = trainer.saved_factors();
    assert_eq!(ours.len(), shared.len());
    for ((name, factor), tensor) in ours.into_iter().zip(&shared) {
        assert_eq!((name, factor.dims()), (tensor.name.as_str(), &tensor.shape[..]));
        if factor.dtype() == DType::F32 {
            assert_eq!(bits(&training::values(factor)), bits(&tensor.values), "{name}");
        }
    }
    // PEFT saves the head's own weight beside an adapter of it.
    let tensors: Vec<_> = tensors
        .into_iter()
        .filter(|tensor| !tensor.name.ends_with(".base_layer.weight"))
        .collect();
    let mut params = trainer.saved();
    assert_eq!(params.len(), tensors.len());
    for tensor in tensors {
        let name = match tensor.name.as_str() {
            PROMPT_EMBEDDINGS => format!("{PROMPT_ENCODER}.{PROMPT_EMBEDDING}"),
            // The bias of a layer with an adapter.
            name => name.replace("base_layer.", ""),
        };
        let param = params.iter_mut().find(|param| param.name.to_string() == name);
        let param = param.expect(&tensor.name);
        assert_eq!(param.value.dims(), tensor.shape, "{}", tensor.name);
        let value = Tensor::from_f32(&tensor.values, param.value.shape(), param.value.dtype());
        param.set(value.expect("a tensor"));
    }
}

/// One step on the golden run's batches.
fn train(trainer: &mut Trainer, golden: &Golden, cell: &Cell, step: usize) -> StepOutcome {
    let taken: Vec<usize> = if cell.gradient_accumulation_steps > 1 {
        (0..4).collect()
    } else {
        vec![step % golden.batches.len()]
    };
    let batch = golden.effective(&taken);
    let outcome = trainer.step(&batch, step, STEPS, &mut || ()).expect("a step");
    trainer.release_gradients();
    outcome
}

/// The largest relative difference of a loss from the golden run's, where the cell is trained on its batches.
pub fn departure(model: &str, name: &str, cell: &Cell) -> f64 {
    let golden = Golden::of(model);
    let mut trainer = trainer(model, cell);
    let steps = golden.runs[name].losses.iter().enumerate();
    let differences = steps.map(|(step, theirs)| (train(&mut trainer, &golden, cell, step).loss / theirs - 1.0).abs());
    differences.fold(0.0, f64::max)
}

/// Trains the cell on the golden run's batches, and compares every step. Returns what was trained.
pub fn assert_run(model: &str, name: &str, cell: &Cell, tolerance: f64) -> Trainer {
    let golden = Golden::of(model);
    let run = &golden.runs[name];
    let mut trainer = trainer(model, cell);
    assert_eq!(run.losses.len(), STEPS);
    for step in 0..STEPS {
        let ours = train(&mut trainer, &golden, cell, step);
        let what = |value: &str| format!("{model}, {name}, {value} of step {step}");
        let theirs = run.losses[step];
        if is_encoder(model) && cell.dtype != Dtype::Float32 {
            // Torch rounds these losses to sixteen bits, so the small ones are not known better than the large ones.
            let largest = run.losses.iter().fold(0.0, |largest: f64, loss| largest.max(*loss));
            let difference = (ours.loss - theirs).abs();
            assert!(
                difference <= tolerance * largest,
                "{}: ours {}, theirs {theirs}",
                what("loss"),
                ours.loss
            );
        } else {
            assert_relative(ours.loss, theirs, tolerance, &what("loss"));
        }
        if let Some(rates) = &run.learning_rates {
            assert_relative(ours.learning_rate, rates[step], 1e-9, &what("learning rate"));
        }
        if cell.dtype == Dtype::Float32 {
            let norm = run.gradient_norms[step];
            assert_relative(ours.gradient_norm, norm, 10.0 * tolerance, &what("gradient norm"));
        }
    }
    trainer
}
