//! Where a model's weights come from.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

use super::checkpoint::Checkpoint;
use super::error::did_you_mean;
use super::{Config, Init, Location, ModelError, Tensor, locate, random_weights};
use crate::options::{ModelOptions, TargetModules, Weights};

/// The weights of one model, read a range of rows at a time.
///
/// `read_rows` takes `&self` and may be called from several threads.
#[derive(Debug)]
pub struct Source {
    config: Config,
    tensors: HashMap<String, Tensor>,
    /// Of what is random.
    seed: u64,
    /// None where all weights are random.
    checkpoint: Option<Checkpoint>,
}

/// The shape of the model that `options` name, without its weights; a directory is relative to `base_dir`.
///
/// # Errors
/// Where the model is unknown, or is not computed here.
pub fn config(options: &ModelOptions, base_dir: &Path) -> Result<Config, ModelError> {
    for_task(locate(&options.name, base_dir)?.config()?, options)
}

impl Source {
    /// Opens the model that `options` name; a directory is relative to `base_dir`. Everything that can be wrong with a
    /// checkpoint's files is found here, before anything is loaded.
    ///
    /// A checkpoint may hold more than the model needs (rotary buffers, the copy of a tied head, heads for other tasks),
    /// which is left alone; a tensor that belongs to a layer and is no weight of this model is an error.
    ///
    /// # Errors
    /// Where the model is unknown, is not computed here, or its files are missing, damaged or of another shape.
    pub fn open(options: &ModelOptions, base_dir: &Path) -> Result<Self, ModelError> {
        let location = locate(&options.name, base_dir)?;
        let config = for_task(location.config()?, options)?;
        let checkpoint = match (&location, options.weights) {
            (_, Weights::Random) => None,
            (Location::Directory(dir), Weights::Pretrained) => Some(Checkpoint::open(dir, &config)?),
            (Location::Preset(preset), Weights::Pretrained) => {
                return Err(ModelError::PretrainedPreset(preset.name()));
            }
        };
        let tensors = config
            .tensors()
            .into_iter()
            .map(|tensor| (tensor.name.clone(), tensor))
            .collect();
        Ok(Self {
            config,
            tensors,
            seed: options.seed,
            checkpoint,
        })
    }

    /// The model's shape.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Shape of a weight: `[rows, columns]`, or `[columns]` of a norm or a bias.
    ///
    /// # Errors
    /// Where the model has no weight of that name; a tied head is none.
    pub fn shape(&self, name: &str) -> Result<&[usize], ModelError> {
        Ok(&self.tensor(name)?.shape)
    }

    /// Reads `rows` of a weight as f32 into `out`, row after row. A norm's weight has one row.
    ///
    /// Random weights are the same whatever ranges they are read in, and are not rounded to the model's dtype.
    ///
    /// # Errors
    /// Where the model has no such weight, or its file cannot be read.
    ///
    /// # Panics
    /// Where `rows` is not within the weight, or `out` is not as long as those rows.
    pub fn read_rows(&self, name: &str, rows: Range<usize>, out: &mut [f32]) -> Result<(), ModelError> {
        let tensor = self.tensor(name)?;
        let columns = tensor.columns();
        assert!(
            rows.start <= rows.end && rows.end <= tensor.rows(),
            "rows {rows:?} of {tensor:?}"
        );
        assert_eq!(out.len(), rows.len() * columns, "rows {rows:?} of {tensor:?}");
        if let Some(checkpoint) = self.checkpoint.as_ref().filter(|checkpoint| checkpoint.has(name)) {
            return checkpoint.read(name, rows.start * columns, out);
        }
        match tensor.init {
            Init::Ones => out.fill(1.0),
            Init::Zeros => out.fill(0.0),
            Init::Normal | Init::NormalBut { .. } => {
                let deviation = self.config.initializer_range() as f32;
                random_weights::normal(self.seed, name, deviation, rows.start * columns, out);
            }
        }
        if let Init::NormalBut { zeros } = tensor.init
            && rows.contains(&zeros)
        {
            out[(zeros - rows.start) * columns..][..columns].fill(0.0);
        }
        Ok(())
    }

    fn tensor(&self, name: &str) -> Result<&Tensor, ModelError> {
        self.tensors.get(name).ok_or_else(|| ModelError::NoSuchTensor {
            name: name.into(),
            hint: did_you_mean(name, self.tensors.keys().map(String::as_str)),
        })
    }
}

/// Adds what the options say of the head; refuses a model of another task, or without the target modules.
fn for_task(mut config: Config, options: &ModelOptions) -> Result<Config, ModelError> {
    if config.task() != options.task {
        return Err(ModelError::Task {
            asked: options.task,
            can: config.task(),
        });
    }
    if let Config::Encoder(encoder) = &mut config {
        if encoder.has_head && encoder.num_labels != options.num_labels && options.weights == Weights::Pretrained {
            return Err(ModelError::Labels {
                asked: options.num_labels,
                has: encoder.num_labels,
            });
        }
        encoder.num_labels = options.num_labels;
    }
    let Some(TargetModules::Names(names)) = options.lora.as_ref().map(|lora| &lora.target_modules) else {
        return Ok(config);
    };
    match names.iter().find(|name| !config.modules().contains(&name.as_str())) {
        Some(name) => Err(ModelError::Module {
            name: name.clone(),
            known: config.modules().join(", "),
        }),
        None => Ok(config),
    }
}
