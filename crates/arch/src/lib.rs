//! Models by description: families, sizes, weights and presets, without a tensor.
//!
//! [`ModelConfig`] is a model's shape, read from a `config.json` in Hugging Face's layout; presets are such files.
//! [`Family`] lists the modules of each family by name and size, from which follow the weights and the linear layers
//! that can have an adapter. [`check`] says what each stack can do with a model.

mod adapters;
pub mod check;
mod config;
mod description;
mod error;
mod families;
mod family;
mod flops;
mod keys;
mod ln_tuning;
mod locate;
mod module;
mod name;
mod outputs;
mod peft_choices;
mod presets;
mod reader;
mod releases;
mod rope;
mod suggestion;
mod weights;

pub use config::{ModelConfig, Quantised, SlidingWindow};
pub use description::{Build, Description, WeightlessLeaves};
pub use error::{ArchError, ConfigError, Unsupported};
pub use family::{Family, target_modules};
pub use flops::ForwardFlops;
pub use locate::{Location, locate, open};
pub use module::{Bias, Kind, Module, Size};
pub use name::{ModuleName, WeightName};
pub use peft_choices::norm_choices;
pub use presets::Preset;
pub use releases::{Gap, Releases};
pub use rope::{Llama3Scaling, LongRopeScaling, Rope, RopeScaling, YarnScaling};
pub use suggestion::suggestion;
pub use weights::{Init, WeightSpec};
