//! What the spec's `model` names.

use std::path::{Path, PathBuf};

use super::error::did_you_mean;
use super::{Config, ModelError, Preset};

/// A preset, or a directory in Hugging Face's layout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    Preset(Preset),
    Directory(PathBuf),
}

impl Location {
    /// The model's shape.
    ///
    /// # Errors
    /// Where a directory's `config.json` is missing, invalid, or of a model that is not computed here.
    pub fn config(&self) -> Result<Config, ModelError> {
        match self {
            Self::Preset(preset) => Ok(preset.config()),
            Self::Directory(dir) => Config::from_dir(dir),
        }
    }
}

/// Finds a model: a preset's name wins over a directory of that name (`./tiny` is the directory), and a directory is
/// relative to `base_dir`.
///
/// # Errors
/// Where the name is neither, or needs a download.
pub fn locate(model: &str, base_dir: &Path) -> Result<Location, ModelError> {
    if let Some(preset) = Preset::from_name(model) {
        return Ok(Location::Preset(preset));
    }
    if model.starts_with("hf://") {
        return Err(ModelError::Hub(model.into()));
    }
    let path = base_dir.join(model);
    if path.is_dir() {
        return Ok(Location::Directory(path));
    }
    Err(ModelError::UnknownModel {
        name: model.into(),
        path,
        hint: did_you_mean(&model.to_lowercase(), Preset::ALL.map(Preset::name)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_directories_and_neither() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("tiny")).unwrap();
        assert_eq!(locate("tiny", dir.path()).unwrap(), Location::Preset(Preset::Tiny));
        assert_eq!(
            locate("./tiny", dir.path()).unwrap(),
            Location::Directory(dir.path().join("./tiny"))
        );
        let message = locate("SmolLM2-135", dir.path()).unwrap_err().to_string();
        assert!(message.ends_with("did you mean `smollm2-135m`?"), "{message}");
        assert!(locate("hf://owner/name", dir.path()).is_err());
    }
}
