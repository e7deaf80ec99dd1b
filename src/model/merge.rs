//! A checkpoint with an adapter merged into its weights, written file by file, and in a file tensor by tensor.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use candle_core::{DType, Device};
use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};
use serde_json::{Value, json};

use super::checkpoint::{Checkpoint, INDEX, SINGLE};
use super::error::ModelError;
use super::safetensors_file::SafetensorsFile;
use super::save::{copy_companions, write_elements};
use crate::arch::{Kind, Location, ModelConfig, ModuleName};
use crate::kernels::low_rank::move_by;
use crate::nn::{adapter::Adapters, param::Param, tensor::Tensor, weight::Weight};
use crate::options::{Adapter, AdapterOptions, LoraOptions, Task};
use crate::peft::{self, AdapterError, AdapterTensor, BASE_BIAS, LORA_A, LORA_B, MAGNITUDE};
use crate::whole_file::{self, TEMPORARY};

/// Elements that are merged at a time where a weight's rows can be merged by themselves.
const CHUNK: usize = 1 << 20;

/// The reason why an adapter cannot be merged.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the variants and their fields are")]
pub enum MergeError {
    #[error(transparent)]
    Adapter(#[from] AdapterError),
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error("{}: {reason}", .path.display())]
    Config { path: PathBuf, reason: String },
    #[error("{}: {tensor}: {reason}", .path.display())]
    Tensor {
        path: PathBuf,
        tensor: String,
        reason: String,
    },
    #[error("the folder {} is there already; choose another, or remove it", .0.display())]
    Exists(PathBuf),
    #[error("cannot write {}: {source}", .path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Candle(#[from] candle_core::Error),
}

/// Writes the checkpoint in the folder `base` with the adapter of the folder `adapter` merged into it, as PEFT's
/// `merge_and_unload` does, into the new folder `output`. Weights keep their formats, and files their names. Holds the adapter,
/// and of the model one tensor at most.
///
/// # Errors
/// If a file cannot be read or written, the adapter is not one of this model, or `output` exists. No folder is left behind.
pub fn merge(adapter: &Path, base: &Path, output: &Path) -> Result<(), MergeError> {
    if output.exists() {
        return Err(MergeError::Exists(output.into()));
    }
    let config = Location::Directory(base.into()).config().map_err(ModelError::from)?;
    let merge = Merge::open(adapter, base, config)?;
    let failed = |source| MergeError::Write {
        path: output.into(),
        source,
    };
    let parent = match output.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    fs::create_dir_all(parent).map_err(failed)?;
    // The folder appears as a whole.
    let folder = tempfile::Builder::new()
        .prefix(TEMPORARY)
        .permissions(fs::Permissions::from_mode(0o777))
        .tempdir_in(parent)
        .map_err(|error| failed(error.kind().into()))?;
    merge.write(folder.path())?;
    fs::rename(folder.path(), output).map_err(failed)
}

/// An adapter and the checkpoint that it is merged into.
struct Merge {
    config: ModelConfig,
    checkpoint: Checkpoint,
    /// The checkpoint's folder.
    base: PathBuf,
    /// The adapter's folder.
    adapter: PathBuf,
    options: AdapterOptions,
    lora: LoraOptions,
    /// The tensors of adapters, by the weight that they change and by their own names.
    factors: HashMap<String, HashMap<&'static str, AdapterTensor>>,
    /// The weights that take the place of the checkpoint's.
    whole: BTreeMap<String, AdapterTensor>,
    /// True if the head is no longer the embedding.
    unties: bool,
}

/// A tensor that is written.
struct Written {
    name: String,
    dtype: Dtype,
    shape: Vec<usize>,
    content: Content,
}

/// Where a written tensor's elements come from.
enum Content {
    /// The tensor of this name in the file of this index, as it is.
    Stored(usize, String),
    /// The model's weight of the tensor's name, with its adapter.
    Merged,
    /// The adapter's.
    Whole,
}

