//! How many weights a model has, without training it.

use super::adapter_file::file_bytes;
use super::configuration::Configuration;
use super::model::Model;
use super::models::loader::Loader;
use super::tape::{Tape, Tensor};

/// Sizes of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Weights of the base model.
    pub parameters: u64,
    /// Weights that the optimizer steps.
    pub trainable: u64,
    /// True if a layer has an adapter.
    pub is_adapted: bool,
    /// Bytes of the `adapter_model.safetensors` that PEFT writes; `None` without adapters.
    pub adapter_file_bytes: Option<u64>,
}

impl Configuration {
    /// The sizes of the model, which is loaded and not trained.
    pub fn counts(&self) -> Counts {
        let tape = Tape::new(self);
        let mut loader = Loader::new(&tape, self);
        let model = Model::load(&mut loader, self);
        let counts = Counts {
            parameters: loader.parameters,
            trainable: loader.trainable.iter().map(Tensor::numel).sum(),
            is_adapted: loader.is_adapted,
            adapter_file_bytes: self
                .adapter
                .is_some()
                .then(|| file_bytes(self.model.family, &loader.saved)),
        };
        drop(model);
        counts
    }
}
