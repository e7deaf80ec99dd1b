//! A matrix `[out, in]` in the format it is stored in, and its products by candle's ops.

use std::ops::Range;

use candle_core::{DType, Device, Result, Tensor as Candle};
use half::f16;
use quant::{Quantized, device::OnDevice};

use super::param::Param;

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
    /// Frozen, in 4 or 8 bits, in another device's memory.
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

    /// The least magnitude of an outlier among inputs, if they are quantised for the product (LLM.int8()).
    pub(super) fn outlier_threshold(&self) -> Option<f32> {
        match self {
            Self::Dense(_) => None,
            Self::Quantized { matrix, .. } => match matrix {
                Quantized::Int4(_) => None,
                Quantized::Int8(matrix) => matrix.outlier_threshold(),
            },
            Self::OnDevice { matrix, .. } => matrix.outlier_threshold(),
        }
    }

    /// `x · Wᵀ`: `[n, in] → [n, out]`, float32.
    pub(super) fn forward_plain(&self, x: &Candle) -> Result<Candle> {
        let x = x.to_dtype(DType::F32)?;
        if let Some(threshold) = self.outlier_threshold() {
            return self.llm_int8_plain(&x, threshold);
        }
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

    /// `x · Wᵀ` of quantised inputs, float32 (LLM.int8(), Dettmers et al. 2022, arXiv:2208.07339).
    fn llm_int8_plain(&self, x: &Candle, threshold: f32) -> Result<Candle> {
        // Rounded as bitsandbytes rounds it.
        let half = x.to_dtype(DType::F16)?.to_dtype(DType::F32)?;
        let is_outlier = if threshold > 0.0 {
            let threshold = f16::from_f32(threshold).to_f32();
            half.abs()?.ge(threshold)?.to_dtype(DType::F32)?
        } else {
            half.zeros_like()?
        };
        let rest = is_outlier.affine(-1.0, 1.0)?;
        let kept = (&half * rest)?;
        let absmax = kept.abs()?.max_keepdim(1)?;
        let scales = (&absmax / 127.0)?;
        let columns = is_outlier.max_keepdim(0)?;
        let inverse = (absmax.maximum(1e-30)?.recip()? * 127.0)?;
        let codes = kept.broadcast_mul(&inverse)?;
        let codes = round_ties_even(&codes)?.broadcast_mul(&columns.affine(-1.0, 1.0)?)?;
        let outliers = x.broadcast_mul(&columns)?;
        let parts = self.panels().map(|rows| {
            let sums = codes.matmul(&self.stored_rows_f32(rows.clone())?.t()?)?;
            sums.broadcast_mul(&scales)? + outliers.matmul(&self.rows_f32(rows)?.t()?)?
        });
        Candle::cat(&parts.collect::<Result<Vec<_>>>()?, 1)
    }

    /// Rows in float32: a view if they are stored so. Quantised ones are rounded to the format of their products on the
    /// way.
    pub(super) fn rows_f32(&self, rows: Range<usize>) -> Result<Candle> {
        let values = self.stored_rows_f32(rows)?;
        match self {
            Self::Dense(_) => Ok(values),
            Self::Quantized { products, .. } | Self::OnDevice { products, .. } => {
                values.to_dtype(*products)?.to_dtype(DType::F32)
            }
        }
    }

    /// Rows in float32, without another rounding.
    fn stored_rows_f32(&self, rows: Range<usize>) -> Result<Candle> {
        match self {
            Self::Dense(param) => param
                .value
                .to_candle()?
                .narrow(0, rows.start, rows.len())?
                .to_dtype(DType::F32),
            Self::Quantized { matrix, .. } => {
                let mut values = vec![0f32; rows.len() * matrix.cols()];
                let shape = (rows.len(), matrix.cols());
                matrix.dequantize_rows(rows, &mut values);
                Candle::from_vec(values, shape, &Device::Cpu)
            }
            Self::OnDevice { matrix, .. } => matrix.rows_f32(rows),
        }
    }
}

/// The nearest whole numbers, ties to even, of magnitudes up to 2^22.
fn round_ties_even(x: &Candle) -> Result<Candle> {
    let large = Candle::full(12_582_912f32, (1, 1), x.device())?;
    x.broadcast_add(&large)?.broadcast_sub(&large)
}
