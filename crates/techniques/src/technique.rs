//! A technique: a key that can save memory, the values to try, and what they cost.

use std::fmt;

use arch::ModelConfig;
use cell::Cell;
use serde_json::Value;

use super::price::Price;

/// A way to train in less memory.
///
/// The functions see the cell as it is given, and give cells that differ from it in the technique's own keys alone.
#[derive(Clone, Copy)]
pub struct Technique {
    /// The key that a user sets.
    pub key: &'static str,
    /// What it does, in one sentence.
    pub does: &'static str,
    /// When not to use it, in one sentence.
    pub avoid: &'static str,
    /// Keys that follow it.
    pub follows: &'static [&'static str],
    /// True if the last of its own steps saves most, whatever the other keys are.
    pub is_ordered: bool,
    /// True if it changes the bytes of live tensors, and not only what an allocator holds for them.
    pub is_of_tensors: bool,
    /// The given cell with each value worth trying, the one that saves most last; none where it has no effect.
    pub(super) steps: fn(&Cell, &ModelConfig) -> Vec<Cell>,
    /// Sets the keys that follow, in a cell whose key was changed.
    pub(super) settle: fn(&Cell, &mut Cell),
    /// Copies the technique's keys from the first cell.
    pub(super) copy: fn(&Cell, &mut Cell),
    /// The price of a change.
    pub(super) price: fn(&Change<'_>) -> Price,
    /// The price in words.
    pub(super) meaning: fn(&Change<'_>) -> String,
}

impl fmt::Debug for Technique {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Technique").field(&self.key).finish()
    }
}

/// A change of a cell.
#[derive(Debug, Clone, Copy)]
pub struct Change<'a> {
    /// The cell as it is given.
    pub from: &'a Cell,
    /// The cell with the change.
    pub to: &'a Cell,
    /// The shape of its model.
    pub model: &'a ModelConfig,
}

/// A value of a technique's key.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The given cell with this value.
    pub cell: Cell,
    /// The price.
    pub price: Price,
    /// The price in words; empty for the value that is given.
    pub meaning: String,
}

impl Technique {
    /// The given value, and those worth trying, from the least price to the most.
    pub fn steps(&self, cell: &Cell, model: &ModelConfig) -> Vec<Step> {
        self.priced(cell, model, (self.steps)(cell, model))
    }

    /// The given value and those of `cells`, which differ from `cell` in this technique's key.
    fn priced(&self, cell: &Cell, model: &ModelConfig, cells: Vec<Cell>) -> Vec<Step> {
        let mut steps = vec![Step {
            cell: cell.clone(),
            price: Price::NOTHING,
            meaning: String::new(),
        }];
        for mut to in cells {
            (self.settle)(cell, &mut to);
            if steps.iter().all(|step| step.cell != to) {
                let change = Change {
                    from: cell,
                    to: &to,
                    model,
                };
                let (price, meaning) = ((self.price)(&change), (self.meaning)(&change));
                steps.push(Step {
                    cell: to,
                    price,
                    meaning,
                });
            }
        }
        // Steps of one price stay in their order.
        steps[1..].sort_by_key(|step| step.price);
        steps
    }

    /// The given value and these, which are of the type of the technique's key. A value that the key cannot have is
    /// left out.
    pub fn steps_to(&self, values: &[Value], cell: &Cell, model: &ModelConfig) -> Vec<Step> {
        let cells = values.iter().filter_map(|value| cell.with(self.key, value));
        self.priced(cell, model, cells.collect())
    }

    /// `cell` with another value of the key, and with the keys that follow; `None` if the key cannot have it.
    pub fn changed(&self, cell: &Cell, value: &Value) -> Option<Cell> {
        let mut to = cell.with(self.key, value)?;
        (self.settle)(cell, &mut to);
        Some(to)
    }

    /// Takes the technique's keys over from `step`.
    pub fn apply(&self, step: &Cell, to: &mut Cell) {
        (self.copy)(step, to);
    }

    /// The keys that it sets.
    pub fn keys(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.key).chain(self.follows.iter().copied())
    }
}

/// For techniques without keys that follow.
pub(super) fn nothing_follows(_: &Cell, _: &mut Cell) {}
