//! One micro-batch through the chain of segments and back. Between segments only the hidden state crosses; a segment
//! frees what it held as soon as its backward pass is done.

mod encoder;
mod llama;

use candle_core::{Device, Result, Tensor};

use crate::{
    data::MicroBatch,
    memory::{self, Category, Phase},
    model::Model,
    nn::Pass,
    options::Checkpointing,
};

/// A model as a chain of segments: embedding, blocks, and a head with the loss. Hidden states are `[tokens, hidden]`, and
/// their gradients float32.
trait Chain {
    /// All that a block's layers save for its backward pass.
    type Saved;

    fn names(&self) -> Names;
    fn device(&self) -> &Device;
    fn blocks(&self) -> usize;
    fn embed(&self, ids: &Tensor, pass: &Pass) -> Result<Tensor>;
    fn block(&self, index: usize, x: &Tensor, pass: &Pass) -> Result<(Tensor, Self::Saved)>;
    /// The tensors that [`Chain::block`] saves, without its output.
    fn recompute(&self, index: usize, x: &Tensor, pass: &Pass) -> Result<Self::Saved>;
    /// The loss sum, and the gradient of `scale · loss sum` in `x`; adds the head's gradients.
    fn head(
        &mut self,
        x: &Tensor,
        batch: &MicroBatch,
        pass: &Pass,
        scale: f64,
        between: &mut dyn FnMut(),
    ) -> Result<(f64, Tensor)>;
    /// The gradient of the block's input; adds the block's gradients.
    fn block_backward(&mut self, index: usize, saved: Self::Saved, dy: Tensor, pass: &Pass) -> Result<Tensor>;
    fn embed_backward(&mut self, ids: &Tensor, dy: Tensor, pass: &Pass) -> Result<()>;
    fn evaluate(&self, x: &Tensor, batch: &MicroBatch, pass: &Pass) -> Result<Evaluated>;
    fn logits(&self, x: &Tensor, pass: &Pass) -> Result<Tensor>;
}

/// The segments' names in a timeline: Hugging Face's.
struct Names {
    embedding: &'static str,
    /// A block's index follows.
    blocks: &'static str,
    /// With the loss.
    head: &'static str,
}

/// The figures of a micro-batch without gradients.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Evaluated {
    /// Sum over the predicted tokens, or labels.
    pub loss_sum: f64,
    /// Samples whose label is the likeliest; `None` without labels.
    pub correct: Option<usize>,
}

/// The tensors that a block keeps until its backward pass.
enum Kept<S> {
    /// All that its layers saved.
    Saved(Box<S>),
    /// Its input only; the forward pass runs again (Chen et al. 2016, arXiv:1604.06174).
    Input(Tensor),
}

/// Runs a micro-batch forward and backward. Adds the gradients of `scale · loss sum` to the trained parameters and returns
/// the loss sum. Calls `between` between segments and while logits are held, which are good moments to sample memory.
pub fn forward_backward(
    model: &mut Model,
    batch: &MicroBatch,
    pass: &Pass,
    checkpointing: Checkpointing,
    scale: f64,
    between: &mut dyn FnMut(),
) -> Result<f64> {
    match model {
        Model::Llama(model) => chain_forward_backward(model, batch, pass, checkpointing, scale, between),
        Model::Encoder(model) => chain_forward_backward(&mut **model, batch, pass, checkpointing, scale, between),
    }
}

/// The loss sum of a micro-batch, without gradients.
pub fn evaluate(model: &Model, batch: &MicroBatch, pass: &Pass) -> Result<Evaluated> {
    memory::set_phase(Phase::Forward);
    match model {
        Model::Llama(model) => model.evaluate(&hidden_states(model, batch, pass)?, batch, pass),
        Model::Encoder(model) => model.evaluate(&hidden_states(&**model, batch, pass)?, batch, pass),
    }
}

/// The logits, float32: `[tokens, vocabulary]` of a decoder, `[batch, labels]` of an encoder. Training never holds the former
/// whole; this is for comparing a small model with another program's.
pub fn logits(model: &Model, batch: &MicroBatch, pass: &Pass) -> Result<Tensor> {
    match model {
        Model::Llama(model) => model.logits(&hidden_states(model, batch, pass)?, pass),
        Model::Encoder(model) => model.logits(&hidden_states(&**model, batch, pass)?, pass),
    }
}

fn chain_forward_backward<C: Chain>(
    model: &mut C,
    batch: &MicroBatch,
    pass: &Pass,
    checkpointing: Checkpointing,
    scale: f64,
    between: &mut dyn FnMut(),
) -> Result<f64> {
    memory::set_phase(Phase::Forward);
    let Names {
        embedding,
        blocks,
        head,
    } = model.names();
    let ids = input("input_ids", &batch.ids, model.device())?;
    let mut x = {
        let _module = memory::module(embedding);
        model.embed(&ids, pass)?
    };
    let mut kept = Vec::with_capacity(model.blocks());
    for index in 0..model.blocks() {
        let _module = memory::module(format_args!("{blocks}.{index}"));
        let (y, saved) = model.block(index, &x, pass)?;
        kept.push(if checkpointing.recomputes(index) {
            Kept::Input(x)
        } else {
            Kept::Saved(Box::new(saved))
        });
        x = y;
        between();
    }

    memory::label(&x, Category::Activation);
    between();
    let (loss, mut dx) = {
        let _module = memory::module(head);
        model.head(&x, batch, pass, scale, between)?
    };
    drop(x);
    between();

    for (index, kept) in kept.into_iter().enumerate().rev() {
        let _module = memory::module(format_args!("{blocks}.{index}"));
        let saved = match kept {
            Kept::Saved(saved) => *saved,
            Kept::Input(x) => model.recompute(index, &x, pass)?,
        };
        dx = model.block_backward(index, saved, dx, pass)?;
        between();
    }
    let _module = memory::module(embedding);
    model.embed_backward(&ids, dx, pass)?;
    Ok(loss)
}

/// The last block's output, `[tokens, hidden]`.
fn hidden_states<C: Chain>(model: &C, batch: &MicroBatch, pass: &Pass) -> Result<Tensor> {
    let mut x = model.embed(&input("input_ids", &batch.ids, model.device())?, pass)?;
    for index in 0..model.blocks() {
        x = model.block(index, &x, pass)?.0;
    }
    Ok(x)
}

/// Ids or labels on the model's device.
fn input(name: &str, values: &[u32], device: &Device) -> Result<Tensor> {
    let (_scope, _module) = (memory::scope(Category::Input), memory::part(name));
    let input = Tensor::from_slice(values, values.len(), device)?;
    memory::describe(&input);
    Ok(input)
}
