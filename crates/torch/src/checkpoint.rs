//! Gradient checkpointing that is not reentrant: a block's forward pass keeps its inputs only and is run again when
//! backward comes to it.
//!
//! The second run stops as soon as everything that the first one would have saved is there, and
//! what it made is let go node by node.

use super::frames::{BLOCK_INPUTS, BlockOutputs, Frame, Recompute};
use super::tape::{Mode, Tape, Tensor};

impl Tape {
    /// A frame that holds what a block is given.
    pub(super) fn open_frame<'t>(&'t self, index: usize, inputs: [Option<&Tensor<'t>>; BLOCK_INPUTS]) -> usize {
        for view in inputs.into_iter().flatten() {
            self.label_saved(view.view.storage);
        }
        let inputs = inputs.map(|input| input.map(|tensor| tensor.clone().into_view()));
        let frames = &mut self.graph.borrow_mut().frames.0;
        frames.push(Frame::new(index, inputs));
        frames.len() - 1
    }

    /// Runs `block`, which is the one with the number `index`, without keeping what it saves.
    pub(super) fn checkpoint<'t>(
        &'t self,
        use_reentrant: bool,
        index: usize,
        inputs: [Option<&Tensor<'t>>; BLOCK_INPUTS],
        block: impl FnOnce() -> Tensor<'t>,
    ) -> Tensor<'t> {
        let (output, _) = self.checkpoint_with_weights(use_reentrant, index, inputs, || (block(), None));
        output
    }

    /// The same of a block that may give the weights of its attention, too.
    pub(super) fn checkpoint_with_weights<'t>(
        &'t self,
        use_reentrant: bool,
        index: usize,
        inputs: [Option<&Tensor<'t>>; BLOCK_INPUTS],
        block: impl FnOnce() -> BlockOutputs<Tensor<'t>>,
    ) -> BlockOutputs<Tensor<'t>> {
        if use_reentrant {
            return self.checkpoint_reentrant(index, inputs, block);
        }
        let frame = self.open_frame(index, inputs);
        let output = self.within(Mode::Checkpoint(frame), block);
        let frame = &mut self.graph.borrow_mut().frames[frame];
        if frame.count == 0 {
            self.release_inputs(frame);
        }
        output
    }

    pub(super) fn release_inputs(&self, frame: &mut Frame) {
        for view in std::mem::take(&mut frame.inputs).into_iter().flatten() {
            self.release(view.storage);
        }
    }

    /// Runs the block of a frame again, unless that is done already.
    pub(super) fn recompute(&self, index: usize, recompute: Recompute<'_>) {
        let frame = {
            let frame = &mut self.graph.borrow_mut().frames[index];
            if frame.recomputed.is_some() {
                return;
            }
            frame.recomputed = Some(Vec::with_capacity(frame.count));
            Frame {
                recomputed: None,
                ..*frame
            }
        };
        let (output, weights) = self.within(Mode::Recompute(index), || recompute(&frame)).unzip();
        let kept = self.graph.borrow_mut().take_recomputed();
        for view in output.into_iter().chain(weights.flatten()).chain(kept) {
            self.release(view.storage);
        }
        self.stopped.set(false);
    }
}
