//! A model as a chain of segments: embedding, blocks, and a head with the loss.

use candle_core::{Device, Result};
use data::MicroBatch;
use memory::{Buffer, tiers::Slot};
use nn::{Pass, adapter::SharedFactors, param::Param, tensor::Tensor};
use trace::Category;

use crate::host_blocks::HostBlocks;

/// The segments of a model. Hidden states are `[tokens, hidden]`, and their gradients float32.
pub trait Chain {
    /// All that a block's layers save for its backward pass.
    type Saved;

    /// The segments' names in a timeline.
    fn names(&self) -> SegmentNames;
    /// The device that holds the weights.
    fn device(&self) -> &Device;
    /// Number of blocks.
    fn blocks(&self) -> usize;
    /// Adds everything that is trained to the list, and the adapters' frozen tensors, in a fixed order, each once.
    fn trainable<'a>(&'a mut self, params: &mut Vec<&'a mut Param>);
    /// Adds the same of the first segment to the list, in a fixed order.
    fn embedding_trainable<'a>(&'a mut self, params: &mut Vec<&'a mut Param>);
    /// Adds the same of a block to the list, in a fixed order.
    fn block_trainable<'a>(&'a mut self, index: usize, params: &mut Vec<&'a mut Param>);
    /// The frozen factors that adapters share, if they do.
    fn shared(&self) -> Option<&SharedFactors>;
    /// The places of a block's weights that are not trained, in a fixed order.
    fn frozen<'a>(&'a mut self, index: usize, slots: &mut Vec<&'a mut dyn Slot>);
    /// The blocks whose frozen weights wait in the host's memory.
    fn host_blocks(&mut self) -> &mut HostBlocks;
    /// The first block's input, from token ids.
    fn embed(&self, ids: &Buffer<u32>, pass: &Pass) -> Result<Tensor>;
    /// A block's output, and what its backward pass needs.
    fn block(&self, index: usize, x: Tensor, pass: &Pass) -> Result<(Tensor, Self::Saved)>;
    /// The tensors that [`Chain::block`] saves, without its output.
    fn recompute(&self, index: usize, x: Tensor, pass: &Pass) -> Result<Self::Saved>;
    /// A block's input alone, of all that it saved.
    fn into_input(saved: Self::Saved) -> Tensor;
    /// The loss sum, and the gradient of `scale · loss sum` in `x`; adds the head's gradients. Calls `on_checkpoint` at
    /// good moments to sample memory.
    fn head(
        &mut self,
        x: &Tensor,
        batch: &MicroBatch,
        pass: &Pass,
        scale: f64,
        on_checkpoint: &mut dyn FnMut(),
    ) -> Result<(f64, Tensor)>;
    /// The gradient of the block's input, if somebody needs it, from that of its output; adds the block's gradients.
    fn block_backward(
        &mut self,
        index: usize,
        saved: Self::Saved,
        dy: Tensor,
        needs_dx: bool,
        pass: &Pass,
    ) -> Result<Option<Tensor>>;
    /// Adds the embedding's gradients.
    fn embed_backward(&mut self, ids: &Buffer<u32>, dy: Tensor, pass: &Pass) -> Result<()>;
    /// The loss of the last block's output, without gradients.
    fn evaluate(&self, x: &Tensor, batch: &MicroBatch, pass: &Pass) -> Result<Evaluated>;
    /// The logits of the last block's output, float32.
    fn logits(&self, x: &Tensor, pass: &Pass) -> Result<Tensor>;
}

/// The segments' names in a timeline: Hugging Face's.
#[derive(Debug, Clone, Copy)]
pub struct SegmentNames {
    /// The first segment.
    pub embedding: &'static str,
    /// The blocks; a block's index follows.
    pub blocks: &'static str,
    /// The last segment, with the loss.
    pub head: &'static str,
}

/// The figures of a micro-batch without gradients.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Evaluated {
    /// Sum over the predicted tokens, or labels.
    pub loss_sum: f64,
    /// Samples whose label is the likeliest; `None` without labels.
    pub correct: Option<usize>,
}

/// A copy of ids or labels as an input of the model; in a dry run, so many of them.
pub fn input(name: &str, values: &[u32], count: usize) -> Buffer<u32> {
    let (_scope, _module) = (memory::scope(Category::Input), memory::part(name));
    let input = Buffer::from_fn(count, |at| values[at]);
    input.describe("uint32", &[count]);
    input
}
