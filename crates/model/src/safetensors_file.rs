//! One safetensors file, read by position and never mapped: a mapped file's pages would count as the process's memory.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use base::foreign;
use half::{bf16, f16};
use kernels::Dispatch as _;
use kernels::{Element, InstructionSet};
use rayon::prelude::*;
use safetensors::tensor::{Metadata, TensorInfo};
use safetensors::{Dtype, SafeTensorError};

use super::ModelError;

/// The format's own limit on a header.
const LONGEST_HEADER: u64 = 100_000_000;

/// Bytes that a thread reads at a time, into a buffer on its stack.
const CHUNK: usize = 1 << 16;

/// An open file with its checked header.
#[derive(Debug)]
pub(super) struct SafetensorsFile {
    path: PathBuf,
    file: File,
    /// Where the tensors' bytes begin.
    data_start: u64,
    header: Metadata,
}

impl SafetensorsFile {
    /// Opens a file and checks its header against its length.
    pub(super) fn open(path: &Path) -> Result<Self, ModelError> {
        let read_error = |source| ModelError::Read {
            path: path.into(),
            source,
        };
        let header_error = |reason: String| ModelError::Header {
            path: path.into(),
            reason,
        };
        let file = foreign::open(path).map_err(read_error)?;
        let file_length = file.metadata().map_err(read_error)?.len();
        if file_length < 8 {
            return Err(header_error(format!("{file_length} bytes are too few for a header")));
        }
        let mut length = [0; 8];
        file.read_exact_at(&mut length, 0).map_err(read_error)?;
        let length = u64::from_le_bytes(length);
        if length > LONGEST_HEADER {
            return Err(header_error(format!(
                "its header claims {length} bytes; {LONGEST_HEADER} is the most"
            )));
        }
        if 8 + length > file_length {
            return Err(ModelError::FileLength {
                path: path.into(),
                expected: 8 + length,
                got: file_length,
            });
        }
        // Below the limit checked above.
        let mut header = vec![0; length as usize];
        file.read_exact_at(&mut header, 8).map_err(read_error)?;
        let header: Metadata = serde_json::from_slice(&header).map_err(|error| header_error(error.to_string()))?;
        let data_start = 8 + length;
        let expected = data_start + header.data_len() as u64;
        if expected != file_length {
            return Err(ModelError::FileLength {
                path: path.into(),
                expected,
                got: file_length,
            });
        }
        Ok(Self {
            path: path.into(),
            file,
            data_start,
            header,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Names of all tensors, in the order of their bytes.
    pub(super) fn names(&self) -> Vec<String> {
        self.header.offset_keys()
    }

    pub(super) fn info(&self, name: &str) -> Option<&TensorInfo> {
        self.header.info(name)
    }

    /// The remarks in the header.
    pub(super) fn metadata(&self) -> Option<HashMap<String, String>> {
        self.header.metadata().clone()
    }

    /// Writes the bytes of a tensor as they are.
    pub(super) fn copy(&self, name: &str, out: &mut impl Write) -> io::Result<()> {
        let info = self
            .info(name)
            .ok_or_else(|| io::Error::other(SafeTensorError::TensorNotFound(name.into())))?;
        let (start, end) = info.data_offsets;
        let mut buffer = vec![0; CHUNK];
        for at in (start..end).step_by(CHUNK) {
            let bytes = &mut buffer[..CHUNK.min(end - at)];
            self.file.read_exact_at(bytes, self.data_start + at as u64)?;
            out.write_all(bytes)?;
        }
        Ok(())
    }

    /// Converts the elements of `name` from flat index `start` on to f32, as many as `out` holds.
    pub(super) fn read(&self, name: &str, start: usize, out: &mut [f32]) -> Result<(), ModelError> {
        let failed = |source| ModelError::ReadTensor {
            path: self.path.clone(),
            name: name.into(),
            source,
        };
        let info = self
            .info(name)
            .ok_or_else(|| failed(io::Error::other(SafeTensorError::TensorNotFound(name.into()))))?;
        let width = info.dtype.bitsize() / 8;
        let start = self.data_start + (info.data_offsets.0 + start * width) as u64;
        let parts = out.par_chunks_mut(CHUNK / width).enumerate();
        parts.try_for_each(|(index, out)| {
            let mut buffer = [0; CHUNK];
            let bytes = &mut buffer[..out.len() * width];
            let position = start + (index * CHUNK) as u64;
            self.file.read_exact_at(bytes, position).map_err(failed)?;
            convert(info.dtype, bytes, out);
            Ok(())
        })
    }
}

/// True if [`SafetensorsFile::read`] can convert a stored format.
pub(super) fn readable(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::F32 | Dtype::F16 | Dtype::BF16)
}

/// Little-endian `bytes` to f32; every one of these formats is exact in f32.
fn convert(dtype: Dtype, bytes: &[u8], out: &mut [f32]) {
    match dtype {
        Dtype::F32 => widen(bytes, out, f32::from_le_bytes),
        Dtype::BF16 => widen(bytes, out, bf16::from_le_bytes),
        Dtype::F16 => widen(bytes, out, f16::from_le_bytes),
        other => unreachable!("a checkpoint with {other:?} is refused when it is opened"),
    }
}

fn widen<E: Element, const N: usize>(bytes: &[u8], out: &mut [f32], value: impl Fn([u8; N]) -> E) {
    InstructionSet::current().run(
        #[inline(always)]
        || {
            for (bytes, out) in bytes.as_chunks().0.iter().zip(out) {
                *out = value(*bytes).widen();
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use half::bf16;

    use super::*;

    #[test]
    fn stored_formats_are_exact_in_f32() {
        let values = [0.0, -0.5, 1.0, 3.25, -65504.0, f32::INFINITY];
        let mut out = [0.0; 6];
        convert(Dtype::F32, &values.map(f32::to_le_bytes).concat(), &mut out);
        assert_eq!(out, values);
        convert(
            Dtype::F16,
            &values.map(|v| f16::from_f32(v).to_le_bytes()).concat(),
            &mut out,
        );
        assert_eq!(out, values);
        convert(
            Dtype::BF16,
            &values.map(|v| bf16::from_f32(v).to_le_bytes()).concat(),
            &mut out,
        );
        assert_eq!(out, values.map(|v| bf16::from_f32(v).to_f32()));
    }
}
