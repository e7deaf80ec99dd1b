//! The fewest GPUs that share a training.

use cell::{Cell, Stack};
use options::Distributed;
use spec::FitSpec;
use techniques::Harm;

use super::search::{Found, Search};
use super::space::{Moves, Space};
use crate::{PlanError, Planner};

/// Numbers of GPUs that are tried.
const GPUS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];

/// The fewest GPUs of its kind on which `cell` fits if FSDP shares it as its `fsdp_config` says, or DeepSpeed if that is
/// what trains it, with changes of at most the harm `worst`; as it is but for that without it. Micro-batches of a step are
/// shared out. `None` if none are enough.
///
/// # Errors
/// The cell is our trainer's, it has no budget, it cannot be planned on one GPU, or it cannot be shared in any way that
/// `worst` allows.
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
    planner.needed_at_least(&shared(cell, 1))?;
    let limit = planner.limit(cell).ok_or(PlanError::NoBudget)?;
    let moves = worst.map(|worst| Moves { fit, worst });
    let found = GPUS.into_iter().find_map(|count| {
        let cell = shared(cell, count);
        let space = Space::with(&cell, &model, moves);
        let valid = cell.validate().is_ok() || worst.is_some();
        let found = valid.then(|| Search::new(planner, space).least(limit)).flatten()?;
        Some((count, found))
    });
    match (&found, shared(cell, GPUS[1]).validate()) {
        (None, Err(invalid)) => Err(PlanError::NotShared {
            by: if cell.is_deepspeed() { "DeepSpeed" } else { "FSDP" },
            why: invalid.to_string(),
        }),
        _ => Ok(found),
    }
}

/// The cell on `count` GPUs, on which as many micro-batches make a step as before, or one on each.
fn shared(cell: &Cell, count: usize) -> Cell {
    let micro_batches = cell.gradient_accumulation_steps * cell.world_size;
    let mut shared = Cell {
        world_size: count,
        distributed: Distributed::Fsdp,
        gradient_accumulation_steps: micro_batches.div_ceil(count),
        ..cell.clone()
    };
    if cell.is_deepspeed() {
        shared.distributed = cell.distributed;
        return shared;
    }
    if count == 1 {
        shared.distributed = Distributed::Ddp;
        shared.fsdp_config = Default::default();
    }
    shared
}
