//! An encoder block: attention and feed-forward layer, each with a residual connection that is normed together with its
//! output (Vaswani et al. 2017, arXiv:1706.03762; Devlin et al. 2018, arXiv:1810.04805).

use candle_core::{DType, Result};
use memory::tiers::Slot;

use super::{
    Pass,
    attention::{self, Attention},
    convert::{self, Converted},
    feed_forward::{self, FeedForward, within},
    layer_norm::LayerNorm,
    param::Param,
    prefix::{Past, PastGradients},
    tensor::Tensor,
};

/// The name of a block's attention in every family.
pub const ATTENTION: &str = "attention";

/// The name of a block's feed-forward layer in PyTorch's plans; it has no name of its own in BERT.
pub const FEED_FORWARD: &str = "ffn";

/// An encoder block.
#[derive(Debug)]
pub struct EncoderBlock {
    /// Attention.
    pub attention: Attention,
    /// The name of [`Self::attention_norm`].
    pub attention_norm_name: &'static str,
    /// Norm of attention's output and its residual.
    pub attention_norm: LayerNorm,
    /// The feed-forward layer.
    pub feed_forward: FeedForward<1>,
    /// The name of [`Self::output_norm`].
    pub output_norm_name: &'static str,
    /// Norm of the feed-forward layer's output and its residual.
    pub output_norm: LayerNorm,
    /// The format of the inputs of products, if it is not that of hidden states.
    pub products: Option<DType>,
}

/// The block's input and what both norms are given, `[tokens, hidden]` in the hidden dtype, and what the layers saved.
/// The first norm's output is computed again: that is cheaper than keeping it.
#[derive(Debug)]
pub struct Saved {
    x: Tensor,
    middle: Tensor,
    last: Tensor,
    attention: attention::Saved,
    feed_forward: feed_forward::Saved<1>,
}

impl Saved {
    /// The block's input alone.
    pub fn into_input(self) -> Tensor {
        self.x
    }
}

impl EncoderBlock {
    /// The output of `x`, both `[tokens, hidden]` in the hidden dtype.
    pub fn forward(&self, x: Tensor, pass: &Pass) -> Result<(Tensor, Saved)> {
        let saved = self.recompute(x, pass)?;
        let _entered = memory::enter(FEED_FORWARD);
        let y = within(self.output_norm_name, || self.output_norm.forward(&saved.last))?;
        Ok((y, saved))
    }

    /// Saved by the forward pass, without the block's output.
    pub fn recompute(&self, x: Tensor, pass: &Pass) -> Result<Saved> {
        let x = x.kept();
        let entered = memory::enter(ATTENTION);
        let (middle, attention) = within(ATTENTION, || {
            self.attention
                .forward(&*self.input(&x)?, Some(&x), None, Past::NONE, pass)
        })?;
        let middle = middle.kept();
        let normed = within(self.attention_norm_name, || self.attention_norm.forward(&middle))?;
        drop(entered);
        let _entered = memory::enter(FEED_FORWARD);
        let feed_forward = self.feed_forward.forward(&*self.input(&normed)?, pass)?;
        let last = self.feed_forward.output(&feed_forward, Some(&normed), pass)?.kept();
        Ok(Saved {
            x,
            middle,
            last,
            attention,
            feed_forward,
        })
    }

