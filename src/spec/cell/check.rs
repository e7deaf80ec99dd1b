//! Which configurations make sense, and which of them this version can train.

mod adapter;
mod data;
mod invalid;
mod model;
mod process;
mod stack;
#[cfg(test)]
mod tests;
mod training;

pub use invalid::Invalid;

use super::Cell;
use invalid::Checked;

impl Cell {
    /// Checks every value, alone and together with the others.
    ///
    /// # Errors
    /// The first value that is out of its range, contradicts another, or that this version's trainer cannot do.
    pub fn validate(&self) -> Checked {
        self.check_model()?;
        self.check_task()?;
        self.check_stack()?;
        self.check_adapter()?;
        self.check_sizes()?;
        self.check_schedule()?;
        self.check_optimizer()?;
        self.check_measure()?;
        self.check_data()?;
        self.check_process()
    }
}