impl Merge {
    fn open(adapter: &Path, base: &Path, mut config: ModelConfig) -> Result<Self, MergeError> {
        let (of_adapter, tensors) = peft::read(adapter)?;
        let path = adapter.join(peft::CONFIG_FILE);
        let unknown = |reason| MergeError::Config {
            path: path.clone(),
            reason,
        };
        let options = of_adapter.options().map_err(unknown)?;
        if options.virtual_tokens() > 0 {
            return Err(unknown(
                "virtual tokens change no weight, so there is nothing to merge".into(),
            ));
        }
        let lora = options.lora_options().cloned();
        let lora = lora.ok_or_else(|| unknown("adapters of this `peft_type` are not merged yet".into()))?;
        let mut factors: HashMap<String, HashMap<&'static str, AdapterTensor>> = HashMap::new();
        let mut whole = BTreeMap::new();
        for tensor in tensors {
            let part = [LORA_A, LORA_B, MAGNITUDE].into_iter().find_map(|part| {
                let module = tensor.name.strip_suffix(part)?.strip_suffix('.')?;
                Some((format!("{module}.weight"), part))
            });
            match part {
                Some((weight, part)) => drop(factors.entry(weight).or_default().insert(part, tensor)),
                None => drop(whole.insert(tensor.name.replace(BASE_BIAS, "bias"), tensor)),
            }
        }
        if let Some(classifier) = whole.get("classifier.weight")
            && config.head.is_none()
        {
            config.num_labels = classifier.shape[0];
        }
        let tables = [config.family.description().embeddings[0].path, "lm_head"].map(|table| format!("{table}.weight"));
        let merge = Self {
            checkpoint: Checkpoint::open(base, &config)?,
            unties: config.tie_word_embeddings
                && config.task() == Task::CausalLm
                && tables.iter().any(|table| whole.contains_key(table)),
            config,
            base: base.into(),
            adapter: adapter.into(),
            options,
            lora,
            factors,
            whole,
        };
        merge.check()?;
        Ok(merge)
    }

    /// Checks that the model has the adapter's modules, in their shapes.
    fn check(&self) -> Result<(), MergeError> {
        let mut shapes: HashMap<String, Vec<usize>> = HashMap::new();
        shapes.extend(
            self.config
                .weights()
                .into_iter()
                .map(|weight| (weight.name, weight.shape)),
        );
        if self.unties {
            let table = vec![self.config.vocab_size, self.config.hidden_size];
            shapes.insert("lm_head.weight".into(), table);
        }
        let wrong = |tensor: &AdapterTensor, reason: String| MergeError::Tensor {
            path: self.adapter.join(peft::WEIGHTS_FILE),
            tensor: tensor.name.clone(),
            reason,
        };
        let of_factors = self
            .factors
            .iter()
            .flat_map(|(weight, parts)| parts.iter().map(move |(part, tensor)| (weight, *part, tensor)));
        let of_whole = self.whole.iter().map(|(weight, tensor)| (weight, "", tensor));
        for (weight, part, tensor) in of_factors.chain(of_whole) {
            let Some(shape) = shapes.get(weight) else {
                return Err(wrong(tensor, format!("the model has no weight {weight}")));
            };
            let fits = match part {
                LORA_A => tensor.shape.get(1) == shape.get(1),
                LORA_B | MAGNITUDE => tensor.shape.first() == shape.first(),
                _ => tensor.shape == *shape,
            };
            if !fits {
                let reason = format!("its shape {:?} does not fit {shape:?}, that of {weight}", tensor.shape);
                return Err(wrong(tensor, reason));
            }
        }
        let needed: &[&str] = match self.options.method.adapter() {
            Adapter::Lora => &[LORA_A, LORA_B],
            Adapter::Dora => &[LORA_A, LORA_B, MAGNITUDE],
            // Others are refused as their options are read.
            Adapter::Ia3
            | Adapter::Miss
            | Adapter::Vera
            | Adapter::PromptTuning
            | Adapter::PrefixTuning
            | Adapter::LnTuning => &[],
        };
        for (weight, parts) in &self.factors {
            if let Some(missing) = needed.iter().find(|part| !parts.contains_key(*part)) {
                return Err(MergeError::Tensor {
                    path: self.adapter.join(peft::WEIGHTS_FILE),
                    tensor: weight.clone(),
                    reason: format!("it has no {missing}"),
                });
            }
        }
        Ok(())
    }

