//! The trained adapter and the trained head, in PEFT's format.

use std::path::Path;

use super::{TrainError, Trainer};
use crate::{
    options::ModelOptions,
    peft::{self, AdapterTensor},
};

/// Writes the adapter into `dir`. Returns the bytes of its weights' file, `None` without adapters.
pub(super) fn adapter(options: &ModelOptions, trainer: &mut Trainer, dir: &Path) -> Result<Option<u64>, TrainError> {
    let Some(lora) = &options.lora else {
        return Ok(None);
    };
    let mut tensors = Vec::new();
    for param in trainer.trainable() {
        tensors.push(AdapterTensor {
            name: param.name.to_string(),
            shape: param.value.dims().to_vec(),
            values: param.value.to_vec_f32()?,
        });
    }
    let config = peft::Config::new(options.task, &options.name, lora);
    Ok(Some(peft::write(dir, &config, &tensors)?))
}
