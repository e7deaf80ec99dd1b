//! Token embedding: a row of the table for each token.

use candle_core::{DType, Device, Result};

use super::{
    param::Param,
    tensor::{Tensor, for_format},
};
use crate::{kernels::embedding, memory::Buffer};

/// `n` ids to `[n, hidden]` in the hidden dtype, on `device`. Of a table in the host's memory these rows alone are copied.
pub fn forward(table: &Param, ids: &Buffer<u32>, hidden: DType, device: &Device) -> Result<Tensor> {
    table.count_rows(ids.len());
    rows(&table.value, ids, hidden)?.moved_to(device)
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
    use super::*;
    use crate::nn::testing::{assert_close, param, tensor, uniform, uniform_tensor, with_plain_ops};

    #[test]
    fn kernel_and_plain_ops_agree() {
        let ids = Buffer::from(vec![4, 0, 4, 6, 4]);
        for (dtype, tolerance) in [(DType::F32, 1e-6), (DType::F16, 1e-3), (DType::BF16, 1e-2)] {
            let values = uniform("table", &[7, 33]).to_dtype(dtype).unwrap();
            let run = || {
                let mut table = param("table", &values, true);
                for dy in ["dy", "more"] {
                    backward(&mut table, &ids, &uniform_tensor(dy, &[5, 33])).unwrap();
                }
                let gradient = table.gradient().unwrap().to_candle().unwrap();
                (forward(&table, &ids, DType::BF16, &Device::Cpu).unwrap(), gradient)
            };
            let (kernel, plain) = (run(), with_plain_ops(run));
            assert_eq!((kernel.0.dtype(), kernel.1.dtype()), (DType::BF16, dtype));
            assert_close(&kernel.0, &plain.0, 0.0, "rows");
            assert_close(&kernel.1, &plain.1, tolerance, "gradient");
        }
    }

    #[test]
    fn a_frozen_table_gets_no_gradient() {
        let mut table = param("table", &uniform("table", &[2, 3]), false);
        backward(&mut table, &vec![1].into(), &tensor(&uniform("dy", &[1, 3]))).unwrap();
        assert!(table.gradient().is_none());
    }
}
