//! Where a model's weights come from.

use std::collections::HashMap;
use std::ops::Range;

use arch::{Init, Location, ModelConfig, WeightSpec};
use hub::Roots;
use options::{ModelOptions, Stack, Weights};

use super::checkpoint::Checkpoint;
use super::error::{ModelError, hint};
use super::random_weights;

/// The weights of one model, read a range of rows at a time.
///
/// `read_rows` takes `&self` and may be called from several threads.
#[derive(Debug)]
pub struct Source {
    config: ModelConfig,
    weights: HashMap<String, WeightSpec>,
    /// The seed of random weights.
    seed: u64,
    /// `None` if all weights are random.
    checkpoint: Option<Checkpoint>,
}

impl Source {
    /// Opens the model that `options` name; `roots` say where. Everything that can be wrong with a
    /// checkpoint's files is found here, before anything is loaded.
    ///
    /// A checkpoint may hold more than the model needs (rotary buffers, the copy of a tied head, heads for other
    /// tasks), which is left alone. A tensor that belongs to a layer and is not a weight of this model is an error.
    ///
    /// # Errors
    /// If the model is unknown, is not computed here, or its files are missing, damaged or of another shape.
    pub fn open(options: &ModelOptions, roots: &Roots) -> Result<Self, ModelError> {
        let config = arch::open(options, Stack::Candle, roots)?;
        let checkpoint = match (arch::locate(&options.name, roots)?, options.weights) {
            (_, Weights::Random) => None,
            (Location::Directory(dir), Weights::Pretrained) => Some(Checkpoint::open(&dir, &config)?),
            (Location::Preset(preset), Weights::Pretrained) => {
                return Err(ModelError::PretrainedPreset(preset.name()));
            }
        };
        let weights = config.weights().into_iter();
        Ok(Self {
            weights: weights.map(|weight| (weight.name.clone(), weight)).collect(),
            config,
            seed: options.seed,
            checkpoint,
        })
    }

    /// The model's shape.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// Shape of a weight: `[rows, columns]`, or `[columns]` of a norm or a bias.
    ///
    /// # Errors
    /// If the model has no weight of that name; a tied head is not one.
    pub fn shape(&self, name: &str) -> Result<&[usize], ModelError> {
        Ok(&self.weight(name)?.shape)
    }

    /// Reads `rows` of a weight as f32 into `out`, row after row. A norm's weight has one row.
    ///
    /// Random weights are the same whatever ranges they are read in, and are not rounded to the model's dtype.
    ///
    /// # Errors
    /// If the model has no such weight, or its file cannot be read.
    ///
    /// # Panics
    /// If `rows` is not within the weight, or `out` is not as long as those rows.
    pub fn read_rows(&self, name: &str, rows: Range<usize>, out: &mut [f32]) -> Result<(), ModelError> {
        let weight = self.weight(name)?;
        let columns = weight.columns();
        assert!(
            rows.start <= rows.end && rows.end <= weight.rows(),
            "rows {rows:?} of {weight:?}"
        );
        assert_eq!(out.len(), rows.len() * columns, "rows {rows:?} of {weight:?}");
        if let Some(checkpoint) = self.checkpoint.as_ref().filter(|checkpoint| checkpoint.has(name)) {
            return checkpoint.read(name, rows.start * columns, out);
        }
        match weight.init {
            Init::Ones => out.fill(1.0),
            Init::Zeros => out.fill(0.0),
            Init::Normal | Init::NormalWithZeroRow { .. } => {
                let deviation = self.config.initializer_range as f32;
                random_weights::normal(self.seed, name, deviation, rows.start * columns, out);
            }
        }
        if let Init::NormalWithZeroRow { row } = weight.init
            && rows.contains(&row)
        {
            out[(row - rows.start) * columns..][..columns].fill(0.0);
        }
        Ok(())
    }

    fn weight(&self, name: &str) -> Result<&WeightSpec, ModelError> {
        self.weights.get(name).ok_or_else(|| ModelError::NoSuchTensor {
            name: name.into(),
            hint: hint(name, self.weights.keys().map(String::as_str)),
        })
    }
}
