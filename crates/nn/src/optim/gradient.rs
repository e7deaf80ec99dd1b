//! A gradient as a matrix: its products with thin factors, by the CPU's kernels or candle's ops.

use candle_core::{DType, Result};
use kernels::low_rank;
use memory::Buffer;

use crate::tensor::{Tensor, for_format};

/// The gradient of a weight `[rows, columns]`.
pub(super) struct Gradient<'a> {
    tensor: &'a Tensor,
    pub(super) rows: usize,
    pub(super) columns: usize,
}

impl<'a> Gradient<'a> {
    pub(super) fn new(tensor: &'a Tensor) -> Self {
        Self {
            rows: tensor.rows(),
            columns: tensor.cols(),
            tensor,
        }
    }

    /// `gradient · right [count, columns]ᵀ`, `[rows, count]`, float32.
    pub(super) fn times(&self, right: &Tensor) -> Result<Tensor> {
        let count = right.rows();
        if !self.tensor.has_kernels() {
            return Tensor::from_candle(self.tensor.to_candle_f32()?.matmul(&right.to_candle()?.t()?)?);
        }
        for_format!(self.tensor.dtype(), E => {
            let (gradient, right) = (self.tensor.values::<E>()?, right.values::<f32>()?);
            Ok(Tensor::written((self.rows, count), |out| {
                low_rank::times(gradient, self.columns, right, count, out);
            }))
        })
    }

    /// `left [rows, count]ᵀ · gradient`, `[count, columns]`, float32.
    pub(super) fn transposed_times(&self, left: &Tensor) -> Result<Tensor> {
        let count = left.cols();
        if !self.tensor.has_kernels() {
            let left = left.to_candle()?.t()?.contiguous()?;
            return Tensor::from_candle(left.matmul(&self.tensor.to_candle_f32()?)?);
        }
        let mut sums = Buffer::zeros(low_rank::sums(self.columns, count));
        for_format!(self.tensor.dtype(), E => {
            let (gradient, left) = (self.tensor.values::<E>()?, left.values::<f32>()?);
            Ok(Tensor::written((count, self.columns), |out| {
                low_rank::transposed_times(gradient, self.columns, left, count, sums.values_mut(), out);
            }))
        })
    }

    /// `gradientᵀ · gradient` in float64, row by row.
    pub(super) fn gram_of_columns(&self) -> Result<Buffer<f64>> {
        if !self.tensor.has_kernels() {
            let wide = self.tensor.to_candle()?.to_dtype(DType::F64)?;
            let gram = wide.t()?.contiguous()?.matmul(&wide)?;
            return Ok(gram.flatten_all()?.to_vec1::<f64>()?.into());
        }
        let mut gram = Buffer::zeros(self.columns * self.columns);
        if memory::is_dry_run() {
            return Ok(gram);
        }
        for_format!(self.tensor.dtype(), E => {
            low_rank::gram_of_columns(self.tensor.values::<E>()?, self.columns, gram.values_mut());
            Ok(gram)
        })
    }

    /// `gradient · gradientᵀ` in float64, row by row.
    pub(super) fn gram_of_rows(&self) -> Result<Buffer<f64>> {
        if !self.tensor.has_kernels() {
            let wide = self.tensor.to_candle()?.to_dtype(DType::F64)?;
            let gram = wide.matmul(&wide.t()?.contiguous()?)?;
            return Ok(gram.flatten_all()?.to_vec1::<f64>()?.into());
        }
        let mut gram = Buffer::zeros(self.rows * self.rows);
        if memory::is_dry_run() {
            return Ok(gram);
        }
        for_format!(self.tensor.dtype(), E => {
            low_rank::gram_of_rows(self.tensor.values::<E>()?, self.columns, gram.values_mut());
            Ok(gram)
        })
    }

    /// A float32 tensor `[rows, columns]` on the gradient's device, element by element.
    pub(super) fn on_device(
        &self,
        (rows, columns): (usize, usize),
        element: impl FnMut(usize) -> f32,
    ) -> Result<Tensor> {
        let values = Buffer::from_fn(rows * columns, element);
        Tensor::on_device(values, (rows, columns), self.tensor.device())
    }
}
