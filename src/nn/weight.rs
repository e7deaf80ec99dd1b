//! A matrix `[out, in]` in the format it is stored in, and its products.

use std::ops::Range;

use candle_core::{DType, Device, Result, Tensor};

use half::bf16;

use super::{host, param::Param};
use crate::{
    kernels::convert,
    quant::{Quantized, device::OnDevice},
};

/// Rows of a stored matrix are turned into float32 in pieces of at most this many elements (16 MiB), so that a product
/// never holds a whole dequantised matrix. The tests have small matrices, and so small panels.
const PANEL_ELEMENTS: usize = if cfg!(test) { 2048 } else { 4 << 20 };

/// A linear layer's weight.
#[derive(Debug)]
pub enum Weight {
    /// Stored in its dtype; the only kind that can be trained.
    Dense(Param),
    /// Frozen, in 4 or 8 bits, on the CPU.
    Quantized(Quantized),
    /// The same in another device's memory.
    OnDevice(OnDevice),
}

impl Weight {
    /// `x · Wᵀ`: `[n, in] → [n, out]`, float32.
    pub(super) fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let x = x.to_dtype(DType::F32)?;
        let parts = self
            .panels()?
            .map(|rows| x.matmul(&self.rows_f32(rows)?.t()?))
            .collect::<Result<Vec<_>>>()?;
        concatenate(parts)
    }

    /// `dy · W`: `[n, out] → [n, in]`, float32.
    pub(super) fn backward(&self, dy: &Tensor) -> Result<Tensor> {
        let mut dx: Option<Tensor> = None;
        for rows in self.panels()? {
            // cuBLAS takes no matrix with gaps between its rows.
            let part = dy.narrow(1, rows.start, rows.len())?.contiguous()?;
            let part = part.matmul(&self.rows_f32(rows)?)?;
            dx = Some(match dx {
                None => part,
                Some(sum) => (sum + part)?,
            });
        }
        dx.ok_or_else(|| candle_core::Error::Msg("a weight without rows".into()))
    }

    /// Rows (outputs) and columns (inputs).
    pub fn shape(&self) -> Result<(usize, usize)> {
        match self {
            Self::Dense(param) => param.value.dims2(),
            Self::Quantized(weight) => Ok((weight.rows(), weight.cols())),
            Self::OnDevice(weight) => Ok((weight.rows(), weight.cols())),
        }
    }

    /// The row ranges whose elements fit a panel.
    pub(super) fn panels(&self) -> Result<impl Iterator<Item = Range<usize>> + use<>> {
        let (rows, cols) = self.shape()?;
        let step = (PANEL_ELEMENTS / cols).max(1);
        Ok((0..rows).step_by(step).map(move |start| start..rows.min(start + step)))
    }

    /// Rows in float32: a view where they are stored so. Quantised ones are rounded to bfloat16 on the way, the format
    /// that bitsandbytes computes their products from (`bnb_4bit_compute_dtype`).
    pub(super) fn rows_f32(&self, rows: Range<usize>) -> Result<Tensor> {
        match self {
            Self::Dense(param) => host::widen(&param.value.narrow(0, rows.start, rows.len())?),
            Self::Quantized(weight) => {
                let mut values = vec![0f32; rows.len() * weight.cols()];
                let shape = (rows.len(), weight.cols());
                weight.dequantize_rows(rows, &mut values);
                convert::round::<bf16>(&mut values);
                Tensor::from_vec(values, shape, &Device::Cpu)
            }
            Self::OnDevice(weight) => weight.rows_f32(rows)?.to_dtype(DType::BF16)?.to_dtype(DType::F32),
        }
    }
}

fn concatenate(mut parts: Vec<Tensor>) -> Result<Tensor> {
    if parts.len() == 1 {
        Ok(parts.remove(0))
    } else {
        Tensor::cat(&parts, 1)
    }
}
