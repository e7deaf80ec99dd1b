//! Where the samples are read that plans follow from.

use std::fmt;

use arch::ModelConfig;
use cell::{Cell, Data};
use data::{DataError, TextLengths, TrainingSamples};
use hub::Roots;
use options::DataOptions;

/// Reads the samples of cells somewhere else than in this process, which their files can then not hurt.
pub trait ReadApart: fmt::Debug + Send + Sync {
    /// The samples to train on.
    ///
    /// # Errors
    /// Those of [`TrainingSamples::read`], or the other process ended.
    fn training(&self, cell: &Cell) -> Result<TrainingSamples, DataError>;

    /// The lengths of a file's samples.
    ///
    /// # Errors
    /// Those of [`data::lengths`], or the other process ended.
    fn lengths(&self, cell: &Cell) -> Result<TextLengths, DataError>;
}

/// Reads the samples to train on.
pub(super) fn training(
    apart: Option<&dyn ReadApart>,
    cell: &Cell,
    options: &DataOptions,
    config: &ModelConfig,
    roots: &Roots,
) -> Result<TrainingSamples, DataError> {
    match apart.filter(|_| has_files(options)) {
        Some(apart) => apart.training(cell),
        None => TrainingSamples::read(options, config, roots),
    }
}

/// Reads the lengths of a file's samples.
pub(super) fn lengths(
    apart: Option<&dyn ReadApart>,
    cell: &Cell,
    options: &DataOptions,
    config: &ModelConfig,
    roots: &Roots,
) -> Result<TextLengths, DataError> {
    match apart.filter(|_| has_files(options)) {
        Some(apart) => apart.lengths(cell),
        None => data::lengths(options, config, roots),
    }
}

/// True if samples are made of somebody's files: made-up ones, and the sample text for a preset, are ours.
fn has_files(options: &DataOptions) -> bool {
    match &options.data {
        Data::Synthetic(_) => false,
        Data::Sample => arch::Preset::named(&options.model).is_none(),
        Data::File(_) => true,
    }
}
