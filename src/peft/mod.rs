//! Adapters on disk in PEFT's format: `adapter_config.json` and `adapter_model.safetensors`.

mod config;
mod error;
mod fields;
mod folder;
mod formats;
mod lora;
mod method;
mod options;
mod size;
mod tensor;

pub use config::{Config, Layers, Targets};
pub use error::AdapterError;
pub use folder::{CONFIG_FILE, WEIGHTS_FILE, read, read_config, write};
pub use formats::{BASE_BIAS, LORA_A, LORA_B, MAGNITUDE};
pub use lora::{Init, LoraConfig};
pub use method::MethodConfig;
pub use options::check_options;
pub use size::{FileDtype, file_bytes, safetensors_bytes};
pub use tensor::AdapterTensor;
