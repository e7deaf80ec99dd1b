//! A trained model on disk, in transformers' layout.

use std::collections::HashMap;
use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use arch::{Location, WeightSpec};
use base::whole_file;
use half::{bf16, f16};
use nn::param::Param;
use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};
use serde_json::Value;

use super::checkpoint::SINGLE;
use super::source::Source;

/// The files beside a checkpoint's weights that belong to the model as a user knows it.
const COMPANIONS: [&str; 8] = [
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.txt",
    "chat_template.jinja",
    "generation_config.json",
];

/// Elements that are converted at a time.
const CHUNK: usize = 1 << 14;

/// A file of a model that cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {path}: {source}", path = path.display())]
pub struct SaveError {
    path: PathBuf,
    source: io::Error,
}

/// Writes the weights, the `config.json` and the tokenizer of the model at `location` into `dir`, and creates the
/// folder. Weights that were not trained come from `source`, in the format of those that were. `tokenizer` is that of a
/// preset. The weights are written last and appear as a whole: a folder that has them is complete.
///
/// # Errors
/// If a file cannot be read or written.
pub fn save(
    dir: &Path,
    location: &Location,
    tokenizer: &[u8],
    trained: &[&Param],
    source: &Source,
) -> Result<(), SaveError> {
    let format = trained.first().map_or(Ok(Dtype::F32), |weight| dtype(weight));
    let format = format.map_err(|source| SaveError {
        path: dir.join(SINGLE),
        source,
    })?;
    write(dir, location, tokenizer, (trained, format), source)
}

fn write(
    dir: &Path,
    location: &Location,
    tokenizer: &[u8],
    (trained, format): (&[&Param], Dtype),
    source: &Source,
) -> Result<(), SaveError> {
    let file = dir.join(SINGLE);
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| SaveError { path, source }
    };
    fs::create_dir_all(dir).map_err(failed(dir))?;
    whole_file::remove_left_over(dir);
    match location {
        Location::Preset(_) => {
            let path = dir.join("tokenizer.json");
            fs::write(&path, tokenizer).map_err(failed(&path))?;
        }
        Location::Directory(from) => {
            copy_companions(from, dir).map_err(|(path, source)| SaveError { path, source })?;
        }
    }
    let path = dir.join("config.json");
    write_config(&path, location, format).map_err(failed(&path))?;
    write_weights(&file, (trained, format), source).map_err(failed(&file))
}

/// Writes the model of `source`, of which nothing was trained, with its weights in `format`.
///
/// # Errors
/// Those of [`save`].
pub fn save_as_it_is(
    dir: &Path,
    location: &Location,
    tokenizer: &[u8],
    source: &Source,
    format: options::Dtype,
) -> Result<(), SaveError> {
    let format = match format {
        options::Dtype::Float16 => Dtype::F16,
        options::Dtype::Bfloat16 => Dtype::BF16,
        _ => Dtype::F32,
    };
    write(dir, location, tokenizer, (&[], format), source)
}

/// Copies the files beside a checkpoint's weights. An error comes with the file that cannot be written.
pub(super) fn copy_companions(from: &Path, to: &Path) -> Result<(), (PathBuf, io::Error)> {
    for name in COMPANIONS.iter().filter(|name| from.join(name).is_file()) {
        let path = to.join(name);
        fs::copy(from.join(name), &path).map_err(|error| (path, error))?;
    }
    Ok(())
}

/// True if a folder has a model's weights.
pub fn is_saved(dir: &Path) -> bool {
    dir.join(SINGLE).is_file()
}

/// The model's own `config.json`, with the number format of the weights.
fn write_config(path: &Path, location: &Location, format: Dtype) -> io::Result<()> {
    let text = location.json()?;
    let mut config: Value = serde_json::from_slice(&text)?;
    if let Some(keys) = config.as_object_mut() {
        keys.retain(|key, _| !key.starts_with('_') && key != "dtype" && key != "quantization_config");
        // Every release of transformers knows this name of it.
        keys.insert("torch_dtype".into(), name_of(format).into());
    }
    fs::write(path, serde_json::to_string_pretty(&config)? + "\n")
}

/// One safetensors file, a tensor after the other: no second copy of a weight is held.
fn write_weights(path: &Path, (trained, format): (&[&Param], Dtype), source: &Source) -> io::Result<()> {
    let by_name: HashMap<String, &Param> = trained
        .iter()
        .map(|weight| (weight.name.to_string(), *weight))
        .collect();
    let mut weights = source.config().weights();
    weights.sort_by(|a, b| a.name.cmp(&b.name));
    let mut end = 0;
    let mut tensors = Vec::with_capacity(weights.len());
    for weight in &weights {
        let begin = end;
        end += weight.shape.iter().product::<usize>() * format.bitsize() / 8;
        let info = TensorInfo {
            dtype: format,
            shape: weight.shape.clone(),
            data_offsets: (begin, end),
        };
        tensors.push((weight.name.clone(), info));
    }
    let metadata = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    let header = Metadata::new(Some(metadata), tensors).map_err(io::Error::other)?;
    let mut header = serde_json::to_vec(&header)?;
    // The elements begin at a multiple of eight bytes.
    header.resize(header.len().next_multiple_of(8), b' ');

    whole_file::write(path, |file| {
        let mut out = BufWriter::new(file);
        out.write_all(&(header.len() as u64).to_le_bytes())?;
        out.write_all(&header)?;
        for weight in &weights {
            match by_name.get(&weight.name) {
                Some(trained) => {
                    let values = trained.value.to_vec_f32().map_err(io::Error::other)?;
                    write_elements(&mut out, &values, format)?;
                }
                None => write_as_it_was(&mut out, weight, source, format)?,
            }
        }
        out.flush()
    })
}

/// A weight that was not trained, some rows at a time.
fn write_as_it_was(out: &mut impl Write, weight: &WeightSpec, source: &Source, format: Dtype) -> io::Result<()> {
    let (rows, columns) = (weight.rows(), weight.columns());
    let step = (CHUNK / columns).clamp(1, rows);
    let mut values = vec![0f32; step * columns];
    for start in (0..rows).step_by(step) {
        let end = rows.min(start + step);
        let values = &mut values[..(end - start) * columns];
        source
            .read_rows(&weight.name, start..end, values)
            .map_err(io::Error::other)?;
        write_elements(out, values, format)?;
    }
    Ok(())
}

pub(super) fn write_elements(out: &mut impl Write, values: &[f32], format: Dtype) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(4 * CHUNK);
    for chunk in values.chunks(CHUNK) {
        bytes.clear();
        for value in chunk {
            match format {
                Dtype::F16 => bytes.extend(f16::from_f32(*value).to_le_bytes()),
                Dtype::BF16 => bytes.extend(bf16::from_f32(*value).to_le_bytes()),
                _ => bytes.extend(value.to_le_bytes()),
            }
        }
        out.write_all(&bytes)?;
    }
    Ok(())
}

fn dtype(weight: &Param) -> io::Result<Dtype> {
    match weight.value.dtype() {
        candle_core::DType::F32 => Ok(Dtype::F32),
        candle_core::DType::F16 => Ok(Dtype::F16),
        candle_core::DType::BF16 => Ok(Dtype::BF16),
        other => Err(io::Error::other(format!("`{}` has the format {other:?}", weight.name))),
    }
}

fn name_of(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::F16 => "float16",
        Dtype::BF16 => "bfloat16",
        _ => "float32",
    }
}
