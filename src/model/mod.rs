//! Models of the Llama family: their shape, and where their weights come from.
//!
//! [`Config`] is a model's shape, from a preset or from a `config.json`. [`Source`] gives the weights, a range of rows at
//! a time, so that nobody ever holds a whole model in 16 or 32 bits: seeded random ones, or those of a checkpoint.

mod checkpoint;
mod config;
mod error;
mod hf_config;
mod llama;
mod load;
mod location;
mod presets;
mod random_weights;
mod safetensors_file;
mod source;

pub use config::{Config, Llama3Scaling, Tensor};
pub use error::ModelError;
pub use llama::Llama;
pub use load::{LoadError, load};
pub use location::{Location, locate};
pub use presets::Preset;
pub use source::Source;
