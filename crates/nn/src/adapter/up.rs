//! The second factor of a low-rank term, B `[out, rank]`.

use std::ops::Range;
use std::sync::Arc;

use candle_core::{DType, Result, Tensor as Candle};
use kernels::{
    adapters,
    gemm::{Operand, OperandReader},
};

use super::shared::SharedFactors;
use crate::{
    convert,
    operand::{ComputedRows, Matrix, Stored},
    param::Param,
    tensor::Tensor,
};

/// The second factor of a low-rank term, B `[out, rank]`.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a layer has one")]
pub enum Up {
    /// LoRA's own.
    Factor(Param),
    /// MiSS's, transposed: `[rank, out]`, or fewer columns that are repeated until there are `outputs`.
    Block {
        /// What is trained.
        block: Param,
        /// Rows of B.
        outputs: usize,
    },
    /// VeRA's: the first rows of the shared B, whose rows and columns are scaled.
    Scaled {
        /// The shared factors.
        shared: Arc<SharedFactors>,
        /// `[out]`.
        of_rows: Param,
        /// `[rank]`.
        of_columns: Param,
    },
}

/// Rows of B as products read them.
pub struct UpRows<'a> {
    stored: Stored<'a>,
    is_transposed: bool,
}

impl UpRows<'_> {
    /// The operand of a product over the rank.
    pub(crate) fn over_rank<P>(&self) -> Operand<'_, P>
    where
        for<'a> Stored<'a>: OperandReader<P>,
    {
        match self.is_transposed {
            true => Operand::depth_first(&self.stored),
            false => Operand::depth_last(&self.stored),
        }
    }

    /// The operand of a product over the outputs.
    pub(crate) fn over_outputs<P>(&self) -> Operand<'_, P>
    where
        for<'a> Stored<'a>: OperandReader<P>,
    {
        match self.is_transposed {
            true => Operand::depth_last(&self.stored),
            false => Operand::depth_first(&self.stored),
        }
    }
}

/// A matrix of `period` columns that are repeated, from column `first` on.
struct Repeated<'a> {
    matrix: Matrix<'a>,
    period: usize,
    first: usize,
}

impl ComputedRows for Repeated<'_> {
    fn fill(&self, row: usize, cols: Range<usize>, out: &mut [f32]) {
        for (out, col) in out.iter_mut().zip(cols) {
            *out = self.matrix.value(row * self.period + (self.first + col) % self.period);
        }
    }
}

/// A matrix whose rows and columns have a factor each.
struct Scaled<'a> {
    matrix: Matrix<'a>,
    of_rows: Matrix<'a>,
    of_columns: Matrix<'a>,
}

impl ComputedRows for Scaled<'_> {
    fn fill(&self, row: usize, cols: Range<usize>, out: &mut [f32]) {
        const CHUNK: usize = 128;
        let mut factors = [0f32; CHUNK];
        for (at, out) in out.chunks_mut(CHUNK).enumerate() {
            let start = cols.start + at * CHUNK;
            let (cols, factors) = (start..start + out.len(), &mut factors[..out.len()]);
            self.matrix.fill(row, cols.clone(), out);
            self.of_columns.fill(0, cols, factors);
            adapters::scale(out, self.of_rows.value(row), factors);
        }
    }

    fn prefetch(&self, row: usize, cols: Range<usize>) {
        OperandReader::<f32>::prefetch(&self.matrix, row, cols);
    }
}

impl Up {
    /// What is trained of the factor: its format and its device are the factor's.
    pub(super) fn param(&self) -> &Param {
        match self {
            Self::Factor(param) | Self::Block { block: param, .. } | Self::Scaled { of_rows: param, .. } => param,
        }
    }

