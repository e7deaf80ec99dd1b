//! Models: their shape, and where their weights come from.
//!
//! [`Config`] is a model's shape, from a preset or from a `config.json`. [`Source`] gives the weights, a range of rows at
//! a time, so that nobody ever holds a whole model in 16 or 32 bits: seeded random ones, or those of a checkpoint. [`load`]
//! builds the [`Model`] from it. Each family (`llama/`, `encoder/`) has a folder with its shape, its `config.json` and how
//! it is built.

mod checkpoint;
mod config;
mod encoder;
mod error;
mod hf_config;
mod llama;
mod load;
mod location;
mod presets;
mod random_weights;
mod safetensors_file;
mod source;

use candle_core::Device;

use crate::nn::param::Param;

pub use config::{Config, Init, Tensor};
pub use encoder::{Encoder, EncoderConfig, Family};
pub use error::ModelError;
pub use llama::{Llama, Llama3Scaling, LlamaConfig};
pub(crate) use load::{CHUNK_ELEMENTS, adapts};
pub use load::{LoadError, dense_dtype, load};
pub use location::{Location, locate};
pub use presets::Preset;
pub use source::{Source, config};

/// A model with everything it was configured to train.
#[derive(Debug)]
pub enum Model {
    Llama(Llama),
    Encoder(Box<Encoder>),
}

impl Model {
    /// Everything that is trained, in a fixed order, each once.
    pub fn trainable(&mut self) -> Vec<&mut Param> {
        match self {
            Self::Llama(model) => model.trainable(),
            Self::Encoder(model) => model.trainable(),
        }
    }

    pub fn device(&self) -> &Device {
        match self {
            Self::Llama(model) => &model.device,
            Self::Encoder(model) => &model.device,
        }
    }
}
