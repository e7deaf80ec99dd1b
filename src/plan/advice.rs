//! Changes that make a cell fit, the cheapest first.

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
    /// The price of the changes.
    pub cost: String,
    /// The prediction of the changed cell.
    pub prediction: Prediction,
}

/// A cell's prediction, and the changes that make the cell fit if it is oversize.
#[derive(Debug, Clone, PartialEq)]
pub struct CellPlan {
    /// The prediction, with the cheapest of the changes.
    pub prediction: Prediction,
    /// The changes, the cheapest first; empty for a cell that fits or has no budget.
    pub advice: Vec<Advice>,
}

/// Predicts a cell, and looks for changes that make it fit if it is oversize.
///
/// # Errors
/// The errors of [`Planner::predict`].
pub fn plan(planner: &Planner, cell: &Cell) -> Result<CellPlan, PlanError> {
    let mut prediction = planner.predict(cell)?;
    let advice = match prediction.verdict {
        Some(Verdict::Oversize) => advise(planner, cell)?,
        _ => Vec::new(),
    };
    if let Some(cheapest) = advice.first() {
        prediction.fits_with.clone_from(&cheapest.changes);
        prediction.fits_with_bytes = Some(cheapest.prediction.needed_bytes);
    }
    Ok(CellPlan { prediction, advice })
}

/// A change that needs less memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Remedy {
    /// Fewer samples at once, and as many more micro-batches: the effective batch stays.
    SmallerMicroBatch,
    Checkpointing,
    FourBits,
    SmallerRank,
    ShorterSequences,
}

/// From what costs least to what changes most.
const REMEDIES: [Remedy; 5] = [
    Remedy::SmallerMicroBatch,
    Remedy::Checkpointing,
    Remedy::FourBits,
    Remedy::SmallerRank,
    Remedy::ShorterSequences,
];

/// The cheapest changes that make `cell` fit: each that is enough alone, or else the fewest of them together. Empty if
/// all together are not enough, or the cell has no budget.
///
/// # Errors
/// The errors of [`Planner::predict`].
fn advise(planner: &Planner, cell: &Cell) -> Result<Vec<Advice>, PlanError> {
    let mut alone = Vec::new();
    for remedy in REMEDIES {
        alone.extend(remedy.enough(planner, cell, Vec::new())?);
    }
    if !alone.is_empty() {
        return Ok(alone);
    }
    // Each remedy as far as it goes, until one is enough.
    let (mut cell, mut changes, mut costs) = (cell.clone(), Vec::new(), Vec::new());
    for remedy in REMEDIES {
        if let Some(advice) = remedy.enough(planner, &cell, costs.clone())? {
            changes.extend(advice.changes);
            return Ok(vec![Advice { changes, ..advice }]);
        }
        if let Some(last) = remedy.steps(&cell).pop() {
            changes.extend(remedy.change(&last));
            costs.push(remedy.cost());
            cell = last;
        }
    }
    Ok(Vec::new())
}

impl Remedy {
    /// The smallest step of this remedy that makes `cell` fit.
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

    /// The cell after one step of this remedy, two steps, and so on; valid cells only.
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
                let effective = cell.data_options().effective_batch_size();
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{
        options::{InstructionSet, InstructionSetChoice},
        plan::Options,
        torch::gpu::Budget,
    };

    fn cell() -> Cell {
        Cell {
            model: "tiny".into(),
            dtype: Dtype::Float32,
            rank: 16,
            batch_size: 16,
            max_seq_length: 128,
            max_steps: Some(2),
            instruction_set: InstructionSetChoice::Level(InstructionSet::Avx2),
            ..Cell::default()
        }
    }

    fn planner(budget: u64) -> Planner {
        let budget = Some(Budget::Bytes(budget));
        Planner::new(Path::new(""), Options { budget, replay: true })
    }

    fn peak(cell: &Cell) -> u64 {
        planner(u64::MAX).predict(cell).unwrap().allocated_peak_bytes
    }