    /// The gradient of the block's input, if somebody needs it, from that of its output, both float32.
    pub fn backward(&mut self, saved: Saved, dy: Tensor, needs_dx: bool, pass: &Pass) -> Result<Option<Tensor>> {
        let Saved {
            x,
            middle,
            last,
            attention,
            feed_forward,
        } = saved;
        let entered = memory::enter(FEED_FORWARD);
        let dy = within(self.output_norm_name, || self.output_norm.backward(&last, dy))?;
        drop(last);
        let normed = within(self.attention_norm_name, || self.attention_norm.forward(&middle))?;
        let d_normed = self
            .feed_forward
            .backward(&*self.input(&normed)?, feed_forward, &dy, pass)?;
        drop((normed, entered));
        let _entered = memory::enter(ATTENTION);
        let d_normed = convert::add(d_normed, dy)?;
        let dy = within(self.attention_norm_name, || {
            self.attention_norm.backward(&middle, d_normed)
        })?;
        drop(middle);
        let dx = within(ATTENTION, || {
            self.attention.backward(
                (&*self.input(&x)?, needs_dx),
                attention,
                &dy,
                None,
                PastGradients::NONE,
                pass,
            )
        })?;
        dx.map(|dx| convert::add(dx, dy)).transpose()
    }

    /// Hidden states as an input of products.
    fn input<'a>(&self, x: &'a Tensor) -> Result<Converted<'a>> {
        convert::narrow(x, self.products.unwrap_or(x.dtype()))
    }

    /// The parameters that are trained, in a fixed order.
    pub fn trainable<'a>(&'a mut self, params: &mut Vec<&'a mut Param>) {
        self.attention.trainable(params);
        self.attention_norm.trainable(params);
        self.feed_forward.trainable(params);
        self.output_norm.trainable(params);
    }

    /// The places of the weights that are not trained, in a fixed order.
    pub fn frozen<'a>(&'a mut self, slots: &mut Vec<&'a mut dyn Slot>) {
        self.attention.frozen(slots);
        self.attention_norm.frozen(slots);
        self.feed_forward.frozen(slots);
        self.output_norm.frozen(slots);
    }
}

#[cfg(test)]
mod tests {
    use candle_core::Tensor as Candle;
    use kernels::attention::Scores;
    use options::Attention::{self as Implementation, Eager, Sdpa};

    use super::*;
    use crate::{
        activation::Gelu,
        attention::Visibility,
        dropout::Dropout,
        linear::Projection,
        testing::{
            assert_close, assert_finite_differences, biased, dot, dropout_pass, elements, layer_norm, pass,
            side_by_side, take_gradients, tensor, uniform, with_plain_ops,
        },
    };

    const HEADS: usize = 2;
    const HIDDEN: usize = 8;

    fn block(trainable: bool, rank: usize, dropout: f64) -> EncoderBlock {
        let dense = |name, outputs, inputs| biased(name, outputs, inputs, rank, trainable);
        let dropout = |name: &str| Dropout::new(3, name, dropout);
        EncoderBlock {
            attention: Attention {
                names: ["q", "k", "v"],
                qkv: side_by_side(["q", "k", "v"].map(|name| dense(name, HIDDEN, HIDDEN))),
                norms: None,
                output: Projection::of(dense("o", HIDDEN, HIDDEN)),
                heads: HEADS,
                kv_heads: HEADS,
                head_dim: HIDDEN / HEADS,
                scores: Scores::of(HIDDEN / HEADS),
                visibility: Visibility::All,
                implementation: Sdpa,
                weight_dropout: dropout("weights"),
                output_dropout: dropout("attention"),
            },
            attention_norm_name: "n1",
            attention_norm: layer_norm("n1", HIDDEN, trainable),
            feed_forward: FeedForward {
                modules: ["i", "f"],
                names: [""],
                inner: Projection::of(dense("i", 12, HIDDEN)),
                output: Projection::of(dense("f", HIDDEN, 12)),
                output_dropout: dropout("feed-forward"),
                activation: &Gelu,
            },
            output_norm_name: "n2",
            output_norm: layer_norm("n2", HIDDEN, trainable),
            products: None,
        }
    }

    /// Two samples of five and three tokens.
    fn padded(dropout: bool) -> Pass {
        let pass = if dropout { dropout_pass(2, 5, 1) } else { pass(2, 5) };
        Pass {
            lengths: vec![5, 3],
            ..pass
        }
    }

