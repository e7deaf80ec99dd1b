//! Attention: projections, rotary embedding, scaled-dot-product attention, output projection. Decoders hide later tokens
//! and rotate queries and keys; encoders have dropout.

use candle_core::{DType, Result};

use super::{Pass, dropout::Dropout, eager, linear::Projection, param::Param, rope::Rope, sdpa, tensor::Tensor};
use crate::{
    kernels::{
        attention::{Keys, Pattern, Shape},
        dropout::Mask,
        rope::Heads,
    },
    memory::{self, tiers::Slot},
    options::Attention as Implementation,
};

/// An attention layer.
#[derive(Debug)]
pub struct Attention {
    /// Names of the projections that give queries, keys and values.
    pub names: [&'static str; 3],
    /// Projections of queries, keys and values: `[heads · head_dim, hidden]` and twice `[kv_heads · head_dim, hidden]`.
    pub qkv: Projection<3>,
    /// Projection of the output, `[hidden, heads · head_dim]`.
    pub output: Projection<1>,
    /// Heads of queries.
    pub heads: usize,
    /// Heads of keys and values, a divisor of `heads`.
    pub kv_heads: usize,
    /// Dimensions of a head.
    pub head_dim: usize,
    /// True if a token sees no later ones; else it sees all of its sequence.
    pub is_causal: bool,
    /// How it is computed: eager holds the softmax weights for the backward pass.
    pub implementation: Implementation,
    /// Dropout of the softmax weights.
    pub weight_dropout: Dropout,
    /// Dropout of the output, before the residual is added.
    pub output_dropout: Dropout,
}

/// In the hidden dtype: rotated q `[tokens, heads · head_dim]`, rotated k and v `[tokens, kv_heads · head_dim]`, the output
/// before its projection (shape of q); and what the softmax weights are known from.
#[derive(Debug)]
pub struct Saved {
    qkv: [Tensor; 3],
    out: Tensor,
    softmax: Softmax,
}

/// What the softmax weights are known from in the backward pass.
#[derive(Debug)]
enum Softmax {
    /// Float32 log-sum-exps, one a query and head: the weights are computed again.
    LogSumExps(Tensor),
    /// The weights themselves.
    Weights(eager::Weights),
}

impl Attention {
    /// The output added to `residual`, in the hidden dtype.
    pub fn forward(&self, x: &Tensor, residual: &Tensor, rope: Option<&Rope>, pass: &Pass) -> Result<(Tensor, Saved)> {
        let [q, k, v] = self.qkv.forward(x, pass)?;
        let [q, k] = match rope {
            Some(rope) => [
                rope.forward(q, self.rotated(rope, self.heads, pass))?,
                rope.forward(k, self.rotated(rope, self.kv_heads, pass))?,
            ],
            None => [q, k],
        };
        let [q_name, k_name, v_name] = self.names;
        let qkv = [kept(q_name, q), kept(k_name, k), kept(v_name, v)];
        let masks = self.weight_dropout.masks(pass);
        let (shape, pattern) = (self.shape(pass), self.pattern(pass, masks.as_deref()));
        let (out, softmax) = match self.implementation {
            Implementation::Eager => {
                let (out, weights) = eager::forward(qkv.each_ref(), shape, pattern)?;
                (kept("eager", out), Softmax::Weights(weights))
            }
            Implementation::Sdpa | Implementation::FlashAttention2 => {
                let [q, k, v] = &qkv;
                let (out, lse) = sdpa::forward(q, k, v, shape, pattern)?;
                (kept("sdpa", out), Softmax::LogSumExps(kept("sdpa", lse)))
            }
        };
        let y = self
            .output
            .forward_dropped(&out, residual, &self.output_dropout, pass)?;
        Ok((y, Saved { qkv, out, softmax }))
    }

    /// The gradient of `x`, float32, from that of the output, float32, without that of the residual. Takes what the
    /// forward pass saved, and frees it as it goes.
    pub fn backward(
        &mut self,
        x: &Tensor,
        saved: Saved,
        dy: &Tensor,
        rope: Option<&Rope>,
        pass: &Pass,
    ) -> Result<Tensor> {
        let Saved { qkv, out, softmax } = saved;
        let dy = self.output_dropout.backward(dy, x.dtype(), pass)?;
        let (d_out, carried) = self.output.input_gradient([&dy], pass, dy.dtype())?;
        self.output.accumulate(&out, [&dy], carried, pass)?;
        drop(dy);
        let masks = self.weight_dropout.masks(pass);
        let (shape, pattern) = (self.shape(pass), self.pattern(pass, masks.as_deref()));
        let [dq, dk, dv] = match softmax {
            Softmax::Weights(weights) => {
                // Unlike the other way, this one does not need the output.
                drop(out);
                eager::backward(qkv.each_ref(), weights, &d_out, shape, pattern)?
            }
            Softmax::LogSumExps(lse) => {
                let gradients = sdpa::backward(qkv.each_ref(), (&out, &lse), &d_out, shape, pattern)?;
                drop((out, lse));
                gradients
            }
        };
        drop((qkv, d_out));
        let [dq, dk] = match rope {
            Some(rope) => [
                rope.backward(dq, self.rotated(rope, self.heads, pass))?,
                rope.backward(dk, self.rotated(rope, self.kv_heads, pass))?,
            ],
            None => [dq, dk],
        };
        let dys = [&dq, &dk, &dv];
        let (dx, carried) = self.qkv.input_gradient(dys, pass, DType::F32)?;
        self.qkv.accumulate(x, dys, carried, pass)?;
        Ok(dx)
    }

    /// The parameters that are trained, in a fixed order.
    pub fn trainable<'a>(&'a mut self, params: &mut Vec<&'a mut Param>) {
        self.qkv.trainable(params);
        self.output.trainable(params);
    }

    /// The places of the weights that are not trained, in a fixed order.
    pub fn frozen<'a>(&'a mut self, slots: &mut Vec<&'a mut dyn Slot>) {
        self.qkv.frozen(slots);
        self.output.frozen(slots);
    }

    fn shape<'a>(&self, pass: &'a Pass) -> Shape<'a> {
        Shape {
            sequences: &pass.sequences,
            heads: self.heads,
            kv_heads: self.kv_heads,
            head_dim: self.head_dim,
        }
    }

    fn rotated<'a>(&self, rope: &Rope, heads: usize, pass: &'a Pass) -> Heads<'a> {
        Heads {
            sequences: &pass.sequences,
            heads,
            head_dim: self.head_dim,
            rotary_dim: rope.rotary_dim(),
        }
    }

    fn pattern<'a>(&self, pass: &'a Pass, dropout: Option<&'a [Mask]>) -> Pattern<'a> {
        let keys = if self.is_causal {
            Keys::Causal
        } else {
            Keys::First(&pass.lengths)
        };
        Pattern { keys, dropout }
    }
}

/// Labels what a part made and what is kept for the backward pass.
fn kept(part: &str, tensor: Tensor) -> Tensor {
    let _part = memory::part(part);
    tensor.kept()
}
