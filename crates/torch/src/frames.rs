//! Checkpointed calls of blocks: what each keeps, and what its recomputation saves.

use std::ops::{Index, IndexMut};

use super::dtype::Dtype;
use super::layout::Dims;
use super::view::View;

/// Most tensors that a block is given: hidden states, the mask by name, cosines, sines and positions, and cosines and sines of
/// other blocks.
pub(super) const BLOCK_INPUTS: usize = 7;

/// What a block gives: hidden states, and in some releases the weights of its attention.
pub(super) type BlockOutputs<T> = (T, Option<T>);

/// One checkpointed call of a block.
pub(super) struct Frame {
    pub(super) block: usize,
    pub(super) inputs: [Option<View>; BLOCK_INPUTS],
    /// The size and format of the weights that the block gave.
    pub(super) weights: Option<(Dims, Dtype)>,
    /// How many tensors the block saves.
    pub(super) count: usize,
    /// The number of these whose node is not done.
    pub(super) left: usize,
    pub(super) recomputed: Option<Vec<Option<View>>>,
}

impl Frame {
    pub(super) fn new(block: usize, inputs: [Option<View>; BLOCK_INPUTS]) -> Self {
        Self {
            block,
            inputs,
            weights: None,
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

    /// Keeps the next tensor that the second run saves. Returns true if it was the last.
    pub(super) fn keep(&mut self, view: View) -> bool {
        let recomputed = self.recomputed.get_or_insert_default();
        recomputed.push(Some(view));
        recomputed.len() == self.count
    }

    /// The tensors that the second run saved.
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
pub(super) struct Frames(pub(super) Vec<Frame>);

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

/// Runs a checkpointed block again, for what it saves.
pub(super) type Recompute<'a> = &'a dyn Fn(&Frame) -> Option<BlockOutputs<View>>;
