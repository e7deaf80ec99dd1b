//! Gradients that are reduced together.

use trace::Category;

use super::state::Bucket;
use crate::dtype::Dtype;
use crate::tape::Tape;

impl Bucket {
    pub(super) fn new(size: u64) -> Self {
        Self {
            size,
            buffers: Vec::new(),
            members: Vec::new(),
            elements: 0,
        }
    }

    /// Makes the buffers, in place of those that are there.
    pub(super) fn make_buffers(&mut self, tape: &Tape, count: usize, dtype: Dtype) {
        self.release_buffers(tape);
        let buffers = (0..count).map(|_| tape.alloc(self.size * dtype.size(), Category::Gradient));
        self.buffers = buffers.collect();
    }

    pub(super) fn has_buffers(&self) -> bool {
        !self.buffers.is_empty()
    }

    pub(super) fn release_buffers(&mut self, tape: &Tape) {
        self.buffers.drain(..).for_each(|buffer| tape.release(buffer));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.elements == 0
    }

    /// True if there is no room for so many elements.
    pub(super) fn is_full(&self, elements: u64) -> bool {
        self.elements + elements > self.size
    }

    pub(super) fn push(&mut self, number: usize, elements: u64) {
        self.members.push(number);
        self.elements += elements;
    }

    /// Takes what is in it.
    pub(super) fn take(&mut self) -> Vec<usize> {
        self.elements = 0;
        std::mem::take(&mut self.members)
    }
}
