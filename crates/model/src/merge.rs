//! A checkpoint with an adapter merged into its weights, written file by file, and in a file tensor by tensor.

mod error;

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use arch::{Location, ModelConfig, ModuleName};
use base::foreign;
use base::whole_file;
use candle_core::{DType, Device};
pub use error::MergeError;
use nn::adapter::{Adapters, Change, Saved, SharedFactors, change};
use nn::{param::Param, tensor::Tensor, weight::Weight};
use options::methods::VERA_SHARED;
use options::methods::interface::Tensor as MethodTensor;
use options::{AdapterMethod, AdapterOptions, Dtype as Format, Task};
use peft::AdapterTensor;
use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};
use serde_json::{Value, json};

use super::checkpoint::{Checkpoint, INDEX, SINGLE};
use super::error::ModelError;
use super::safetensors_file::SafetensorsFile;
use super::save::{copy_companions, write_elements};

/// The tensors of one module's adapter, by what follows the module's name.
type Parts = HashMap<&'static str, AdapterTensor>;

/// The head that predicts tokens.
const HEAD: &str = "lm_head";
/// Its weight.
const HEAD_WEIGHT: &str = "lm_head.weight";

/// Elements that are merged at a time where a weight's rows can be merged by themselves.
const CHUNK: usize = 1 << 20;

