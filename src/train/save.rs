//! The trained adapter, with the head that was trained beside it, in PEFT's format.

use std::path::Path;

use candle_core::Device;

use super::{TrainError, Trainer};
use crate::{
    adapter::peft::{self, AdapterTensor},
    memory::{self, Category},
    spec::cell::Cell,
};

/// Writes the adapter into `dir` and returns the size of its weights' file; `None` with rank 0.
pub fn adapter(cell: &Cell, trainer: &mut Trainer, dir: &Path) -> Result<Option<u64>, TrainError> {
    if cell.rank == 0 {
        return Ok(None);
    }
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
    let config = peft::Config::new(cell.task, &cell.model, cell.rank, cell.lora_alpha(), cell.lora_dropout);
    Ok(Some(peft::write(dir, &config, &tensors)?))
}
