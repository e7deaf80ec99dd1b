//! Gradient checkpointing that is not reentrant: a block's forward pass keeps its inputs only and is run again when backward
//! comes to it.
//!
//! The second run stops as soon as everything that the first one would have saved is there, and
//! what it made is let go node by node.

use std::ops::{Index, IndexMut};

use super::autograd::Recompute;
use super::tape::{Mode, Tape};
use super::tensor::{Tensor, View};

/// Most tensors that a block is given: hidden states, the mask, cosines, sines and positions.
pub(super) const BLOCK_INPUTS: usize = 5;

/// One checkpointed call of a block.
pub(super) struct Frame {
    pub(super) block: usize,
    pub(super) inputs: [Option<View>; BLOCK_INPUTS],
    /// How many tensors the block saves.
    count: usize,
    /// Of these, those whose node is not done.
    left: usize,
    recomputed: Option<Vec<Option<View>>>,
}

impl Frame {
    pub(super) fn new(block: usize, inputs: [Option<View>; BLOCK_INPUTS]) -> Self {
        Self {
            block,
            inputs,
            count: 0,
            left: 0,
            recomputed: None,
        }
    }

    /// The block's number and what it was given.
    pub(super) fn take_inputs(&mut self) -> (usize, [Option<View>; BLOCK_INPUTS]) {
        (self.block, std::mem::take(&mut self.inputs))
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn count_one(&mut self) {
        self.count += 1;
        self.left += 1;
    }

    /// Keeps what the second run saves next; whether that is all.
    pub(super) fn keep(&mut self, view: View) -> bool {
        let recomputed = self.recomputed.get_or_insert_default();
        recomputed.push(Some(view));
        recomputed.len() == self.count
    }

    /// What the second run saved.
    pub(super) fn recomputed(&mut self) -> &mut [Option<View>] {
        self.recomputed.as_deref_mut().unwrap_or_default()
    }

    /// `count` saved tensors are done with; whether these were the last, with which the inputs go.
    pub(super) fn finish(&mut self, count: usize) -> bool {
        self.left -= count;
        count > 0 && self.left == 0
    }
}

#[derive(Default)]
pub(super) struct Frames(Vec<Frame>);

impl Frames {
    /// Forgets all frames and gives what they still held.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = View> + '_ {
        self.0.drain(..).flat_map(|frame| {
            let recomputed = frame.recomputed.unwrap_or_default();
            frame.inputs.into_iter().chain(recomputed).flatten()
        })
    }
}

impl Index<usize> for Frames {
    type Output = Frame;

    fn index(&self, index: usize) -> &Frame {
        &self.0[index]
    }
}

impl IndexMut<usize> for Frames {
    fn index_mut(&mut self, index: usize) -> &mut Frame {
        &mut self.0[index]
    }
}

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
        let output = self.within(Mode::Recompute(index), || recompute(&frame));
        let kept = self.graph.borrow_mut().take_recomputed();
        for view in output.into_iter().chain(kept) {
            self.release(view.storage);
        }
        self.stopped.set(false);
    }
}
