//! What to change in a cell that does not fit, the cheapest first.

use super::{PlanError, Planner};
use crate::{
    results::prediction::{Prediction, Verdict},
    spec::cell::{Cell, Checkpointing, Dtype},
};

/// Changes that make a cell fit.
#[derive(Debug, Clone, PartialEq)]
pub struct Advice {
    /// The keys and what they become, as in a spec: `gradient_checkpointing: full`.
    pub changes: Vec<String>,
    /// What it costs.
    pub cost: String,
    pub prediction: Prediction,
}

/// One way to take less.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Fewer samples at once, and as many more micro-batches: the effective batch stays.
    SmallerMicroBatch,
    Checkpointing,
    FourBits,
    SmallerRank,
    ShorterSequences,
}

/// From what costs least to what changes most.
const WAYS: [Way; 5] = [
    Way::SmallerMicroBatch,
    Way::Checkpointing,
    Way::FourBits,
    Way::SmallerRank,
    Way::ShorterSequences,
];

/// The cheapest changes that make `cell` fit: each that is enough alone; where none is, the fewest of them together. Empty
/// where all together are not enough, or the cell has no budget.
///
/// # Errors
/// As [`Planner::predict`].
pub fn advise(planner: &Planner, cell: &Cell) -> Result<Vec<Advice>, PlanError> {
    let mut alone = Vec::new();
    for way in WAYS {
        alone.extend(way.enough(planner, cell, Vec::new())?);
    }
    if !alone.is_empty() {
        return Ok(alone);
    }
    // Each way as far as it goes, until one is enough.
    let (mut cell, mut changes, mut costs) = (cell.clone(), Vec::new(), Vec::new());
    for way in WAYS {
        if let Some(advice) = way.enough(planner, &cell, costs.clone())? {
            changes.extend(advice.changes);
            return Ok(vec![Advice { changes, ..advice }]);
        }
        if let Some(last) = way.steps(&cell).pop() {
            changes.extend(way.change(&last));
            costs.push(way.cost());
            cell = last;
        }
    }
    Ok(Vec::new())
}

impl Way {
    /// The least of this way that makes `cell` fit.
    fn enough(self, planner: &Planner, cell: &Cell, mut costs: Vec<&str>) -> Result<Option<Advice>, PlanError> {
        for changed in self.steps(cell) {
            let prediction = planner.predict(&changed)?;
            if prediction.verdict == Some(Verdict::Fits) {
                costs.push(self.cost());
                return Ok(Some(Advice {
                    changes: self.change(&changed),
                    cost: costs.join(", "),
                    prediction,
                }));
            }
        }
        Ok(None)
    }

    /// The cell changed this way, further and further; valid cells only.
    fn steps(self, cell: &Cell) -> Vec<Cell> {
        let mut steps = Vec::new();
        let mut last = cell.clone();
        while let Some(next) = self.step(&last) {
            if next.validate().is_ok() {
                steps.push(next.clone());
            }
            last = next;
        }
        steps
    }

    fn step(self, cell: &Cell) -> Option<Cell> {
        let mut changed = cell.clone();
        match self {
            Self::SmallerMicroBatch => {
                let effective = cell.effective_batch_size();
                let smaller = (1..cell.batch_size)
                    .rev()
                    .find(|size| effective.is_multiple_of(*size))?;
                changed.batch_size = smaller;
                changed.gradient_accumulation_steps = effective / smaller;
            }
            Self::Checkpointing => {
                if cell.gradient_checkpointing == Checkpointing::Full {
                    return None;
                }
                changed.gradient_checkpointing = Checkpointing::Full;
            }
            Self::FourBits => {
                if cell.rank == 0 || cell.dtype == Dtype::Int4 {
                    return None;
                }
                changed.dtype = Dtype::Int4;
            }
            Self::SmallerRank => {
                if cell.rank < 2 {
                    return None;
                }
                changed.rank = cell.rank / 2;
                // Its scale stays.
                changed.lora_alpha = cell.lora_alpha.map(|alpha| alpha / 2.0);
            }
            Self::ShorterSequences => {
                if cell.max_seq_length < 64 {
                    return None;
                }
                changed.max_seq_length = cell.max_seq_length / 2;
            }
        }
        Some(changed)
    }

    /// The keys that differ, with their values in `cell`.
    fn change(self, cell: &Cell) -> Vec<String> {
        match self {
            Self::SmallerMicroBatch => vec![
                format!("batch_size: {}", cell.batch_size),
                format!("gradient_accumulation_steps: {}", cell.gradient_accumulation_steps),
            ],
            Self::Checkpointing => vec!["gradient_checkpointing: full".into()],
            Self::FourBits => vec!["dtype: int4".into()],
            Self::SmallerRank => vec![format!("rank: {}", cell.rank)],
            Self::ShorterSequences => vec![format!("max_seq_length: {}", cell.max_seq_length)],
        }
    }

    fn cost(self) -> &'static str {
        match self {
            Self::SmallerMicroBatch => "the same effective batch, in more and smaller products",
            Self::Checkpointing => "a second forward pass of each block",
            Self::FourBits => "base weights in NF4",
            Self::SmallerRank => "a smaller adapter",
            Self::ShorterSequences => "samples are cut",
        }
    }
}