    #[test]
    fn gradients_agree_with_finite_differences() {
        let (x, dy) = (uniform("x", &[10, HIDDEN]), uniform("dy", &[10, HIDDEN]));
        for (trainable, rank, dropout, implementation) in [
            (false, 2, 0.0, Sdpa),
            (true, 0, 0.0, Sdpa),
            (true, 0, 0.2, Sdpa),
            (true, 0, 0.2, Eager),
        ] {
            let mut block = block(trainable, rank, dropout);
            block.attention.implementation = implementation;
            let pass = padded(dropout > 0.0);
            let (_, saved) = block.forward(tensor(&x), &pass).unwrap();
            let dx = block.backward(saved, tensor(&dy), true, &pass).unwrap().unwrap();
            let objective = |block: &EncoderBlock, x: &Candle| {
                let (y, _) = block.forward(tensor(x), &pass).unwrap();
                dot(&y, &dy)
            };
            assert_finite_differences(&mut block, objective, &x, &dx, 3e-3);
        }
    }

    #[test]
    fn what_is_trained_has_the_same_gradients_if_nobody_needs_the_inputs() {
        let (x, dy) = (uniform("x", &[10, HIDDEN]), uniform("dy", &[10, HIDDEN]));
        let run = |trainable, needs_dx| {
            let mut block = block(trainable, 2, 0.2);
            let pass = padded(true);
            let (_, saved) = block.forward(tensor(&x), &pass).unwrap();
            let dx = block.backward(saved, tensor(&dy), needs_dx, &pass).unwrap();
            assert_eq!(dx.is_some(), needs_dx);
            take_gradients(&mut block)
        };
        for trainable in [false, true] {
            let run = |needs_dx| run(trainable, needs_dx);
            for [needed, not_needed] in [[run(true), run(false)], with_plain_ops(|| [run(true), run(false)])] {
                assert!(!needed.is_empty());
                for (needed, not_needed) in needed.iter().zip(&not_needed) {
                    assert_close(not_needed, needed, 0.0, "gradient");
                }
            }
        }
    }

    #[test]
    fn kernels_and_plain_ops_agree() {
        let (x, dy) = (uniform("x", &[10, HIDDEN]), uniform("dy", &[10, HIDDEN]));
        let run = |implementation: Implementation| {
            let mut block = block(true, 2, 0.2);
            block.attention.implementation = implementation;
            let pass = padded(true);
            let (y, saved) = block.forward(tensor(&x), &pass).unwrap();
            let dx = block.backward(saved, tensor(&dy), true, &pass).unwrap().unwrap();
            (y, dx, take_gradients(&mut block))
        };
        for implementation in [Sdpa, Eager] {
            let (kernels, plain) = (run(implementation), with_plain_ops(|| run(implementation)));
            assert_close(&kernels.0, &plain.0, 1e-5, "y");
            assert_close(&kernels.1, &plain.1, 1e-5, "dx");
            // A key's bias moves all scores of a query alike: its gradient is nothing but rounding.
            for (kernel, plain) in kernels.2.iter().zip(&plain.2) {
                for (kernel, plain) in elements(kernel).into_iter().zip(elements(plain)) {
                    assert!(
                        (kernel - plain).abs() < 2e-5 * plain.abs().max(1.0),
                        "{kernel} against {plain}"
                    );
                }
            }
        }
    }

    #[test]
    fn padding_does_not_reach_what_counts() {
        let block = block(true, 0, 0.0);
        let x = uniform("x", &[10, HIDDEN]);
        // The last two tokens of the second sample are padding.
        let other = Candle::cat(&[x.narrow(0, 0, 8).unwrap(), uniform("other", &[2, HIDDEN])], 0).unwrap();
        let y = |x: &Candle| {
            let (y, _) = block.forward(tensor(x), &padded(false)).unwrap();
            y.to_candle().unwrap().narrow(0, 0, 8).unwrap()
        };
        assert_close(&y(&x), &y(&other), 0.0, "the tokens that count");
    }
}
