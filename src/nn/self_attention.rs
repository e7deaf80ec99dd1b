//! An encoder's attention: every token sees every token of its sample.

use candle_core::{DType, Result, Tensor};

use super::{
    Pass,
    affine::{self, Affine},
    dropout::Dropout,
    encoder_names::Names,
    feed_forward::add_output,
    param::Param,
    sdpa,
};
use crate::{
    kernels::attention::{Keys, Pattern},
    memory::{self, Category},
};

/// An encoder's attention layer.
#[derive(Debug)]
pub struct SelfAttention {
    /// The family's names of the layers.
    pub names: &'static Names,
    /// Projection of queries, `[hidden, hidden]`.
    pub query: Affine,
    /// Projection of keys, `[hidden, hidden]`.
    pub key: Affine,
    /// Projection of values, `[hidden, hidden]`.
    pub value: Affine,
    /// Projection of the output, `[hidden, hidden]`.
    pub output: Affine,
    /// Heads of queries, keys and values.
    pub heads: usize,
    /// On the weights.
    pub weight_dropout: Dropout,
    /// On the output, before the residual is added.
    pub dropout: Dropout,
}

/// In the hidden dtype, `[batch, len, heads, head_dim]`: q, k, v and the output before its projection; and float32
/// log-sum-exps, one a query and head.
#[derive(Debug)]
pub struct Saved {
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    sums: Tensor,
}

impl SelfAttention {
    /// The output added to `x`, in the hidden dtype.
    pub fn forward(&self, x: &Tensor, pass: &Pass) -> Result<(Tensor, Saved)> {
        let qkv = affine::forward([&self.query, &self.key, &self.value], x, pass)?;
        let [q, k, v] = qkv.map(|x| self.heads_of(&x, pass));
        let names = self.names;
        let (q, k, v) = (kept(names.query, q?), kept(names.key, k?), kept(names.value, v?));
        let masks = self.weight_dropout.masks(pass);
        let pattern = Pattern {
            keys: Keys::First(&pass.lengths),
            dropout: masks.as_deref(),
        };
        let (out, sums) = sdpa::forward(&q, &k, &v, pattern)?;
        let (out, sums) = (kept("sdpa", out), kept("sdpa", sums));
        let y = add_output(&self.output, &self.dropout, &tokens_of(&out)?, x, pass)?;
        Ok((y, Saved { q, k, v, out, sums }))
    }

    /// The gradient of `x`, float32, from that of the output, float32, without what the residual adds. Takes what the
    /// forward pass saved, and frees it as it goes.
    pub fn backward(&mut self, x: &Tensor, saved: Saved, dy: &Tensor, pass: &Pass) -> Result<Tensor> {
        let Saved { q, k, v, out, sums } = saved;
        let dy = self.dropout.backward(dy, x.dtype(), pass)?;
        let out_tokens = tokens_of(&out)?;
        let (d_out_tokens, ranks) = affine::input_gradient([&self.output], [&dy], pass, dy.dtype())?;
        affine::accumulate([&mut self.output], &out_tokens, [&dy], ranks, pass)?;
        drop(dy);
        let d_out = self.heads_of(&d_out_tokens, pass)?;
        drop(d_out_tokens);
        let masks = self.weight_dropout.masks(pass);
        let pattern = Pattern {
            keys: Keys::First(&pass.lengths),
            dropout: masks.as_deref(),
        };
        let (dq, dk, dv) = sdpa::backward(&q, &k, &v, &out, &sums, &d_out, pattern)?;
        drop((q, k, v, out, out_tokens, sums, d_out));
        let (dq, dk, dv) = (tokens_of(&dq)?, tokens_of(&dk)?, tokens_of(&dv)?);
        let dys = [&dq, &dk, &dv];
        let (dx, ranks) = affine::input_gradient([&self.query, &self.key, &self.value], dys, pass, DType::F32)?;
        let layers = [&mut self.query, &mut self.key, &mut self.value];
        affine::accumulate(layers, x, dys, ranks, pass)?;
        Ok(dx)
    }

    /// The parameters that are trained, in a fixed order.
    pub fn trainable(&mut self) -> Vec<&mut Param> {
        [&mut self.query, &mut self.key, &mut self.value, &mut self.output]
            .into_iter()
            .flat_map(Affine::trainable)
            .collect()
    }

    /// `[tokens, hidden]` as `[batch, len, heads, head_dim]`.
    fn heads_of(&self, x: &Tensor, pass: &Pass) -> Result<Tensor> {
        x.reshape((pass.batch, pass.len, self.heads, x.dim(1)? / self.heads))
    }
}

/// `[batch, len, heads, head_dim]` as `[tokens, hidden]`.
fn tokens_of(x: &Tensor) -> Result<Tensor> {
    let (batch, len, heads, head_dim) = x.dims4()?;
    x.reshape((batch * len, heads * head_dim))
}

/// Labels what a part made and what is kept for the backward pass.
fn kept(part: &str, tensor: Tensor) -> Tensor {
    let _part = memory::part(part);
    memory::label(&tensor, Category::Activation);
    tensor
}
