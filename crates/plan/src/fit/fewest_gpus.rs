//! The fewest GPUs that share a training.

use cell::{Cell, Stack};
use options::Distributed;
use spec::FitSpec;
use techniques::Harm;

use super::search::{Found, Search};
use super::space::{Moves, Space};
use crate::{PlanError, Planner};

/// Numbers of GPUs that are tried beside one.
const SHARED: [usize; 6] = [2, 4, 8, 16, 32, 64];

/// FSDP's versions, that which keeps less first.
const VERSIONS: [usize; 2] = [2, 1];

/// The fewest GPUs of its kind on which `cell` fits if FSDP shares it, with changes of at most the harm `worst`; as it
/// is but for that without it. Micro-batches of a step are shared out. `None` if none are enough.
///
/// # Errors
/// The cell is our trainer's, it has no budget, it cannot be planned on one GPU, or FSDP cannot share it.
pub fn fewest_gpus(
    planner: &Planner,
    cell: &Cell,
    worst: Option<Harm>,
    fit: &FitSpec,
) -> Result<Option<(usize, Found)>, PlanError> {
    if cell.stack != Stack::Torch {
        return Err(PlanError::NoGpu);
    }
    let model = planner.model(cell)?;
    let limit = planner.limit(cell).ok_or(PlanError::NoBudget)?;
    let moves = worst.map(|worst| Moves { fit, worst });
    let least = |cell: &Cell| Search::new(planner, Space::with(cell, &model, moves)).least(limit);
    let alone = alone(cell);
    planner.needed_at_least(&alone)?;
    if let Some(found) = least(&alone) {
        return Ok(Some((1, found)));
    }
    let mut refused = None;
    for count in SHARED {
        let cells = VERSIONS.map(|version| shared(cell, count, version));
        let valid = cells.iter().filter(|cell| {
            let invalid = cell.validate().err();
            let is_valid = invalid.is_none();
            refused = refused.take().or(invalid);
            is_valid
        });
        let valid: Vec<&Cell> = valid.collect();
        if let (true, Some(invalid)) = (valid.is_empty(), &refused) {
            return Err(PlanError::NotShared(invalid.to_string()));
        }
        if let Some(found) = valid.into_iter().filter_map(least).min_by_key(|found| found.price) {
            return Ok(Some((count, found)));
        }
    }
    Ok(None)
}

/// The cell on one GPU.
fn alone(cell: &Cell) -> Cell {
    Cell {
        world_size: 1,
        distributed: Distributed::Ddp,
        fsdp_config: Default::default(),
        ..cell.clone()
    }
}

/// The cell, shared among `count` GPUs.
fn shared(cell: &Cell, count: usize, version: usize) -> Cell {
    let mut shared = Cell {
        world_size: count,
        distributed: Distributed::Fsdp,
        ..cell.clone()
    };
    shared.fsdp_config.version = version;
    let micro_batches = cell.gradient_accumulation_steps * cell.world_size;
    shared.gradient_accumulation_steps = (micro_batches / count).max(1);
    shared
}
