//! Training that goes on from an adapter on disk.

use std::collections::HashMap;
use std::fs;
use std::io::Read;
use std::path::Path;

use arch::ModelConfig;
use base::text::hex;
use candle_core::DType;
use half::{bf16, f16};
use hub::Roots;
use model::{Model, ModelError};
use nn::tensor::Tensor;
use options::{AdapterMethod, AdapterOptions, TrainOptions};
use peft::{AdapterError, AdapterTensor};
use sha2::{Digest, Sha256};

use super::{TrainError, save::saved_names};

/// Gives virtual tokens the embeddings of a text's tokens, repeated and cut, if they start from a text.
pub(super) fn from_text(
    options: &TrainOptions,
    config: &ModelConfig,
    roots: &Roots,
    model: &mut Model,
) -> Result<(), TrainError> {
    let method = options.model.adapter.as_ref().map(|adapter| &adapter.method);
    if let (Some(AdapterMethod::PromptTuning(prompt)), Model::Decoder(decoder)) = (method, model)
        && let Some(text) = prompt.start()
    {
        let location = arch::locate(&options.model.name, roots).map_err(ModelError::from)?;
        let ids = data::tokens_of_text(text, &location, config)?;
        let ids: Vec<u32> = ids.into_iter().cycle().take(prompt.num_virtual_tokens).collect();
        decoder.start_prompt(&ids)?;
    }
    Ok(())
}

/// Checks that a tensor of an adapter on disk, which is not trained, is the cell's, but for the format that either is
/// rounded to; `otherwise` is the mistake.
fn check_same(tensor: &AdapterTensor, own: &Tensor, otherwise: &str) -> Result<(), String> {
    if tensor.shape != own.dims() {
        let (theirs, ours) = (&tensor.shape, own.dims());
        return Err(format!("its shape is {theirs:?}, and the cell's is {ours:?}"));
    }
    let formats: [fn(f32) -> f32; 3] = [
        |value| value,
        |value| bf16::from_f32(value).to_f32(),
        |value| f16::from_f32(value).to_f32(),
    ];
    let to_ours = match own.dtype() {
        DType::BF16 => formats[1],
        DType::F16 => formats[2],
        _ => formats[0],
    };
    let own = own.to_vec_f32().map_err(|error| error.to_string())?;
    let is_saved_as = |to_theirs: &fn(f32) -> f32| {
        let mut pairs = tensor.values.iter().zip(&own);
        pairs.all(|(theirs, ours)| to_ours(*theirs) == to_ours(to_theirs(*ours)))
    };
    match formats.iter().any(is_saved_as) {
        true => Ok(()),
        false => Err(otherwise.into()),
    }
}

/// Puts the adapter of the folder `dir` in place of the model's new one. Returns the SHA-256 of its weights' file.
///
/// # Errors
/// If it cannot be read, or has other settings, modules or shapes than the model's.
pub(super) fn from_adapter(dir: &Path, adapter: &AdapterOptions, model: &mut Model) -> Result<String, TrainError> {
    peft::check_options(dir, adapter).map_err(TrainError::InitAdapter)?;
    let (_, tensors) = peft::read(dir).map_err(TrainError::InitAdapter)?;
    let path = dir.join(peft::WEIGHTS_FILE);
    let wrong = |tensor: &str, problem: String| {
        TrainError::InitAdapter(AdapterError::Tensor {
            path: path.clone(),
            tensor: tensor.to_owned(),
            problem,
        })
    };
    let mut tensors: HashMap<String, AdapterTensor> = tensors
        .into_iter()
        .map(|tensor| (tensor.name.clone(), tensor))
        .collect();
    let params = model.saved();
    let names = saved_names(&params);
    for (param, name) in params.into_iter().zip(names) {
        let Some(tensor) = tensors.remove(&name) else {
            return Err(wrong(&name, "the cell trains it, and it is not there".into()));
        };
        if tensor.shape != param.value.dims() {
            let (theirs, ours) = (&tensor.shape, param.value.dims());
            return Err(wrong(
                &name,
                format!("its shape is {theirs:?}, and the cell's is {ours:?}"),
            ));
        }
        param.fill(&tensor.values)?;
    }
    for (name, factor) in model.shared_factors() {
        if let Some(tensor) = tensors.remove(name) {
            let checked = check_same(&tensor, factor, "`projection_prng_key` draws other numbers");
            checked.map_err(|problem| wrong(name, problem))?;
        }
    }
    // PEFT saves the tables beside an adapter of the head.
    for (table, value) in model.tables() {
        let saved = tensors.keys().find(|name| peft::whole_name(name) == table).cloned();
        if let Some((name, tensor)) = saved.and_then(|name| tensors.remove_entry(&name)) {
            let checked = check_same(&tensor, value, "it is not the weight of the cell's model");
            checked.map_err(|problem| wrong(&name, problem))?;
        }
    }
    if let Some(name) = tensors.keys().min() {
        return Err(wrong(name, "the cell does not train it".into()));
    }
    let failed = |source| {
        TrainError::InitAdapter(AdapterError::Io {
            path: path.clone(),
            source,
        })
    };
    let mut hash = Sha256::new();
    let mut file = fs::File::open(&path).map_err(failed)?;
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer).map_err(failed)? {
            0 => break,
            count => hash.update(&buffer[..count]),
        }
    }
    Ok(hex(&hash.finalize()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(theirs: fn(f32) -> f32, own: DType, change: f32) -> Result<(), String> {
        let weights = [0.1f32, -1.7, 3.3e-3, 0.0];
        let own = Tensor::from_f32(&weights, (2, 2), own).unwrap();
        let tensor = AdapterTensor {
            name: "lm_head.weight".into(),
            shape: vec![2, 2],
            values: weights.map(|weight| theirs(weight * change)).to_vec(),
        };
        check_same(&tensor, &own, "another weight")
    }

    #[test]
    fn a_table_in_a_file_is_the_models_in_the_format_of_either() {
        let narrow: [fn(f32) -> f32; 3] = [
            |value| value,
            |value| bf16::from_f32(value).to_f32(),
            |value| f16::from_f32(value).to_f32(),
        ];
        let formats = [DType::F32, DType::BF16, DType::F16];
        for (theirs, file) in narrow.into_iter().zip(formats) {
            for own in formats {
                assert_eq!(check(theirs, own, 1.0), Ok(()), "{file:?} in a cell of {own:?}");
                let other = check(theirs, own, 1.02);
                assert_eq!(other, Err("another weight".into()), "{file:?} in a cell of {own:?}");
            }
        }
        let slightly = check(|value| value, DType::F32, 1.0001);
        assert_eq!(slightly, Err("another weight".into()));
    }
}
