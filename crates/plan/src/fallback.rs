//! What a rung makes of a cell that does not fit.

use cell::Cell;
use options::Checkpointing;
use spec::Rung;
use techniques::OFFLOAD;

use super::resolve::least_recomputation;
use super::{PlanError, Planner};

/// `cell` one rung down; `None` if the rung changes nothing in it.
///
/// # Errors
/// The cell cannot be planned.
pub fn fall_back(planner: &Planner, cell: &Cell, rung: Rung) -> Result<Option<Cell>, PlanError> {
    match rung {
        Rung::HalveBatch => Ok(halve_batch(cell)),
        Rung::Checkpoint => checkpoint(planner, cell),
        Rung::Offload => offload(planner, cell),
        Rung::Shorten => Ok(shorten(cell)),
    }
}

/// The largest micro-batch that divides this one and is at most half of it, so that the effective batch stays.
fn halve_batch(cell: &Cell) -> Option<Cell> {
    let whole = cell.batch_size;
    let part = (1..=whole / 2).rev().find(|&part| whole.is_multiple_of(part))?;
    Some(Cell {
        batch_size: part,
        gradient_accumulation_steps: cell.gradient_accumulation_steps * (whole / part),
        ..cell.clone()
    })
}

fn checkpoint(planner: &Planner, cell: &Cell) -> Result<Option<Cell>, PlanError> {
    let least = match planner.budget(cell) {
        Some(budget) => least_recomputation(planner, std::slice::from_ref(cell), budget)?,
        // The machine's memory ran out, and no prediction says by how much.
        None => Checkpointing::Full,
    };
    let needed = planner.needed(cell)?;
    for gradient_checkpointing in [least, Checkpointing::Full] {
        let next = Cell {
            gradient_checkpointing,
            ..cell.clone()
        };
        if planner.needed(&next)? < needed {
            return Ok(Some(next));
        }
    }
    Ok(None)
}

/// The value of `offload` with the least price with which the cell fits, else the one with the highest.
fn offload(planner: &Planner, cell: &Cell) -> Result<Option<Cell>, PlanError> {
    let budget = planner.budget(cell).unwrap_or(0);
    let mut last = None;
    // The first step is the cell as it is.
    let steps = OFFLOAD.steps(cell, &*planner.model(cell)?).into_iter().skip(1);
    for step in steps.filter(|step| step.cell.validate().is_ok()) {
        let fits = planner.needed(&step.cell)? <= budget;
        last = Some(step.cell);
        if fits {
            break;
        }
    }
    Ok(last)
}

/// The fewest tokens that a sample is shortened to.
const SHORTEST: usize = 32;

fn shorten(cell: &Cell) -> Option<Cell> {
    let half = cell.max_seq_length / 2;
    (half >= SHORTEST).then(|| Cell {
        max_seq_length: half,
        ..cell.clone()
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use options::{ByteSize, Dtype, Offload};

    use super::*;
    use crate::Options;

    fn cell(batch_size: usize) -> Cell {
        Cell {
            model: "tiny".into(),
            dtype: Dtype::Float32,
            rank: 4,
            max_seq_length: 64,
            batch_size,
            gradient_accumulation_steps: 3,
            ..Cell::default()
        }
    }

    #[test]
    fn half_a_micro_batch_keeps_the_effective_one() {
        let halves = |batch_size| {
            let mut sizes = Vec::new();
            let mut at = cell(batch_size);
            while let Some(half) = halve_batch(&at) {
                assert_eq!(half.batch_size * half.gradient_accumulation_steps, 3 * batch_size);
                sizes.push(half.batch_size);
                at = half;
            }
            sizes
        };
        assert_eq!(halves(8), [4, 2, 1]);
        assert_eq!(halves(6), [3, 1]);
        assert_eq!(halves(7), [1]);
        assert_eq!(halves(1), [0; 0]);
    }

    #[test]
    fn no_more_is_recomputed_than_the_budget_asks_for() {
        let planner = Planner::new(Path::new("."), Options::default());
        let needed = |checkpointing| {
            let gradient_checkpointing = checkpointing;
            planner
                .needed(&Cell {
                    gradient_checkpointing,
                    ..cell(1)
                })
                .unwrap()
        };
        let chosen = |budget: u64| {
            let device_memory = Some(ByteSize(budget));
            let next = checkpoint(
                &planner,
                &Cell {
                    device_memory,
                    ..cell(1)
                },
            )
            .unwrap();
            next.map(|next| next.gradient_checkpointing)
        };
        let (one, all) = (needed(Checkpointing::First(1)), needed(Checkpointing::Full));
        let none = needed(Checkpointing::None);
        assert!(all <= one && one < none, "{all}, {one}, {none}");
        assert_eq!(chosen(one), Some(Checkpointing::First(1)));
        assert_eq!(chosen(one - 1), Some(Checkpointing::Full));
        assert_eq!(chosen(1), Some(Checkpointing::Full), "all blocks if nothing fits");
        assert_eq!(chosen(u64::MAX), Some(Checkpointing::Full), "the prediction was wrong");
        let next = |gradient_checkpointing, budget| {
            let device_memory = Some(ByteSize(budget));
            let cell = Cell {
                gradient_checkpointing,
                device_memory,
                ..cell(1)
            };
            let next = checkpoint(&planner, &cell).unwrap();
            next.map(|next| next.gradient_checkpointing)
        };
        let last = Checkpointing::Layers(vec![1]);
        assert!(
            needed(last.clone()) > one,
            "the first block recomputes while less is held"
        );
        assert_eq!(next(last.clone(), one), Some(Checkpointing::First(1)));
        assert_eq!(next(last, 1), Some(Checkpointing::Full));
        assert_eq!(next(Checkpointing::Full, 1), None);
    }

    #[test]
    fn no_more_leaves_the_device_than_the_budget_asks_for() {
        let planner = Planner::new(Path::new("."), Options::default());
        let offloaded = |budget| {
            let device_memory = Some(ByteSize(budget));
            let next = offload(
                &planner,
                &Cell {
                    device_memory,
                    ..cell(1)
                },
            )
            .unwrap();
            next.unwrap().offload
        };
        let (least, most) = (offloaded(1 << 40), offloaded(1));
        assert!(least != Offload::NONE && !least.embeddings, "{least:?}");
        assert!(most.weights.is_some() && most.embeddings, "{most:?}");
    }

    #[test]
    fn samples_stay_worth_training_on() {
        let of = |max_seq_length| {
            shorten(&Cell {
                max_seq_length,
                ..cell(1)
            })
            .map(|cell| cell.max_seq_length)
        };
        assert_eq!([of(128), of(64), of(63)], [Some(64), Some(32), None]);
    }
}
