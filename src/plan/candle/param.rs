//! A dense tensor of the model and its gradient, as `nn::param`.

use super::held::{Held, Memory};
use crate::memory::Category;

/// Bytes of a tensor's name and of what else the trainer keeps of it, more or less.
const NAME: u64 = 64;

#[derive(Debug)]
pub(super) struct Param<'m> {
    pub rows: u64,
    pub columns: u64,
    /// Whether it has two dimensions.
    pub is_matrix: bool,
    /// Bytes of an element, and of one of its gradient.
    pub element: u64,
    pub trainable: bool,
    pub gradient: Option<Held<'m>>,
    /// The values; dropped with the model.
    #[expect(dead_code, reason = "held, never looked at")]
    values: [Held<'m>; 2],
}

impl<'m> Param<'m> {
    pub(super) fn new(memory: &'m Memory, shape: &[usize], element: u64, trainable: bool, values: Held<'m>) -> Self {
        let (rows, columns) = match *shape {
            [rows, columns] => (rows, columns),
            _ => (1, shape.iter().product()),
        };
        Self {
            rows: rows as u64,
            columns: columns as u64,
            is_matrix: shape.len() == 2,
            element,
            trainable,
            gradient: None,
            values: [values, memory.temporary(NAME)],
        }
    }

    pub(super) fn elements(&self) -> u64 {
        self.rows * self.columns
    }

    /// The values in float32: a copy, where they are in another format.
    pub(super) fn f32<'a>(&self, memory: &'a Memory) -> Option<Held<'a>> {
        (self.element != 4).then(|| memory.tensor(self.elements(), 4))
    }

    /// Adds a gradient in float32: the first one is kept, in the parameter's format.
    pub(super) fn accumulate(&mut self, memory: &'m Memory, gradient: Held<'m>) {
        if !self.trainable || self.gradient.is_some() {
            return;
        }
        let kept = if self.element == 4 {
            gradient
        } else {
            let narrow = memory.tensor(self.elements(), self.element);
            narrow.label(Category::Gradient);
            drop(gradient);
            narrow
        };
        kept.label(Category::Gradient);
        self.gradient = Some(kept);
    }

    /// Adds some rows of a gradient.
    pub(super) fn accumulate_rows(&mut self, memory: &'m Memory, rows: u64) {
        if !self.trainable {
            return;
        }
        let held = self
            .gradient
            .take()
            .unwrap_or_else(|| memory.tensor(self.elements(), self.element));
        // The order in which the rows are added.
        let order = memory.temporary(rows * 8);
        drop(order);
        held.label(Category::Gradient);
        self.gradient = Some(held);
    }
}