    fn write(&self, folder: &Path) -> Result<(), MergeError> {
        let failed = |path: PathBuf| move |source| MergeError::Write { path, source };
        copy_companions(&self.base, folder).map_err(|(path, source)| MergeError::Write { path, source })?;
        let path = folder.join("config.json");
        self.write_config(&path).map_err(failed(path.clone()))?;
        let files = self.checkpoint.files();
        let mut weight_map = BTreeMap::new();
        let mut total = 0;
        for (at, file) in files.iter().enumerate() {
            let mut tensors = self.tensors_of(at, file);
            if at + 1 == files.len() {
                tensors.extend(self.added());
            }
            let name = file.path().file_name().unwrap_or(SINGLE.as_ref()).to_owned();
            let path = folder.join(&name);
            total += self.write_file(&path, file, &tensors)?;
            let name = name.to_string_lossy().into_owned();
            weight_map.extend(tensors.into_iter().map(|tensor| (tensor.name, name.clone())));
        }
        if self.base.join(SINGLE).exists() {
            return Ok(());
        }
        let index = json!({ "metadata": { "total_size": total }, "weight_map": weight_map });
        let path = folder.join(INDEX);
        let text = serde_json::to_string_pretty(&index).map_err(io::Error::from);
        text.and_then(|text| fs::write(&path, text + "\n"))
            .map_err(failed(path.clone()))
    }

    /// The base's `config.json`; a head that is new to the checkpoint, or no longer tied, is named in it.
    fn write_config(&self, path: &Path) -> io::Result<()> {
        let mut config: Value = serde_json::from_slice(&fs::read(self.base.join("config.json"))?)?;
        if self.unties {
            config["tie_word_embeddings"] = false.into();
        }
        if self.config.head.is_none() && self.config.task() == Task::SequenceClassification {
            let labels = || (0..self.config.num_labels).map(|label| (label, format!("LABEL_{label}")));
            let class = self.config.family.description().class;
            config["architectures"] = json!([format!("{class}ForSequenceClassification")]);
            config["id2label"] = labels()
                .map(|(id, label)| (id.to_string(), Value::from(label)))
                .collect();
            config["label2id"] = labels().map(|(id, label)| (label, Value::from(id))).collect();
        }
        fs::write(path, serde_json::to_string_pretty(&config)? + "\n")
    }

    /// The tensors of the file with index `at`, in its order. Those of the model have the names of today.
    fn tensors_of(&self, at: usize, file: &SafetensorsFile) -> Vec<Written> {
        let written = |stored: String| {
            let info = file.info(&stored)?;
            let name = self
                .checkpoint
                .name_of(at, &stored)
                .map_or(stored.clone(), str::to_owned);
            let content = if self.whole.contains_key(&name) {
                Content::Whole
            } else if self.factors.contains_key(&name) {
                Content::Merged
            } else {
                Content::Stored(at, stored)
            };
            Some(Written {
                name,
                dtype: info.dtype,
                shape: info.shape.clone(),
                content,
            })
        };
        file.names().into_iter().filter_map(written).collect()
    }

    /// The tensors that the checkpoint does not have: a new classifier, or a head that was the embedding.
    fn added(&self) -> Vec<Written> {
        let has = |name: &str| {
            self.checkpoint.has(name) || self.checkpoint.files().iter().any(|file| file.info(name).is_some())
        };
        let embedding = format!("{}.weight", self.config.family.description().embeddings[0].path);
        let (file, stored) = self.checkpoint.place(&embedding);
        let dtype = self.checkpoint.files()[file]
            .info(stored)
            .map_or(Dtype::F32, |info| info.dtype);
        let new = self.whole.iter().filter(|(name, _)| !has(name));
        let mut added: Vec<Written> = new
            .map(|(name, tensor)| Written {
                name: name.clone(),
                dtype,
                shape: tensor.shape.clone(),
                content: Content::Whole,
            })
            .collect();
        let head = "lm_head.weight";
        if self.unties && !has(head) && !self.whole.contains_key(head) {
            added.push(Written {
                name: head.into(),
                dtype,
                shape: vec![self.config.vocab_size, self.config.hidden_size],
                content: Content::Stored(file, stored.to_owned()),
            });
        }
        added
    }

