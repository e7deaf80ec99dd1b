//! A matrix `[out, in]` in the format it is stored in, and its products by candle's ops.

use std::ops::Range;

use candle_core::{DType, Device, Result, Tensor as Candle};

use super::{param::Param, tensor::for_format};
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
    Quantized {
        /// The codes and their scales.
        matrix: Quantized,
        /// The format that values are rounded to for products (bitsandbytes' `bnb_4bit_compute_dtype`).
        products: DType,
    },
    /// The same in another device's memory.
    OnDevice {
        /// The codes and their scales.
        matrix: OnDevice,
        /// As above.
        products: DType,
    },
}

impl Weight {
    /// Rows: outputs.
    pub fn rows(&self) -> usize {
        match self {
            Self::Dense(param) => param.value.rows(),
            Self::Quantized { matrix, .. } => matrix.rows(),
            Self::OnDevice { matrix, .. } => matrix.rows(),
        }
    }

    /// Columns: inputs.
    pub fn cols(&self) -> usize {
        match self {
            Self::Dense(param) => param.value.cols(),
            Self::Quantized { matrix, .. } => matrix.cols(),
            Self::OnDevice { matrix, .. } => matrix.cols(),
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

    /// Rows in float32: a view if they are stored so. Quantised ones are rounded to the format of their products on the way.
    pub(super) fn rows_f32(&self, rows: Range<usize>) -> Result<Candle> {
        match self {
            Self::Dense(param) => param
                .value
                .to_candle()?
                .narrow(0, rows.start, rows.len())?
                .to_dtype(DType::F32),
            Self::Quantized { matrix, products } => {
                let mut values = vec![0f32; rows.len() * matrix.cols()];
                let shape = (rows.len(), matrix.cols());
                matrix.dequantize_rows(rows, &mut values);
                for_format!(*products, E => {
                    convert::round::<E>(&mut values);
                    Ok(())
                })?;
                Candle::from_vec(values, shape, &Device::Cpu)
            }
            Self::OnDevice { matrix, products } => matrix.rows_f32(rows)?.to_dtype(*products)?.to_dtype(DType::F32),
        }
    }
}
