//! A linear layer over a frozen (or, with rank 0, trained) weight, with its adapter beside it, and its computation by candle's
//! ops.

use candle_core::{DType, Result, Tensor};

use crate::nn::{lora::Lora, param::Param, pass::Pass, weight::Weight};

/// A linear layer without a bias.
#[derive(Debug)]
pub struct Linear {
    /// The weight, `[out, in]`.
    pub weight: Weight,
    /// The adapter, if the layer has one.
    pub adapter: Option<Lora>,
}

/// The gradient of the adapters' inner products `scale · dropout(x) · Aᵀ`, side by side: what
/// [`input_gradient`](super::input_gradient) has to compute and [`accumulate`](super::accumulate) needs too. On other
/// devices each computes it for itself.
#[derive(Debug)]
pub struct RankGradients(pub(super) Option<Tensor>);

impl Linear {
    /// The adapter's rank; 0 without one.
    pub fn rank(&self) -> usize {
        self.adapter.as_ref().map_or(0, Lora::rank)
    }

    /// The output in float32, by candle's ops.
    pub(in crate::nn) fn forward_plain(&self, x: &Tensor, pass: &Pass) -> Result<Tensor> {
        let y = self.weight.forward(x)?;
        match &self.adapter {
            Some(adapter) => y + adapter.forward(x, pass)?,
            None => Ok(y),
        }
    }

    pub(super) fn input_gradient_plain(&self, dy: &Tensor, pass: &Pass) -> Result<Tensor> {
        let dy = dy.to_dtype(DType::F32)?;
        let dx = self.weight.backward(&dy)?;
        match &self.adapter {
            Some(adapter) => dx + adapter.input_gradient(&dy, pass)?,
            None => Ok(dx),
        }
    }

    pub(super) fn accumulate_plain(&mut self, x: &Tensor, dy: &Tensor, pass: &Pass) -> Result<()> {
        let dy = dy.to_dtype(DType::F32)?;
        if let Weight::Dense(param) = &mut self.weight
            && param.trainable
        {
            param.accumulate(dy.t()?.matmul(&x.to_dtype(DType::F32)?)?)?;
        }
        match &mut self.adapter {
            Some(adapter) => adapter.accumulate(x, &dy, pass),
            None => Ok(()),
        }
    }

    /// What is trained of this layer, in a fixed order.
    pub fn trainable(&mut self) -> Vec<&mut Param> {
        let mut params = Vec::new();
        if let Weight::Dense(param) = &mut self.weight
            && param.trainable
        {
            params.push(param);
        }
        if let Some(adapter) = &mut self.adapter {
            params.push(&mut adapter.a);
            params.push(&mut adapter.b);
        }
        params
    }
}
