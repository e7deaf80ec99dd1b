//! One micro-batch through the chain of segments and back. Between segments only the hidden state crosses; a segment
//! frees what it held as soon as its backward pass is done.

use candle_core::{Result, Tensor};

use crate::{
    data::MicroBatch,
    memory::{self, Category, Phase},
    model::Llama,
    nn::{
        Pass, block, embedding,
        loss::{self, Targets},
    },
    spec::cell::Checkpointing,
};

/// The segments' names in a timeline.
const EMBEDDING: &str = "model.embed_tokens";
const BLOCKS: &str = "model.layers";
/// The final norm and the loss with it.
const HEAD: &str = "lm_head";

/// What a block keeps until its backward pass.
enum Kept {
    /// All that its layers saved.
    Saved(Box<block::Saved>),
    /// Its input only; the forward pass runs again (Chen et al. 2016, arXiv:1604.06174).
    Input(Tensor),
}

/// Runs the micro-batch, adds the gradients of `scale · loss sum` to what is trained, and returns the loss sum over the
/// counted tokens. `between` is called between segments and while logits are held, where memory is worth a look.
pub fn forward_backward(
    model: &mut Llama,
    batch: &MicroBatch,
    pass: &Pass,
    checkpointing: Checkpointing,
    scale: f64,
    between: &mut dyn FnMut(),
) -> Result<f64> {
    memory::set_phase(Phase::Forward);
    let ids = input(batch, model)?;
    let mut x = {
        let _module = memory::module(EMBEDDING);
        embedding::forward(&model.embed_tokens, &ids, model.hidden)?
    };
    let mut kept = Vec::with_capacity(model.blocks.len());
    for (index, block) in model.blocks.iter().enumerate() {
        let _module = memory::module(format_args!("{BLOCKS}.{index}"));
        let (y, saved) = block.forward(&x, &model.rope, pass)?;
        kept.push(if recomputes(checkpointing, index) {
            Kept::Input(x)
        } else {
            Kept::Saved(Box::new(saved))
        });
        x = y;
        between();
    }

    memory::label(&x, Category::Activation);
    between();
    let targets = Targets::new(&batch.ids, &batch.lengths, batch.len);
    let (norm, head) = model.head_mut();
    let (loss, mut dx) = {
        let _module = memory::module(HEAD);
        loss::forward_backward(&x, norm, head, &targets, scale, between)?
    };
    drop(x);
    between();

    for (index, (block, kept)) in model.blocks.iter_mut().zip(kept).enumerate().rev() {
        let _module = memory::module(format_args!("{BLOCKS}.{index}"));
        let saved = match kept {
            Kept::Saved(saved) => *saved,
            Kept::Input(x) => block.recompute(&x, &model.rope, pass)?,
        };
        dx = block.backward(saved, dx, &model.rope, pass)?;
        between();
    }
    let _module = memory::module(EMBEDDING);
    embedding::backward(&mut model.embed_tokens, &ids, &dx)?;
    Ok(loss)
}

/// The loss sum over the counted tokens of a micro-batch, without gradients.
pub fn evaluate(model: &Llama, batch: &MicroBatch, pass: &Pass) -> Result<f64> {
    memory::set_phase(Phase::Forward);
    let x = hidden_states(model, batch, pass)?;
    let targets = Targets::new(&batch.ids, &batch.lengths, batch.len);
    let (norm, head) = model.head();
    loss::evaluate(&x, norm, head, &targets)
}

/// The logits of every token, `[tokens, vocabulary]`, float32. They are never held whole in training; this is for
/// comparing a small model with another program's.
pub fn logits(model: &Llama, batch: &MicroBatch, pass: &Pass) -> Result<Tensor> {
    let x = hidden_states(model, batch, pass)?;
    let (norm, head) = model.head();
    loss::logits(&norm.forward(&x)?, head)
}

/// The last block's output, `[tokens, hidden]`.
fn hidden_states(model: &Llama, batch: &MicroBatch, pass: &Pass) -> Result<Tensor> {
    let mut x = embedding::forward(&model.embed_tokens, &input(batch, model)?, model.hidden)?;
    for block in &model.blocks {
        x = block.forward(&x, &model.rope, pass)?.0;
    }
    Ok(x)
}

fn input(batch: &MicroBatch, model: &Llama) -> Result<Tensor> {
    let (_scope, _module) = (memory::scope(Category::Input), memory::part("input_ids"));
    let ids = Tensor::from_slice(&batch.ids, batch.ids.len(), &model.device)?;
    memory::describe(&ids);
    Ok(ids)
}

fn recomputes(checkpointing: Checkpointing, block: usize) -> bool {
    match checkpointing {
        Checkpointing::None => false,
        Checkpointing::Full => true,
        Checkpointing::Every(n) => block.is_multiple_of(n),
    }
}
