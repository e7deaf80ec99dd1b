//! An encoder with its classifier, as `nn::encoder_block`, `nn::encoder_embedding` and `nn::classifier`.

use std::rc::Rc;

use super::{
    attention,
    decoder::narrow,
    held::{Held, Memory, Shared},
    linear::{self, Linear, Numbers, column_sums},
    param::Param,
    segments::{Chain, Pass},
};
use crate::{
    memory::{Category, Phase},
    nn::encoder_names::{ATTENTION, FEED_FORWARD},
};

#[derive(Debug)]
pub(super) struct Encoder<'m> {
    pub memory: &'m Memory,
    pub numbers: Numbers,
    pub words: Param<'m>,
    pub positions: Param<'m>,
    pub token_types: Option<Param<'m>>,
    pub embedding_norm: LayerNorm<'m>,
    pub blocks: Vec<Block<'m>>,
    /// The list of the trainer's blocks.
    #[expect(dead_code, reason = "held, never looked at")]
    pub list: Held<'m>,
    /// The layer over each sample's first token.
    pub dense: Linear<'m>,
    pub classifier: Linear<'m>,
    /// Whether hidden states are dropped out, and what the classifier is given.
    pub dropout: Dropouts,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Dropouts {
    pub hidden: bool,
    /// On attention's output.
    pub attention_output: bool,
    pub classifier: bool,
}

#[derive(Debug)]
pub(super) struct LayerNorm<'m> {
    pub weight: Param<'m>,
    pub bias: Param<'m>,
}

#[derive(Debug)]
pub(super) struct Block<'m> {
    pub query: Linear<'m>,
    pub key: Linear<'m>,
    pub value: Linear<'m>,
    pub attention_output: Linear<'m>,
    pub heads: u64,
    pub attention_norm: LayerNorm<'m>,
    pub intermediate: Linear<'m>,
    pub output: Linear<'m>,
    pub output_norm: LayerNorm<'m>,
}

/// What a block keeps for its backward pass, as `nn::encoder_block::Saved`.
pub(super) struct Saved<'m> {
    x: Shared<'m>,
    middle: Held<'m>,
    last: Held<'m>,
    attention: attention::Saved<'m>,
    inner: Held<'m>,
}

impl<'m> LayerNorm<'m> {
    fn columns(&self) -> u64 {
        self.weight.columns
    }

    fn forward(&self, memory: &'m Memory, tokens: u64, numbers: Numbers) -> Held<'m> {
        let _parameters = [self.weight.f32(memory), self.bias.f32(memory)];
        memory.tensor(tokens * self.columns(), numbers.hidden)
    }

    /// In the memory of the output's gradient.
    fn backward(&mut self, memory: &'m Memory, tokens: u64) {
        if self.weight.trainable {
            let columns = self.columns();
            let _sums = column_sums(memory, tokens, 2 * columns);
            let [weight, bias] = [(); 2].map(|()| memory.tensor(columns, 4));
            self.weight.accumulate(memory, weight);
            self.bias.accumulate(memory, bias);
        }
        drop(self.weight.f32(memory));
    }

    fn params_mut(&mut self) -> [&mut Param<'m>; 2] {
        [&mut self.weight, &mut self.bias]
    }
}

/// The gradient of dropout's input: a copy, unless nothing is dropped and nothing is to be converted.
fn dropout_backward(memory: &Memory, drops: bool, elements: u64, element: u64) -> Option<Held<'_>> {
    if drops {
        Some(memory.tensor(elements, element))
    } else {
        narrow(memory, elements, element)
    }
}

impl<'m> Block<'m> {
    fn hidden(&self) -> u64 {
        self.attention_norm.columns()
    }

