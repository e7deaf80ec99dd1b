//! What another engine trains on, so that it begins as our trainer does: the batches in their order, random weights, and
//! the start of the adapters.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use arch::{Location, ModelConfig};
use base::text::hex;
use data::{DataError, EffectiveBatch, MicroBatch};
use hub::Roots;
use model::{ModelError, Source};
use nn::optim;
use options::{Dtype, ModelOptions, Stack, Task, TrainOptions, Weights};
use records::LeftOut;
use serde::Serialize;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::trainer::Trainer;
use super::trial::largest_first;
use super::{TrainError, save};

/// Where the inputs of a training lie, and what else is to be known of it.
#[derive(Debug, Serialize)]
pub struct Inputs {
    /// A folder with `config.json` and weights, in transformers' layout.
    pub model: PathBuf,
    /// A folder in PEFT's layout with the adapters; absent without any.
    pub adapter: Option<PathBuf>,
    /// The names of the tensors there that the training starts from. The others follow from the weights.
    pub start: Vec<String>,
    /// The names of the model's own weights that are trained; absent if all are, or none.
    pub trained: Option<Vec<String>>,
    /// A file with a line for each step.
    pub batches: PathBuf,
    /// A file with a line for each micro-batch of held-out samples; absent without any.
    pub held_out: Option<PathBuf>,
    /// The learning rate of each step, as far as no step is skipped.
    pub learning_rates: Vec<f64>,
    /// Tokens of a full step, padding included.
    pub tokens_per_step: usize,
    /// Weights of the model without adapters.
    pub parameter_count: u64,
    /// SHA-256 of the token ids.
    pub data_sha256: String,
    /// Samples without a predicted token; absent if none was left out.
    pub samples_left_out: Option<LeftOut>,
    /// What is to be said of the data.
    pub remarks: Vec<String>,
}

/// Where inputs are written.
#[derive(Debug, Clone, Copy)]
pub struct Places<'a> {
    /// The folder of this training.
    pub own: &'a Path,
    /// A folder for weights that several trainings share. Weights that are there are used again.
    pub shared: &'a Path,
}

/// Writes the inputs of a training. Its names lead to `roots`. A trial has the largest steps alone.
///
/// # Errors
/// If the model or the data cannot be read, or a file cannot be written.
pub fn write_inputs(
    options: &TrainOptions,
    roots: &Roots,
    places: Places,
    is_trial: bool,
) -> Result<Inputs, TrainError> {
    fs::create_dir_all(places.own).map_err(|source| TrainError::Inputs {
        path: places.own.to_owned(),
        source,
    })?;
    let config = arch::open(&options.model, Stack::Torch, roots).map_err(ModelError::from)?;
    let dataset = data::load(&options.data, &config, roots, places.own)?;
    let total = dataset.sampler().steps(&options.data);
    let (data, steps) = match is_trial {
        true => {
            let (data, largest) = largest_first(&options.data);
            (data, total.min(largest))
        }
        false => (options.data.clone(), total),
    };
    let batches = places.own.join("batches.jsonl");
    write_lines(&batches, dataset.batches(&data, &config).take(steps), step_line)?;
    let held_out = (!dataset.sampler().held_out().is_empty()).then(|| places.own.join("held_out.jsonl"));
    if let Some(path) = &held_out {
        write_lines(path, dataset.eval_batches(&options.data, &config), micro_line)?;
    }
    let start = start(options, &config, &places.own.join("start"))?;
    Ok(Inputs {
        model: model(&options.model, roots, places.shared)?,
        adapter: start.adapter,
        start: start.tensors,
        trained: start.trained,
        batches,
        held_out,
        learning_rates: (0..steps)
            .map(|step| optim::learning_rate(&options.schedule, step, total))
            .collect(),
        tokens_per_step: options.data.effective_batch_size() * options.data.max_seq_length,
        parameter_count: config.parameter_count(),
        data_sha256: dataset.sha256().to_owned(),
        samples_left_out: dataset.left_out(),
        remarks: dataset.remarks().collect(),
    })
}

