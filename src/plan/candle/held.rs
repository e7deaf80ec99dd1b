//! Memory that is held as the trainer holds it: until it goes out of scope.

use std::cell::RefCell;
use std::rc::Rc;

use crate::{
    memory::{Category, Phase},
    trace::{Block, Trace},
};

/// What a tensor of candle's keeps on the heap beside its values: the tensor, its storage, its shape and strides.
const HANDLE: u64 = 264;

/// Bytes of the lists of a product's segments, terms and operands, where it has one of each.
const LISTS: u64 = 432;

/// Where the events go.
#[derive(Debug)]
pub(super) struct Memory {
    trace: RefCell<Trace>,
}

impl Memory {
    /// Room for about so many events is made at once.
    pub(super) fn new(events: usize) -> Self {
        Self {
            trace: RefCell::new(Trace::with_capacity(events)),
        }
    }

    pub(super) fn into_trace(self) -> Trace {
        self.trace.into_inner()
    }

    /// `bytes` for `category` until the value is dropped. None are no allocation.
    pub(super) fn hold(&self, bytes: u64, category: Category) -> Held<'_> {
        let block = (bytes > 0).then(|| self.trace.borrow_mut().alloc(bytes, category));
        Held {
            memory: self,
            block,
            handle: None,
        }
    }

    /// What a computation makes and frees by itself.
    pub(super) fn temporary(&self, bytes: u64) -> Held<'_> {
        self.hold(bytes, Category::Temporary)
    }

    /// A tensor's values for `category`, and what candle keeps beside them.
    pub(super) fn tensor_of(&self, bytes: u64, category: Category) -> Held<'_> {
        let mut held = self.hold(bytes, category);
        held.handle = Some(self.trace.borrow_mut().alloc(HANDLE, Category::Temporary));
        held
    }

    /// Token ids or labels.
    pub(super) fn input(&self, elements: u64) -> Held<'_> {
        self.hold(elements * 4 + HANDLE, Category::Input)
    }

    /// A tensor of so many elements, of which it is not known yet what it is for.
    pub(super) fn tensor(&self, elements: u64, element: u64) -> Held<'_> {
        self.tensor_of(elements * element, Category::Temporary)
    }

    /// A tensor that one product is stored to, whose lists are there until it is computed. They are more than what candle
    /// keeps of the tensor, so that a peak can be before it is known what the tensor is for.
    pub(super) fn product(&self, elements: u64, element: u64) -> Held<'_> {
        let mut held = self.hold(elements * element, Category::Temporary);
        drop(self.temporary(LISTS));
        held.handle = Some(self.trace.borrow_mut().alloc(HANDLE, Category::Temporary));
        held
    }

    pub(super) fn phase(&self, phase: Phase) {
        self.trace.borrow_mut().phase(phase);
    }

    pub(super) fn module(&self, name: &'static str, layer: Option<usize>) {
        let layer = layer.and_then(|layer| u16::try_from(layer).ok());
        self.trace.borrow_mut().module(name, layer);
    }

    pub(super) fn step_end(&self) {
        self.trace.borrow_mut().step_end();
    }

    pub(super) fn step(&self, number: u32) {
        self.trace.borrow_mut().step(number);
    }
}

/// Memory that is freed with this value.
#[derive(Debug)]
pub(super) struct Held<'m> {
    memory: &'m Memory,
    block: Option<Block>,
    handle: Option<Block>,
}

/// Memory with several holders.
pub(super) type Shared<'m> = Rc<Held<'m>>;

impl Held<'_> {
    /// It turns out what it is for.
    pub(super) fn label(&self, category: Category) {
        if let Some(block) = self.block {
            self.memory.trace.borrow_mut().label(block, category);
        }
    }

    /// It is kept for the backward pass.
    pub(super) fn keep(self) -> Self {
        self.label(Category::Activation);
        self
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let mut trace = self.memory.trace.borrow_mut();
        for block in [self.block, self.handle].into_iter().flatten() {
            trace.free(block);
        }
    }
}
