//! How large the adapter is that PEFT saves: a safetensors file, header included.

use std::fmt::Write;

use super::config::Family;
use super::models::loader::SavedTensor;
use super::tensor::Dtype;

/// What the header says first, as PEFT writes it.
const METADATA: &str = r#"{"__metadata__":{"format":"pt"}"#;
/// The header begins with its length, and is filled up with blanks.
const ALIGNMENT: u64 = 8;

/// Bytes of the file.
pub(super) fn file_bytes(family: Family, tensors: &[SavedTensor]) -> u64 {
    let mut named: Vec<_> = tensors.iter().map(|tensor| (name(family, tensor), tensor)).collect();
    // The widest elements first, then by name.
    named.sort_by(|(a, first), (b, second)| second.dtype.size().cmp(&first.dtype.size()).then_with(|| a.cmp(b)));
    let mut header = String::from(METADATA);
    let mut offset = 0;
    for (name, tensor) in named {
        let begin = offset;
        offset += tensor.dims.iter().map(|&dim| u64::from(dim)).product::<u64>() * tensor.dtype.size();
        let shape: Vec<_> = tensor.dims.iter().map(u32::to_string).collect();
        // Writing to a string does not fail.
        let _ = write!(
            header,
            r#","{name}":{{"dtype":"{}","shape":[{}],"data_offsets":[{begin},{offset}]}}"#,
            label(tensor.dtype),
            shape.join(",")
        );
    }
    header.push('}');
    ALIGNMENT + (header.len() as u64).next_multiple_of(ALIGNMENT) + offset
}

fn name(family: Family, tensor: &SavedTensor) -> String {
    let blocks = match family {
        Family::Bert => "bert.encoder.layer",
        Family::DistilBert => "distilbert.transformer.layer",
        _ => "model.layers",
    };
    let (module, part) = (tensor.module, tensor.part);
    match tensor.block {
        Some(block) => format!("base_model.model.{blocks}.{block}.{module}.{part}"),
        None => format!("base_model.model.{module}.{part}"),
    }
}

fn label(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::Float32 => "F32",
        Dtype::Float16 => "F16",
        Dtype::Bfloat16 => "BF16",
        Dtype::Int64 => "I64",
        Dtype::Int32 => "I32",
        Dtype::Int8 => "I8",
        Dtype::Uint8 => "U8",
        Dtype::Bool => "BOOL",
    }
}
