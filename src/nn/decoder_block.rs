//! A decoder block: attention and a feed-forward layer, each behind a norm and beside a residual connection.

use candle_core::Result;

use super::{
    Pass,
    activation::SwiGlu,
    attention::{self, Attention},
    feed_forward::{self, FeedForward, within},
    norm::RmsNorm,
    param::Param,
    rope::Rope,
    tensor::Tensor,
};
use crate::memory::{self, tiers::Slot};

/// Hugging Face's names of the block's parts.
pub(crate) const INPUT_NORM: &str = "input_layernorm";
pub(crate) const ATTENTION: &str = "self_attn";
pub(crate) const POST_NORM: &str = "post_attention_layernorm";
pub(crate) const MLP: &str = "mlp";

/// Computes for a part of the block, which the ledger knows by its name, too.
fn of_block<T>(part: &'static str, compute: impl FnOnce() -> T) -> T {
    let _entered = memory::enter(part);
    within(part, compute)
}

/// A decoder block, with Hugging Face's names.
#[derive(Debug)]
pub struct DecoderBlock {
    /// Norm before attention.
    pub input_layernorm: RmsNorm,
    /// Attention.
    pub self_attn: Attention,
    /// Norm before the feed-forward layer.
    pub post_attention_layernorm: RmsNorm,
    /// The feed-forward layer.
    pub mlp: FeedForward<SwiGlu, 2>,
}

/// The block's input and the residual stream after attention, `[tokens, hidden]` in the hidden dtype, and what its
/// layers saved. The norms' outputs are computed again: that is cheaper than keeping them.
#[derive(Debug)]
pub struct Saved {
    x: Tensor,
    middle: Tensor,
    attention: attention::Saved,
    mlp: feed_forward::Saved<2>,
}

impl Saved {
    /// The block's input alone.
    pub fn into_input(self) -> Tensor {
        self.x
    }
}

impl DecoderBlock {
    /// The output of `x`, both `[tokens, hidden]` in the hidden dtype.
    pub fn forward(&self, x: Tensor, rope: &Rope, pass: &Pass) -> Result<(Tensor, Saved)> {
        let saved = self.recompute(x, rope, pass)?;
        let _entered = memory::enter(MLP);
        let y = self.mlp.output(&saved.mlp, &saved.middle, pass)?;
        Ok((y, saved))
    }

    /// Saved by the forward pass, without the block's output.
    pub fn recompute(&self, x: Tensor, rope: &Rope, pass: &Pass) -> Result<Saved> {
        let x = x.kept();
        let normed = of_block(INPUT_NORM, || self.input_layernorm.forward(&x))?;
        let (middle, attention) = of_block(ATTENTION, || self.self_attn.forward(&normed, &x, Some(rope), pass))?;
        drop(normed);
        let middle = middle.kept();
        let normed = of_block(POST_NORM, || self.post_attention_layernorm.forward(&middle))?;
        let _entered = memory::enter(MLP);
        let mlp = self.mlp.forward(&normed, pass)?;
        Ok(Saved {
            x,
            middle,
            attention,
            mlp,
        })
    }

    /// The gradient of the block's input from that of its output, both float32.
    pub fn backward(&mut self, saved: Saved, dy: Tensor, rope: &Rope, pass: &Pass) -> Result<Tensor> {
        let Saved {
            x,
            middle,
            attention,
            mlp,
        } = saved;
        let normed = of_block(POST_NORM, || self.post_attention_layernorm.forward(&middle))?;
        let d_normed = {
            let _entered = memory::enter(MLP);
            self.mlp.backward(&normed, mlp, &dy, pass)?
        };
        drop(normed);
        let dy = of_block(POST_NORM, || {
            self.post_attention_layernorm.backward(&middle, &d_normed, dy)
        })?;
        drop((middle, d_normed));
        let normed = of_block(INPUT_NORM, || self.input_layernorm.forward(&x))?;
        let d_normed = of_block(ATTENTION, || {
            self.self_attn.backward(&normed, attention, &dy, Some(rope), pass)
        })?;
        drop(normed);
        of_block(INPUT_NORM, || self.input_layernorm.backward(&x, &d_normed, dy))
    }

