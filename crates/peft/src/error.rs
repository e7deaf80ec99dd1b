//! Why an adapter's files are refused.

use std::path::PathBuf;

use safetensors::tensor::SafeTensorError;

use super::field_error::FieldError;

/// The reason why the text of an `adapter_config.json` cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It is not JSON, or not a map.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// A mistake in a field.
    #[error(transparent)]
    Field(#[from] FieldError),
}

/// The reason why an adapter cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum AdapterError {
    /// The file system refused.
    #[error("{}", .path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// `adapter_config.json` is not JSON, or not an adapter's configuration.
    #[error("{} is not an adapter's configuration", .path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: serde_json::Error,
    },
    /// `adapter_config.json` asks for something that is not done here.
    #[error("{}: {error}", .path.display())]
    Field {
        /// The file.
        path: PathBuf,
        /// The field, and what it asks for.
        error: Box<FieldError>,
    },
    /// `adapter_model.safetensors` is not a safetensors file, or could not be written.
    #[error("{}", .path.display())]
    Safetensors {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: SafeTensorError,
    },
    /// A tensor does not fit the configuration.
    #[error("{}: {tensor}: {problem}", .path.display())]
    Tensor {
        /// The file.
        path: PathBuf,
        /// The tensor's name.
        tensor: String,
        /// The mistake.
        problem: String,
    },
}
