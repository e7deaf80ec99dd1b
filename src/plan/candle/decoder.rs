//! A decoder, as `nn::block` and what it is made of, and its loss, as `nn::loss`.

use std::rc::Rc;

use super::{
    attention,
    held::{Held, Memory, Shared},
    linear::{self, Linear, Numbers},
    param::Param,
    segments::{Chain, Pass},
};
use crate::{
    kernels::head::{exponentials_bytes, log_sum_exps_bytes},
    memory::{Category, Phase},
    nn::block::{ATTENTION, INPUT_NORM, MLP, POST_NORM},
    nn::loss,
};

#[derive(Debug)]
pub(super) struct Decoder<'m> {
    pub memory: &'m Memory,
    pub numbers: Numbers,
    pub embed_tokens: Param<'m>,
    pub blocks: Vec<Block<'m>>,
    pub norm: Param<'m>,
    /// None where the head is tied to the embedding.
    pub lm_head: Option<Param<'m>>,
    /// The rotary embedding's cosines and sines.
    #[expect(dead_code, reason = "held, never looked at")]
    pub rope: [Held<'m>; 2],
    /// The list of the trainer's blocks.
    #[expect(dead_code, reason = "held, never looked at")]
    pub list: Held<'m>,
}

#[derive(Debug)]
pub(super) struct Block<'m> {
    pub input_layernorm: Param<'m>,
    pub q_proj: Linear<'m>,
    pub k_proj: Linear<'m>,
    pub v_proj: Linear<'m>,
    pub o_proj: Linear<'m>,
    pub heads: u64,
    pub post_attention_layernorm: Param<'m>,
    pub gate_proj: Linear<'m>,
    pub up_proj: Linear<'m>,
    pub down_proj: Linear<'m>,
}

/// What a block keeps for its backward pass; declared beside the layers as `nn::block::Saved`.
pub(super) struct Saved<'m> {
    x: Shared<'m>,
    middle: Held<'m>,
    attention: attention::Saved<'m>,
    gate: Held<'m>,
    up: Held<'m>,
}

impl<'m> Block<'m> {
    fn hidden(&self) -> u64 {
        self.input_layernorm.columns
    }

    fn forward(
        &self,
        memory: &'m Memory,
        index: usize,
        x: &Shared<'m>,
        pass: &Pass,
        numbers: Numbers,
    ) -> (Held<'m>, Saved<'m>) {
        let saved = self.recompute(memory, index, x, pass, numbers);
        memory.module(MLP, Some(index));
        let _product = memory.tensor(pass.tokens * self.down_proj.inputs, numbers.hidden);
        let [y] = linear::forward(memory, [&self.down_proj], pass.tokens, numbers);
        (y, saved)
    }

