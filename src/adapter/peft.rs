//! Adapters on disk in PEFT's format: `adapter_config.json` and `adapter_model.safetensors`, which
//! `PeftModel.from_pretrained` loads.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use safetensors::tensor::{Dtype, SafeTensorError, SafeTensors, TensorView, View};
use serde::{Deserialize, Serialize};

use crate::options::{LoraOptions, Task};

/// The settings' file.
pub const CONFIG_FILE: &str = "adapter_config.json";
/// The weights' file.
pub const WEIGHTS_FILE: &str = "adapter_model.safetensors";

/// PEFT's prefix of a module's name.
const PREFIX: &str = "base_model.model.";
pub(crate) const SUFFIX_A: &str = ".lora_A.weight";
pub(crate) const SUFFIX_B: &str = ".lora_B.weight";

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
    /// `adapter_config.json` is not JSON, or not a LoRA configuration.
    #[error("{} is not a LoRA configuration", .path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: serde_json::Error,
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

/// The content of `adapter_config.json`. Missing keys have PEFT's defaults.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Config {
    peft_type: PeftType,
    task_type: String,
    /// The name or the folder of the model that the adapter belongs to.
    pub base_model_name_or_path: String,
    /// Rank of the factors.
    pub r: usize,
    /// The product of the factors is scaled by `lora_alpha / r`.
    pub lora_alpha: f64,
    /// Dropout on the adapter's input while it was trained.
    pub lora_dropout: f64,
    /// Last components of the names of the modules that have an adapter.
    pub target_modules: BTreeSet<String>,
    /// Suffixes of the names of modules that are trained and saved whole, besides the adapters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modules_to_save: Option<Vec<String>>,
    bias: String,
    fan_in_fan_out: bool,
    inference_mode: bool,
}

/// The type of adapter: LoRA alone.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum PeftType {
    Lora,
}

impl Config {
    /// The configuration of a model's LoRA. PEFT saves the head of a classifier with it.
    pub fn new(task: Task, base_model: impl Into<String>, lora: &LoraOptions) -> Self {
        let (task_type, modules_to_save) = match task {
            Task::CausalLm => ("CAUSAL_LM", None),
            Task::SequenceClassification => ("SEQ_CLS", Some(["classifier", "score"].map(String::from).to_vec())),
        };
        Self {
            peft_type: PeftType::Lora,
            task_type: task_type.into(),
            base_model_name_or_path: base_model.into(),
            r: lora.rank,
            lora_alpha: lora.alpha,
            lora_dropout: lora.dropout,
            target_modules: BTreeSet::new(),
            modules_to_save,
            bias: "none".into(),
            fan_in_fan_out: false,
            inference_mode: true,
        }
    }
}

impl Config {
    /// True if a tensor belongs to a module that is saved whole.
    fn saves_whole(&self, name: &str) -> bool {
        let module = name.rsplit_once('.').map_or("", |(module, _)| module);
        let mut saved = self.modules_to_save.iter().flatten();
        saved.any(|suffix| module.ends_with(suffix.as_str()))
    }
}

/// One factor of one module's adapter, or a tensor of a module that is saved whole.
#[derive(Debug, Clone, PartialEq)]
pub struct AdapterTensor {
    /// The module's name in Hugging Face's model with the factor's, such as
    /// `model.layers.0.self_attn.q_proj.lora_A.weight`.
    pub name: String,
    /// A: `[rank, input features]`; B: `[output features, rank]`; a saved module has its own shape.
    pub shape: Vec<usize>,
    /// Elements, row-major.
    pub values: Vec<f32>,
}

/// Writes an adapter into a folder, and creates the folder. The tensors' names decide the configuration's target modules.
/// Returns the bytes of the weights' file.
///
/// # Errors
/// If a file cannot be written, or a tensor is not a factor of the configuration's rank.
pub fn write(dir: &Path, config: &Config, tensors: &[AdapterTensor]) -> Result<u64, AdapterError> {
    let weights = dir.join(WEIGHTS_FILE);
    let mut target_modules = BTreeSet::new();
    for tensor in tensors {
        let module = tensor.check(config).map_err(|problem| AdapterError::Tensor {
            path: weights.clone(),
            tensor: tensor.name.clone(),
            problem,
        })?;
        target_modules.extend(module.and_then(|module| module.rsplit('.').next()).map(str::to_owned));
    }

    fs::create_dir_all(dir).map_err(|source| AdapterError::Io {
        path: dir.into(),
        source,
    })?;
    let path = dir.join(CONFIG_FILE);
    let config = Config {
        target_modules,
        ..config.clone()
    };
    let json = serde_json::to_string_pretty(&config).map_err(|source| AdapterError::Config {
        path: path.clone(),
        source,
    })?;
    fs::write(&path, json + "\n").map_err(|source| AdapterError::Io {
        path: path.clone(),
        source,
    })?;

    let named = tensors
        .iter()
        .map(|tensor| (format!("{PREFIX}{}", tensor.name), tensor));
    let metadata = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    safetensors::serialize_to_file(named, Some(metadata), &weights).map_err(|source| AdapterError::Safetensors {
        path: weights.clone(),
        source,
    })?;
    // safetensors creates a file that only its owner may read; the configuration follows the umask.
    fs::metadata(&path)
        .and_then(|config| fs::set_permissions(&weights, config.permissions()))
        .map_err(|source| AdapterError::Io {
            path: weights.clone(),
            source,
        })?;
    Ok(fs::metadata(&weights)
        .map_err(|source| AdapterError::Io { path: weights, source })?
        .len())
}

