//! The least recomputation that fits.

use cell::Cell;
use options::Checkpointing;

use crate::{PlanError, Planner};

/// The fewest blocks, from the first, with whose recomputation each of `cells` needs at most `bytes`; all blocks if
/// that is not enough. The cells are repeats: they differ in their seed alone.
///
/// # Errors
/// A cell cannot be planned.
pub fn least_recomputation(planner: &Planner, cells: &[Cell], bytes: u64) -> Result<Checkpointing, PlanError> {
    let Some(first) = cells.first() else {
        return Ok(Checkpointing::None);
    };
    let blocks = planner.model(first)?.num_hidden_layers;
    let fits = |count| {
        let gradient_checkpointing = Checkpointing::first(count, blocks);
        for cell in cells {
            let with = Cell {
                gradient_checkpointing: gradient_checkpointing.clone(),
                // More recomputation never needs less of the host's memory, so its budget does not decide.
                host_memory: None,
                ..cell.clone()
            };
            if planner.needed(&with)? > bytes {
                return Ok(false);
            }
        }
        Ok::<_, PlanError>(true)
    };
    // Each recomputed block holds its input alone, and the first ones are recomputed last: more of them never need
    // more.
    let (mut low, mut high) = (0, blocks);
    while low < high {
        let middle = usize::midpoint(low, high);
        match fits(middle)? {
            true => high = middle,
            false => low = middle + 1,
        }
    }
    Ok(Checkpointing::first(low, blocks))
}
