//! One micro-batch through the chain of segments and back. Between segments only the hidden state crosses; a segment
//! frees what it held as soon as its backward pass is done.

use candle_core::{Error, Result};
use data::MicroBatch;
use model::{Chain, Evaluated, Model, SegmentNames, input, with_chain};
use nn::{Pass, param::Param, tensor::Tensor};
use options::Checkpointing;
use trace::Phase;

use super::host_weights::{Fetch, HostInput};

/// The tensors that a block keeps until its backward pass.
enum Kept<S> {
    /// All that its layers saved.
    Saved(Box<S>),
    /// Its input only; the forward pass runs again (Chen et al. 2016, arXiv:1604.06174).
    Input(Tensor),
    /// Its input only, in the host's memory.
    HostInput(HostInput),
}

/// What blocks keep for the backward pass and from it, and where.
#[derive(Debug, Clone, Copy)]
pub struct Keeping<'a> {
    /// The blocks that keep their input alone.
    pub checkpointing: &'a Checkpointing,
    /// True if these inputs wait in the host's memory.
    pub inputs_on_host: bool,
    /// True if the gradients of blocks wait there.
    pub gradients_on_host: bool,
}

/// Runs a micro-batch forward and backward. Adds the gradients of `scale · loss sum` to the trained parameters and
/// returns the loss sum. Calls `on_checkpoint` between segments and while logits are held, which are good moments to
/// sample memory.
pub fn forward_backward(
    model: &mut Model,
    batch: &MicroBatch,
    pass: &Pass,
    keeping: Keeping<'_>,
    scale: f64,
    on_checkpoint: &mut dyn FnMut(),
) -> Result<f64> {
    with_chain!(model, chain => chain.forward_backward(batch, pass, keeping, scale, on_checkpoint))
}

/// The loss sum of a micro-batch, without gradients.
pub fn evaluate(model: &mut Model, batch: &MicroBatch, pass: &Pass) -> Result<Evaluated> {
    memory::set_phase(Phase::Forward);
    with_chain!(model, chain => {
        let x = chain.hidden_states(batch, pass)?;
        chain.evaluate(&x, batch, pass)
    })
}

/// The logits, float32: `[tokens, vocabulary]` of a decoder, `[batch, labels]` of an encoder. Training never holds the
/// former whole; this is for comparing a small model with another program's.
pub fn logits(model: &mut Model, batch: &MicroBatch, pass: &Pass) -> Result<Tensor> {
    with_chain!(model, chain => {
        let x = chain.hidden_states(batch, pass)?;
        chain.logits(&x, pass)
    })
}

/// The walk through the chain.
trait Walk: Chain + Sized {
    /// [`forward_backward`] of one family's model.
    fn forward_backward(
        &mut self,
        batch: &MicroBatch,
        pass: &Pass,
        keeping: Keeping<'_>,
        scale: f64,
        on_checkpoint: &mut dyn FnMut(),
    ) -> Result<f64> {
        memory::set_phase(Phase::Forward);
        let (trains_embedding, lowest) = self.lowest_trained();
        let SegmentNames {
            embedding,
            blocks,
            head,
        } = self.names();
        let ids = input("input_ids", &batch.ids, batch.sequences.tokens());
        self.prefetch(0);
        let mut x = {
            let (_entered, _module) = (memory::enter(last_part(embedding)), memory::module(embedding));
            self.embed(&ids, pass)?
        };
        let mut kept = Vec::with_capacity(self.blocks());
        for index in 0..self.blocks() {
            let _entered = memory::enter_layer(index);
            let _module = memory::module(format_args!("{blocks}.{index}"));
            self.fetch(index)?;
            self.prefetch(index + 1);
            let (y, saved) = self.block(index, x, pass)?;
            // The backward pass begins with the last block.
            if index + 1 < self.blocks() || index < lowest {
                self.release(index);
            }
            if index < lowest {
                drop(saved);
            } else if !keeping.checkpointing.recomputes(index) {
                kept.push(Kept::Saved(Box::new(saved)));
            } else if keeping.inputs_on_host {
                kept.push(Kept::HostInput(HostInput::of(Self::into_input(saved))?));
            } else {
                kept.push(Kept::Input(Self::into_input(saved)));
            }
            x = y;
            on_checkpoint();
        }

        let x = x.kept();
        on_checkpoint();
        let (loss, dx) = {
            let (_entered, _module) = (memory::enter(last_part(head)), memory::module(head));
            self.head(&x, batch, pass, scale, on_checkpoint)?
        };
        drop(x);
        on_checkpoint();

        let mut dx = Some(dx);
        for (index, kept) in (lowest..self.blocks()).zip(kept).rev() {
            let dy = dx.take().ok_or_else(no_gradient)?;
            let _entered = memory::enter_layer(index);
            let _module = memory::module(format_args!("{blocks}.{index}"));
            self.fetch(index)?;
            if index > lowest {
                self.prefetch(index - 1);
            }
            let saved = match kept {
                Kept::Saved(saved) => *saved,
                Kept::Input(x) => self.recompute(index, x, pass)?,
                Kept::HostInput(x) => self.recompute(index, x.fetch()?, pass)?,
            };
            if keeping.gradients_on_host {
                self.fetch_gradients(index)?;
            }
            dx = self.block_backward(index, saved, dy, index > lowest || trains_embedding, pass)?;
            self.release(index);
            if keeping.gradients_on_host {
                self.send_gradients(index)?;
            }
            on_checkpoint();
        }
        if let Some(dx) = dx.filter(|_| trains_embedding) {
            let (_entered, _module) = (memory::enter(last_part(embedding)), memory::module(embedding));
            self.embed_backward(&ids, dx, pass)?;
        }
        Ok(loss)
    }

    /// True if the first segment has something that is trained, and the first block that the backward pass comes to:
    /// the lowest with something trained, or the number of blocks if only the head is.
    fn lowest_trained(&mut self) -> (bool, usize) {
        fn is_trained(params: &[&mut Param]) -> bool {
            params.iter().any(|param| param.trainable)
        }
        let mut of_embedding = Vec::new();
        self.embedding_trainable(&mut of_embedding);
        if is_trained(&of_embedding) {
            return (true, 0);
        }
        let blocks = self.blocks();
        let lowest = (0..blocks).find(|&index| {
            let mut of_block = Vec::new();
            self.block_trainable(index, &mut of_block);
            is_trained(&of_block)
        });
        (false, lowest.unwrap_or(blocks))
    }

    /// The last block's output, `[tokens, hidden]`.
    fn hidden_states(&mut self, batch: &MicroBatch, pass: &Pass) -> Result<Tensor> {
        let mut x = self.embed(&input("input_ids", &batch.ids, batch.sequences.tokens()), pass)?;
        for index in 0..self.blocks() {
            self.fetch(index)?;
            self.prefetch(index + 1);
            x = self.block(index, x, pass)?.0;
            self.release(index);
        }
        Ok(x)
    }
}

impl<C: Chain> Walk for C {}

/// A block above another, or above a trained embedding, gives the gradient of its input.
fn no_gradient() -> Error {
    Error::Msg("a block gave no gradient of its input".into())
}

/// The last part of a module's name, by which plans know it.
fn last_part(name: &'static str) -> &'static str {
    name.rsplit('.').next().unwrap_or(name)
}