/// A step's line: its micro-batches, and what its loss is the mean over.
fn step_line(batch: &EffectiveBatch) -> serde_json::Value {
    let micro: Vec<_> = batch.micro.iter().map(micro_line).collect();
    json!({ "counted": batch.counted, "micro": micro })
}

fn micro_line(micro: &MicroBatch) -> serde_json::Value {
    let lengths: Vec<usize> = micro.sequences.iter().map(|tokens| tokens.len()).collect();
    let predicted: Vec<usize> = match micro.labels.is_empty() {
        // The token after one that predicts is what is predicted.
        true => micro.predicting().map(|token| token + 1).collect(),
        false => Vec::new(),
    };
    json!({
        "ids": micro.ids,
        "sequences": lengths,
        "lengths": micro.lengths,
        "predicted": predicted,
        "labels": micro.labels,
        "counted": micro.counted(),
        "real_tokens": micro.real_tokens(),
    })
}

fn write_lines<T>(
    path: &Path,
    items: impl Iterator<Item = Result<T, DataError>>,
    line: fn(&T) -> serde_json::Value,
) -> Result<(), TrainError> {
    let failed = |source| TrainError::Inputs {
        path: path.to_owned(),
        source,
    };
    let mut out = BufWriter::new(File::create(path).map_err(failed)?);
    for item in items {
        writeln!(out, "{}", line(&item?)).map_err(failed)?;
    }
    out.flush().map_err(failed)
}

/// The folder of the model's weights. Weights that are random in part are written, in the format that they are loaded in.
fn model(options: &ModelOptions, roots: &Roots, shared: &Path) -> Result<PathBuf, TrainError> {
    let location = arch::locate(&options.name, roots).map_err(ModelError::from)?;
    let is_whole = options.weights == Weights::Pretrained && options.task == Task::CausalLm;
    if let (Location::Directory(folder), true) = (&location, is_whole) {
        return Ok(folder.clone());
    }
    let format = match options.dtype.is_quantised() {
        true => options.bnb_4bit_compute_dtype,
        false => options.dtype,
    };
    let folder = shared.join(weights_name(options, format));
    if !model::is_saved(&folder) {
        let source = Source::open(options, roots)?;
        model::save_as_it_is(&folder, &location, data::EMBEDDED_TOKENIZER, &source, format)?;
    }
    Ok(folder)
}

/// A name that differs where the weights do.
fn weights_name(options: &ModelOptions, format: Dtype) -> String {
    let ModelOptions {
        name,
        weights,
        task,
        num_labels,
        seed,
        ..
    } = options;
    let all = format!("{name:?} {weights:?} {task:?} {num_labels} {format:?} {seed}");
    hex(&Sha256::digest(all)[..8])
}

/// What is trained, as it starts.
#[derive(Default)]
struct Start {
    adapter: Option<PathBuf>,
    tensors: Vec<String>,
    trained: Option<Vec<String>>,
}

/// The start of what is trained.
fn start(options: &TrainOptions, config: &ModelConfig, folder: &Path) -> Result<Start, TrainError> {
    let model = &options.model;
    if model.adapter.is_none() && model.trainable.is_none() {
        return Ok(Start::default());
    }
    // A model without a source has no weights: its memory is neither written nor read. The adapters do not follow from it.
    let mut dry = TrainOptions {
        model: ModelOptions {
            dtype: model.hidden_dtype(),
            ..model.clone()
        },
        ..options.clone()
    };
    if let Some(adapter) = &mut dry.model.adapter {
        adapter.leave_weight();
    }
    let mut trainer = Trainer::new(&dry, model::load_dry(&dry.model, config)?)?;
    if model.adapter.is_none() {
        let names = trainer.trainable().iter().map(|param| param.name.to_string()).collect();
        return Ok(Start {
            trained: Some(names),
            ..Start::default()
        });
    }
    let tensors = save::start(model, &mut trainer, folder)?;
    Ok(Start {
        adapter: Some(folder.to_owned()),
        tensors,
        trained: None,
    })
}
