//! The largest micro-batch that fits.

use cell::Cell;
use options::{AutoBatchSize, BatchSearch};
use spec::Trials;

use super::trial::Trial;
use crate::{PlanError, Planner};

/// Real steps that a search by prediction takes at most. After the second one that fails, the next smaller micro-batch
/// is taken by prediction alone.
const MOST_TRIALS: u32 = 2;

/// The micro-batch of a cell, and the way to it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Found {
    pub(super) batch_size: usize,
    pub(super) gradient_accumulation_steps: usize,
    pub(super) trials: Trials,
    pub(super) certainty: Certainty,
}

/// The reason to believe that a micro-batch fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Certainty {
    /// A real step fitted; the prediction says so where there are none.
    Fits,
    /// The prediction alone says so: it was wrong for larger ones.
    Untried,
    /// None: it is the smallest.
    Smallest,
}

/// A search for the repeats of one cell, which differ in their seed alone.
pub(super) struct Search<'a, E> {
    pub(super) planner: &'a Planner,
    pub(super) cells: &'a [Cell],
    /// Takes a real step with a cell; `None` for a search by prediction alone.
    pub(super) tried: &'a mut dyn FnMut(&Cell) -> Result<Option<Trial>, E>,
    pub(super) trials: Trials,
}

impl<E: From<PlanError>> Search<'_, E> {
    /// Finds the micro-batch that `asked` describes.
    ///
    /// # Errors
    /// The smallest cannot be planned, or a real step cannot be taken.
    pub(super) fn run(mut self, asked: AutoBatchSize) -> Result<Found, E> {
        let AutoBatchSize {
            start,
            min,
            max,
            search,
        } = asked;
        let accumulation = self.cells.first().map_or(1, |cell| cell.gradient_accumulation_steps);
        let effective = start * accumulation;
        let accumulation_of = |batch_size: usize| match search {
            BatchSearch::KeepEffectiveBatch => effective / batch_size,
            BatchSearch::Largest | BatchSearch::HalveAndGrow => accumulation,
        };
        let of = |batch_size| Candidate {
            batch_size,
            gradient_accumulation_steps: accumulation_of(batch_size),
        };
        let candidates: Vec<Candidate> = match search {
            BatchSearch::KeepEffectiveBatch => (min..=max)
                .filter(|&batch_size| effective.is_multiple_of(batch_size))
                .map(of)
                .collect(),
            BatchSearch::Largest | BatchSearch::HalveAndGrow => (min..=max).map(of).collect(),
        };
        let found = match search {
            BatchSearch::HalveAndGrow => self.halve_and_grow(&candidates, start - min)?,
            BatchSearch::KeepEffectiveBatch | BatchSearch::Largest => self.largest(&candidates)?,
        };
        // Without a divisor from min to max there is one micro-batch that keeps the effective batch: `start`.
        let (found, certainty) = found.unwrap_or((of(start), Certainty::Smallest));
        Ok(Found {
            batch_size: found.batch_size,
            gradient_accumulation_steps: found.gradient_accumulation_steps,
            trials: self.trials,
            certainty,
        })
    }

    /// The largest candidate that fits by prediction and in a real step; the smallest if none does.
    fn largest(&mut self, candidates: &[Candidate]) -> Result<Option<(Candidate, Certainty)>, E> {
        // A larger micro-batch never needs less, so that few are planned.
        let (mut low, mut high) = (0, candidates.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            match self.fits_by_prediction(candidates[middle], middle == 0)? {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        for &candidate in candidates[..low].iter().rev() {
            if self.trials.count == MOST_TRIALS {
                return Ok(Some((candidate, Certainty::Untried)));
            }
            if self.fits(candidate)? {
                return Ok(Some((candidate, Certainty::Fits)));
            }
        }
        Ok(candidates.first().map(|&smallest| (smallest, Certainty::Smallest)))
    }

    /// `AdaptiveBatchSizer` of training guides: from `start`, one more while it fits; after the first out-of-memory
    /// half, and no more growth. A size that has fitted is not tried again.
    fn halve_and_grow(&mut self, candidates: &[Candidate], start: usize) -> Result<Option<(Candidate, Certainty)>, E> {
        let mut largest_fitting = None;
        let mut at = start;
        while let Some(&candidate) = candidates.get(at) {
            // The data may have too few samples for more.
            if largest_fitting.is_some() && self.neediest(candidate).is_err() {
                break;
            }
            if self.fits(candidate)? {
                largest_fitting = Some(at);
                at += 1;
                continue;
            }
            // Half of it, down to the smallest.
            let (mut half, mut certainty) = (at, Certainty::Smallest);
            while half > 0 {
                let size = candidates[half].batch_size / 2;
                half = candidates
                    .iter()
                    .rposition(|smaller| smaller.batch_size <= size)
                    .unwrap_or(0);
                if largest_fitting.is_some_and(|fitting| half <= fitting) || self.fits(candidates[half])? {
                    certainty = Certainty::Fits;
                    break;
                }
            }
            return Ok(candidates.get(half).map(|&candidate| (candidate, certainty)));
        }
        let largest = largest_fitting.and_then(|at| candidates.get(at));
        Ok(largest.map(|&candidate| (candidate, Certainty::Fits)))
    }

    /// A real step if there can be one, else the prediction.
    fn fits(&mut self, candidate: Candidate) -> Result<bool, E> {
        let cell = self.neediest(candidate)?;
        match (self.tried)(&cell)? {
            Some(trial) => {
                self.trials.count += 1;
                self.trials.seconds += trial.seconds;
                Ok(trial.fits)
            }
            None => self.fits_by_prediction(candidate, true),
        }
    }

    /// The repeat that needs most.
    fn neediest(&self, candidate: Candidate) -> Result<Cell, E> {
        let mut most = None;
        for cell in self.cells {
            let cell = candidate.of(cell);
            let needed = self.planner.needed(&cell)?;
            if most.as_ref().is_none_or(|(most, _)| needed > *most) {
                most = Some((needed, cell));
            }
        }
        Ok(most.map_or_else(Cell::default, |(_, cell)| cell))
    }

    /// True if every repeat fits the budget. One that cannot be planned does not, unless it must be.
    fn fits_by_prediction(&self, candidate: Candidate, must_be_planned: bool) -> Result<bool, E> {
        for cell in self.cells {
            let cell = candidate.of(cell);
            let budget = self.planner.budget(&cell).unwrap_or(u64::MAX);
            match self.planner.needed(&cell) {
                Ok(needed) if needed <= budget => {}
                // The data may have too few samples for a larger one.
                Err(error) if must_be_planned => return Err(error.into()),
                Ok(_) | Err(_) => return Ok(false),
            }
        }
        Ok(true)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Candidate {
    batch_size: usize,
    gradient_accumulation_steps: usize,
}

impl Candidate {
    /// `cell` with this micro-batch.
    fn of(self, cell: &Cell) -> Cell {
        Cell {
            batch_size: self.batch_size,
            gradient_accumulation_steps: self.gradient_accumulation_steps,
            auto_batch_size: None,
            ..cell.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use options::ByteSize;

    use super::*;
    use crate::Options;

    /// What a search finds if real steps fit up to `fitting` samples, and the sizes that it tried.
    fn search(asked: AutoBatchSize, fitting: usize) -> (usize, Vec<usize>) {
        let (found, tried) = found(asked, fitting);
        (found.batch_size, tried)
    }

    fn found(asked: AutoBatchSize, fitting: usize) -> (Found, Vec<usize>) {
        let planner = Planner::new(Path::new("."), Options::default());
        let cell = Cell {
            model: "tiny".into(),
            gradient_accumulation_steps: 4,
            device_memory: Some(ByteSize(1 << 40)),
            auto_batch_size: Some(asked),
            ..Cell::default()
        };
        let mut tried = Vec::new();
        let found = Search {
            planner: &planner,
            cells: &[cell],
            tried: &mut |cell: &Cell| {
                tried.push(cell.batch_size);
                Ok::<_, PlanError>(Some(Trial {
                    fits: cell.batch_size <= fitting,
                    seconds: 1.0,
                }))
            },
            trials: Trials::default(),
        };
        let found = found.run(asked).unwrap();
        assert_eq!(found.trials.count as usize, tried.len());
        (found, tried)
    }

    fn asked(search: BatchSearch, start: usize, max: usize) -> AutoBatchSize {
        AutoBatchSize {
            start,
            min: 1,
            max,
            search,
        }
    }

    #[test]
    fn a_failed_step_is_followed_by_one_with_less() {
        let keep = asked(BatchSearch::KeepEffectiveBatch, 3, 12);
        assert_eq!(search(keep, 12), (12, vec![12]));
        assert_eq!(search(keep, 7), (6, vec![12, 6]));
        assert_eq!(search(keep, 5), (4, vec![12, 6]), "the third is taken untried");
        assert_eq!(search(asked(BatchSearch::Largest, 2, 8), 7), (7, vec![8, 7]));
    }

    #[test]
    fn what_was_found_says_how_sure_it_is() {
        let certainty = |asked, fitting| found(asked, fitting).0.certainty;
        let keep = asked(BatchSearch::KeepEffectiveBatch, 3, 12);
        assert_eq!(certainty(keep, 6), Certainty::Fits);
        assert_eq!(certainty(keep, 5), Certainty::Untried);
        assert_eq!(certainty(asked(BatchSearch::Largest, 1, 1), 0), Certainty::Smallest);
        let sizer = asked(BatchSearch::HalveAndGrow, 2, 8);
        assert_eq!(
            [certainty(sizer, 6), certainty(sizer, 0)],
            [Certainty::Fits, Certainty::Smallest]
        );
    }

    #[test]
    fn the_guides_sizer_tries_every_size_and_halves_once() {
        let sizer = asked(BatchSearch::HalveAndGrow, 2, 8);
        assert_eq!(search(sizer, 100), (8, vec![2, 3, 4, 5, 6, 7, 8]));
        assert_eq!(search(sizer, 4), (2, vec![2, 3, 4, 5]));
        assert_eq!(search(sizer, 6), (3, vec![2, 3, 4, 5, 6, 7]));
        // Sizes below the first are tried as well, down to one.
        let late = asked(BatchSearch::HalveAndGrow, 8, 8);
        assert_eq!(search(late, 3), (2, vec![8, 4, 2]));
        assert_eq!(search(late, 0), (1, vec![8, 4, 2, 1]));
    }
}
