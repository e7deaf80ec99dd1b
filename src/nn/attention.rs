//! Grouped-query attention: projections, rotary embedding, causal attention, output projection.

use candle_core::{DType, Result, Tensor};

use super::{
    Pass,
    linear::{self, Linear},
    param::Param,
    rope::Rope,
    sdpa,
};
use crate::{
    kernels::attention::Pattern,
    memory::{self, Category},
};

/// A decoder's attention layer, with Hugging Face's names.
#[derive(Debug)]
pub struct Attention {
    /// Projection of queries, `[heads · head_dim, hidden]`.
    pub q_proj: Linear,
    /// Projection of keys, `[kv_heads · head_dim, hidden]`.
    pub k_proj: Linear,
    /// Projection of values, `[kv_heads · head_dim, hidden]`.
    pub v_proj: Linear,
    /// Projection of the output, `[hidden, heads · head_dim]`.
    pub o_proj: Linear,
    /// Heads of queries.
    pub heads: usize,
    /// Heads of keys and values, a divisor of `heads`.
    pub kv_heads: usize,
    /// Dimensions of a head.
    pub head_dim: usize,
}

/// In the hidden dtype: rotated q `[batch, len, heads, head_dim]`, rotated k and v `[batch, len, kv_heads, head_dim]`,
/// the output before its projection (shape of q); and float32 log-sum-exps, one a query and head.
#[derive(Debug)]
pub struct Saved {
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    sums: Tensor,
}

impl Attention {
    /// The output added to `residual`, in the hidden dtype.
    pub fn forward(&self, x: &Tensor, residual: &Tensor, rope: &Rope, pass: &Pass) -> Result<(Tensor, Saved)> {
        let [q, k, v] = linear::forward([&self.q_proj, &self.k_proj, &self.v_proj], x, pass)?;
        let q = kept("q_proj", rope.forward(self.heads_of(&q, self.heads, pass)?)?);
        let k = kept("k_proj", rope.forward(self.heads_of(&k, self.kv_heads, pass)?)?);
        let v = kept("v_proj", self.heads_of(&v, self.kv_heads, pass)?);
        let (out, sums) = sdpa::forward(&q, &k, &v, Pattern::CAUSAL)?;
        let (out, sums) = (kept("sdpa", out), kept("sdpa", sums));
        let y = self.o_proj.forward_onto(&self.tokens_of(&out)?, residual, pass)?;
        Ok((y, Saved { q, k, v, out, sums }))
    }

    /// The gradient of `x`, float32, from that of the output, in the hidden dtype. Takes what the forward pass saved, and
    /// frees it as it goes.
    pub fn backward(&mut self, x: &Tensor, saved: Saved, dy: Tensor, rope: &Rope, pass: &Pass) -> Result<Tensor> {
        let Saved { q, k, v, out, sums } = saved;
        let out_tokens = self.tokens_of(&out)?;
        let (d_out_tokens, ranks) = linear::input_gradient([&self.o_proj], [&dy], pass, dy.dtype())?;
        linear::accumulate([&mut self.o_proj], &out_tokens, [&dy], ranks, pass)?;
        drop(dy);
        let d_out = self.heads_of(&d_out_tokens, self.heads, pass)?;
        drop(d_out_tokens);
        let (dq, dk, dv) = sdpa::backward(&q, &k, &v, &out, &sums, &d_out, Pattern::CAUSAL)?;
        drop((q, k, v, out, out_tokens, sums, d_out));
        let (dq, dk) = (
            self.tokens_of(&rope.backward(dq)?)?,
            self.tokens_of(&rope.backward(dk)?)?,
        );
        let dys = [&dq, &dk, &self.tokens_of(&dv)?];
        drop(dv);
        let linears = [&self.q_proj, &self.k_proj, &self.v_proj];
        let (dx, ranks) = linear::input_gradient(linears, dys, pass, DType::F32)?;
        let linears = [&mut self.q_proj, &mut self.k_proj, &mut self.v_proj];
        linear::accumulate(linears, x, dys, ranks, pass)?;
        Ok(dx)
    }

    /// The parameters that are trained, in a fixed order.
    pub fn trainable(&mut self) -> Vec<&mut Param> {
        [&mut self.q_proj, &mut self.k_proj, &mut self.v_proj, &mut self.o_proj]
            .into_iter()
            .flat_map(Linear::trainable)
            .collect()
    }

    /// `[tokens, heads · head_dim]` as `[batch, len, heads, head_dim]`.
    fn heads_of(&self, x: &Tensor, heads: usize, pass: &Pass) -> Result<Tensor> {
        x.reshape((pass.batch, pass.len, heads, self.head_dim))
    }

    /// `[batch, len, heads, head_dim]` as `[tokens, heads · head_dim]`.
    fn tokens_of(&self, x: &Tensor) -> Result<Tensor> {
        let (batch, len, heads, head_dim) = x.dims4()?;
        x.reshape((batch * len, heads * head_dim))
    }
}

/// Labels what a part made and what is kept for the backward pass.
fn kept(part: &str, tensor: Tensor) -> Tensor {
    let _part = memory::part(part);
    memory::label(&tensor, Category::Activation);
    tensor
}
