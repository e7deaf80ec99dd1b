//! Attention: projections, rotary embedding, scaled-dot-product attention, output projection. Decoders hide later
//! tokens and rotate queries and keys; encoders have dropout.

use candle_core::Result;
use kernels::{
    attention::{Keys, Pattern, Scores, Shape},
    dropout::Mask,
    rope::Heads,
};
use memory::tiers::Slot;
use options::Attention as Implementation;

use super::{
    Pass,
    dropout::Dropout,
    eager, head_norm,
    linear::Projection,
    norm::RmsNorm,
    param::Param,
    prefix::{Past, PastGradients},
    rope::Rope,
    sdpa,
    tensor::Tensor,
};

/// An attention layer.
#[derive(Debug)]
pub struct Attention {
    /// Names of the projections that give queries, keys and values.
    pub names: [&'static str; 3],
    /// Projections of queries, keys and values: `[heads · head_dim, hidden]` and twice `[kv_heads · head_dim, hidden]`.
    pub qkv: Projection<3>,
    /// Norms of each head's queries and of its keys, `[head_dim]` each, if the model has them.
    pub norms: Option<[RmsNorm; 2]>,
    /// Projection of the output, `[hidden, heads · head_dim]`.
    pub output: Projection<1>,
    /// Heads of queries.
    pub heads: usize,
    /// Heads of keys and values, a divisor of `heads`.
    pub kv_heads: usize,
    /// Dimensions of a head.
    pub head_dim: usize,
    /// How scores come from products of queries and keys.
    pub scores: Scores,
    /// The tokens that a token sees.
    pub visibility: Visibility,
    /// How it is computed: eager holds the softmax weights for the backward pass.
    pub implementation: Implementation,
    /// Dropout of the softmax weights.
    pub weight_dropout: Dropout,
    /// Dropout of the output, before the residual is added.
    pub output_dropout: Dropout,
}

/// The tokens that a token sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Visibility {
    /// All of its sequence.
    All,
    /// Itself and those before it.
    Causal,
    /// Itself and those before it, at most so many in all.
    Window(usize),
}

