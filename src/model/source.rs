//! Where a cell's weights come from.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

use super::checkpoint::Checkpoint;
use super::error::did_you_mean;
use super::{Config, Location, ModelError, Tensor, locate, random_weights};
use crate::spec::cell::{Cell, Weights};

/// The weights of one model, read a range of rows at a time.
///
/// `read_rows` takes `&self` and may be called from several threads.
#[derive(Debug)]
pub struct Source {
    config: Config,
    tensors: HashMap<String, Tensor>,
    origin: Origin,
}

#[derive(Debug)]
enum Origin {
    Random { seed: u64 },
    Checkpoint(Checkpoint),
}

impl Source {
    /// Opens the model that `cell` names; a directory is relative to `base_dir`. Everything that can be wrong with a
    /// checkpoint's files is found here, before anything is loaded.
    ///
    /// A checkpoint may hold more than the model needs (rotary buffers, the copy of a tied head, heads for other tasks),
    /// which is left alone; a tensor that belongs to a layer and is no weight of this model is an error.
    ///
    /// # Errors
    /// Where the model is unknown, is not computed here, or its files are missing, damaged or of another shape.
    pub fn open(cell: &Cell, base_dir: &Path) -> Result<Self, ModelError> {
        let location = locate(&cell.model, base_dir)?;
        let config = location.config()?;
        let origin = match (&location, cell.weights()) {
            (_, Weights::Random) => Origin::Random { seed: cell.seed },
            (Location::Directory(dir), Weights::Pretrained) => Origin::Checkpoint(Checkpoint::open(dir, &config)?),
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
            origin,
        })
    }

    /// The model's shape.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Shape of a weight: `[rows, columns]`, or `[columns]` of a norm.
    ///
    /// # Errors
    /// Where the model has no weight of that name; a tied head is none.
    pub fn shape(&self, name: &str) -> Result<&[usize], ModelError> {
        Ok(&self.tensor(name)?.shape)
    }

    /// Reads `rows` of a weight as f32 into `out`, row after row. A norm's weight has one row.
    ///
    /// Random weights are the same whatever ranges they are read in, and are not rounded to the cell's dtype.
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
        match &self.origin {
            Origin::Random { .. } if tensor.shape.len() == 1 => out.fill(1.0),
            Origin::Random { seed } => random_weights::normal(*seed, name, rows.start * columns, out),
            Origin::Checkpoint(checkpoint) => checkpoint.read(name, rows.start * columns, out)?,
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