    fn recompute(&self, memory: &'m Memory, index: usize, x: &Shared<'m>, pass: &Pass, numbers: Numbers) -> Saved<'m> {
        let tokens = pass.tokens;
        x.label(Category::Activation);
        memory.module(INPUT_NORM, Some(index));
        let normed = norm_forward(memory, &self.input_layernorm, tokens, numbers);
        memory.module(ATTENTION, Some(index));
        let qkv = [&self.q_proj, &self.k_proj, &self.v_proj];
        let (middle, attention) = attention::forward(memory, qkv, &self.o_proj, self.heads, tokens, numbers);
        drop(normed);
        let middle = middle.keep();
        memory.module(POST_NORM, Some(index));
        let normed = norm_forward(memory, &self.post_attention_layernorm, tokens, numbers);
        memory.module(MLP, Some(index));
        let [gate, up] = linear::forward(memory, [&self.gate_proj, &self.up_proj], tokens, numbers);
        let [gate, up] = [gate.keep(), up.keep()];
        drop(normed);
        Saved {
            x: Rc::clone(x),
            middle,
            attention,
            gate,
            up,
        }
    }

    fn backward(
        &mut self,
        memory: &'m Memory,
        index: usize,
        saved: Saved<'m>,
        dy: Held<'m>,
        pass: &Pass,
        numbers: Numbers,
    ) -> Held<'m> {
        let (tokens, hidden, element) = (pass.tokens, self.hidden(), numbers.hidden);
        let Saved {
            x,
            middle,
            attention,
            gate,
            up,
        } = saved;
        memory.module(POST_NORM, Some(index));
        let normed = norm_forward(memory, &self.post_attention_layernorm, tokens, numbers);
        memory.module(MLP, Some(index));
        let d_normed = {
            let _narrow = narrow(memory, tokens * hidden, element);
            self.mlp_backward(memory, gate, up, tokens, numbers)
        };
        drop(normed);
        memory.module(POST_NORM, Some(index));
        norm_backward(memory, &mut self.post_attention_layernorm, tokens, numbers);
        drop((middle, d_normed));
        memory.module(INPUT_NORM, Some(index));
        let normed = norm_forward(memory, &self.input_layernorm, tokens, numbers);
        memory.module(ATTENTION, Some(index));
        let d_out = narrow(memory, tokens * hidden, element);
        let qkv = [&mut self.q_proj, &mut self.k_proj, &mut self.v_proj];
        let d_normed = attention::backward(memory, qkv, &mut self.o_proj, attention, d_out, tokens, numbers);
        drop(normed);
        memory.module(INPUT_NORM, Some(index));
        norm_backward(memory, &mut self.input_layernorm, tokens, numbers);
        drop((x, d_normed));
        dy
    }

    fn mlp_backward(
        &mut self,
        memory: &'m Memory,
        gate: Held<'m>,
        up: Held<'m>,
        tokens: u64,
        numbers: Numbers,
    ) -> Held<'m> {
        let (d_product, ranks) = linear::input_gradient(memory, [&self.down_proj], tokens, numbers, numbers.hidden);
        // The gradients are computed in the memory of what was kept, and the product in that of its gradient.
        let (d_gate, d_up, product) = (gate, up, d_product);
        linear::accumulate(memory, [&mut self.down_proj], tokens, ranks, numbers);
        drop(product);
        let (dx, ranks) = linear::input_gradient(memory, [&self.gate_proj, &self.up_proj], tokens, numbers, 4);
        linear::accumulate(memory, [&mut self.gate_proj, &mut self.up_proj], tokens, ranks, numbers);
        drop((d_gate, d_up));
        dx
    }

    pub(super) fn params_mut(&mut self) -> impl Iterator<Item = &mut Param<'m>> {
        let attention = [&mut self.q_proj, &mut self.k_proj, &mut self.v_proj, &mut self.o_proj];
        let mlp = [&mut self.gate_proj, &mut self.up_proj, &mut self.down_proj];
        std::iter::once(&mut self.input_layernorm)
            .chain(attention.into_iter().flat_map(Linear::params_mut))
            .chain([&mut self.post_attention_layernorm])
            .chain(mlp.into_iter().flat_map(Linear::params_mut))
    }
}

/// The gradient of an output in the hidden dtype: a copy, where that is not float32.
pub(super) fn narrow(memory: &Memory, elements: u64, element: u64) -> Option<Held<'_>> {
    (element != 4).then(|| memory.tensor(elements, element))
}

fn norm_forward<'m>(memory: &'m Memory, weight: &Param, tokens: u64, numbers: Numbers) -> Held<'m> {
    let _weight = weight.f32(memory);
    memory.tensor(tokens * weight.columns, numbers.hidden)
}

/// In the memory of the gradient that goes past the norm.
fn norm_backward<'m>(memory: &'m Memory, weight: &mut Param<'m>, tokens: u64, numbers: Numbers) {
    if weight.trainable {
        let elements = tokens * weight.columns;
        let gradient = {
            let _wide = (numbers.hidden != 4).then(|| memory.tensor(elements, 4));
            let inverse = {
                let _squares = memory.tensor(elements, 4);
                memory.tensor(tokens, 4)
            };
            let _normed = memory.tensor(elements, 4);
            drop(inverse);
            let _product = memory.tensor(elements, 4);
            memory.tensor(weight.columns, 4)
        };
        weight.accumulate(memory, gradient);
    }
    drop(weight.f32(memory));
}

