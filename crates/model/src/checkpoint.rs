//! The weights of a directory in Hugging Face's layout: one safetensors file, or several with an index.

use std::collections::{BTreeMap, HashMap};
use std::path::{Component, Path, PathBuf};

use arch::ModelConfig;
use base::foreign;
use options::Task;
use serde::Deserialize;

use super::ModelError;
use super::error::hint;
use super::safetensors_file::{SafetensorsFile, readable};

/// The file of weights that are in one piece.
pub(super) const SINGLE: &str = "model.safetensors";
pub(super) const INDEX: &str = "model.safetensors.index.json";

/// Open files, and which of them holds each weight of the model.
#[derive(Debug)]
pub(super) struct Checkpoint {
    files: Vec<SafetensorsFile>,
    /// The model's tensors that are there: index into `files`, and the name in that file.
    places: HashMap<String, (usize, String)>,
}

impl Checkpoint {
    /// Opens the files and checks that every tensor of `config` is there, in its shape and in a format that can be
    /// read. Of an encoder the head may be missing, unless the checkpoint is of a classifier.
    ///
    /// A tensor that `config` does not have is an error where it belongs to a layer (a layer too many, a bias). Others
    /// are left alone: the rotary buffers of old checkpoints, the head of a tied model, heads for other tasks.
    pub(super) fn open(dir: &Path, config: &ModelConfig) -> Result<Self, ModelError> {
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
        for tensor in config.weights() {
            let known = stored_names(config, &tensor.name);
            let Some((stored, place)) = known.into_iter().find_map(|name| found.remove_entry(&name)) else {
                if may_be_new(config, &tensor.name) {
                    continue;
                }
                return Err(ModelError::MissingTensor {
                    place: dir.into(),
                    hint: missing(config, &tensor.name, &found),
                    name: tensor.name,
                });
            };
            check_tensor(&files[place], &stored, tensor.shape)?;
            places.insert(tensor.name, (place, stored));
        }
        if let Some(head) = tied_head(config)
            && let Some(&place) = found.get(&head)
        {
            let (file, embedding) = &places[&embedding(config)];
            check_tied((&files[*file], embedding), (&files[place], &head))?;
        }
        match found.iter().find(|(name, _)| layer_of(config, name).is_some()) {
            Some((name, &place)) => Err(ModelError::UnexpectedTensor {
                path: files[place].path().into(),
                name: name.clone(),
                layers: config.num_hidden_layers,
                kind: match config.task() {
                    Task::CausalLm => " without biases",
                    Task::SequenceClassification => "",
                },
            }),
            None => Ok(Self { files, places }),
        }
    }

    /// The open files.
    pub(super) fn files(&self) -> &[SafetensorsFile] {
        &self.files
    }

    /// The index of the file that has a tensor of the model, and the tensor's name there.
    pub(super) fn place(&self, name: &str) -> (usize, &str) {
        let (file, stored) = &self.places[name];
        (*file, stored)
    }

    /// The model's name of a tensor that is called `stored` in this file, if it is the model's.
    pub(super) fn name_of(&self, file: usize, stored: &str) -> Option<&str> {
        let mut places = self.places.iter();
        let found = places.find(|(_, (at, name))| *at == file && name == stored);
        found.map(|(name, _)| name.as_str())
    }

    /// True if a tensor of the model is there.
    pub(super) fn has(&self, name: &str) -> bool {
        self.places.contains_key(name)
    }

    /// Converts elements of `name`, a tensor of the model, to f32, from flat index `start` on.
    pub(super) fn read(&self, name: &str, start: usize, out: &mut [f32]) -> Result<(), ModelError> {
        let (file, stored) = &self.places[name];
        self.files[*file].read(stored, start, out)
    }
}

/// The names that a checkpoint may have for a tensor: a bare encoder leaves the family's prefix out, and those of
/// TensorFlow's time call LayerNorm's weight gamma and its bias beta.
fn stored_names(config: &ModelConfig, name: &str) -> Vec<String> {
    let mut names = vec![name.to_owned()];
    for (today, old) in [
        ("LayerNorm.weight", "LayerNorm.gamma"),
        ("LayerNorm.bias", "LayerNorm.beta"),
    ] {
        names.extend(name.strip_suffix(today).map(|module| format!("{module}{old}")));
    }
    let prefix = config.family.description().prefix;
    let bare = names
        .iter()
        .filter_map(|name| name.strip_prefix(prefix).map(str::to_owned));
    let bare: Vec<String> = bare.collect();
    names.extend(bare);
    names
}

