//! The two files of an adapter, which `PeftModel.from_pretrained` loads.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use base::foreign;
use safetensors::tensor::SafeTensors;
use serde_json::{Map, Value};

use super::{
    config::Config,
    error::{AdapterError, ConfigError},
    fields,
    tensor::{AdapterTensor, file_name},
};

/// The settings' file.
pub const CONFIG_FILE: &str = "adapter_config.json";
/// The weights' file.
pub const WEIGHTS_FILE: &str = "adapter_model.safetensors";

/// Writes an adapter into a folder, and creates the folder. The tensors' names decide the configuration's target
/// modules: the last parts of the names, or the names in full where a pattern chose them. PEFT would apply the pattern
/// to modules of every kind. Returns the bytes of the weights' file.
///
/// # Errors
/// If a file cannot be written, or a tensor does not fit the configuration.
pub fn write(dir: &Path, config: &Config, tensors: &[AdapterTensor]) -> Result<u64, AdapterError> {
    let weights = dir.join(WEIGHTS_FILE);
    let mut modules = Vec::new();
    for tensor in tensors {
        let module = tensor.check(config).map_err(|problem| AdapterError::Tensor {
            path: weights.clone(),
            tensor: tensor.name.clone(),
            problem,
        })?;
        modules.extend(module.map(|module| (module, tensor.shape.as_slice())));
    }

    fs::create_dir_all(dir).map_err(|source| AdapterError::Io {
        path: dir.into(),
        source,
    })?;
    let path = dir.join(CONFIG_FILE);
    let mut config = config.clone();
    config.list_modules(&modules);
    let json = serde_json::to_string_pretty(&config).map_err(|source| AdapterError::Config {
        path: path.clone(),
        source,
    })?;
    fs::write(&path, json + "\n").map_err(|source| AdapterError::Io {
        path: path.clone(),
        source,
    })?;

    let named = tensors.iter().map(|tensor| (file_name(&tensor.name), tensor));
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

/// Reads an adapter: its configuration, and its tensors in the order of their names.
///
/// # Errors
/// If a file cannot be read, is not an adapter in float32, or has tensors that do not fit the configuration.
pub fn read(dir: &Path) -> Result<(Config, Vec<AdapterTensor>), AdapterError> {
    let path = dir.join(CONFIG_FILE);
    let config = read_config(&path)?;

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

/// Reads an `adapter_config.json`.
///
/// # Errors
/// If it cannot be read, or asks for something that is not done here.
pub fn read_config(path: &Path) -> Result<Config, AdapterError> {
    parse_config(&read_file(path)?).map_err(|error| match error {
        ConfigError::Json(source) => AdapterError::Config {
            path: path.into(),
            source,
        },
        ConfigError::Field(error) => AdapterError::Field {
            path: path.into(),
            error: Box::new(error),
        },
    })
}

/// Reads the text of an `adapter_config.json`.
///
/// # Errors
/// If it is not JSON, or asks for something that is not done here.
pub fn parse_config(text: &[u8]) -> Result<Config, ConfigError> {
    let fields: Map<String, Value> = serde_json::from_slice(text)?;
    Ok(fields::read(&fields)?)
}

/// The configuration's file at `path`: the file itself, or the one in that folder.
pub fn config_file(path: &Path) -> PathBuf {
    match path.is_dir() {
        true => path.join(CONFIG_FILE),
        false => path.to_owned(),
    }
}

fn read_file(path: &Path) -> Result<Vec<u8>, AdapterError> {
    foreign::read(path).map_err(|source| AdapterError::Io {
        path: path.into(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use options::{Adapter, AdapterMethod, AdapterOptions, Lora, Task};

    use super::*;
    use crate::{FileDtype, Targets, file_bytes};

    fn options(method: fn(Lora) -> AdapterMethod) -> AdapterOptions {
        AdapterOptions {
            lora_alpha: 4.0,
            lora_dropout: 0.1,
            ..AdapterOptions::of_rank(method(Lora::default()), 2)
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
        (
            Config::new(Task::CausalLm, "tiny", &options(AdapterMethod::Lora)),
            vec![a, b],
        )
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
        let mut config = config;
        config.target_modules = Some(Targets::Names(BTreeSet::from(["q_proj".to_owned()])));
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
        let config = Config::new(Task::SequenceClassification, "bert", &options(AdapterMethod::Lora));
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
        let names = Targets::Names(BTreeSet::from(["q_proj".to_owned()]));
        assert_eq!(read_config.target_modules, Some(names));
        let json = fs::read_to_string(dir.path().join(CONFIG_FILE)).expect("the configuration");
        assert!(json.contains(r#""task_type": "SEQ_CLS""#), "{json}");
        Ok(())
    }

    #[test]
    fn magnitudes_belong_to_dora_alone() -> Result<(), AdapterError> {
        let (lora_config, mut tensors) = example();
        tensors.push(AdapterTensor {
            name: "model.layers.0.self_attn.q_proj.lora_magnitude_vector".into(),
            shape: vec![4],
            values: vec![1.0; 4],
        });
        let dir = tempfile::tempdir().expect("a temporary folder");
        let error = write(dir.path(), &lora_config, &tensors).expect_err("LoRA has none");
        assert!(error.to_string().ends_with("lora_A.weight, lora_B.weight"), "{error}");
        let options = options(AdapterMethod::Dora);
        write(dir.path(), &Config::new(Task::CausalLm, "tiny", &options), &tensors)?;
        let (config, read_tensors) = read(dir.path())?;
        assert_eq!((config.adapter(), read_tensors), (Adapter::Dora, tensors));
        assert_eq!(lora_config.adapter(), Adapter::Lora);
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
        assert!(error.contains("none of an adapter's tensors"), "{error}");
        Ok(())
    }
}