    /// Writes one file; returns the bytes of its tensors.
    fn write_file(&self, path: &Path, base: &SafetensorsFile, tensors: &[Written]) -> Result<usize, MergeError> {
        let mut end = 0;
        let infos = tensors.iter().map(|tensor| {
            let begin = end;
            end += tensor.shape.iter().product::<usize>() * tensor.dtype.bitsize() / 8;
            let info = TensorInfo {
                dtype: tensor.dtype,
                shape: tensor.shape.clone(),
                data_offsets: (begin, end),
            };
            (tensor.name.clone(), info)
        });
        let infos = infos.collect();
        // A mistake in the adapter, which is not one in writing.
        let mut mistake = None;
        let written = whole_file::write(path, |file| {
            let header = Metadata::new(base.metadata(), infos).map_err(io::Error::other)?;
            let mut header = serde_json::to_vec(&header)?;
            header.resize(header.len().next_multiple_of(8), b' ');
            let mut out = BufWriter::new(file);
            out.write_all(&(header.len() as u64).to_le_bytes())?;
            out.write_all(&header)?;
            for tensor in tensors {
                match &tensor.content {
                    Content::Stored(at, stored) => self.checkpoint.files()[*at].copy(stored, &mut out)?,
                    Content::Whole => write_elements(&mut out, &self.whole[&tensor.name].values, tensor.dtype)?,
                    Content::Merged => match self.merged(&tensor.name, tensor.dtype, &mut out) {
                        Err(MergeError::Write { source, .. }) => return Err(source),
                        Err(error) => {
                            mistake = Some(error);
                            return Err(io::Error::other("stopped"));
                        }
                        Ok(()) => {}
                    },
                }
            }
            out.flush()
        });
        match (written, mistake) {
            (Ok(()), _) => Ok(end),
            (Err(_), Some(mistake)) => Err(mistake),
            (Err(source), None) => Err(MergeError::Write {
                path: path.into(),
                source,
            }),
        }
    }

    /// Writes a weight with its adapter.
    fn merged(&self, name: &str, dtype: Dtype, out: &mut impl Write) -> Result<(), MergeError> {
        let parts = &self.factors[name];
        let (a, b) = (&parts[LORA_A], &parts[LORA_B]);
        let (rank, columns, rows) = (a.shape[0], a.shape[1], b.shape[0]);
        let module = name.strip_suffix(".weight").unwrap_or(name);
        let scale = self.lora.scale_of(module) as f32;
        let failed = |source| MergeError::Write {
            path: PathBuf::new(),
            source,
        };
        // A start value that is taken out of the weight needs all of it.
        let takes_out = self.lora.init.changes_weight();
        let step = if takes_out {
            rows
        } else {
            (CHUNK / columns).clamp(1, rows)
        };
        let mut values = vec![0f32; step * columns];
        for start in (0..rows).step_by(step) {
            let end = rows.min(start + step);
            let values = &mut values[..(end - start) * columns];
            self.checkpoint.read(name, start * columns, values)?;
            if takes_out {
                self.take_out(module, dtype, values, (rows, columns))?;
            }
            move_by(
                values,
                columns,
                1.0,
                -scale,
                (&b.values[start * rank..end * rank], &a.values),
            );
            if let Some(magnitudes) = parts.get(MAGNITUDE) {
                for (row, magnitude) in values.chunks_mut(columns).zip(&magnitudes.values[start..end]) {
                    let norm = row.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
                    let factor = (f64::from(*magnitude) / norm) as f32;
                    row.iter_mut().for_each(|value| *value *= factor);
                }
            }
            write_elements(out, values, dtype).map_err(failed)?;
        }
        Ok(())
    }

    /// Takes the start values of an adapter out of the weight, in the format that it is stored in, as training and PEFT did.
    fn take_out(
        &self,
        module: &str,
        dtype: Dtype,
        values: &mut [f32],
        shape: (usize, usize),
    ) -> Result<(), MergeError> {
        let Some(name) = self.module_name(module) else {
            return Ok(());
        };
        let format = match dtype {
            Dtype::F16 => DType::F16,
            Dtype::BF16 => DType::BF16,
            _ => DType::F32,
        };
        let weight = Tensor::from_f32(values, shape, format)?;
        let mut weight = Weight::Dense(Param::base(name.part("weight"), weight, false));
        let mut adapters = Adapters {
            options: &self.options,
            config: &self.config,
            seed: 0,
            hidden: format,
            device: &Device::Cpu,
            shared: None,
        };
        drop(adapters.adapter(name, &mut weight)?);
        if let Weight::Dense(rest) = &weight {
            values.copy_from_slice(&rest.value.to_vec_f32()?);
        }
        Ok(())
    }

    fn module_name(&self, module: &str) -> Option<ModuleName> {
        let mut linear = self.config.modules().filter(|(_, of)| of.kind == Kind::Linear);
        let (name, of) = linear.find(|(name, _)| name == module)?;
        Some(match self.config.block_of(&name) {
            Some(block) => self.config.in_block(block, of),
            None => ModuleName::new(of.path),
        })
    }
}
