//! Token embedding: a row of the table for each token.

use candle_core::{DType, Result};

use super::{
    param::Param,
    tensor::{Tensor, for_format},
};
use crate::{kernels::embedding, memory::Buffer};

/// `n` ids to `[n, hidden]` in the hidden dtype.
pub fn forward(table: &Param, ids: &Buffer<u32>, hidden: DType) -> Result<Tensor> {
    rows(&table.value, ids, hidden)
}

/// Adds each row's gradient to its token's; does nothing if the table is frozen.
pub fn backward(table: &mut Param, ids: &Buffer<u32>, dy: &Tensor) -> Result<()> {
    table.accumulate_rows(ids, dy)
}

/// The rows of a matrix with these indices, in `dtype`.
pub(super) fn rows(table: &Tensor, indices: &Buffer<u32>, dtype: DType) -> Result<Tensor> {
    if !table.has_kernels() {
        let indices = candle_core::Tensor::from_slice(indices.values(), indices.len(), table.device())?;
        return Tensor::from_candle(table.to_candle()?.index_select(&indices, 0)?.to_dtype(dtype)?);
    }
    let cols = table.cols();
    for_format!(table.dtype(), T => for_format!(dtype, E => {
        let (table, indices) = (table.values::<T>()?, indices);
        Ok(Tensor::written((indices.len(), cols), |out: &mut [E]| {
            embedding::rows(table, cols, indices.values(), out);
        }))
    }))
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;
    use crate::nn::testing::{assert_close, uniform, with_plain_ops};

    #[test]
    fn kernel_and_plain_ops_agree() {
        let ids = Tensor::new(&[4u32, 0, 4, 6, 4], &Device::Cpu).unwrap();
        let micro_batches = [uniform("dy", &[5, 33]), uniform("more", &[5, 33])];
        for (dtype, tolerance) in [(DType::F32, 1e-6), (DType::F16, 1e-3), (DType::BF16, 1e-2)] {
            let gradient = || {
                let value = uniform("table", &[7, 33]).to_dtype(dtype).unwrap();
                let mut table = Param::base("table", value, true);
                for dy in &micro_batches {
                    backward(&mut table, &ids, dy).unwrap();
                }
                table.gradient().unwrap().clone()
            };
            let (kernel, plain) = (gradient(), with_plain_ops(gradient));
            assert_eq!(kernel.dtype(), dtype);
            assert_close(&kernel, &plain, tolerance, "gradient");
        }
    }

    #[test]
    fn a_frozen_table_gets_no_gradient() {
        let ids = Tensor::new(&[1u32], &Device::Cpu).unwrap();
        let mut table = Param::base("table", uniform("table", &[2, 3]), false);
        backward(&mut table, &ids, &uniform("dy", &[1, 3])).unwrap();
        assert!(table.gradient().is_none());
    }
}