impl<'m> Decoder<'m> {
    fn head_weight(&self) -> &Param<'m> {
        self.lm_head.as_ref().unwrap_or(&self.embed_tokens)
    }

    /// The loss and the gradient in the head's input of some rows: its temporaries, and the gradient.
    fn loss_and_gradient(&mut self, rows: u64) -> Held<'m> {
        let (memory, numbers) = (self.memory, self.numbers);
        let head = self.head_weight();
        let (vocabulary, hidden, trainable) = (head.rows, head.columns, head.trainable);
        if !trainable {
            // Unless a logit is far above that of its next token, which only the numbers tell.
            memory.phase(Phase::Backward);
            let d_normed = memory.tensor(rows * hidden, 4);
            let (_totals, _bases) = (memory.temporary(rows * 8), memory.temporary(rows * 4));
            let at_a_time = loss::columns_at_a_time(
                loss::exponentials(numbers.product as usize),
                rows as usize,
                vocabulary as usize,
            );
            for start in (0..vocabulary).step_by(at_a_time) {
                let columns = (at_a_time as u64).min(vocabulary - start);
                let exponentials = memory.hold(rows * columns * numbers.product, Category::Temporary);
                let sums = memory.temporary(exponentials_bytes(rows as usize, columns as usize) as u64);
                drop((sums, exponentials));
            }
            return d_normed;
        }
        let sums = memory.temporary(log_sum_exps_bytes(rows as usize, vocabulary as usize) as u64);
        let kept = memory.temporary(rows * 4);
        drop(sums);
        memory.phase(Phase::Backward);
        let at_a_time = loss::columns_at_a_time(loss::CHUNK_ELEMENTS, rows as usize, vocabulary as usize);
        let d_normed = memory.tensor(rows * hidden, 4);
        let d_head = memory.tensor(vocabulary * hidden, 4);
        for start in (0..vocabulary).step_by(at_a_time) {
            let columns = (at_a_time as u64).min(vocabulary - start);
            drop(memory.tensor(rows * columns, numbers.hidden));
        }
        self.lm_head
            .as_mut()
            .unwrap_or(&mut self.embed_tokens)
            .accumulate(memory, d_head);
        drop(kept);
        d_normed
    }
}

impl<'m> Chain<'m> for Decoder<'m> {
    type Saved = Saved<'m>;

    fn memory(&self) -> &'m Memory {
        self.memory
    }

    fn blocks(&self) -> usize {
        self.blocks.len()
    }

    fn embed(&self, pass: &Pass) -> Held<'m> {
        self.memory.module("embed_tokens", None);
        self.memory
            .tensor(pass.tokens * self.embed_tokens.columns, self.numbers.hidden)
    }

    fn block(&self, index: usize, x: &Shared<'m>, pass: &Pass) -> (Held<'m>, Saved<'m>) {
        self.blocks[index].forward(self.memory, index, x, pass, self.numbers)
    }

    fn recompute(&self, index: usize, x: &Shared<'m>, pass: &Pass) -> Saved<'m> {
        self.blocks[index].recompute(self.memory, index, x, pass, self.numbers)
    }

    fn head(&mut self, pass: &Pass) -> Held<'m> {
        let (memory, numbers) = (self.memory, self.numbers);
        let hidden = self.norm.columns;
        memory.module("lm_head", None);
        // Rows that count, and their next tokens: lists that grow by doubling.
        let _targets = [(); 2].map(|()| memory.temporary(grown(pass.counted) * 4));
        let dx = memory.tensor(pass.tokens * hidden, 4);
        let mut left = pass.counted;
        while left > 0 {
            let rows = left.min(loss::ROWS as u64);
            left -= rows;
            memory.phase(Phase::Forward);
            let x = {
                let _indices = memory.tensor(rows, 4);
                memory.tensor(rows * hidden, numbers.hidden)
            };
            let normed = norm_forward(memory, &self.norm, rows, numbers);
            let _d_normed = self.loss_and_gradient(rows);
            drop(normed);
            let _d_rows = memory.tensor(rows * hidden, 4);
            norm_backward(memory, &mut self.norm, rows, numbers);
            drop(x);
        }
        memory.phase(Phase::Backward);
        dx
    }

    fn block_backward(&mut self, index: usize, saved: Saved<'m>, dy: Held<'m>, pass: &Pass) -> Held<'m> {
        self.blocks[index].backward(self.memory, index, saved, dy, pass, self.numbers)
    }

    fn embed_backward(&mut self, dy: Held<'m>, pass: &Pass) {
        self.memory.module("embed_tokens", None);
        if self.embed_tokens.trainable {
            let _ids = self.memory.temporary(pass.tokens * 4);
            self.embed_tokens.accumulate_rows(self.memory, pass.tokens);
        }
        drop(dy);
    }

    fn params_mut(&mut self) -> Vec<&mut Param<'m>> {
        let blocks = self.blocks.iter_mut().flat_map(Block::params_mut);
        std::iter::once(&mut self.embed_tokens)
            .chain(blocks)
            .chain([&mut self.norm])
            .chain(&mut self.lm_head)
            .collect()
    }
}

/// Room that a list has which was filled one by one.
fn grown(len: u64) -> u64 {
    if len == 0 { 0 } else { len.next_power_of_two().max(4) }
}
