//! What was trained: the adapter and the head in PEFT's format, or the whole model in transformers'.

use std::path::Path;

use super::{TrainError, Trainer};
use crate::{
    arch, data,
    hub::Roots,
    model::{self, ModelError, Source},
    nn::param::Param,
    options::ModelOptions,
    peft::{self, AdapterTensor},
};

/// Writes the adapter into `dir`. Returns the bytes of its weights' file, `None` without adapters.
pub(super) fn adapter(options: &ModelOptions, trainer: &mut Trainer, dir: &Path) -> Result<Option<u64>, TrainError> {
    let Some(lora) = &options.lora else {
        return Ok(None);
    };
    let mut tensors = Vec::new();
    for param in trainer.saved() {
        tensors.push(AdapterTensor {
            name: param.name.to_string(),
            shape: param.value.dims().to_vec(),
            values: param.value.to_vec_f32()?,
        });
    }
    let config = peft::Config::new(options.task, &options.name, lora);
    Ok(Some(peft::write(dir, &config, &tensors)?))
}

/// Writes the whole model into `dir`: the trained weights, and the others as they were.
pub(super) fn model(
    options: &ModelOptions,
    roots: &Roots,
    trainer: &mut Trainer,
    dir: &Path,
) -> Result<(), TrainError> {
    let location = arch::locate(&options.name, roots).map_err(ModelError::from)?;
    let source = Source::open(options, roots)?;
    let trained: Vec<&Param> = trainer.trainable().into_iter().map(|param| &*param).collect();
    Ok(model::save(
        dir,
        &location,
        data::EMBEDDED_TOKENIZER,
        &trained,
        &source,
    )?)
}
