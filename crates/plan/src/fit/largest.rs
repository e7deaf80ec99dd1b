//! The largest value of a key with which a cell fits.

use arch::ModelConfig;
use cell::{Cell, Data};
use spec::FitSpec;
use techniques::Harm;

use super::search::{Found, Search};
use super::space::{Moves, Space};
use crate::{PlanError, Planner};

/// A key whose largest value is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Largest {
    /// Samples in a micro-batch, up to [`MOST_SAMPLES`]; the number of micro-batches stays.
    BatchSize,
    /// Tokens of a sample, up to what the model can take.
    MaxSeqLength,
    /// Rank of the adapters, up to the model's width.
    Rank,
}

impl Largest {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::BatchSize, Self::MaxSeqLength, Self::Rank];

    /// The one of this key.
    pub fn of_key(key: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|largest| largest.key() == key)
    }
}

/// The largest micro-batch that is tried, in samples.
const MOST_SAMPLES: usize = 1 << 16;

/// The reason why no larger value is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// The next one needs more memory than there is.
    Memory,
    /// The data has too few samples for the next one.
    Data,
    /// The model takes no more.
    Model,
    /// No larger one was tried.
    Tried,
    /// The next one does not go with the cell's other keys.
    Cell,
}

/// The largest value that fits.
#[derive(Debug, Clone, PartialEq)]
pub struct Most {
    /// The value.
    pub value: usize,
    /// The reason why it is not larger.
    pub bound: Bound,
    /// The cell with this value, and the changes that it needs besides.
    pub found: Found,
}

impl Largest {
    /// The key in specs.
    pub fn key(self) -> &'static str {
        match self {
            Self::BatchSize => "batch_size",
            Self::MaxSeqLength => "max_seq_length",
            Self::Rank => "rank",
        }
    }

    /// The least and the largest value to try, and the reason why that is the largest.
    fn range(self, model: &ModelConfig) -> (usize, usize, Bound) {
        match self {
            Self::BatchSize => (1, MOST_SAMPLES, Bound::Tried),
            Self::MaxSeqLength => (2, model.max_position_embeddings, Bound::Model),
            Self::Rank => (1, model.hidden_size, Bound::Model),
        }
    }

    fn set(self, value: usize, cell: &Cell) -> Cell {
        let mut changed = cell.clone();
        match self {
            Self::BatchSize => changed.batch_size = value,
            Self::MaxSeqLength => changed.max_seq_length = value,
            Self::Rank => changed = cell.at_rank(value),
        }
        let needed = changed.data_options().effective_batch_size();
        if let Data::Synthetic(synthetic) = &mut changed.data {
            // As many as a step needs; their number changes no step.
            synthetic.samples = synthetic.samples.max(needed);
        }
        changed
    }
}

impl Bound {
    /// The word in JSON and CSV.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Data => "data",
            Self::Model => "model",
            Self::Tried => "tried",
            Self::Cell => "cell",
        }
    }

    /// The bound that a value is beyond if it does not fit.
    fn of(planner: &Planner, cell: &Cell) -> Self {
        if cell.validate().is_err() {
            return Self::Cell;
        }
        match planner.needed_at_least(cell) {
            Ok(_) => Self::Memory,
            Err(PlanError::Data(_)) => Self::Data,
            Err(PlanError::Positions { .. }) => Self::Model,
            Err(_) => Self::Cell,
        }
    }
}

/// The largest value of `key` that fits into `limit` bytes, with changes of at most the harm `worst`; without it the
/// cell's other keys stay as they are. `None` if no value fits.
///
/// # Errors
/// The cell as it is given cannot be planned, or does not heed the key.
pub fn largest(
    planner: &Planner,
    cell: &Cell,
    key: Largest,
    limit: u64,
    worst: Option<Harm>,
    fit: &FitSpec,
) -> Result<Option<Most>, PlanError> {
    let model = planner.model(cell)?;
    let mut fit = fit.clone();
    fit.keep.push(key.key().to_owned());
    fit.vary.shift_remove(key.key());
    let fits = |value: usize| -> Option<Found> {
        let cell = key.set(value, cell);
        cell.validate().ok()?;
        let moves = worst.map(|worst| Moves { fit: &fit, worst });
        let space = moves.and_then(|moves| Space::new(&cell, &model, moves).ok());
        let space = space.unwrap_or_else(|| Space::of_one(&cell));
        Search::new(planner, space).least(limit)
    };
    // A cell that cannot be planned has an error of its own.
    planner.needed_at_least(cell)?;
    if !cell.heeds(key.key()) {
        return Err(PlanError::Unheeded {
            key: key.key(),
            adapter: cell.adapter.name(),
        });
    }
    let (least, most, last) = key.range(&model);
    let Some(mut best) = fits(least).map(|found| (least, found)) else {
        return Ok(None);
    };
    let mut too_large = None;
    while too_large.is_none() && best.0 < most {
        let next = (2 * best.0).min(most);
        match fits(next) {
            Some(found) => best = (next, found),
            None => too_large = Some(next),
        }
    }
    while let Some(above) = too_large.filter(|above| above - best.0 > 1) {
        let middle = best.0.midpoint(above);
        match fits(middle) {
            Some(found) => best = (middle, found),
            None => too_large = Some(middle),
        }
    }
    Ok(Some(Most {
        value: best.0,
        bound: too_large.map_or(last, |value| Bound::of(planner, &key.set(value, cell))),
        found: best.1,
    }))
}
