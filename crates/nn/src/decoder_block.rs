//! A decoder block: attention and a feed-forward layer, each behind a norm and beside a residual connection. Their
//! outputs may have norms, too.

use candle_core::Result;
use memory::tiers::Slot;

use super::{
    Pass,
    attention::{self, Attention},
    feed_forward::{self, FeedForward, within},
    norm::RmsNorm,
    param::Param,
    prefix::{Past, PastGradients},
    rope::Rope,
    tensor::Tensor,
};

/// Hugging Face's names of parts that all blocks have.
pub const INPUT_NORM: &str = "input_layernorm";
/// Attention.
pub const ATTENTION: &str = "self_attn";
/// The feed-forward network.
pub const MLP: &str = "mlp";

/// Computes for a part of the block, which the ledger knows by its name, too.
fn of_block<T>(part: &'static str, compute: impl FnOnce() -> T) -> T {
    let _entered = memory::enter(part);
    within(part, compute)
}

/// A decoder block.
#[derive(Debug)]
pub struct DecoderBlock {
    /// Norm before attention.
    pub input_norm: RmsNorm,
    /// Attention.
    pub self_attn: Attention,
    /// Norm of attention's output, before the residual is added, if the model has one.
    pub attention_norm: Option<OutputNorm>,
    /// Hugging Face's name of the next.
    pub mlp_input_norm_name: &'static str,
    /// Norm before the feed-forward layer.
    pub mlp_input_norm: RmsNorm,
    /// The feed-forward layer.
    pub mlp: FeedForward<2>,
    /// Norm of the feed-forward layer's output, before the residual is added; there if attention's is.
    pub mlp_norm: Option<OutputNorm>,
}

/// A norm of an output, which is then added to the residual stream.
#[derive(Debug)]
pub struct OutputNorm {
    /// Hugging Face's name.
    pub name: &'static str,
    /// The norm.
    pub norm: RmsNorm,
}

impl OutputNorm {
    fn forward_onto(&self, output: &Tensor, residual: &Tensor) -> Result<Tensor> {
        of_block(self.name, || self.norm.forward_onto(output, residual))
    }

    /// The gradient of the output, in its dtype, from that of the residual stream, float32.
    fn backward(&mut self, output: &Tensor, dy: &Tensor) -> Result<Tensor> {
        of_block(self.name, || self.norm.gradient(output, dy))
    }
}

/// The block's input and the residual stream after attention, `[tokens, hidden]` in the hidden dtype, and what its
/// layers saved. The outputs of norms before layers are computed again: that is cheaper than keeping them.
#[derive(Debug)]
pub struct Saved {
    x: Tensor,
    middle: Tensor,
    attention: attention::Saved,
    mlp: feed_forward::Saved<2>,
    /// The outputs that have a norm, of attention and of the feed-forward layer.
    attended: Option<Tensor>,
    fed: Option<Tensor>,
}

impl Saved {
    /// The block's input alone.
    pub fn into_input(self) -> Tensor {
        self.x
    }
}

impl DecoderBlock {
    /// The output of `x`, both `[tokens, hidden]` in the hidden dtype.
    pub fn forward(&self, x: Tensor, rope: &Rope, past: Past<'_>, pass: &Pass) -> Result<(Tensor, Saved)> {
        let saved = self.recompute(x, rope, past, pass)?;
        let y = match (&self.mlp_norm, &saved.fed) {
            (Some(norm), Some(fed)) => norm.forward_onto(fed, &saved.middle)?,
            _ => {
                let _entered = memory::enter(MLP);
                self.mlp.output(&saved.mlp, Some(&saved.middle), pass)?
            }
        };
        Ok((y, saved))
    }

    /// Saved by the forward pass, without the block's output.
    pub fn recompute(&self, x: Tensor, rope: &Rope, past: Past<'_>, pass: &Pass) -> Result<Saved> {
        let x = x.kept();
        let normed = of_block(INPUT_NORM, || self.input_norm.forward(&x))?;
        let (middle, attended, attention) = match &self.attention_norm {
            None => {
                let (middle, saved) = of_block(ATTENTION, || {
                    self.self_attn.forward(&normed, Some(&x), Some(rope), past, pass)
                })?;
                drop(normed);
                (middle, None, saved)
            }
            Some(norm) => {
                let (attended, saved) = of_block(ATTENTION, || {
                    self.self_attn.forward(&normed, None, Some(rope), past, pass)
                })?;
                drop(normed);
                let attended = attended.kept();
                (norm.forward_onto(&attended, &x)?, Some(attended), saved)
            }
        };
        let middle = middle.kept();
        let normed = of_block(self.mlp_input_norm_name, || self.mlp_input_norm.forward(&middle))?;
        let _entered = memory::enter(MLP);
        let mlp = self.mlp.forward(&normed, pass)?;
        let fed = match &self.mlp_norm {
            None => None,
            Some(_) => {
                drop(normed);
                Some(self.mlp.output(&mlp, None, pass)?.kept())
            }
        };
        Ok(Saved {
            x,
            middle,
            attention,
            mlp,
            attended,
            fed,
        })
    }