/// Writes the checkpoint in the folder `base` with the adapter of the folder `adapter` merged into it, as PEFT's
/// `merge_and_unload` does, into the new folder `output`. Weights keep their formats, and files their names. Holds the
/// adapter, and of the model one tensor at most. `is_stopped` is asked before each tensor.
///
/// # Errors
/// If a file cannot be read or written, the adapter is not one of this model, `output` exists, or it is stopped. No
/// folder is left behind.
pub fn merge(adapter: &Path, base: &Path, output: &Path, is_stopped: &dyn Fn() -> bool) -> Result<(), MergeError> {
    if output.exists() {
        return Err(MergeError::Exists(output.into()));
    }
    let config = Location::Directory(base.into()).config().map_err(ModelError::from)?;
    let merge = Merge::open(adapter, base, config)?;
    let failed = |source| MergeError::Write {
        path: output.into(),
        source,
    };
    let parent = whole_file::folder_of(output);
    fs::create_dir_all(parent).map_err(failed)?;
    whole_file::remove_left_over(parent);
    // The folder appears as a whole.
    let folder = tempfile::Builder::new()
        .prefix(whole_file::TEMPORARY)
        .permissions(fs::Permissions::from_mode(0o777))
        .tempdir_in(parent)
        .map_err(|error| failed(error.kind().into()))?;
    // Others leave alone what is locked.
    let lock = fs::File::open(folder.path()).map_err(failed)?;
    let _ = lock.try_lock();
    merge.write(folder.path(), is_stopped)?;
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
    /// The tensors of adapters, by their modules.
    adapted: HashMap<String, Parts>,
    /// VeRA's A and B.
    shared: Option<[AdapterTensor; 2]>,
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
    /// The model's weight or bias of the tensor's name, with its adapter.
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
        let options = of_adapter.options().map_err(|error| unknown(error.to_string()))?;
        if options.virtual_tokens() > 0 {
            return Err(unknown(
                "virtual tokens change no weight, so there is nothing to merge".into(),
            ));
        }
        let mut adapted: HashMap<String, Parts> = HashMap::new();
        let (mut shared, mut whole) = (HashMap::new(), BTreeMap::new());
        // Tuned norms are weights of the model.
        let parts = match options.adapter().is_of_layers() {
            true => options.adapter().facts().tensors,
            false => &[],
        };
        for tensor in tensors {
            let part = parts.iter().find_map(|part| {
                let module = tensor.name.strip_suffix(part.name)?.strip_suffix('.')?;
                Some((module.to_owned(), part.name))
            });
            match part {
                Some((module, part)) => drop(adapted.entry(module).or_default().insert(part, tensor)),
                None if VERA_SHARED.contains(&tensor.name.as_str()) => {
                    drop(shared.insert(tensor.name.clone(), tensor));
                }
                None => drop(whole.insert(peft::whole_name(&tensor.name), tensor)),
            }
        }
        if let Some(classifier) = whole.get("classifier.weight")
            && config.head.is_none()
        {
            config.num_labels = classifier.shape[0];
        }
        let tables = [config.family.description().embeddings[0].path, HEAD].map(|table| format!("{table}.weight"));
        let mut merge = Self {
            checkpoint: Checkpoint::open(base, &config)?,
            unties: config.tie_word_embeddings
                && config.task() == Task::CausalLm
                && (adapted.contains_key(HEAD) || tables.iter().any(|table| whole.contains_key(table))),
            config,
            base: base.into(),
            adapter: adapter.into(),
            options,
            adapted,
            shared: None,
            whole,
        };
        let largest = merge.check()?;
        merge.shared = merge.shared(shared, largest)?;
        Ok(merge)
    }

    /// Checks that the model has the adapter's modules, in their shapes. Returns the most rows and columns of a weight
    /// that is changed.
    fn check(&self) -> Result<[usize; 2], MergeError> {
        let mut shapes: HashMap<String, Vec<usize>> = HashMap::new();
        shapes.extend(
            self.config
                .weights()
                .into_iter()
                .map(|weight| (weight.name, weight.shape)),
        );
        if self.unties {
            let table = vec![self.config.vocab_size, self.config.hidden_size];
            shapes.insert(HEAD_WEIGHT.into(), table);
        }
        let shape_of = |weight: &str, tensor: &AdapterTensor| {
            let missing = || self.wrong(&tensor.name, format!("the model has no weight {weight}"));
            shapes.get(weight).ok_or_else(missing)
        };
        let other = |weight: &str, shape: &[usize], tensor: &AdapterTensor| {
            let reason = format!("its shape {:?} does not fit {shape:?}, that of {weight}", tensor.shape);
            Err(self.wrong(&tensor.name, reason))
        };
        for (weight, tensor) in &self.whole {
            let shape = shape_of(weight, tensor)?;
            if tensor.shape != *shape {
                return other(weight, shape, tensor);
            }
        }
        let mut largest = [0; 2];
        for (module, adapter) in &self.adapted {
            let weight = format!("{module}.weight");
            let mut needed = Vec::new();
            for (part, tensor) in adapter {
                let shape = shape_of(&weight, tensor)?;
                let [rows, columns] = shape[..] else {
                    return other(&weight, shape, tensor);
                };
                let is_feedforward = self.config.is_feedforward(&self.options, module);
                let layer = self.options.layer(module, [rows, columns], is_feedforward);
                needed = self.options.method.options().tensors(&layer);
                let is_meant = |needed: &MethodTensor| needed.name == *part && needed.shape == tensor.shape;
                if !needed.iter().any(is_meant) {
                    return other(&weight, shape, tensor);
                }
                largest = [largest[0].max(rows), largest[1].max(columns)];
            }
            if let Some(missing) = needed.iter().find(|part| !adapter.contains_key(part.name)) {
                return Err(self.wrong(&weight, format!("it has no {}", missing.name)));
            }
        }
        Ok(largest)
    }

    /// VeRA's A and B for weights with so many rows and columns: those that were saved, or those that the key draws.
    fn shared(
        &self,
        mut saved: HashMap<String, AdapterTensor>,
        [rows, columns]: [usize; 2],
    ) -> Result<Option<[AdapterTensor; 2]>, MergeError> {
        let AdapterMethod::Vera(vera) = &self.options.method else {
            return Ok(None);
        };
        let [a, b] = VERA_SHARED;
        if !vera.save_projection {
            let (key, rank) = (vera.projection_prng_key, self.options.rank);
            let drawn = SharedFactors::new(key, rank, (rows, columns), Format::Float32, &Device::Cpu)?;
            let tensor = |name: &str, factor: &Tensor| -> Result<_, MergeError> {
                Ok(AdapterTensor {
                    name: name.into(),
                    shape: factor.dims().to_vec(),
                    values: factor.to_vec_f32()?,
                })
            };
            return Ok(Some([tensor(a, &drawn.a)?, tensor(b, &drawn.b)?]));
        }
        let mut take = |name: &str, fits: &dyn Fn(&[usize]) -> bool, shape: String| {
            let tensor = saved.remove(name);
            let tensor = tensor.ok_or_else(|| self.wrong(name, "`save_projection` says that it is there".into()))?;
            match fits(&tensor.shape) {
                true => Ok(tensor),
                false => Err(self.wrong(name, format!("its shape {:?} is not {shape}", tensor.shape))),
            }
        };
        let rank = self.options.rank;
        let fits_a = |shape: &[usize]| matches!(*shape, [of_rank, most] if of_rank == rank && most >= columns);
        let fits_b = |shape: &[usize]| matches!(*shape, [most, of_rank] if of_rank == rank && most >= rows);
        Ok(Some([
            take(a, &fits_a, format!("[{rank}, {columns} or more]"))?,
            take(b, &fits_b, format!("[{rows} or more, {rank}]"))?,
        ]))
    }

    /// A mistake in a tensor of the adapter.
    fn wrong(&self, tensor: &str, reason: String) -> MergeError {
        MergeError::Tensor {
            path: self.adapter.join(peft::WEIGHTS_FILE),
            tensor: tensor.into(),
            reason,
        }
    }

    /// What the adapter makes of the weight or the bias of this name with so many columns, with its module.
    fn change_of<'s>(&'s self, name: &'s str, columns: usize) -> Option<(&'s str, Box<dyn Change + 's>)> {
        let (module, part) = name.rsplit_once('.')?;
        let change = change(&Saved {
            options: &self.options,
            module,
            columns,
            parts: self.adapted.get(module)?,
            shared: self.shared.as_ref(),
        })?;
        let is_changed = part == "weight" || part == "bias" && change.changes_bias();
        is_changed.then_some((module, change))
    }

    fn write(&self, folder: &Path, is_stopped: &dyn Fn() -> bool) -> Result<(), MergeError> {
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
            total += self.write_file(&path, file, &tensors, is_stopped)?;
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
        let mut config: Value = serde_json::from_slice(&foreign::read_small(&self.base.join("config.json"))?)?;
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
            let content = self.content(&name, Content::Stored(at, stored));
            Some(Written {
                name,
                dtype: info.dtype,
                shape: info.shape.clone(),
                content,
            })
        };
        file.names().into_iter().filter_map(written).collect()
    }

    /// Where the elements of a tensor come from that the base has as `stored`.
    fn content(&self, name: &str, stored: Content) -> Content {
        if self.change_of(name, 1).is_some() {
            Content::Merged
        } else if self.whole.contains_key(name) {
            Content::Whole
        } else {
            stored
        }
    }

    /// Elements of a weight that the adapter changes, from index `start` on: those that its file has, as PEFT saves the
    /// tables beside an adapter of one, or the checkpoint's.
    fn read(&self, name: &str, start: usize, values: &mut [f32]) -> Result<(), MergeError> {
        if let Some(whole) = self.whole.get(name) {
            values.copy_from_slice(&whole.values[start..][..values.len()]);
            return Ok(());
        }
        let embedding = self.embedding();
        let is_tied = self.unties && name == HEAD_WEIGHT;
        Ok(self
            .checkpoint
            .read(if is_tied { &embedding } else { name }, start, values)?)
    }

    /// The weight with the tokens' vectors.
    fn embedding(&self) -> String {
        format!("{}.weight", self.config.family.description().embeddings[0].path)
    }

    /// The tensors that the checkpoint does not have: a new classifier, or a head that was the embedding.
    fn added(&self) -> Vec<Written> {
        let has = |name: &str| {
            self.checkpoint.has(name) || self.checkpoint.files().iter().any(|file| file.info(name).is_some())
        };
        let (file, stored) = self.checkpoint.place(&self.embedding());
        let dtype = self.checkpoint.files()[file]
            .info(stored)
            .map_or(Dtype::F32, |info| info.dtype);
        let new = self.whole.iter().filter(|(name, _)| !has(name));
        let mut added: Vec<Written> = new
            .map(|(name, tensor)| Written {
                name: name.clone(),
                dtype,
                shape: tensor.shape.clone(),
                content: self.content(name, Content::Whole),
            })
            .collect();
        if self.unties && !has(HEAD_WEIGHT) && !self.whole.contains_key(HEAD_WEIGHT) {
            added.push(Written {
                name: HEAD_WEIGHT.into(),
                dtype,
                shape: vec![self.config.vocab_size, self.config.hidden_size],
                content: self.content(HEAD_WEIGHT, Content::Stored(file, stored.to_owned())),
            });
        }
        added
    }

    /// Writes one file; returns the bytes of its tensors.
    fn write_file(
        &self,
        path: &Path,
        base: &SafetensorsFile,
        tensors: &[Written],
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<usize, MergeError> {
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
        // A reason to end that is no mistake in writing.
        let mut ended = None;
        let written = whole_file::write(path, |file| {
            let header = Metadata::new(base.metadata(), infos).map_err(io::Error::other)?;
            let mut header = serde_json::to_vec(&header)?;
            header.resize(header.len().next_multiple_of(8), b' ');
            let mut out = BufWriter::new(file);
            out.write_all(&(header.len() as u64).to_le_bytes())?;
            out.write_all(&header)?;
            for tensor in tensors {
                if is_stopped() {
                    ended = Some(MergeError::Stopped);
                    return Err(io::ErrorKind::Interrupted.into());
                }
                match &tensor.content {
                    Content::Stored(at, stored) => self.checkpoint.files()[*at].copy(stored, &mut out)?,
                    Content::Whole => write_elements(&mut out, &self.whole[&tensor.name].values, tensor.dtype)?,
                    Content::Merged => match self.merged(tensor, &mut out) {
                        Err(MergeError::Write { source, .. }) => return Err(source),
                        Err(error) => {
                            ended = Some(error);
                            return Err(io::Error::other("stopped"));
                        }
                        Ok(()) => {}
                    },
                }
            }
            out.flush()
        });
        match (written, ended) {
            (Ok(()), _) => Ok(end),
            (Err(_), Some(reason)) => Err(reason),
            (Err(source), None) => Err(MergeError::Write {
                path: path.into(),
                source,
            }),
        }
    }

    /// Writes a weight or a bias with its adapter.
    fn merged(&self, tensor: &Written, out: &mut impl Write) -> Result<(), MergeError> {
        let rows = tensor.shape[0];
        let columns = tensor.shape.get(1).copied().unwrap_or(1);
        let Some((module, change)) = self.change_of(&tensor.name, columns) else {
            return Ok(());
        };
        let lora = self.options.lora_options();
        let failed = |source| MergeError::Write {
            path: PathBuf::new(),
            source,
        };
        // A start value that is taken out of the weight needs all of it.
        let takes_out = lora.is_some_and(|lora| lora.init_lora_weights.changes_weight());
        let step = if takes_out {
            rows
        } else {
            (CHUNK / columns).clamp(1, rows)
        };
        let mut values = vec![0f32; step * columns];
        for start in (0..rows).step_by(step) {
            let end = rows.min(start + step);
            let values = &mut values[..(end - start) * columns];
            self.read(&tensor.name, start * columns, values)?;
            if takes_out {
                self.take_out(module, tensor.dtype, values, (rows, columns))?;
            }
            change.apply(values, columns, start..end);
            write_elements(out, values, tensor.dtype).map_err(failed)?;
        }
        Ok(())
    }

    /// Takes the start values of an adapter out of the weight, in the format that it is stored in, as training and PEFT
    /// did.
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
        let (name, of) = self.config.layers_for_adapters().find(|(name, _)| name == module)?;
        Some(match self.config.block_of(&name) {
            Some(block) => self.config.in_block(block, of),
            None => ModuleName::new(of.path),
        })
    }
}
