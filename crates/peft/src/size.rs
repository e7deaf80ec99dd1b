//! The size of the weights' file, known before it is written.

use super::tensor::file_name;

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

/// Bytes of an adapter's file with tensors of these names (as in [`AdapterTensor`](super::AdapterTensor)), formats and
/// shapes. [`write`](super::write) makes such files in F32, PEFT in all formats.
pub fn file_bytes(tensors: impl IntoIterator<Item = (String, FileDtype, Vec<usize>)>) -> u64 {
    let prefixed = |(name, dtype, shape): (String, _, _)| (file_name(&name), dtype, shape);
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
