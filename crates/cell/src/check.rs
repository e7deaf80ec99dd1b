//! The configurations that make sense, and those of them that this version can train.

mod adapter;
mod data;
mod engine;
mod found;
mod fsdp;
mod gpu;
mod idle;
mod invalid;
mod model;
mod offload;
mod process;
mod quantised;
mod stack;
#[cfg(test)]
mod tests;
mod training;
mod zero;

pub use invalid::InvalidCell;

use found::Found;
use serde_json::{Map, Value};

use super::Cell;

impl Cell {
    /// Checks every value, alone and together with the others.
    ///
    /// # Errors
    /// All values that are out of their range, contradict another, or that this version's trainer cannot do. What
    /// follows from another is left out.
    pub fn validate(&self) -> Result<(), InvalidCell> {
        self.validate_keys(&self.to_map())
    }

    /// [`validate`](Self::validate), with [`Cell::to_map`] at hand.
    ///
    /// # Errors
    /// The same.
    pub fn validate_keys(&self, keys: &Map<String, Value>) -> Result<(), InvalidCell> {
        let mut found = Found::default();
        self.check_model(&mut found);
        self.check_task(&mut found);
        self.check_idle(keys, &mut found);
        self.check_engine(&mut found);
        self.check_stack(keys, &mut found);
        self.check_adapter(keys, &mut found);
        self.check_sizes(&mut found);
        self.check_schedule(&mut found);
        self.check_optimizer(keys, &mut found);
        self.check_measure(&mut found);
        self.check_data(&mut found);
        self.check_batches(&mut found);
        self.check_packing(&mut found);
        self.check_process(&mut found);
        self.check_offload(&mut found);
        found.result()
    }
}