    fn recompute(&self, memory: &'m Memory, index: usize, x: &Shared<'m>, pass: &Pass, numbers: Numbers) -> Saved<'m> {
        let tokens = pass.tokens;
        x.label(Category::Activation);
        memory.module(ATTENTION, Some(index));
        let qkv = [&self.query, &self.key, &self.value];
        let output = &self.attention_output;
        let (middle, attention) = attention::forward(memory, qkv, output, self.heads, tokens, numbers);
        let middle = middle.keep();
        let normed = self.attention_norm.forward(memory, tokens, numbers);
        memory.module(FEED_FORWARD, Some(index));
        let [inner] = linear::forward(memory, [&self.intermediate], tokens, numbers);
        let inner = inner.keep();
        let product = memory.tensor(tokens * self.output.inputs, numbers.hidden);
        let [last] = linear::forward(memory, [&self.output], tokens, numbers);
        drop(product);
        let last = last.keep();
        drop(normed);
        Saved {
            x: Rc::clone(x),
            middle,
            last,
            attention,
            inner,
        }
    }

    fn backward(
        &mut self,
        memory: &'m Memory,
        index: usize,
        saved: Saved<'m>,
        dy: Held<'m>,
        pass: &Pass,
        model: (Numbers, Dropouts),
    ) -> Held<'m> {
        let (numbers, dropouts) = model;
        let tokens = pass.tokens;
        let Saved {
            x,
            middle,
            last,
            attention,
            inner,
        } = saved;
        memory.module(FEED_FORWARD, Some(index));
        self.output_norm.backward(memory, tokens);
        drop(last);
        let normed = self.attention_norm.forward(memory, tokens, numbers);
        let d_normed = self.feed_forward_backward(memory, inner, tokens, model);
        drop(normed);
        // The residual's gradient is added in place.
        drop(dy);
        let dy = d_normed;
        memory.module(ATTENTION, Some(index));
        self.attention_norm.backward(memory, tokens);
        drop(middle);
        let drops = dropouts.attention_output;
        let d_out = dropout_backward(memory, drops, tokens * self.hidden(), numbers.hidden);
        let qkv = [&mut self.query, &mut self.key, &mut self.value];
        let output = &mut self.attention_output;
        let dx = attention::backward(memory, qkv, output, attention, d_out, tokens, numbers);
        drop(dy);
        drop(x);
        dx
    }

    fn feed_forward_backward(
        &mut self,
        memory: &'m Memory,
        inner: Held<'m>,
        tokens: u64,
        (numbers, dropouts): (Numbers, Dropouts),
    ) -> Held<'m> {
        let dy = dropout_backward(memory, dropouts.hidden, tokens * self.output.outputs, numbers.hidden);
        let (product, ranks) = linear::input_gradient(memory, [&self.output], tokens, numbers, numbers.hidden);
        linear::accumulate(memory, [&mut self.output], tokens, ranks, numbers);
        drop((product, dy));
        let (dx, ranks) = linear::input_gradient(memory, [&self.intermediate], tokens, numbers, 4);
        linear::accumulate(memory, [&mut self.intermediate], tokens, ranks, numbers);
        drop(inner);
        dx
    }

    fn params_mut(&mut self) -> impl Iterator<Item = &mut Param<'m>> {
        let attention = [
            &mut self.query,
            &mut self.key,
            &mut self.value,
            &mut self.attention_output,
        ];
        let feed_forward = [&mut self.intermediate, &mut self.output];
        attention
            .into_iter()
            .flat_map(Linear::params_mut)
            .chain(self.attention_norm.params_mut())
            .chain(feed_forward.into_iter().flat_map(Linear::params_mut))
            .chain(self.output_norm.params_mut())
    }
}

impl<'m> Encoder<'m> {
    /// The sum of the embeddings.
    fn sum(&self, pass: &Pass) -> Held<'m> {
        let _ids = self.memory.temporary(pass.tokens * 4);
        self.memory
            .tensor(pass.tokens * self.words.columns, self.numbers.hidden)
    }
}

