//! Prefix tuning, as PEFT computes it (`get_prompt` in `peft_model.py`).

use crate::dtype::Dtype;
use crate::models::cache::Cache;
use crate::tape::{Backward, Gradients, Tensor};

/// Keys and values of virtual tokens, for all blocks.
pub(crate) struct Prefix<'t> {
    /// `[virtual tokens, blocks · 2 · width]`: a block's keys, and its values behind them.
    pub embedding: Tensor<'t>,
    pub blocks: u32,
    /// Heads of keys.
    pub heads: u32,
}

impl<'t> Prefix<'t> {
    /// Virtual tokens before each sequence.
    pub(crate) fn tokens(&self) -> u32 {
        self.embedding.dim_from_last(1)
    }

    /// A cache that holds them, for so many samples, in the model's format.
    pub(crate) fn cache(&self, batch: u32, dtype: Dtype) -> Cache<'t> {
        let (tape, tokens) = (self.embedding.tape, self.tokens());
        let numbers = tape.empty(&[batch, tokens], Dtype::Int64);
        let embedded = self.embedding.embedding(&numbers);
        let states = embedded.to(dtype);
        drop(embedded);
        let width = states.dim_from_last(0) / (2 * self.blocks);
        // PEFT's `permute` has heads before virtual tokens, which no size depends on.
        let by_block = states.reshape(&[batch, tokens, 2 * self.blocks, width]);
        let by_block = by_block.transpose(1, 2).transpose(0, 1);
        drop(states);
        let pairs = by_block.pairs(self.blocks);
        drop(by_block);
        let cached = |pair: &Tensor<'t>| {
            let [keys, values] = pair.unbound(self.heads);
            Some([keys.cat_alone(), values.cat_alone()])
        };
        pairs.iter().map(cached).collect()
    }
}

impl<'t> Tensor<'t> {
    /// `self.split(2)`, of `count` pairs.
    fn pairs(&self, count: u32) -> Vec<Tensor<'t>> {
        let record = self.tape.record_parts(self, joined);
        let layout = self.view.layout.narrow(0, 2);
        let mut pairs: Vec<_> = (0..count).map(|_| self.clone().with_layout(layout)).collect();
        record.finish_parts(&mut pairs);
        pairs
    }

    /// `self.unbind(0)` of keys and values (2, batch, length, width): both as (batch, heads, length, width).
    fn unbound(&self, heads: u32) -> [Tensor<'t>; 2] {
        let record = self.tape.record(&[self], joined);
        let one = self.view.layout.narrow(0, 1).squeeze(0);
        let &[batch, length, width] = one.dims() else {
            return [self.clone(), self.clone()];
        };
        let by_head = one.view(&[batch, length, heads, width / heads]);
        let layout = by_head.map_or(one, |layout| layout.transpose(1, 2));
        let [mut keys, mut values] = [0, 1].map(|_| self.clone().with_layout(layout));
        record.finish_all([&mut keys, &mut values]);
        [keys, values]
    }
}

/// The derivative of an operation that gives all of its input in parts: their gradients side by side.
fn joined<'t>(backward: &mut Backward<'t>, grad: &Tensor<'t>) -> Gradients<'t> {
    let (dims, dtype) = backward.attributes.inputs[0];
    [Some(grad.tape.empty(&dims, dtype)), None, None, None]
}
