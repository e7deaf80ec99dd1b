//! A real step of a search.

use cell::Cell;

use crate::PlanError;

/// A real step with a cell, on its longest samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trial {
    /// False if it ran out of memory.
    pub fits: bool,
    /// From the start of its process to its end.
    pub seconds: f64,
}

/// For searches by prediction alone.
///
/// # Errors
/// None.
pub fn untried(_: &Cell) -> Result<Option<Trial>, PlanError> {
    Ok(None)
}
