//! A gradient as a matrix: its products with thin factors, by the CPU's kernels or candle's ops.

use candle_core::{DType, Result, Tensor};

use crate::{
    kernels::low_rank,
    nn::host::{self, for_format},
};

/// The gradient of a weight `[rows, columns]`.
pub(super) struct Gradient<'a> {
    tensor: &'a Tensor,
    pub(super) rows: usize,
    pub(super) columns: usize,
}

impl<'a> Gradient<'a> {
    /// # Errors
    /// If the tensor does not have two dimensions.
    pub(super) fn new(tensor: &'a Tensor) -> Result<Self> {
        let (rows, columns) = tensor.dims2()?;
        Ok(Self { tensor, rows, columns })
    }

    fn has_kernels(&self) -> bool {
        host::has_kernels(self.tensor.device())
    }

    /// `gradient · right [count, columns]ᵀ`, `[rows, count]`, float32.
    pub(super) fn times(&self, right: &Tensor) -> Result<Tensor> {
        if !self.has_kernels() {
            return self.wide()?.matmul(&right.t()?);
        }
        let count = right.dim(0)?;
        let product = for_format!(self.tensor.dtype(), E => {
            let (gradient, right) = (host::values::<E>(self.tensor)?, host::values::<f32>(right)?);
            Ok(low_rank::times(&gradient, self.columns, &right, count))
        })?;
        self.to_device(product, (self.rows, count))
    }

    /// `left [rows, count]ᵀ · gradient`, `[count, columns]`, float32.
    pub(super) fn transposed_times(&self, left: &Tensor) -> Result<Tensor> {
        if !self.has_kernels() {
            return left.t()?.contiguous()?.matmul(&self.wide()?);
        }
        let count = left.dim(1)?;
        let product = for_format!(self.tensor.dtype(), E => {
            let (gradient, left) = (host::values::<E>(self.tensor)?, host::values::<f32>(left)?);
            Ok(low_rank::transposed_times(&gradient, self.columns, &left, count))
        })?;
        self.to_device(product, (count, self.columns))
    }

    /// `gradientᵀ · gradient` in float64, row by row.
    pub(super) fn gram_of_columns(&self) -> Result<Vec<f64>> {
        if !self.has_kernels() {
            let wide = self.tensor.to_dtype(DType::F64)?;
            return wide.t()?.contiguous()?.matmul(&wide)?.flatten_all()?.to_vec1();
        }
        for_format!(self.tensor.dtype(), E => {
            Ok(low_rank::gram_of_columns(&host::values::<E>(self.tensor)?, self.columns))
        })
    }

    /// `gradient · gradientᵀ` in float64, row by row.
    pub(super) fn gram_of_rows(&self) -> Result<Vec<f64>> {
        if !self.has_kernels() {
            let wide = self.tensor.to_dtype(DType::F64)?;
            return wide.matmul(&wide.t()?.contiguous()?)?.flatten_all()?.to_vec1();
        }
        for_format!(self.tensor.dtype(), E => {
            Ok(low_rank::gram_of_rows(&host::values::<E>(self.tensor)?, self.columns))
        })
    }

    /// A float32 tensor of these values on the gradient's device.
    pub(super) fn to_device(&self, values: Vec<f32>, shape: (usize, usize)) -> Result<Tensor> {
        Tensor::from_vec(values, shape, self.tensor.device())
    }

    fn wide(&self) -> Result<Tensor> {
        self.tensor.to_dtype(DType::F32)
    }
}
