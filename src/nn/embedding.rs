//! Token embedding: a row of the table for each token.

use candle_core::{DType, Result, Tensor};

use super::{
    host::{self, for_format, values},
    param::Param,
};

/// `[n]` ids to `[n, hidden]` in the hidden dtype.
pub fn forward(table: &Param, ids: &Tensor, hidden: DType) -> Result<Tensor> {
    table.value.index_select(ids, 0)?.to_dtype(hidden)
}

/// Adds each row's gradient to its token's; does nothing where the table is frozen.
pub fn backward(table: &mut Param, ids: &Tensor, dy: &Tensor) -> Result<()> {
    if !table.trainable {
        return Ok(());
    }
    if !host::has_kernels(dy.device()) {
        let zeros = Tensor::zeros(table.value.shape(), DType::F32, dy.device())?;
        return table.accumulate(zeros.index_add(ids, &dy.to_dtype(DType::F32)?, 0)?);
    }
    let ids = ids.to_vec1::<u32>()?;
    for_format!(dy.dtype(), R => table.accumulate_rows(&ids, &values::<R>(dy)?))
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
