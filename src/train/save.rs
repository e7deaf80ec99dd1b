//! The trained adapter and the trained head, in PEFT's format.

use std::path::Path;

use candle_core::Device;

use super::{TrainError, Trainer};
use crate::{
    adapter::peft::{self, AdapterTensor},
    memory::{self, Category},
    options::ModelOptions,
};

/// Writes the adapter into `dir`. Returns the bytes of its weights' file, `None` without adapters.
pub(super) fn adapter(options: &ModelOptions, trainer: &mut Trainer, dir: &Path) -> Result<Option<u64>, TrainError> {
    let Some(lora) = &options.lora else {
        return Ok(None);
    };
    let _scope = memory::scope(Category::Host);
    let mut tensors = Vec::new();
    for param in trainer.trainable() {
        let values = param.f32()?.to_device(&Device::Cpu)?.flatten_all()?.to_vec1()?;
        tensors.push(AdapterTensor {
            name: param.name.clone(),
            shape: param.value.dims().to_vec(),
            values,
        });
    }
    let config = peft::Config::new(options.task, &options.name, lora);
    Ok(Some(peft::write(dir, &config, &tensors)?))
}