/// Number formats of the weights' file; ours is F32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileDtype {
    /// float32.
    F32,
    /// float16.
    F16,
    /// bfloat16.
    Bf16,
}

impl FileDtype {
    fn name(self) -> &'static str {
        match self {
            Self::F32 => "F32",
            Self::F16 => "F16",
            Self::Bf16 => "BF16",
        }
    }

    fn bytes(self) -> usize {
        if self == Self::F32 { 4 } else { 2 }
    }
}

/// Bytes of an adapter's file with tensors of these names (as in [`AdapterTensor`]), formats and shapes. [`write`] makes
/// such files in F32, PEFT in all formats.
pub fn file_bytes(tensors: impl IntoIterator<Item = (String, FileDtype, Vec<usize>)>) -> u64 {
    let prefixed = |(name, dtype, shape)| (format!("{PREFIX}{name}"), dtype, shape);
    safetensors_bytes(tensors.into_iter().map(prefixed))
}

/// Bytes of a safetensors file with tensors of these names, formats and shapes: eight bytes, a JSON header padded to a
/// multiple of eight, and the values.
pub fn safetensors_bytes(tensors: impl IntoIterator<Item = (String, FileDtype, Vec<usize>)>) -> u64 {
    // The file has the widest formats first, then sorts by name; the digits of the offsets follow from this order.
    let mut tensors: Vec<_> = tensors.into_iter().collect();
    tensors.sort_by(|(a, wide, _), (b, narrow, _)| narrow.bytes().cmp(&wide.bytes()).then_with(|| a.cmp(b)));
    let mut header = r#"{"__metadata__":{"format":"pt"}}"#.len();
    let mut end = 0;
    for (name, dtype, shape) in &tensors {
        let start = end;
        end += shape.iter().product::<usize>() * dtype.bytes();
        let sizes: Vec<String> = shape.iter().map(usize::to_string).collect();
        let (sizes, dtype) = (sizes.join(","), dtype.name());
        header += format!(r#","{name}":{{"dtype":"{dtype}","shape":[{sizes}],"data_offsets":[{start},{end}]}}"#).len();
    }
    (size_of::<u64>() + header.next_multiple_of(8) + end) as u64
}

/// Reads an adapter: its configuration, and its tensors in the order of their names.
///
/// # Errors
/// If a file cannot be read, is not a LoRA adapter in float32, or has tensors that do not fit the configuration's rank.
pub fn read(dir: &Path) -> Result<(Config, Vec<AdapterTensor>), AdapterError> {
    let path = dir.join(CONFIG_FILE);
    let config: Config =
        serde_json::from_slice(&read_file(&path)?).map_err(|source| AdapterError::Config { path, source })?;

    let path = dir.join(WEIGHTS_FILE);
    let bytes = read_file(&path)?;
    let stored = SafeTensors::deserialize(&bytes).map_err(|source| AdapterError::Safetensors {
        path: path.clone(),
        source,
    })?;
    let mut tensors = Vec::with_capacity(stored.len());
    for (name, view) in stored.iter() {
        let problem = |problem| AdapterError::Tensor {
            path: path.clone(),
            tensor: name.to_owned(),
            problem,
        };
        let tensor = AdapterTensor::from_view(name, &view).map_err(problem)?;
        tensor.check(&config).map_err(problem)?;
        tensors.push(tensor);
    }
    tensors.sort_by(|a, b| a.name.cmp(&b.name));
    Ok((config, tensors))
}

fn read_file(path: &Path) -> Result<Vec<u8>, AdapterError> {
    fs::read(path).map_err(|source| AdapterError::Io {
        path: path.into(),
        source,
    })
}

impl AdapterTensor {
    /// A tensor of a file, or the mistake in it.
    fn from_view(name: &str, view: &TensorView<'_>) -> Result<Self, String> {
        let name = name
            .strip_prefix(PREFIX)
            .ok_or(format!("its name does not begin with {PREFIX}"))?;
        if view.dtype() != Dtype::F32 {
            return Err(format!("it is {:?}; only F32 can be read", view.dtype()));
        }
        let values = view
            .data()
            .as_chunks()
            .0
            .iter()
            .map(|&bytes| f32::from_le_bytes(bytes))
            .collect();
        Ok(Self {
            name: name.to_owned(),
            shape: view.shape().to_vec(),
            values,
        })
    }

    /// The module's name for a factor of the configuration's rank, `None` for a module that is saved whole, or the
    /// mistake.
    fn check(&self, config: &Config) -> Result<Option<&str>, String> {
        let rank = config.r;
        let elements: usize = self.shape.iter().product();
        let (module, rank_at) = if let Some(module) = self.name.strip_suffix(SUFFIX_A) {
            (module, 0)
        } else if let Some(module) = self.name.strip_suffix(SUFFIX_B) {
            (module, 1)
        } else if config.saves_whole(&self.name) {
            return if elements == self.values.len() {
                Ok(None)
            } else {
                Err(format!(
                    "{} values do not fill the shape {:?}",
                    self.values.len(),
                    self.shape
                ))
            };
        } else {
            return Err("it is neither of LoRA's factors A and B".into());
        };
        if self.shape.len() == 2 && self.shape[rank_at] == rank && elements == self.values.len() {
            return Ok(Some(module));
        }
        Err(format!(
            "{} values of the shape {:?} do not fit the rank {rank}",
            self.values.len(),
            self.shape
        ))
    }
}

impl View for &AdapterTensor {
    fn dtype(&self) -> Dtype {
        Dtype::F32
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        self.values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect::<Vec<_>>()
            .into()
    }

    fn data_len(&self) -> usize {
        size_of_val(&self.values[..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::TargetModules;

    fn lora() -> LoraOptions {
        LoraOptions {
            rank: 2,
            alpha: 4.0,
            dropout: 0.1,
            target_modules: TargetModules::AllLinear,
        }
    }

    fn example() -> (Config, Vec<AdapterTensor>) {
        let tensor = |name: &str, shape: [usize; 2], values| AdapterTensor {
            name: format!("model.layers.0.self_attn.q_proj.{name}.weight"),
            shape: shape.to_vec(),
            values,
        };
        let a = tensor("lora_A", [2, 3], vec![1.0, -2.5, 3.0, 0.0, f32::MIN_POSITIVE, 6.0]);
        let b = tensor("lora_B", [4, 2], vec![0.5; 8]);
        (Config::new(Task::CausalLm, "tiny", &lora()), vec![a, b])
    }

    #[test]
    fn what_was_written_is_read() -> Result<(), AdapterError> {
        let (config, tensors) = example();
        let dir = tempfile::tempdir().expect("a temporary folder");
        let folder = dir.path().join("adapter");
        let bytes = write(&folder, &config, &tensors)?;
        assert_eq!(
            bytes,
            fs::metadata(folder.join(WEIGHTS_FILE))
                .expect("the weights' file")
                .len()
        );
        let config = Config {
            target_modules: BTreeSet::from(["q_proj".to_owned()]),
            ..config
        };
        assert_eq!(read(&folder)?, (config, tensors));
        Ok(())
    }

    #[test]
    fn a_files_size_is_known_before_it_is_written() -> Result<(), AdapterError> {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let (config, example) = example();
        // Names sort as texts, and offsets get more digits: 0 to 12 blocks, and none.
        for blocks in [0, 1, 2, 12] {
            let of_block = |block: usize| {
                example.iter().map(move |tensor| AdapterTensor {
                    name: tensor.name.replace("layers.0", &format!("layers.{block}")),
                    ..tensor.clone()
                })
            };
            let tensors: Vec<AdapterTensor> = (0..blocks).flat_map(of_block).collect();
            let shapes = tensors
                .iter()
                .map(|tensor| (tensor.name.clone(), FileDtype::F32, tensor.shape.clone()));
            assert_eq!(
                file_bytes(shapes),
                write(dir.path(), &config, &tensors)?,
                "{blocks} blocks"
            );
        }
        Ok(())
    }

    #[test]
    fn the_head_of_a_classifier_is_saved_whole() -> Result<(), AdapterError> {
        let (_, mut tensors) = example();
        let config = Config::new(Task::SequenceClassification, "bert", &lora());
        tensors.insert(
            0,
            AdapterTensor {
                name: "classifier.bias".into(),
                shape: vec![3],
                values: vec![1.0, 2.0, 3.0],
            },
        );
        let dir = tempfile::tempdir().expect("a temporary folder");
        write(dir.path(), &config, &tensors)?;
        let (read_config, read_tensors) = read(dir.path())?;
        assert_eq!(read_tensors, tensors);
        assert_eq!(read_config.target_modules, BTreeSet::from(["q_proj".to_owned()]));
        assert_eq!(read_config.task_type, "SEQ_CLS");
        Ok(())
    }

    #[test]
    fn a_tensor_that_does_not_fit_is_an_error() -> Result<(), AdapterError> {
        let (config, tensors) = example();
        let dir = tempfile::tempdir().expect("a temporary folder");
        write(dir.path(), &config, &tensors)?;
        let path = dir.path().join(CONFIG_FILE);
        let json = fs::read_to_string(&path)
            .expect("the configuration")
            .replace("\"r\": 2", "\"r\": 3");
        fs::write(&path, json).expect("the configuration is written");
        let error = read(dir.path()).expect_err("the rank is another").to_string();
        assert!(error.contains("do not fit the rank 3"), "{error}");

        let other = AdapterTensor {
            name: "model.norm.weight".into(),
            ..tensors[0].clone()
        };
        let error = write(dir.path(), &config, &[other])
            .expect_err("a norm is not a factor")
            .to_string();
        assert!(error.contains("neither of LoRA's factors"), "{error}");
        Ok(())
    }
}