    /// What is trained.
    pub(super) fn params<'a>(&'a mut self, params: &mut Vec<&'a mut Param>) {
        match self {
            Self::Factor(param) | Self::Block { block: param, .. } => params.push(param),
            Self::Scaled {
                of_rows, of_columns, ..
            } => params.extend([of_rows, of_columns]),
        }
    }

    /// True if the gradient is `[rank, out]`.
    pub fn is_transposed(&self) -> bool {
        matches!(self, Self::Block { .. })
    }

    /// The rows from `first` on.
    pub fn rows(&self, first: usize) -> Result<UpRows<'_>> {
        let stored = match self {
            Self::Factor(b) => Stored::Dense(Matrix::new(&b.value)?.skip_rows(first)),
            Self::Block { block, outputs } if block.value.cols() == *outputs => {
                Stored::Dense(Matrix::new(&block.value)?.skip_columns(first))
            }
            Self::Block { block, .. } => Stored::Computed(Box::new(Repeated {
                matrix: Matrix::new(&block.value)?,
                period: block.value.cols(),
                first,
            })),
            Self::Scaled {
                shared,
                of_rows,
                of_columns,
            } => Stored::Computed(Box::new(Scaled {
                matrix: Matrix::new(&shared.b)?.skip_rows(first),
                of_rows: Matrix::new(&of_rows.value)?.skip_columns(first),
                of_columns: Matrix::new(&of_columns.value)?,
            })),
        };
        Ok(UpRows {
            stored,
            is_transposed: self.is_transposed(),
        })
    }

    /// The factor in float32, `[out, rank]`.
    pub(super) fn plain(&self) -> Result<Candle> {
        match self {
            Self::Factor(b) => b.value.to_candle_f32(),
            Self::Block { block, outputs } => {
                let block = block.value.to_candle_f32()?;
                let repeats = outputs / block.dim(1)?;
                block.repeat((1, repeats))?.t()?.contiguous()
            }
            Self::Scaled {
                of_rows, of_columns, ..
            } => {
                let scaled = self.shared_plain()?.broadcast_mul(&of_columns.value.to_candle_f32()?)?;
                scaled.broadcast_mul(&of_rows.value.to_candle_f32()?.unsqueeze(1)?)
            }
        }
    }

    /// VeRA's rows of the shared B, float32.
    fn shared_plain(&self) -> Result<Candle> {
        match self {
            Self::Scaled { shared, of_rows, .. } => shared.b.to_candle_f32()?.narrow(0, 0, of_rows.value.len()),
            Self::Factor(_) | Self::Block { .. } => candle_core::bail!("only VeRA has shared factors"),
        }
    }

    /// Adds the gradient of the factor: `[out, rank]`, or transposed, float32.
    pub fn accumulate(&mut self, gradient: Tensor) -> Result<()> {
        match self {
            Self::Factor(b) => b.accumulate(gradient),
            Self::Block { block, .. } => {
                let (rank, period) = (block.value.rows(), block.value.cols());
                if gradient.cols() == period {
                    return block.accumulate(gradient);
                }
                let values = gradient.values::<f32>()?;
                let columns = gradient.cols();
                let folded = Tensor::written((rank, period), |folded: &mut [f32]| {
                    adapters::fold_columns(values, columns, period, folded);
                });
                block.accumulate(folded)
            }
            Self::Scaled {
                shared,
                of_rows,
                of_columns,
            } => {
                let (rows, columns) = (of_rows.value.len(), of_columns.value.len());
                let wide = [
                    convert::widen(&shared.b)?,
                    convert::widen(&of_rows.value)?,
                    convert::widen(&of_columns.value)?,
                ];
                let [b, row_factors, column_factors] = wide.each_ref().map(|wide| wide.values::<f32>());
                let factors = (b?, row_factors?, column_factors?);
                let gradient = gradient.values::<f32>()?;
                let d_rows = Tensor::written(rows, |out: &mut [f32]| {
                    adapters::row_factor_gradients(gradient, factors, out);
                });
                let d_columns = Tensor::written(columns, |out: &mut [f32]| {
                    adapters::column_factor_gradients(gradient, factors, out);
                });
                drop(wide);
                of_rows.accumulate(d_rows)?;
                of_columns.accumulate(d_columns)
            }
        }
    }

    /// Adds the gradient of the factor, `[out, rank]`, by candle's ops.
    pub(super) fn accumulate_plain(&mut self, gradient: &Candle) -> Result<()> {
        let shared = match self {
            Self::Scaled { .. } => Some(self.shared_plain()?),
            Self::Factor(_) | Self::Block { .. } => None,
        };
        match self {
            Self::Factor(b) => b.accumulate(Tensor::from_candle(gradient.clone())?),
            Self::Block { block, outputs } => {
                let (rank, period) = (block.value.rows(), block.value.cols());
                let gradient = gradient.t()?.contiguous()?.reshape((rank, *outputs / period, period))?;
                block.accumulate(Tensor::from_candle(gradient.sum(1)?)?)
            }
            Self::Scaled {
                of_rows, of_columns, ..
            } => {
                let Some(shared) = shared else { return Ok(()) };
                let products = (gradient * shared)?.to_dtype(DType::F32)?;
                let row_factors = of_rows.value.to_candle_f32()?.unsqueeze(1)?;
                let d_rows = products.broadcast_mul(&of_columns.value.to_candle_f32()?)?.sum(1)?;
                let d_columns = products.broadcast_mul(&row_factors)?.sum(0)?;
                of_rows.accumulate(Tensor::from_candle(d_rows)?)?;
                of_columns.accumulate(Tensor::from_candle(d_columns)?)
            }
        }
    }
}