impl<'m> Chain<'m> for Encoder<'m> {
    type Saved = Saved<'m>;

    fn memory(&self) -> &'m Memory {
        self.memory
    }

    fn blocks(&self) -> usize {
        self.blocks.len()
    }

    fn embed(&self, pass: &Pass) -> Held<'m> {
        self.memory.module("embeddings", None);
        let _sum = self.sum(pass);
        let normed = self.embedding_norm.forward(self.memory, pass.tokens, self.numbers);
        if self.dropout.hidden {
            return self
                .memory
                .tensor(pass.tokens * self.words.columns, self.numbers.hidden);
        }
        normed
    }

    fn block(&self, index: usize, x: &Shared<'m>, pass: &Pass) -> (Held<'m>, Saved<'m>) {
        let saved = self.recompute(index, x, pass);
        let y = self.blocks[index]
            .output_norm
            .forward(self.memory, pass.tokens, self.numbers);
        (y, saved)
    }

    fn recompute(&self, index: usize, x: &Shared<'m>, pass: &Pass) -> Saved<'m> {
        self.blocks[index].recompute(self.memory, index, x, pass, self.numbers)
    }

    fn head(&mut self, pass: &Pass) -> Held<'m> {
        let (memory, numbers, batch) = (self.memory, self.numbers, pass.batch);
        let (hidden, labels) = (self.dense.inputs, self.classifier.outputs);
        memory.module("classifier", None);
        let _labels = memory.input(batch);
        let first = memory.tensor(batch * hidden, numbers.hidden);
        let [dense] = linear::forward(memory, [&self.dense], batch, numbers);
        let activated = memory.tensor(batch * hidden, numbers.hidden);
        let dropped = self
            .dropout
            .classifier
            .then(|| memory.tensor(batch * hidden, numbers.hidden));
        let [logits] = linear::forward(memory, [&self.classifier], batch, numbers);
        let [first, activated] = [first.keep(), activated.keep()];
        let dropped = dropped.map(Held::keep);
        drop(dense);
        memory.phase(Phase::Backward);
        let d_logits = memory.tensor(batch * labels, numbers.hidden);
        drop(logits);
        let (d_dropped, ranks) = linear::input_gradient(memory, [&self.classifier], batch, numbers, 4);
        linear::accumulate(memory, [&mut self.classifier], batch, ranks, numbers);
        drop((dropped, d_logits));
        let d_dense = memory.tensor(batch * hidden, numbers.hidden);
        let (d_first, ranks) = linear::input_gradient(memory, [&self.dense], batch, numbers, 4);
        linear::accumulate(memory, [&mut self.dense], batch, ranks, numbers);
        // Zeros behind each sample's first token.
        let _zeros = memory.tensor((pass.tokens - batch) * hidden, 4);
        let dx = memory.tensor(pass.tokens * hidden, 4);
        drop((first, activated, d_dropped, d_dense, d_first));
        dx
    }

    fn block_backward(&mut self, index: usize, saved: Saved<'m>, dy: Held<'m>, pass: &Pass) -> Held<'m> {
        let model = (self.numbers, self.dropout);
        self.blocks[index].backward(self.memory, index, saved, dy, pass, model)
    }

    fn embed_backward(&mut self, dy: Held<'m>, pass: &Pass) {
        let memory = self.memory;
        memory.module("embeddings", None);
        if !self.words.trainable {
            return;
        }
        let (tokens, columns) = (pass.tokens, self.words.columns);
        let _dx = self.dropout.hidden.then(|| memory.tensor(tokens * columns, 4));
        let sum = self.sum(pass);
        self.embedding_norm.backward(memory, tokens);
        drop(sum);
        let _indices = memory.temporary(tokens * 4);
        self.positions.accumulate_rows(memory, tokens);
        if let Some(types) = &mut self.token_types {
            let _zeros = memory.temporary(tokens * 4);
            types.accumulate_rows(memory, tokens);
        }
        let _ids = memory.temporary(tokens * 4);
        self.words.accumulate_rows(memory, tokens);
        drop(dy);
    }

    fn params_mut(&mut self) -> Vec<&mut Param<'m>> {
        let blocks = self.blocks.iter_mut().flat_map(Block::params_mut);
        [&mut self.words, &mut self.positions]
            .into_iter()
            .chain(&mut self.token_types)
            .chain(self.embedding_norm.params_mut())
            .chain(blocks)
            .chain(self.dense.params_mut())
            .chain(self.classifier.params_mut())
            .collect()
    }
}
