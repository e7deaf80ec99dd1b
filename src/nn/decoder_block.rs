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
use crate::memory;

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

    /// What the forward pass saves, without the block's output, which nobody needs a second time.
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
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;
    use crate::nn::testing::{elements, linear, pass, tiny, uniform};

    fn block(trainable: bool, rank: usize) -> (Block, Rope) {
        let (hidden, inter, heads, kv_heads, head_dim) = (8, 12, 4, 2, 2);
        let norm = |name: &str| RmsNorm {
            weight: Param::base(name, uniform(name, &[hidden]), trainable),
            eps: 1e-5,
        };
        let linear = |name: &str, outputs, inputs| linear(name, outputs, inputs, rank, trainable);
        let block = Block {
            input_layernorm: norm("n1"),
            self_attn: Attention {
                q_proj: linear("q", heads * head_dim, hidden),
                k_proj: linear("k", kv_heads * head_dim, hidden),
                v_proj: linear("v", kv_heads * head_dim, hidden),
                o_proj: linear("o", hidden, heads * head_dim),
                heads,
                kv_heads,
                head_dim,
            },
            post_attention_layernorm: norm("n2"),
            mlp: Mlp {
                gate_proj: linear("g", inter, hidden),
                up_proj: linear("u", inter, hidden),
                down_proj: linear("d", hidden, inter),
            },
        };
        (block, Rope::new(&tiny().rope, head_dim, 16, &Device::Cpu).unwrap())
    }

    /// `sum(block(x) · weights)`, in double precision.
    fn objective(block: &Block, rope: &Rope, x: &Tensor, weights: &Tensor) -> f64 {
        let (y, _) = block.forward(x, rope, &pass(2, 5)).unwrap();
        elements(&y)
            .iter()
            .zip(elements(weights))
            .map(|(y, w)| f64::from(*y) * f64::from(w))
            .sum()
    }

    /// Moves one element of a tensor by `by`.
    fn moved(tensor: &Tensor, index: usize, by: f32) -> Tensor {
        let mut values = elements(tensor);
        values[index] += by;
        Tensor::from_vec(values, tensor.shape(), tensor.device()).unwrap()
    }

    #[test]
    fn gradients_agree_with_finite_differences() {
        const STEP: f32 = 5e-3;
        let (x, dy) = (uniform("x", &[10, 8]), uniform("dy", &[10, 8]));
        for (trainable, rank) in [(false, 2), (true, 0)] {
            let (mut block, rope) = block(trainable, rank);
            let (_, saved) = block.forward(&x, &rope, &pass(2, 5)).unwrap();
            let dx = block.backward(saved, dy.copy().unwrap(), &rope, &pass(2, 5)).unwrap();
            let check = |got: f32, high: f64, low: f64, what: &str| {
                let want = (high - low) / f64::from(2.0 * STEP);
                assert!(
                    (f64::from(got) - want).abs() < 0.02 * want.abs().max(1.0),
                    "{what}: {got} against {want}"
                );
            };
            for index in (0..80).step_by(7) {
                let high = objective(&block, &rope, &moved(&x, index, STEP), &dy);
                let low = objective(&block, &rope, &moved(&x, index, -STEP), &dy);
                check(elements(&dx)[index], high, low, &format!("x[{index}]"));
            }
            for at in 0..block.trainable().len() {
                let (name, value, gradient) = {
                    let param = &block.trainable()[at];
                    (
                        param.name.clone(),
                        param.value.clone(),
                        param.gradient().unwrap().clone(),
                    )
                };
                for index in [0, value.elem_count() / 2, value.elem_count() - 1] {
                    block.trainable()[at].set(moved(&value, index, STEP));
                    let high = objective(&block, &rope, &x, &dy);
                    block.trainable()[at].set(moved(&value, index, -STEP));
                    let low = objective(&block, &rope, &x, &dy);
                    block.trainable()[at].set(value.clone());
                    check(elements(&gradient)[index], high, low, &format!("{name}[{index}]"));
                }
            }
        }
    }
}
