//! Adapters on disk in PEFT's format: `adapter_config.json` and `adapter_model.safetensors`. What a method's fields and
//! tensors are stands with the method, in `options::methods`.

mod agree;
mod config;
mod error;
mod field_error;
mod fields;
mod folder;
mod size;
mod targets;
mod tensor;

pub use agree::{check_norms, check_options};
pub use config::{Config, FieldKey, task_type};
pub use error::{AdapterError, ConfigError};
pub use field_error::FieldError;
pub use folder::{CONFIG_FILE, WEIGHTS_FILE, config_file, parse_config, read, read_config, write};
pub use size::{FileDtype, file_bytes, safetensors_bytes};
pub use targets::{Layers, Targets};
pub use tensor::{AdapterTensor, BASE_BIAS, file_name, whole_name};
