//! Builds a model.

use candle_core::Device;

use super::error::LoadError;
use super::families::{self, Model};
use super::loader::Loader;
use super::source::Source;
use crate::arch::ModelConfig;
use crate::options::ModelOptions;

/// Builds the model of `source` on `device`, for sequences of up to `options.max_seq_length` tokens.
///
/// # Errors
/// If the source cannot be read, or the device refuses a tensor.
pub fn load(options: &ModelOptions, source: &Source, device: &Device) -> Result<Model, LoadError> {
    let config = source.config();
    families::build(&mut Loader::new(options, config, Some(source), device), config)
}

/// The same in a dry run, which needs no weights.
///
/// # Errors
/// If the family is not trained here.
pub fn load_dry(options: &ModelOptions, config: &ModelConfig) -> Result<Model, LoadError> {
    families::build(&mut Loader::new(options, config, None, &Device::Cpu), config)
}
