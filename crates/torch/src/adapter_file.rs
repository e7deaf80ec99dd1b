//! How large the adapter is that PEFT saves.

use arch::Family;
use peft::FileDtype;

use super::dtype::Dtype;
use super::models::loader::SavedTensor;

/// Bytes of `adapter_model.safetensors`.
pub(super) fn file_bytes(family: Family, tensors: &[SavedTensor]) -> u64 {
    peft::file_bytes(tensors.iter().map(|tensor| {
        let dtype = match tensor.dtype {
            Dtype::Float16 => FileDtype::F16,
            Dtype::Bfloat16 => FileDtype::Bf16,
            _ => FileDtype::F32,
        };
        let shape = tensor.dims.iter().map(|&dim| dim as usize).collect();
        (name(family, tensor), dtype, shape)
    }))
}

fn name(family: Family, tensor: &SavedTensor) -> String {
    let blocks = family.description().blocks;
    let (module, part) = (tensor.module, tensor.part);
    match tensor.block {
        Some(block) => format!("{blocks}.{block}.{module}.{part}"),
        None if module.is_empty() => part.to_owned(),
        None => format!("{module}.{part}"),
    }
}