    /// The gradient of the block's input, if somebody needs it, from that of its output, both float32.
    pub fn backward(
        &mut self,
        saved: Saved,
        dy: Tensor,
        rope: &Rope,
        of_past: PastGradients<'_>,
        needs_dx: bool,
        pass: &Pass,
    ) -> Result<Option<Tensor>> {
        let Saved {
            x,
            middle,
            attention,
            mlp,
            attended,
            fed,
        } = saved;
        let d_fed = output_gradient(&mut self.mlp_norm, fed, &dy)?;
        let normed = of_block(self.mlp_input_norm_name, || self.mlp_input_norm.forward(&middle))?;
        let d_normed = {
            let _entered = memory::enter(MLP);
            self.mlp.backward(&normed, mlp, d_fed.as_ref().unwrap_or(&dy), pass)?
        };
        drop((normed, d_fed));
        let dy = of_block(self.mlp_input_norm_name, || {
            self.mlp_input_norm.backward(&middle, &d_normed, dy)
        })?;
        drop((middle, d_normed));
        let d_attended = output_gradient(&mut self.attention_norm, attended, &dy)?;
        let normed = of_block(INPUT_NORM, || self.input_norm.forward(&x))?;
        let x_of_attention = (&normed, needs_dx || self.input_norm.is_trained());
        let d_normed = of_block(ATTENTION, || {
            let dy = d_attended.as_ref().unwrap_or(&dy);
            self.self_attn
                .backward(x_of_attention, attention, dy, Some(rope), of_past, pass)
        })?;
        drop((normed, d_attended));
        d_normed
            .map(|d_normed| of_block(INPUT_NORM, || self.input_norm.backward(&x, &d_normed, dy)))
            .transpose()
    }

    /// The parameters that are trained, in a fixed order.
    pub fn trainable<'a>(&'a mut self, params: &mut Vec<&'a mut Param>) {
        self.input_norm.trainable(params);
        self.self_attn.trainable(params);
        if let Some(norm) = &mut self.attention_norm {
            norm.norm.trainable(params);
        }
        self.mlp_input_norm.trainable(params);
        self.mlp.trainable(params);
        if let Some(norm) = &mut self.mlp_norm {
            norm.norm.trainable(params);
        }
    }

    /// The places of the weights that are not trained, in a fixed order.
    pub fn frozen<'a>(&'a mut self, slots: &mut Vec<&'a mut dyn Slot>) {
        self.input_norm.frozen(slots);
        self.self_attn.frozen(slots);
        if let Some(norm) = &mut self.attention_norm {
            norm.norm.frozen(slots);
        }
        self.mlp_input_norm.frozen(slots);
        self.mlp.frozen(slots);
        if let Some(norm) = &mut self.mlp_norm {
            norm.norm.frozen(slots);
        }
    }
}

