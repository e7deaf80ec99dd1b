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
    /// Of each of the model's tensors that is there: index into `files`, and its name in that file.
    places: HashMap<String, (usize, String)>,
}

impl Checkpoint {
    /// Opens the files and checks that every tensor of `config` is there, in its shape and in a format that can be read. Of
    /// an encoder the head may be missing, unless the checkpoint is of a classifier.
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
            let known = stored_names(config, &tensor.name);
            let Some((stored, place)) = known.into_iter().find_map(|name| found.remove_entry(&name)) else {
                if may_be_new(config, &tensor.name) {
                    continue;
                }
                return Err(ModelError::MissingTensor {
                    place: dir.into(),
                    hint: did_you_mean(&tensor.name, found.keys().map(String::as_str)),
                    name: tensor.name,
                });
            };
            check_tensor(&files[place], &stored, tensor.shape)?;
            places.insert(tensor.name, (place, stored));
        }
        match found.iter().find(|(name, _)| is_of_a_layer(config, name)) {
            Some((name, &place)) => Err(ModelError::UnexpectedTensor {
                path: files[place].path().into(),
                name: name.clone(),
                layers: config.num_hidden_layers(),
                kind: match config {
                    Config::Llama(_) => " without biases",
                    Config::Encoder(_) => "",
                },
            }),
            None => Ok(Self { files, places }),
        }
    }

    /// Whether a tensor of the model is there.
    pub(super) fn has(&self, name: &str) -> bool {
        self.places.contains_key(name)
    }

    /// Converts elements of `name`, a tensor of the model, to f32, from flat index `start` on.
    pub(super) fn read(&self, name: &str, start: usize, out: &mut [f32]) -> Result<(), ModelError> {
        let (file, stored) = &self.places[name];
        self.files[*file].read(stored, start, out)
    }
}

/// What a checkpoint may call a tensor: a bare encoder leaves the family's prefix out, and those of TensorFlow's time call
/// a norm's weight gamma and its bias beta.
fn stored_names(config: &Config, name: &str) -> Vec<String> {
    let mut names = vec![name.to_owned()];
    let Config::Encoder(encoder) = config else { return names };
    let old = name
        .strip_suffix("LayerNorm.weight")
        .map(|module| format!("{module}LayerNorm.gamma"));
    names.extend(
        old.or(name
            .strip_suffix("LayerNorm.bias")
            .map(|module| format!("{module}LayerNorm.beta"))),
    );
    let bare = |name: &String| name.strip_prefix(encoder.family.prefix()).map(str::to_owned);
    let bare: Vec<String> = names.iter().filter_map(bare).collect();
    names.extend(bare);
    names
}

/// Whether a tensor may be missing: what is new is random.
fn may_be_new(config: &Config, name: &str) -> bool {
    match config {
        Config::Llama(_) => false,
        Config::Encoder(encoder) => !encoder.has_head && encoder.is_of_head(name),
    }
}

/// Whether a tensor belongs to a layer, by its name.
fn is_of_a_layer(config: &Config, name: &str) -> bool {
    match config {
        Config::Llama(_) => name.starts_with("model.layers.") && !name.ends_with(".rotary_emb.inv_freq"),
        Config::Encoder(encoder) => {
            let name = name.strip_prefix(encoder.family.prefix()).unwrap_or(name);
            name.starts_with("transformer.layer.") || name.starts_with("encoder.layer.")
        }
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
