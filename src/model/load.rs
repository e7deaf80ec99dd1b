//! Builds a model.

use candle_core::Device;

use super::error::LoadError;
use super::families::{self, Model};
use super::loader::Loader;
use super::source::Source;
use crate::memory::{self, Category};
use crate::options::ModelOptions;

/// Builds the model of `source` on `device`, for sequences of up to `options.max_seq_length` tokens.
///
/// # Errors
/// If the source cannot be read, or the device refuses a tensor.
pub fn load(options: &ModelOptions, source: &Source, device: &Device) -> Result<Model, LoadError> {
    let _scope = memory::scope(Category::Temporary);
    families::build(&mut Loader::new(options, source, device), source.config())
}