/// The gradient of an output that has a norm, from that of the residual stream; frees the output.
fn output_gradient(norm: &mut Option<OutputNorm>, output: Option<Tensor>, dy: &Tensor) -> Result<Option<Tensor>> {
    match (norm, output) {
        (Some(norm), Some(output)) => norm.backward(&output, dy).map(Some),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{Device, Tensor as Candle};
    use kernels::{attention::Scores, softcap::SoftCap};
    use options::Attention::{self as Implementation, Eager, Sdpa};
    use options::Dtype;

    use super::*;
    use crate::prefix::Prefix;
    use crate::{
        activation::{GeGlu, SwiGlu},
        attention::Visibility,
        dropout::Dropout,
        linear::Projection,
        testing::{
            assert_close, assert_finite_differences, dot, dropout_pass, linear, pass, rms_norm, side_by_side,
            take_gradients, tensor, tiny, uniform, with_plain_ops,
        },
    };
    /// The norms of a block, and what comes with them: Llama's, Qwen 3's, and Gemma's.
    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Norms {
        Inputs,
        Heads,
        Outputs,
    }

    fn block(trainable: bool, rank: usize, implementation: Implementation, norms: Norms) -> (DecoderBlock, Rope) {
        let (hidden, inter, heads, kv_heads, head_dim) = (8, 12, 4, 2, 2);
        let linear = |name, outputs, inputs| linear(name, outputs, inputs, rank, trainable);
        let output_norm = |name| {
            let norm = (norms == Norms::Outputs).then(|| rms_norm(name, hidden, trainable));
            norm.map(|norm| OutputNorm { name, norm })
        };
        let block = DecoderBlock {
            input_norm: rms_norm("n1", hidden, trainable),
            self_attn: Attention {
                names: ["q_proj", "k_proj", "v_proj"],
                qkv: side_by_side([
                    linear("q", heads * head_dim, hidden),
                    linear("k", kv_heads * head_dim, hidden),
                    linear("v", kv_heads * head_dim, hidden),
                ]),
                norms: (norms != Norms::Inputs).then(|| ["qn", "kn"].map(|name| rms_norm(name, head_dim, trainable))),
                output: Projection::of(linear("o", hidden, heads * head_dim)),
                heads,
                kv_heads,
                head_dim,
                scores: Scores {
                    cap: (norms == Norms::Outputs).then_some(SoftCap(0.5)),
                    ..Scores::of(head_dim)
                },
                visibility: match norms {
                    Norms::Outputs => Visibility::Window(3),
                    _ => Visibility::Causal,
                },
                implementation,
                weight_dropout: Dropout::new(0, "weights", 0.0),
                output_dropout: Dropout::new(0, "attention", 0.0),
            },
            attention_norm: output_norm("n3"),
            mlp_input_norm_name: "n2",
            mlp_input_norm: rms_norm("n2", hidden, trainable),
            mlp: FeedForward {
                modules: [MLP, MLP],
                names: ["gate_proj", "up_proj"],
                inner: side_by_side([linear("g", inter, hidden), linear("u", inter, hidden)]),
                output: Projection::of(linear("d", hidden, inter)),
                output_dropout: Dropout::new(0, "mlp", 0.0),
                activation: if norms == Norms::Outputs { &GeGlu } else { &SwiGlu },
            },
            mlp_norm: output_norm("n4"),
        };
        (block, Rope::new(&tiny().rope, head_dim, 16, &Device::Cpu).unwrap())
    }

    #[test]
    fn gradients_agree_with_finite_differences() {
        let (x, dy) = (uniform("x", &[10, 8]), uniform("dy", &[10, 8]));
        for (trainable, rank, implementation, norms, pass) in [
            (false, 2, Sdpa, Norms::Inputs, pass(2, 5)),
            (false, 2, Sdpa, Norms::Heads, dropout_pass(2, 5, 1)),
            (true, 0, Sdpa, Norms::Inputs, pass(2, 5)),
            (true, 0, Sdpa, Norms::Heads, pass(2, 5)),
            (true, 0, Sdpa, Norms::Outputs, pass(2, 5)),
            (false, 2, Eager, Norms::Inputs, pass(2, 5)),
            (true, 0, Eager, Norms::Heads, pass(2, 5)),
            (true, 0, Eager, Norms::Outputs, pass(2, 5)),
        ] {
            let (mut block, rope) = block(trainable, rank, implementation, norms);
            let (_, saved) = block.forward(tensor(&x), &rope, Past::NONE, &pass).unwrap();
            let dx = block
                .backward(saved, tensor(&dy), &rope, PastGradients::NONE, true, &pass)
                .unwrap()
                .unwrap();
            let objective = |block: &DecoderBlock, x: &Candle| {
                let (y, _) = block.forward(tensor(x), &rope, Past::NONE, &pass).unwrap();
                dot(&y, &dy)
            };
            assert_finite_differences(&mut block, objective, &x, &dx, 5e-3);
        }
    }

    #[test]
    fn a_prefix_has_the_same_gradients_by_kernels_and_plain_ops() {
        let (x, dy) = (uniform("x", &[10, 8]), uniform("dy", &[10, 8]));
        let (pass, start) = (pass(2, 5), uniform("prefix", &[3, 16]));
        let run = |implementation, norms| {
            let (mut block, rope) = block(false, 0, implementation, norms);
            let mut prefix = Prefix::new((3, 2, 4), Dtype::Float32, 0, &Device::Cpu).unwrap();
            prefix.embeddings.set(tensor(&start));
            let (y, saved) = block.forward(tensor(&x), &rope, prefix.of_block(1), &pass).unwrap();
            let dx = block
                .backward(saved, tensor(&dy), &rope, prefix.gradients(1), true, &pass)
                .unwrap()
                .unwrap();
            (y, dx, prefix)
        };
        for (implementation, norms) in [(Sdpa, Norms::Inputs), (Sdpa, Norms::Heads), (Eager, Norms::Heads)] {
            let (y, dx, kernels) = run(implementation, norms);
            let (y_plain, dx_plain, plain) = with_plain_ops(|| run(implementation, norms));
            assert_close(&y, &y_plain, 1e-5, "y");
            assert_close(&dx, &dx_plain, 1e-5, "dx");
            let [kernels, plain] = [&kernels, &plain].map(|prefix| prefix.embeddings.gradient().unwrap());
            assert_close(kernels, plain, 1e-5, "prefix");
            let values = kernels.to_vec_f32().unwrap();
            // The other block's have no gradient.
            assert!(values.chunks(16).all(|row| row[..8].iter().all(|value| *value == 0.0)));
            assert!(values.chunks(16).all(|row| row[8..].iter().any(|value| *value != 0.0)));
        }
    }

    #[test]
    fn kernels_and_plain_ops_agree() {
        let (x, dy) = (uniform("x", &[10, 8]), uniform("dy", &[10, 8]));
        let pass = dropout_pass(2, 5, 1);
        let run = |implementation, norms| {
            let (mut block, rope) = block(true, 2, implementation, norms);
            let (y, saved) = block.forward(tensor(&x), &rope, Past::NONE, &pass).unwrap();
            let dx = block
                .backward(saved, tensor(&dy), &rope, PastGradients::NONE, true, &pass)
                .unwrap()
                .unwrap();
            (y, dx, take_gradients(&mut block))
        };
        let all = [Norms::Inputs, Norms::Heads, Norms::Outputs];
        for (implementation, norms) in all.into_iter().flat_map(|norms| [(Sdpa, norms), (Eager, norms)]) {
            let run = || run(implementation, norms);
            let (kernels, plain) = (run(), with_plain_ops(run));
            assert_close(&kernels.0, &plain.0, 1e-5, "y");
            assert_close(&kernels.1, &plain.1, 1e-5, "dx");
            for (kernel, plain) in kernels.2.iter().zip(&plain.2) {
                assert_close(kernel, plain, 2e-5, "gradient");
            }
        }
    }

    #[test]
    fn what_is_trained_has_the_same_gradients_if_nobody_needs_the_inputs() {
        let (x, dy) = (uniform("x", &[10, 8]), uniform("dy", &[10, 8]));
        let pass = dropout_pass(2, 5, 1);
        let run = |trainable, norms, needs_dx| {
            let (mut block, rope) = block(trainable, 2, Sdpa, norms);
            let (_, saved) = block.forward(tensor(&x), &rope, Past::NONE, &pass).unwrap();
            let dx = block
                .backward(saved, tensor(&dy), &rope, PastGradients::NONE, needs_dx, &pass)
                .unwrap();
            (dx, take_gradients(&mut block))
        };
        for (trainable, norms) in [(false, Norms::Inputs), (false, Norms::Heads), (true, Norms::Outputs)] {
            let run = |needs_dx| run(trainable, norms, needs_dx);
            for [needed, not_needed] in [[run(true), run(false)], with_plain_ops(|| [run(true), run(false)])] {
                // A norm that is trained needs the gradient of its output.
                assert_eq!((needed.0.is_some(), not_needed.0.is_some()), (true, trainable));
                assert!(!needed.1.is_empty());
                for (needed, not_needed) in needed.1.iter().zip(&not_needed.1) {
                    assert_close(not_needed, needed, 0.0, "gradient");
                }
            }
        }
    }

    /// A checkpointed block keeps its input, and computes the rest again.
    #[test]
    fn a_block_that_is_computed_again_gives_the_same_gradients() {
        let (x, dy) = (uniform("x", &[10, 8]), uniform("dy", &[10, 8]));
        let pass = dropout_pass(2, 5, 1);
        let run = |is_checkpointed: bool, norms| {
            let (mut block, rope) = block(true, 2, Eager, norms);
            let (_, mut saved) = block.forward(tensor(&x), &rope, Past::NONE, &pass).unwrap();
            if is_checkpointed {
                saved = block.recompute(saved.into_input(), &rope, Past::NONE, &pass).unwrap();
            }
            let dx = block
                .backward(saved, tensor(&dy), &rope, PastGradients::NONE, true, &pass)
                .unwrap()
                .unwrap();
            (dx, take_gradients(&mut block))
        };
        for norms in [Norms::Heads, Norms::Outputs] {
            let (kept, again) = (run(false, norms), run(true, norms));
            assert_close(&again.0, &kept.0, 0.0, "dx");
            for (again, kept) in again.1.iter().zip(&kept.1) {
                assert_close(again, kept, 0.0, "gradient");
            }
        }
    }
}
