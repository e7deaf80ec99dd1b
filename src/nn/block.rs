//! A decoder block: attention and MLP, each behind a norm and beside a residual connection.

use candle_core::{Result, Tensor};

use super::{
    Pass,
    attention::{self, Attention},
    host,
    mlp::{self, Mlp},
    norm::RmsNorm,
    param::Param,
    rope::Rope,
};
use crate::memory::{self, Category};

/// Hugging Face's names of the block's parts.
pub(crate) const INPUT_NORM: &str = "input_layernorm";
pub(crate) const ATTENTION: &str = "self_attn";
pub(crate) const POST_NORM: &str = "post_attention_layernorm";
pub(crate) const MLP: &str = "mlp";

/// Computes for a part, which a timeline then knows by its name.
pub(super) fn within<T>(part: &str, compute: impl FnOnce() -> T) -> T {
    let _module = memory::module(part);
    compute()
}

/// Computes for a part of the block, which the ledger knows by its name, too.
fn of_block<T>(part: &'static str, compute: impl FnOnce() -> T) -> T {
    let _entered = memory::enter(part);
    within(part, compute)
}

/// A decoder block, with Hugging Face's names.
#[derive(Debug)]
pub struct Block {
    /// Norm before attention.
    pub input_layernorm: RmsNorm,
    /// Attention.
    pub self_attn: Attention,
    /// Norm before the MLP.
    pub post_attention_layernorm: RmsNorm,
    /// The MLP.
    pub mlp: Mlp,
}

/// The block's input and the residual stream after attention, `[tokens, hidden]` in the hidden dtype, and what its
/// layers saved. The norms' outputs are computed again: that is cheaper than keeping them.
#[derive(Debug)]
pub struct Saved {
    x: Tensor,
    middle: Tensor,
    attention: attention::Saved,
    mlp: mlp::Saved,
}

impl Block {
    /// The output of `x`, both `[tokens, hidden]` in the hidden dtype.
    pub fn forward(&self, x: &Tensor, rope: &Rope, pass: &Pass) -> Result<(Tensor, Saved)> {
        let saved = self.recompute(x, rope, pass)?;
        let y = of_block(MLP, || self.mlp.output(&saved.mlp, &saved.middle, pass))?;
        Ok((y, saved))
    }

    /// What the forward pass saves, without the block's output, which nobody needs a second time.
    pub fn recompute(&self, x: &Tensor, rope: &Rope, pass: &Pass) -> Result<Saved> {
        memory::label(x, Category::Activation);
        let normed = of_block(INPUT_NORM, || self.input_layernorm.forward(x))?;
        let (middle, attention) = of_block(ATTENTION, || self.self_attn.forward(&normed, x, rope, pass))?;
        drop(normed);
        memory::label(&middle, Category::Activation);
        let normed = of_block(POST_NORM, || self.post_attention_layernorm.forward(&middle))?;
        let mlp = of_block(MLP, || self.mlp.forward(&normed, pass))?;
        Ok(Saved {
            x: x.clone(),
            middle,
            attention,
            mlp,
        })
    }

    /// The gradient of the block's input from that of its output, both float32. Layers are given it in the hidden dtype,
    /// which their products are computed from.
    pub fn backward(&mut self, saved: Saved, dy: Tensor, rope: &Rope, pass: &Pass) -> Result<Tensor> {
        let Saved {
            x,
            middle,
            attention,
            mlp,
        } = saved;
        let normed = of_block(POST_NORM, || self.post_attention_layernorm.forward(&middle))?;
        let d_normed = of_block(MLP, || {
            self.mlp.backward(&normed, mlp, &host::narrow(&dy, x.dtype())?, pass)
        })?;
        drop(normed);
        let dy = of_block(POST_NORM, || {
            self.post_attention_layernorm.backward(&middle, &d_normed, dy)
        })?;
        drop((middle, d_normed));
        let normed = of_block(INPUT_NORM, || self.input_layernorm.forward(&x))?;
        let d_normed = of_block(ATTENTION, || {
            let d_out = host::narrow(&dy, x.dtype())?;
            self.self_attn.backward(&normed, attention, d_out, rope, pass)
        })?;
        drop(normed);
        of_block(INPUT_NORM, || self.input_layernorm.backward(&x, &d_normed, dy))
    }

    /// The parameters that are trained, in a fixed order.
    pub fn trainable(&mut self) -> Vec<&mut Param> {
        let mut params = own(&mut self.input_layernorm.weight);
        params.extend(self.self_attn.trainable());
        params.extend(own(&mut self.post_attention_layernorm.weight));
        params.extend(self.mlp.trainable());
        params
    }
}

fn own(param: &mut Param) -> Vec<&mut Param> {
    if param.trainable { vec![param] } else { Vec::new() }
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
