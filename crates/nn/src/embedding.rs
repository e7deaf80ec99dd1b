//! Token embedding: a row of the table for each token.

use candle_core::{DType, Device, Result};
use half::{bf16, f16};
use kernels::{Element, embedding};
use memory::Buffer;

use super::{
    param::Param,
    tensor::{Tensor, for_format},
};

/// What becomes of the tokens' vectors. Their table, `[vocabulary, hidden]`, may be the head's weight, too, and is
/// given each time.
#[derive(Debug)]
pub struct Embedding {
    /// Factor of the vectors, where they have one.
    pub scale: Option<f32>,
    /// The token whose row gets no gradient (PyTorch's `padding_idx`).
    pub padding: Option<u32>,
}

impl Embedding {
    /// `n` ids to `[n, hidden]` in the hidden dtype, on `device`. Of a table in the host's memory these rows alone are
    /// copied.
    pub fn forward(&self, table: &Param, ids: &Buffer<u32>, hidden: DType, device: &Device) -> Result<Tensor> {
        table.count_rows(ids.len());
        scaled_rows(&table.value, ids, hidden, self.factor(table))?.moved_to(device)
    }

    /// The values of these tokens' rows in the table's format, row-major.
    pub fn values(&self, table: &Param, ids: &[u32]) -> Result<Vec<f32>> {
        let (table, cols, factor) = (&table.value, table.value.cols(), self.factor(table));
        if !table.has_kernels() {
            let ids = candle_core::Tensor::from_slice(ids, ids.len(), table.device())?;
            let rows = table.to_candle()?.index_select(&ids, 0)?.to_dtype(DType::F32)?;
            let rows = (rows * f64::from(factor))?
                .to_dtype(table.dtype())?
                .to_dtype(DType::F32)?;
            return rows.flatten_all()?.to_vec1();
        }
        for_format!(table.dtype(), T => {
            let table = table.values::<T>()?;
            let rows = ids.iter().flat_map(|&id| &table[id as usize * cols..][..cols]);
            Ok(rows.map(|value| T::narrow(value.widen() * factor).widen()).collect())
        })
    }

    /// Adds each row's gradient to its token's; does nothing if the table is frozen.
    pub fn backward(&self, table: &mut Param, ids: &Buffer<u32>, mut dy: Tensor) -> Result<()> {
        if table.trainable && self.scale.is_some() {
            if !dy.has_kernels() {
                dy = Tensor::from_candle((dy.to_candle()? * f64::from(self.factor(table)))?)?;
            } else if !memory::is_dry_run() {
                kernels::scale(dy.values_mut::<f32>()?, self.factor(table));
            }
        }
        if table.trainable {
            dy = without_padding(ids, dy, self.padding)?;
        }
        table.accumulate_rows(ids, &dy)
    }

    /// The scale, which transformers rounds to the table's format (`Gemma3TextScaledWordEmbedding.forward`), or 1.
    fn factor(&self, table: &Param) -> f32 {
        let scale = self.scale.unwrap_or(1.0);
        match table.value.dtype() {
            DType::F16 => f16::from_f32(scale).to_f32(),
            DType::BF16 => bf16::from_f32(scale).to_f32(),
            _ => scale,
        }
    }
}

/// The gradient `dx`, float32, with zeros in the rows of the padding token.
pub(super) fn without_padding(ids: &Buffer<u32>, mut dx: Tensor, padding: Option<u32>) -> Result<Tensor> {
    let ids = ids.values();
    let Some(padding) = padding.filter(|padding| ids.contains(padding)) else {
        return Ok(dx);
    };
    if !dx.has_kernels() {
        let counts: Vec<f32> = ids.iter().map(|&id| f32::from(u8::from(id != padding))).collect();
        let counts = candle_core::Tensor::from_vec(counts, (ids.len(), 1), dx.device())?;
        return Tensor::from_candle(dx.to_candle()?.broadcast_mul(&counts)?);
    }
    if !memory::is_dry_run() {
        let cols = dx.cols();
        let rows = dx.values_mut::<f32>()?.chunks_exact_mut(cols).zip(ids);
        for (row, _) in rows.filter(|(_, id)| **id == padding) {
            row.fill(0.0);
        }
    }
    Ok(dx)
}

/// The rows of a matrix with these indices, in `dtype`.
pub(super) fn rows(table: &Tensor, indices: &Buffer<u32>, dtype: DType) -> Result<Tensor> {
    scaled_rows(table, indices, dtype, 1.0)
}

fn scaled_rows(table: &Tensor, indices: &Buffer<u32>, dtype: DType, factor: f32) -> Result<Tensor> {
    if !table.has_kernels() {
        let indices = candle_core::Tensor::from_slice(indices.values(), indices.len(), table.device())?;
        let mut rows = table.to_candle()?.index_select(&indices, 0)?;
        if factor != 1.0 {
            rows = (rows.to_dtype(DType::F32)? * f64::from(factor))?;
        }
        return Tensor::from_candle(rows.to_dtype(dtype)?);
    }
    let cols = table.cols();
    for_format!(table.dtype(), T => for_format!(dtype, E => {
        let (table, indices) = (table.values::<T>()?, indices);
        Ok(Tensor::written((indices.len(), cols), |out: &mut [E]| {
            embedding::rows(table, cols, factor, indices.values(), out);
        }))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_close, elements, param, tensor, uniform, uniform_tensor, with_plain_ops};

    #[test]
    fn kernel_and_plain_ops_agree() {
        let ids = Buffer::from(vec![4, 0, 4, 6, 4]);
        for (dtype, scale, tolerance) in [
            (DType::F32, None, 1e-6),
            (DType::F32, Some(5.3), 1e-6),
            (DType::F16, None, 1e-3),
            (DType::BF16, Some(5.3), 1e-2),
        ] {
            let values = uniform("table", &[7, 33]).to_dtype(dtype).unwrap();
            let run = || {
                let mut table = param("table", &values, true);
                let embedding = Embedding {
                    scale,
                    padding: Some(6),
                };
                for dy in ["dy", "more"] {
                    embedding
                        .backward(&mut table, &ids, uniform_tensor(dy, &[5, 33]))
                        .unwrap();
                }
                let gradient = table.gradient().unwrap().to_candle().unwrap();
                let of_padding = elements(&tensor(&gradient.get(6).unwrap()));
                assert!(of_padding.iter().all(|value| *value == 0.0));
                let rows = embedding.forward(&table, &ids, DType::BF16, &Device::Cpu).unwrap();
                (rows, gradient)
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
        let embedding = Embedding {
            scale: None,
            padding: None,
        };
        embedding
            .backward(&mut table, &vec![1].into(), tensor(&uniform("dy", &[1, 3])))
            .unwrap();
        assert!(table.gradient().is_none());
    }
}
