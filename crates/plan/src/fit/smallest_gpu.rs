//! The smallest GPU that a cell fits on.

use cell::{Cell, Stack};
use spec::FitSpec;
use techniques::Harm;
use torch::gpu::Gpu;

use super::search::{Found, Search};
use super::space::{Moves, Space};
use crate::{PlanError, Planner};

/// The GPU with the least memory on which `cell` fits, with changes of at most the harm `worst`; as it is without it.
/// `None` if it fits on none. The planner must have no budget of its own.
///
/// # Errors
/// The cell is our trainer's, or it cannot be planned.
pub fn smallest_gpu(
    planner: &Planner,
    cell: &Cell,
    worst: Option<Harm>,
    fit: &FitSpec,
) -> Result<Option<(&'static Gpu, Found)>, PlanError> {
    if cell.stack != Stack::Torch {
        return Err(PlanError::NoGpu);
    }
    let model = planner.model(cell)?;
    planner.needed_at_least(cell)?;
    let moves = worst.map(|worst| Moves { fit, worst });
    // Live tensors are about the same on every GPU: smaller ones need no search.
    let at_least = Search::new(planner, Space::with(cell, &model, moves)).at_least();
    let mut gpus: Vec<&Gpu> = Gpu::all().iter().filter(|gpu| gpu.total_bytes > at_least).collect();
    gpus.sort_by_key(|gpu| gpu.total_bytes);
    let found = gpus.into_iter().find_map(|gpu| {
        let cell = Cell {
            gpu: Some(gpu.name.into()),
            ..cell.clone()
        };
        let space = Space::with(&cell, &model, moves);
        Some((gpu, Search::new(planner, space).least(planner.limit(&cell)?)?))
    });
    Ok(found)
}