    /// The parameters that are trained, in a fixed order.
    pub fn trainable<'a>(&'a mut self, params: &mut Vec<&'a mut Param>) {
        self.input_layernorm.trainable(params);
        self.self_attn.trainable(params);
        self.post_attention_layernorm.trainable(params);
        self.mlp.trainable(params);
    }

    /// The places of the weights that are not trained, in a fixed order.
    pub fn frozen<'a>(&'a mut self, slots: &mut Vec<&'a mut dyn Slot>) {
        self.input_layernorm.frozen(slots);
        self.self_attn.frozen(slots);
        self.post_attention_layernorm.frozen(slots);
        self.mlp.frozen(slots);
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{Device, Tensor as Candle};

    use super::*;
    use crate::nn::{
        dropout::Dropout,
        linear::Projection,
        testing::{
            assert_close, assert_finite_differences, dot, dropout_pass, linear, pass, rms_norm, side_by_side,
            take_gradients, tensor, tiny, uniform, with_plain_ops,
        },
    };
    use crate::options::Attention::{self as Implementation, Eager, Sdpa};
    use std::marker::PhantomData;

    fn block(trainable: bool, rank: usize, implementation: Implementation) -> (DecoderBlock, Rope) {
        let (hidden, inter, heads, kv_heads, head_dim) = (8, 12, 4, 2, 2);
        let linear = |name, outputs, inputs| linear(name, outputs, inputs, rank, trainable);
        let block = DecoderBlock {
            input_layernorm: rms_norm("n1", hidden, trainable),
            self_attn: Attention {
                names: ["q_proj", "k_proj", "v_proj"],
                qkv: side_by_side([
                    linear("q", heads * head_dim, hidden),
                    linear("k", kv_heads * head_dim, hidden),
                    linear("v", kv_heads * head_dim, hidden),
                ]),
                output: Projection::of(linear("o", hidden, heads * head_dim)),
                heads,
                kv_heads,
                head_dim,
                is_causal: true,
                implementation,
                weight_dropout: Dropout::new(0, "weights", 0.0),
                output_dropout: Dropout::new(0, "attention", 0.0),
            },
            post_attention_layernorm: rms_norm("n2", hidden, trainable),
            mlp: FeedForward {
                modules: [MLP, MLP],
                names: ["gate_proj", "up_proj"],
                inner: side_by_side([linear("g", inter, hidden), linear("u", inter, hidden)]),
                output: Projection::of(linear("d", hidden, inter)),
                output_dropout: Dropout::new(0, "mlp", 0.0),
                activation: PhantomData,
            },
        };
        (block, Rope::new(&tiny().rope, head_dim, 16, &Device::Cpu).unwrap())
    }

    #[test]
    fn gradients_agree_with_finite_differences() {
        let (x, dy) = (uniform("x", &[10, 8]), uniform("dy", &[10, 8]));
        for (trainable, rank, implementation, pass) in [
            (false, 2, Sdpa, pass(2, 5)),
            (false, 2, Sdpa, dropout_pass(2, 5, 1)),
            (true, 0, Sdpa, pass(2, 5)),
            (false, 2, Eager, pass(2, 5)),
            (true, 0, Eager, pass(2, 5)),
        ] {
            let (mut block, rope) = block(trainable, rank, implementation);
            let (_, saved) = block.forward(tensor(&x), &rope, &pass).unwrap();
            let dx = block.backward(saved, tensor(&dy), &rope, &pass).unwrap();
            let objective = |block: &DecoderBlock, x: &Candle| {
                let (y, _) = block.forward(tensor(x), &rope, &pass).unwrap();
                dot(&y, &dy)
            };
            assert_finite_differences(&mut block, objective, &x, &dx, 5e-3);
        }
    }

    #[test]
    fn kernels_and_plain_ops_agree() {
        let (x, dy) = (uniform("x", &[10, 8]), uniform("dy", &[10, 8]));
        let pass = dropout_pass(2, 5, 1);
        let run = |implementation| {
            let (mut block, rope) = block(true, 2, implementation);
            let (y, saved) = block.forward(tensor(&x), &rope, &pass).unwrap();
            let dx = block.backward(saved, tensor(&dy), &rope, &pass).unwrap();
            (y, dx, take_gradients(&mut block))
        };
        for implementation in [Sdpa, Eager] {
            let (kernels, plain) = (run(implementation), with_plain_ops(|| run(implementation)));
            assert_close(&kernels.0, &plain.0, 1e-5, "y");
            assert_close(&kernels.1, &plain.1, 1e-5, "dx");
            for (kernel, plain) in kernels.2.iter().zip(&plain.2) {
                assert_close(kernel, plain, 2e-5, "gradient");
            }
        }
    }

    /// A checkpointed block keeps its input, and computes the rest again.
    #[test]
    fn a_block_that_is_computed_again_gives_the_same_gradients() {
        let (x, dy) = (uniform("x", &[10, 8]), uniform("dy", &[10, 8]));
        let pass = dropout_pass(2, 5, 1);
        let run = |is_checkpointed: bool| {
            let (mut block, rope) = block(true, 2, Eager);
            let (_, mut saved) = block.forward(tensor(&x), &rope, &pass).unwrap();
            if is_checkpointed {
                saved = block.recompute(saved.into_input(), &rope, &pass).unwrap();
            }
            let dx = block.backward(saved, tensor(&dy), &rope, &pass).unwrap();
            (dx, take_gradients(&mut block))
        };
        let (kept, again) = (run(false), run(true));
        assert_close(&again.0, &kept.0, 0.0, "dx");
        for (again, kept) in again.1.iter().zip(&kept.1) {
            assert_close(again, kept, 0.0, "gradient");
        }
    }
}
