//! A matrix `[out, in]` in the format it is stored in, and its products by candle's ops.

use std::ops::Range;

use candle_core::{DType, Device, Result, Tensor as Candle};
use half::bf16;

use super::param::Param;
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
    /// Rows: outputs.
    pub fn rows(&self) -> usize {
        match self {
            Self::Dense(param) => param.value.rows(),
            Self::Quantized(weight) => weight.rows(),
            Self::OnDevice(weight) => weight.rows(),
        }
    }

    /// Columns: inputs.
    pub fn cols(&self) -> usize {
        match self {
            Self::Dense(param) => param.value.cols(),
            Self::Quantized(weight) => weight.cols(),
            Self::OnDevice(weight) => weight.cols(),
        }
    }

    /// `x · Wᵀ`: `[n, in] → [n, out]`, float32.
    pub(super) fn forward_plain(&self, x: &Candle) -> Result<Candle> {
        let x = x.to_dtype(DType::F32)?;
        let parts = self.panels().map(|rows| x.matmul(&self.rows_f32(rows)?.t()?));
        Candle::cat(&parts.collect::<Result<Vec<_>>>()?, 1)
    }

    /// `dy · W`: `[n, out] → [n, in]`, float32.
    pub(super) fn backward_plain(&self, dy: &Candle) -> Result<Candle> {
        let mut dx: Option<Candle> = None;
        for rows in self.panels() {
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

    /// The row ranges whose elements fit a panel.
    pub(super) fn panels(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let (rows, cols) = (self.rows(), self.cols());
        let step = (PANEL_ELEMENTS / cols).max(1);
        (0..rows).step_by(step).map(move |start| start..rows.min(start + step))
    }

    /// Rows in float32: a view if they are stored so. Quantised ones are rounded to bfloat16 on the way, the format
    /// that bitsandbytes computes their products from (`bnb_4bit_compute_dtype`).
    pub(super) fn rows_f32(&self, rows: Range<usize>) -> Result<Candle> {
        match self {
            Self::Dense(param) => param
                .value
                .to_candle()?
                .narrow(0, rows.start, rows.len())?
                .to_dtype(DType::F32),
            Self::Quantized(weight) => {
                let mut values = vec![0f32; rows.len() * weight.cols()];
                let shape = (rows.len(), weight.cols());
                weight.dequantize_rows(rows, &mut values);
                convert::round::<bf16>(&mut values);
                Candle::from_vec(values, shape, &Device::Cpu)
            }
            Self::OnDevice(weight) => weight.rows_f32(rows)?.to_dtype(DType::BF16)?.to_dtype(DType::F32),
        }
    }
}