/// True if a tensor may be missing: a new head is random.
fn may_be_new(config: &ModelConfig, name: &str) -> bool {
    let mut head = config.family.description().head.iter();
    config.head.is_none() && head.any(|module| name.starts_with(module.path))
}

/// The layer that a tensor belongs to, by its name.
fn layer_of<'a>(config: &ModelConfig, name: &'a str) -> Option<&'a str> {
    let family = config.family.description();
    let bare = |name| str::strip_prefix(name, family.prefix).unwrap_or(name);
    let rest = bare(name).strip_prefix(bare(family.blocks))?.strip_prefix('.')?;
    let is_buffer = name.ends_with(".rotary_emb.inv_freq");
    rest.split('.').next().filter(|_| !is_buffer)
}

/// Why a tensor may be missing from those that were found.
fn missing(config: &ModelConfig, name: &str, found: &BTreeMap<String, usize>) -> String {
    let near = hint(name, found.keys().map(String::as_str));
    let layer = layer_of(config, name);
    if layer.is_some() && !found.keys().any(|name| layer_of(config, name) == layer) {
        let layers = config.num_hidden_layers;
        return format!("; config.json describes {layers} layers, and this one has no tensor");
    }
    match token_head(config).as_deref() == Some(name) {
        true => "; if the head is the embedding's, config.json needs `tie_word_embeddings: true`".into(),
        false => near,
    }
}

/// The name of the weight of a head that predicts tokens, if the family has one.
fn token_head(config: &ModelConfig) -> Option<String> {
    let head = config.family.description().token_head()?;
    Some(format!("{}.weight", head.path))
}

/// The name of the weight of such a head, if it is the embedding's by `config.json`.
fn tied_head(config: &ModelConfig) -> Option<String> {
    token_head(config).filter(|_| config.tie_word_embeddings)
}

/// The name of the embedding's weight.
fn embedding(config: &ModelConfig) -> String {
    format!("{}.weight", config.family.description().embeddings[0].path)
}

/// Rows of a tied head that are compared with the embedding's.
const COMPARED_ROWS: usize = 64;

/// Checks that a head that is tied by `config.json` is the embedding, by rows from all over it.
fn check_tied(
    (embedding_file, embedding): (&SafetensorsFile, &str),
    (file, head): (&SafetensorsFile, &str),
) -> Result<(), ModelError> {
    let untied = || ModelError::UntiedHead {
        path: file.path().into(),
        name: head.into(),
        embedding: embedding.into(),
    };
    let shape = |file: &SafetensorsFile, name| file.info(name).map(|info| info.shape.clone());
    let shape = shape(file, head).filter(|of_head| shape(embedding_file, embedding).as_ref() == Some(of_head));
    let Some([rows, cols]) = shape.and_then(|shape| <[usize; 2]>::try_from(shape).ok()) else {
        return Err(untied());
    };
    check_tensor(file, head, vec![rows, cols])?;
    let (mut ours, mut theirs) = (vec![0.0; cols], vec![0.0; cols]);
    for row in (0..rows).step_by(rows.div_ceil(COMPARED_ROWS)) {
        embedding_file.read(embedding, row * cols, &mut ours)?;
        file.read(head, row * cols, &mut theirs)?;
        if ours.iter().zip(&theirs).any(|(a, b)| a.to_bits() != b.to_bits()) {
            return Err(untied());
        }
    }
    Ok(())
}

/// Opens every file that the index names, and finds each tensor's in it.
fn open_shards(dir: &Path) -> Result<(Vec<SafetensorsFile>, BTreeMap<String, usize>), ModelError> {
    #[derive(Deserialize)]
    struct Index {
        weight_map: BTreeMap<String, PathBuf>,
    }
    let path = dir.join(INDEX);
    let text = foreign::read_small(&path).map_err(|source| ModelError::Read {
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
        // An index may come from anybody.
        if !shard.components().all(|part| matches!(part, Component::Normal(_))) {
            return Err(ModelError::Index {
                reason: format!("`{}` is not a file of its folder", shard.display()),
                path,
            });
        }
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
