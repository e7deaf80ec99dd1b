//! Builds a model's layers from its source, tensor by tensor: rows are read into one buffer, and stored in their format
//! before the next ones are read. So loading holds one chunk in float32 and the finished weights.
//!
//! Scopes of the ledger hold the values alone: what a tensor keeps beside them, and what threads pass each other while
//! they are made, is neither parameter nor adapter.

use candle_core::{DType, Device, Tensor};
use half::{bf16, f16};

use super::error::LoadError;
use super::source::Source;
use crate::{
    adapter::lora as lora_init,
    memory::{self, Category},
    nn::{dropout::Dropout, host, linear::Linear, lora::Lora, param::Param, weight::Weight},
    options::{Dtype, ModelOptions},
    quant::{self, Quantized, device::OnDevice},
};

/// Elements that are read at a time (4 MiB in float32).
pub(crate) const CHUNK_ELEMENTS: usize = 1 << 20;

/// The format of hidden states and of what is not quantised.
pub fn dense_dtype(dtype: Dtype) -> DType {
    match dtype {
        Dtype::Float32 => DType::F32,
        Dtype::Float16 => DType::F16,
        Dtype::Bfloat16 | Dtype::Int8 | Dtype::Int4 => DType::BF16,
    }
}

/// Builds the layers that models share; each family adds its own.
pub(super) struct Loader<'a> {
    options: &'a ModelOptions,
    source: &'a Source,
    device: &'a Device,
    /// The rows that were read last, in float32.
    buffer: Vec<f32>,
}

impl<'a> Loader<'a> {
    pub(super) fn new(options: &'a ModelOptions, source: &'a Source, device: &'a Device) -> Self {
        Self {
            options,
            source,
            device,
            buffer: Vec::new(),
        }
    }

    /// The linear layer `module` (without `.weight`), with its adapter if it is one of the targets.
    pub(super) fn linear(&mut self, module: &str) -> Result<Linear, LoadError> {
        let name = format!("{module}.weight");
        let weight = match self.options.dtype {
            Dtype::Int4 | Dtype::Int8 => {
                let matrix = self.quantized(&name)?;
                if host::has_kernels(self.device) {
                    Weight::Quantized(matrix)
                } else {
                    Weight::OnDevice(OnDevice::new(&matrix, self.device)?)
                }
            }
            _ => Weight::Dense(self.dense(&name)?),
        };
        Ok(Linear {
            weight,
            adapter: self.adapter(module)?,
        })
    }

    /// The linear layer `module`, dense and trained whatever the rank.
    pub(super) fn trained_linear(&mut self, module: &str) -> Result<Linear, LoadError> {
        Ok(Linear {
            weight: Weight::Dense(self.trained(&format!("{module}.weight"))?),
            adapter: None,
        })
    }

    fn adapter(&self, module: &str) -> Result<Option<Lora>, LoadError> {
        let lora = self.options.lora.as_ref();
        let Some(lora) = lora.filter(|lora| lora.target_modules.contains(module)) else {
            return Ok(None);
        };
        let _module = memory::module_of(module);
        let (rows, cols) = self.matrix(&format!("{module}.weight"))?;
        let rank = lora.rank;
        let lora_init::Factors { a, b } = {
            let _scope = memory::scope(Category::Adapter);
            lora_init::init(self.options.seed, module, rank, cols, rows)
        };
        Ok(Some(Lora {
            a: Param::adapter(
                format!("{module}.lora_A.weight"),
                Tensor::from_vec(a, (rank, cols), self.device)?,
            ),
            b: Param::adapter(
                format!("{module}.lora_B.weight"),
                Tensor::from_vec(b, (rows, rank), self.device)?,
            ),
            scale: lora.alpha / rank as f64,
            dropout: Dropout::new(self.options.seed, module, lora.dropout),
        }))
    }

    /// A dense tensor, which is trained if there are no adapters.
    pub(super) fn dense(&mut self, name: &str) -> Result<Param, LoadError> {
        self.param(name, self.options.lora.is_none())
    }

    /// A dense tensor that is trained whatever the rank.
    pub(super) fn trained(&mut self, name: &str) -> Result<Param, LoadError> {
        self.param(name, true)
    }

    /// The format of hidden states.
    pub(super) fn hidden(&self) -> DType {
        dense_dtype(self.options.dtype)
    }

    pub(super) fn device(&self) -> &Device {
        self.device
    }

    pub(super) fn seed(&self) -> u64 {
        self.options.seed
    }

    /// The most tokens that a sample has.
    pub(super) fn positions(&self) -> usize {
        self.options.max_seq_length
    }

    fn param(&mut self, name: &str, trainable: bool) -> Result<Param, LoadError> {
        let _module = memory::module_of(name);
        let shape = self.source.shape(name)?;
        let value = match dense_dtype(self.options.dtype) {
            DType::F16 => Tensor::from_vec(self.collect(name, f16::from_f32)?, shape, self.device)?,
            DType::BF16 => Tensor::from_vec(self.collect(name, bf16::from_f32)?, shape, self.device)?,
            _ => Tensor::from_vec(self.collect(name, |value| value)?, shape, self.device)?,
        };
        Ok(Param::base(name, value, trainable))
    }

    fn collect<T>(&mut self, name: &str, convert: impl Fn(f32) -> T) -> Result<Vec<T>, LoadError> {
        let (rows, cols) = self.matrix(name)?;
        let mut values = {
            let _scope = memory::scope(Category::Parameter);
            Vec::with_capacity(rows * cols)
        };
        self.chunks(name, |chunk| {
            values.extend(chunk.iter().map(|&value| convert(value)));
            Ok(())
        })?;
        Ok(values)
    }

    fn quantized(&mut self, name: &str) -> Result<Quantized, LoadError> {
        let _module = memory::module_of(name);
        let (rows, cols) = self.matrix(name)?;
        let format = match self.options.dtype {
            Dtype::Int8 => quant::Format::Int8,
            _ => quant::Format::Nf4 {
                double_quant: self.options.bnb_4bit_use_double_quant,
            },
        };
        let fail = |error| LoadError::Quantise {
            name: name.to_owned(),
            error,
        };
        let mut builder = {
            let _scope = memory::scope(Category::Parameter);
            quant::Builder::new(format, rows, cols)
        };
        self.chunks(name, |chunk| builder.push(chunk).map_err(fail))?;
        let _scope = memory::scope(Category::Parameter);
        builder.finish().map_err(fail)
    }

    /// Calls `take` with consecutive parts of the flattened tensor.
    fn chunks(&mut self, name: &str, mut take: impl FnMut(&[f32]) -> Result<(), LoadError>) -> Result<(), LoadError> {
        let (rows, cols) = self.matrix(name)?;
        let step = (CHUNK_ELEMENTS / cols).max(1);
        for start in (0..rows).step_by(step) {
            let end = rows.min(start + step);
            self.buffer.resize((end - start) * cols, 0.0);
            self.source.read_rows(name, start..end, &mut self.buffer)?;
            take(&self.buffer)?;
        }
        Ok(())
    }

    /// Rows and columns; a vector is one row.
    fn matrix(&self, name: &str) -> Result<(usize, usize), LoadError> {
        let shape = self.source.shape(name)?;
        Ok(match *shape {
            [cols] => (1, cols),
            [rows, cols] => (rows, cols),
            _ => (shape.iter().product(), 1),
        })
    }
}