    #[test]
    fn each_change_that_is_enough_is_reported_the_cheapest_first() {
        let peak = peak(&cell());
        let found = advise(&planner(peak - 1), &cell()).unwrap();
        let first: Vec<&str> = found.iter().map(|advice| advice.changes[0].as_str()).collect();
        let expected = [
            "batch_size: 8",
            "gradient_checkpointing: full",
            "dtype: int4",
            "rank: 8",
            "max_seq_length: 64",
        ];
        assert_eq!(first, expected);
        assert_eq!(found[0].changes[1], "gradient_accumulation_steps: 2");
        for advice in &found {
            assert_eq!(advice.prediction.verdict, Some(Verdict::Fits));
            assert!(advice.prediction.allocated_peak_bytes < peak);
        }
    }

    #[test]
    fn the_smallest_step_of_a_remedy_is_reported() {
        let mut smaller = cell();
        (smaller.batch_size, smaller.gradient_accumulation_steps) = (4, 4);
        let found = advise(&planner(peak(&smaller)), &cell()).unwrap();
        assert_eq!(found[0].changes, ["batch_size: 4", "gradient_accumulation_steps: 4"]);
    }

    #[test]
    fn changes_are_put_together_where_none_is_enough() {
        let alone = |change: fn(&mut Cell)| {
            let mut cell = cell();
            change(&mut cell);
            peak(&cell)
        };
        let batch_of_one = |cell: &mut Cell| (cell.batch_size, cell.gradient_accumulation_steps) = (1, 16);
        let least = [
            alone(batch_of_one),
            alone(|cell| cell.gradient_checkpointing = Checkpointing::Full),
            alone(|cell| cell.dtype = Dtype::Int4),
            alone(|cell| cell.rank = 1),
            alone(|cell| cell.max_seq_length = 32),
        ];
        let budget = least.into_iter().min().unwrap() - 1;
        let found = advise(&planner(budget), &cell()).unwrap();
        let [advice] = &found[..] else { panic!("{found:?}") };
        assert_eq!(
            advice.changes[..2],
            ["batch_size: 1", "gradient_accumulation_steps: 16"]
        );
        assert!(advice.changes.len() > 2 && advice.cost.contains(", "), "{advice:?}");
        assert!(advice.prediction.allocated_peak_bytes <= budget);
    }

    #[test]
    fn advice_is_empty_if_no_change_is_enough() {
        assert_eq!(advise(&planner(1000), &cell()).unwrap(), []);
    }

    #[test]
    fn the_effective_batch_stays() {
        let mut uneven = cell();
        (uneven.batch_size, uneven.gradient_accumulation_steps) = (6, 2);
        let steps = Remedy::SmallerMicroBatch.steps(&uneven);
        let sizes: Vec<_> = steps
            .iter()
            .map(|cell| (cell.batch_size, cell.gradient_accumulation_steps))
            .collect();
        assert_eq!(sizes, [(4, 3), (3, 4), (2, 6), (1, 12)]);
    }

    #[test]
    fn a_smaller_rank_keeps_its_scale() {
        for alpha in [None, Some(8.0)] {
            let mut cell = cell();
            (cell.rank, cell.lora_alpha) = (8, alpha);
            for smaller in Remedy::SmallerRank.steps(&cell) {
                let scale = |cell: &Cell| cell.lora_alpha() / cell.rank as f64;
                assert_eq!(scale(&smaller), scale(&cell));
            }
        }
    }

    #[test]
    fn only_valid_cells_are_proposed() {
        let full = Cell { rank: 0, ..cell() };
        assert_eq!(Remedy::FourBits.steps(&full), []);
        assert_eq!(Remedy::SmallerRank.steps(&full), []);
        let checkpointed = Cell {
            gradient_checkpointing: Checkpointing::Full,
            dtype: Dtype::Int4,
            ..cell()
        };
        assert_eq!(Remedy::Checkpointing.steps(&checkpointed), []);
        assert_eq!(Remedy::FourBits.steps(&checkpointed), []);
        for remedy in REMEDIES {
            for cell in remedy.steps(&cell()) {
                assert_eq!(cell.validate(), Ok(()));
            }
        }
    }
}
