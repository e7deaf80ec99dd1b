//! One micro-batch through the chain and back, as `train::segments`.

use std::rc::Rc;

use super::{
    held::{Held, Memory, Shared},
    param::Param,
};
use crate::{
    memory::{Category, Phase},
    options::Checkpointing,
};

/// A micro-batch's size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pass {
    pub batch: u64,
    pub len: u64,
    pub tokens: u64,
    /// Tokens that are predicted, or samples that have labels.
    pub counted: u64,
}

/// A family's model.
pub(super) trait Chain<'m> {
    type Saved;

    fn memory(&self) -> &'m Memory;
    fn blocks(&self) -> usize;
    fn embed(&self, pass: &Pass) -> Held<'m>;
    fn block(&self, index: usize, x: &Shared<'m>, pass: &Pass) -> (Held<'m>, Self::Saved);
    fn recompute(&self, index: usize, x: &Shared<'m>, pass: &Pass) -> Self::Saved;
    fn head(&mut self, pass: &Pass) -> Held<'m>;
    fn block_backward(&mut self, index: usize, saved: Self::Saved, dy: Held<'m>, pass: &Pass) -> Held<'m>;
    fn embed_backward(&mut self, dy: Held<'m>, pass: &Pass);
    /// Every dense tensor and adapter, in the order of `model::Model::trainable`.
    fn params_mut(&mut self) -> Vec<&mut Param<'m>>;
}

/// What a block keeps.
enum Kept<'m, S> {
    Saved(S),
    /// Its input alone: the forward pass is run again.
    Input(Shared<'m>),
}

pub(super) fn forward_backward<'m, C: Chain<'m>>(model: &mut C, pass: &Pass, checkpointing: Checkpointing) {
    let memory = model.memory();
    memory.phase(Phase::Forward);
    let ids = memory.input(pass.tokens);
    let mut x = Rc::new(model.embed(pass));
    let mut kept = Vec::with_capacity(model.blocks());
    for index in 0..model.blocks() {
        let (y, saved) = model.block(index, &x, pass);
        kept.push(if checkpointing.recomputes(index) {
            drop(saved);
            Kept::Input(x)
        } else {
            Kept::Saved(saved)
        });
        x = Rc::new(y);
    }
    x.label(Category::Activation);
    let mut dx = model.head(pass);
    drop(x);
    for (index, kept) in kept.into_iter().enumerate().rev() {
        let saved = match kept {
            Kept::Saved(saved) => saved,
            Kept::Input(x) => model.recompute(index, &x, pass),
        };
        dx = model.block_backward(index, saved, dx, pass);
    }
    model.embed_backward(dx, pass);
    drop(ids);
}