/// In the hidden dtype: q `[tokens, heads · head_dim]`, k and v `[tokens, kv_heads · head_dim]`, the output before its
/// projection (shape of q); and what the softmax weights are known from. q and k are rotated, or the inputs of their
/// norms.
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
    /// The output added to `residual`, in its dtype; without one the output alone, in the dtype of products.
    pub fn forward(
        &self,
        x: &Tensor,
        residual: Option<&Tensor>,
        rope: Option<&Rope>,
        past: Past<'_>,
        pass_of_x: &Pass,
    ) -> Result<(Tensor, Saved)> {
        let pass = &*past.pass(pass_of_x);
        let [q, k, v] = past.before_all(self.qkv.forward(x, pass_of_x)?, &pass.sequences)?;
        let [q_name, k_name, v_name] = self.names;
        let (inputs, [q, k]) = self.norm_and_rotate([q, k], rope, pass)?;
        let [k, v] = [past.keys(k, &pass.sequences)?, past.values(v, &pass.sequences)?];
        // The backward pass computes the norms again: that is cheaper than keeping their outputs, too.
        let (inputs, [q, k]) = match inputs {
            Some([q_input, k_input]) => (Some([kept(q_name, q_input), kept(k_name, k_input)]), [q, k]),
            None => (None, [kept(q_name, q), kept(k_name, k)]),
        };
        let qkv = [q, k, kept(v_name, v)];
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
        let [q, k, v] = qkv;
        let [q, k] = inputs.unwrap_or([q, k]);
        let rows = past.without(&out, &pass.sequences)?;
        let y = self
            .output
            .forward_dropped(&rows, residual, &self.output_dropout, pass_of_x)?;
        drop(rows);
        let qkv = [q, k, v];
        Ok((y, Saved { qkv, out, softmax }))
    }

    /// The gradient of `x`, float32, if somebody needs it, from that of the output, without that of the residual; the
    /// output's is float32 or in the dtype of `x`. Takes what the forward pass saved, and frees it as it goes.
    pub fn backward(
        &mut self,
        (x, needs_dx): (&Tensor, bool),
        saved: Saved,
        dy: &Tensor,
        rope: Option<&Rope>,
        mut of_past: PastGradients<'_>,
        pass_of_x: &Pass,
    ) -> Result<Option<Tensor>> {
        let Saved {
            qkv: [q, k, v],
            out,
            softmax,
        } = saved;
        let dy = self.output_dropout.backward(dy, x.dtype(), pass_of_x)?;
        let (d_out, carried) = self.output.input_gradient([&dy], pass_of_x, dy.dtype())?;
        let past = of_past.past();
        let pass = &*past.pass(pass_of_x);
        // Beside a prefix, nothing of the layer is trained.
        if past.is_none() {
            self.output.accumulate(&out, [&dy], carried, pass)?;
        }
        let d_out = past.before(d_out, &pass.sequences)?;
        drop(dy);
        let (inputs, [q, k]) = match self.norms {
            Some(_) => {
                let (inputs, [q, k]) = self.norm_and_rotate([q, k], rope, pass)?;
                (inputs, [q, past.keys(k, &pass.sequences)?])
            }
            None => (None, [q, k]),
        };
        let qkv = [q, k, v];
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
        of_past.accumulate([&dk, &dv], &pass.sequences)?;
        let [q_heads, k_heads] = self.rotated(rope, pass);
        let [dq, dk] = match (inputs, &mut self.norms, rope) {
            (Some([q, k]), Some([q_norm, k_norm]), _) => [
                head_norm::backward(q_norm, rope, &q, dq, q_heads)?,
                head_norm::backward(k_norm, rope, &k, dk, k_heads)?,
            ],
            (_, _, Some(rope)) => [rope.backward(dq, q_heads)?, rope.backward(dk, k_heads)?],
            (_, _, None) => [dq, dk],
        };
        let [dq, dk, dv] = of_past.past().without_all([dq, dk, dv], &pass.sequences)?;
        let dys = [&dq, &dk, &dv];
        if needs_dx {
            return self.qkv.backward(x, dys, pass_of_x).map(Some);
        }
        self.qkv.accumulate_alone(x, dys, pass_of_x)?;
        Ok(None)
    }

    /// The parameters that are trained, in a fixed order.
    pub fn trainable<'a>(&'a mut self, params: &mut Vec<&'a mut Param>) {
        self.qkv.trainable(params);
        for norm in self.norms.iter_mut().flatten() {
            norm.trainable(params);
        }
        self.output.trainable(params);
    }

    /// The places of the weights that are not trained, in a fixed order.
    pub fn frozen<'a>(&'a mut self, slots: &mut Vec<&'a mut dyn Slot>) {
        self.qkv.frozen(slots);
        for norm in self.norms.iter_mut().flatten() {
            norm.frozen(slots);
        }
        self.output.frozen(slots);
    }

    /// Queries and keys with each head normalised, if there are norms, and rotated by its token's position; and the
    /// inputs of the norms.
    fn norm_and_rotate(
        &self,
        [q, k]: [Tensor; 2],
        rope: Option<&Rope>,
        pass: &Pass,
    ) -> Result<(Option<[Tensor; 2]>, [Tensor; 2])> {
        let [q_heads, k_heads] = self.rotated(rope, pass);
        Ok(match (&self.norms, rope) {
            (Some([q_norm, k_norm]), _) => {
                let rotated = [
                    head_norm::forward(q_norm, rope, &q, q_heads)?,
                    head_norm::forward(k_norm, rope, &k, k_heads)?,
                ];
                (Some([q, k]), rotated)
            }
            (None, Some(rope)) => (None, [rope.forward(q, q_heads)?, rope.forward(k, k_heads)?]),
            (None, None) => (None, [q, k]),
        })
    }

    fn shape<'a>(&self, pass: &'a Pass) -> Shape<'a> {
        Shape {
            sequences: &pass.sequences,
            heads: self.heads,
            kv_heads: self.kv_heads,
            head_dim: self.head_dim,
            scores: self.scores,
        }
    }

    /// What is rotated of queries and of keys.
    fn rotated<'a>(&self, rope: Option<&Rope>, pass: &'a Pass) -> [Heads<'a>; 2] {
        [self.heads, self.kv_heads].map(|heads| Heads {
            sequences: &pass.sequences,
            heads,
            head_dim: self.head_dim,
            rotary_dim: rope.map_or(0, Rope::rotary_dim),
        })
    }

    fn pattern<'a>(&self, pass: &'a Pass, dropout: Option<&'a [Mask]>) -> Pattern<'a> {
        let keys = match self.visibility {
            Visibility::All => Keys::First(&pass.lengths),
            Visibility::Causal => Keys::Causal,
            Visibility::Window(tokens) => Keys::Window(tokens),
        };
        Pattern { keys, dropout }
    }
}

/// Labels what a part made and what is kept for the backward pass.
fn kept(part: &str, tensor: Tensor) -> Tensor {
    let _part = memory::part(part);
    tensor.kept()
}
