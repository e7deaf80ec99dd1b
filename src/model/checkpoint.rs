//! The weights of a directory in Hugging Face's layout: one safetensors file, or several with an index.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::error::did_you_mean;
use super::safetensors_file::{SafetensorsFile, readable};
use super::{Config, ModelError};

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// Open files, and which of them holds each weight of the model.
#[derive(Debug)]
pub(super) struct Checkpoint {
    files: Vec<SafetensorsFile>,
    /// Index into `files` of each of the model's tensors.
    places: HashMap<String, usize>,
}

impl Checkpoint {
    /// Opens the files and checks that every tensor of `config` is there, in its shape and in a format that can be read.
    ///
    /// A tensor that `config` does not have is an error where it belongs to a layer (a layer too many, a bias). Others
    /// are left alone: the rotary buffers of old checkpoints, the head of a tied model, heads for other tasks.
    pub(super) fn open(dir: &Path, config: &Config) -> Result<Self, ModelError> {
        let (files, mut found) = if dir.join(SINGLE).exists() {
            let file = SafetensorsFile::open(&dir.join(SINGLE))?;
            let found = file.names().into_iter().map(|name| (name, 0)).collect();
            (vec![file], found)
        } else if dir.join(INDEX).exists() {
            open_shards(dir)?
        } else {
            return Err(no_weights(dir));
        };
        let mut places = HashMap::new();
        for tensor in config.tensors() {
            let Some(place) = found.remove(&tensor.name) else {
                return Err(ModelError::MissingTensor {
                    place: dir.into(),
                    hint: did_you_mean(&tensor.name, found.keys().map(String::as_str)),
                    name: tensor.name,
                });
            };
            check_tensor(&files[place], &tensor.name, tensor.shape)?;
            places.insert(tensor.name, place);
        }
        match found
            .iter()
            .find(|(name, _)| name.starts_with("model.layers.") && !name.ends_with(".rotary_emb.inv_freq"))
        {
            Some((name, &place)) => Err(ModelError::UnexpectedTensor {
                path: files[place].path().into(),
                name: name.clone(),
                layers: config.num_hidden_layers,
            }),
            None => Ok(Self { files, places }),
        }
    }

    /// Converts elements of `name`, a tensor of the model, to f32, from flat index `start` on.
    pub(super) fn read(&self, name: &str, start: usize, out: &mut [f32]) -> Result<(), ModelError> {
        self.files[self.places[name]].read(name, start, out)
    }
}

/// Opens every file that the index names, and finds each tensor's in it.
fn open_shards(dir: &Path) -> Result<(Vec<SafetensorsFile>, BTreeMap<String, usize>), ModelError> {
    #[derive(Deserialize)]
    struct Index {
        weight_map: BTreeMap<String, PathBuf>,
    }
    let path = dir.join(INDEX);
    let text = fs::read(&path).map_err(|source| ModelError::Read {
        path: path.clone(),
        source,
    })?;
    let index: Index = serde_json::from_slice(&text).map_err(|error| ModelError::Index {
        path: path.clone(),
        reason: error.to_string(),
    })?;
    let mut files: Vec<SafetensorsFile> = Vec::new();
    let mut opened = HashMap::new();
    let mut found = BTreeMap::new();
    for (name, shard) in index.weight_map {
        let shard = dir.join(shard);
        let place = match opened.get(&shard) {
            Some(place) => *place,
            None if !shard.exists() => return Err(ModelError::MissingShard { index: path, shard }),
            None => {
                files.push(SafetensorsFile::open(&shard)?);
                opened.insert(shard, files.len() - 1);
                files.len() - 1
            }
        };
        let file = &files[place];
        if file.info(&name).is_none() {
            return Err(ModelError::MissingTensor {
                place: file.path().into(),
                hint: format!("; {INDEX} says it is there"),
                name,
            });
        }
        found.insert(name, place);
    }
    Ok((files, found))
}

fn check_tensor(file: &SafetensorsFile, name: &str, expected: Vec<usize>) -> Result<(), ModelError> {
    let Some(info) = file.info(name) else {
        return Ok(());
    };
    if info.shape != expected {
        return Err(ModelError::Shape {
            path: file.path().into(),
            name: name.into(),
            expected,
            got: info.shape.clone(),
        });
    }
    if !readable(info.dtype) {
        return Err(ModelError::StoredDtype {
            path: file.path().into(),
            name: name.into(),
            dtype: info.dtype.to_string(),
        });
    }
    Ok(())
}

fn no_weights(dir: &Path) -> ModelError {
    let pickled = ["pytorch_model.bin", "pytorch_model.bin.index.json"];
    ModelError::NoWeights {
        dir: dir.into(),
        hint: if pickled.iter().any(|name| dir.join(name).exists()) {
            "; pytorch_model.bin is not read: save the model again with safe_serialization"
        } else {
            ""
        },
    }
}
