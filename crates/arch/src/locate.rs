//! Finds the model that a cell names, and reads its shape.

use std::borrow::Cow;
use std::io;
use std::path::PathBuf;

use base::foreign;
use hub::{HubName, Roots};
use options::{ModelOptions, Stack};

use super::check::check_model;
use super::config::ModelConfig;
use super::error::ArchError;
use super::presets::Preset;
use super::suggestion::suggestion;

/// A preset, or a directory in Hugging Face's layout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// A shape that is part of the program.
    Preset(Preset),
    /// The folder with `config.json`.
    Directory(PathBuf),
}

impl Location {
    /// The model's shape.
    ///
    /// # Errors
    /// If a directory's `config.json` is missing, invalid, or describes an unknown model.
    pub fn config(&self) -> Result<ModelConfig, ArchError> {
        match self {
            Self::Preset(preset) => Ok(preset.config()),
            Self::Directory(dir) => {
                let path = dir.join("config.json");
                let text = foreign::read_small(&path).map_err(|source| ArchError::Read {
                    path: path.clone(),
                    source,
                })?;
                ModelConfig::from_json(&text).map_err(|error| ArchError::Config { path, error })
            }
        }
    }

    /// The model's `config.json`.
    ///
    /// # Errors
    /// If a directory's cannot be read.
    pub fn json(&self) -> io::Result<Cow<'static, [u8]>> {
        match self {
            Self::Preset(preset) => Ok(preset.json().as_bytes().into()),
            Self::Directory(dir) => foreign::read_small(&dir.join("config.json")).map(Cow::Owned),
        }
    }

    /// The file or preset that describes the model, for messages.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Preset(preset) => format!("preset {}", preset.name()),
            Self::Directory(dir) => dir.join("config.json").display().to_string(),
        }
    }
}

/// Finds a model: a preset's name wins over a directory of that name (`./tiny` is the directory), and a directory over
/// a model of the hub.
///
/// # Errors
/// If the name is neither, or was not fetched.
pub fn locate(model: &str, roots: &Roots) -> Result<Location, ArchError> {
    if let Some(preset) = Preset::named(model) {
        return Ok(Location::Preset(preset));
    }
    let path = roots.path(model);
    if path.is_dir() {
        return Ok(Location::Directory(path));
    }
    if let Some(snapshot) = roots.model(model) {
        return Ok(Location::Directory(snapshot.dir.clone()));
    }
    let is_on_hub = HubName::of_model(model).is_ok_and(|name| name.is_some());
    if is_on_hub && Preset::of_hub_name(model).is_none() {
        return Err(ArchError::NotFetched(model.into()));
    }
    let near = suggestion(model);
    Err(ArchError::Unknown {
        name: model.into(),
        path,
        hint: near.map_or_else(String::new, |near| format!("; {near}")),
    })
}

/// The shape of the model that `options` name, with their number of labels, if `stack` can compute it.
///
/// The torch stack, which needs no weights, also knows presets by their names on the Hugging Face Hub.
///
/// # Errors
/// If the model is unknown, does not suit the options, or has features that the stack does not compute.
pub fn open(options: &ModelOptions, stack: Stack, roots: &Roots) -> Result<ModelConfig, ArchError> {
    let location = match (locate(&options.name, roots), stack) {
        (Err(ArchError::Unknown { name, path, hint }), Stack::Torch) => match Preset::of_hub_name(&name) {
            Some(preset) => Location::Preset(preset),
            None => return Err(ArchError::Unknown { name, path, hint }),
        },
        (location, _) => location?,
    };
    let config = location.config()?;
    check_model(&config, options, stack, &location.shown())?;
    Ok(ModelConfig {
        num_labels: options.num_labels,
        ..config
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn presets_directories_and_neither() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("tiny")).unwrap();
        let tiny = Preset::named("tiny").unwrap();
        assert_eq!(locate("tiny", &dir.path().into()).unwrap(), Location::Preset(tiny));
        assert_eq!(
            locate("./tiny", &dir.path().into()).unwrap(),
            Location::Directory(dir.path().join("./tiny"))
        );
        let message = locate("SmolLM2-135", &dir.path().into()).unwrap_err().to_string();
        assert!(message.ends_with("did you mean `smollm2-135m`?"), "{message}");
        assert!(locate("hf://owner/name", &dir.path().into()).is_err());
    }
}
