//! Adapters on disk in PEFT's format: `adapter_config.json` and `adapter_model.safetensors`.

mod config;
mod error;
mod field_error;
mod fields;
mod folder;
mod formats;
mod ia3;
mod keys;
mod ln_tuning;
mod lora;
mod method;
mod miss;
mod options;
mod prefix_tuning;
mod prompt_tuning;
mod size;
mod targets;
mod tensor;
mod vera;

pub use config::{Config, task_type};
pub use error::{AdapterError, ConfigError};
pub use field_error::FieldError;
pub use folder::{CONFIG_FILE, WEIGHTS_FILE, config_file, parse_config, read, read_config, write};
pub use formats::{BASE_BIAS, LORA_A, LORA_B, MAGNITUDE, whole_name};
pub use ia3::{IA3, Ia3Config};
pub use keys::{FieldKey, keys};
pub use ln_tuning::{LnTuningConfig, tuned};
pub use lora::{Init, LoraConfig};
pub use method::MethodConfig;
pub use miss::{MISS, MissConfig};
pub use options::{check_norms, check_options};
pub use prefix_tuning::PrefixTuningConfig;
pub use prompt_tuning::{
    PROMPT_EMBEDDING, PROMPT_EMBEDDINGS, PROMPT_ENCODER, PromptStart, PromptTuningConfig, VirtualTokens,
};
pub use size::{FileDtype, file_bytes, safetensors_bytes};
pub use targets::{Layers, Targets};
pub use tensor::AdapterTensor;
pub use vera::{VERA_B, VERA_D, VERA_SHARED, VeraConfig};
