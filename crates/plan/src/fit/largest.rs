//! The largest value of a key with which a cell fits.

use arch::ModelConfig;
use cell::{Cell, Data};
use spec::FitSpec;
use techniques::Harm;

use super::search::{Found, Search};
use super::space::{Changed, Moves, Space};
use crate::planner::is_trained_beyond;
use crate::{PlanError, Planner};

/// A key whose largest value is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Largest {
    /// Samples in a micro-batch, up to [`MOST_SAMPLES`]; the number of micro-batches stays.
    BatchSize,
    /// Tokens of a sample, up to what the model can take: its positions, or [`MOST_TOKENS`] where the stack trains beyond
    /// them.
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

/// The longest sample that is tried, in tokens, of a model that has fewer positions.
const MOST_TOKENS: usize = 1 << 20;

/// How far beyond a value that fits other changes are looked for; the next value at least.
const FURTHER: [f64; 3] = [2.0, 1.25, 1.03];

/// Values that are tried closely below one that may not fit, a 64th of it apart; then halves.
const CLOSE: usize = 16;

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
    fn range(self, cell: &Cell, model: &ModelConfig) -> (usize, usize, Bound) {
        match self {
            Self::BatchSize => (1, MOST_SAMPLES, Bound::Tried),
            Self::MaxSeqLength if is_trained_beyond(cell, model) => {
                (2, model.max_position_embeddings.max(MOST_TOKENS), Bound::Tried)
            }
            Self::MaxSeqLength => (2, model.max_position_embeddings, Bound::Model),
            Self::Rank => (1, model.hidden_size, Bound::Model),
        }
    }

    fn value(self, cell: &Cell) -> usize {
        match self {
            Self::BatchSize => cell.batch_size,
            Self::MaxSeqLength => cell.max_seq_length,
            Self::Rank => cell.rank,
        }
    }

    fn set(self, value: usize, cell: &Cell) -> Cell {
        let mut changed = cell.clone();
        match self {
            Self::BatchSize => changed.batch_size = value,
            Self::MaxSeqLength => changed.max_seq_length = value,
            Self::Rank => changed = cell.at_rank(value),
        }
        let needed = changed.of_all_ranks(changed.data_options()).effective_batch_size();
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
    let space = |value: usize| -> Option<Space> {
        let cell = key.set(value, cell);
        cell.validate().ok()?;
        let moves = worst.map(|worst| Moves { fit: &fit, worst });
        Some(Space::with(&cell, &model, moves))
    };
    // A cell that cannot be planned has an error of its own.
    planner.needed_at_least(cell)?;
    if !cell.heeds(key.key()) {
        return Err(PlanError::Unheeded {
            key: key.key(),
            adapter: cell.adapter.name(),
        });
    }
    let (least, most, last) = key.range(cell, &model);
    // What is uncertain of the cell is about as much with every value.
    let given = planner.predict(cell)?;
    let certain = limit.saturating_sub(given.possible_bytes()[1] - given.needed_bytes);
    let needed_with = |changes: &[Changed], value: usize| -> Option<u64> {
        let mut keys = changes.iter().flat_map(|changed| &changed.keys);
        let changed = keys.try_fold(key.set(value, cell), |cell, (key, value)| cell.with(key, value));
        let changed = changed.filter(|cell| cell.validate().is_ok())?;
        planner.needed(&changed).ok()
    };
    let largest_with = |changes: &[Changed], start: usize| {
        largest_value([least, most], start, certain, |value| needed_with(changes, value))
    };
    let some_fit = |value: usize| Search::new(planner, space(value)?).some_fit(certain);
    let mut likely = largest_with(&[], key.value(cell));
    // Further on, any changes that are enough serve until they are enough no more; then others are looked for.
    while worst.is_some() {
        let next = match likely {
            Some(value) => FURTHER
                .map(|factor| ((value as f64 * factor) as usize).max(value + 1))
                .to_vec(),
            None => vec![key.value(cell).clamp(least, most), least],
        };
        let mut next = next.into_iter().filter(|next| *next <= most);
        let further = next.find_map(|value| Some((some_fit(value)?, value)));
        let Some((changes, value)) = further else { break };
        likely = largest_with(&changes, value).max(Some(value));
    }
    let Some(likely) = likely else { return Ok(None) };
    // The least change is searched for there alone. Where its range goes beyond the limit, a smaller value is taken.
    let found = |value: usize| Search::new(planner, space(value)?).least(limit);
    let step = likely.div_ceil(64);
    let close = (0..CLOSE).map(|steps| likely.saturating_sub(steps * step));
    let halves = std::iter::successors(Some(likely / 2), |value| Some(value / 2));
    let smaller = close.chain(halves).take_while(|value| *value >= least);
    let mut too_large = likely;
    let mut best = None;
    for value in smaller {
        best = found(value).map(|found| (value, found));
        if best.is_some() {
            break;
        }
        too_large = value;
    }
    if let (Some((value, _)), None) = (&best, worst) {
        // Without changes the steps can be halved: each is a plan.
        let (mut low, mut high) = (*value, too_large);
        while high - low > 1 {
            let middle = low.midpoint(high);
            match found(middle) {
                Some(found) => (low, best) = (middle, Some((middle, found))),
                None => high = middle,
            }
        }
    }
    Ok(best.map(|(value, found)| Most {
        value,
        bound: match value == most {
            true => last,
            false => Bound::of(planner, &key.set(value + 1, cell)),
        },
        found,
    }))
}

/// The largest value from `least` to `most` that needs no more than `limit`, where all below do as well. The search
/// begins at `start`. What is needed grows about evenly with the value, so the next one is where a line through those
/// that are known reaches the limit.
fn largest_value(
    [least, most]: [usize; 2],
    start: usize,
    limit: u64,
    needed: impl Fn(usize) -> Option<u64>,
) -> Option<usize> {
    let (mut fitting, mut too_large) = (None, None);
    let mut next = start.clamp(least, most);
    loop {
        let bytes = needed(next);
        match bytes.filter(|bytes| *bytes <= limit) {
            Some(bytes) => fitting = Some((next, bytes)),
            None => too_large = Some((next, bytes)),
        }
        next = match (fitting, too_large) {
            (Some((value, _)), None) if value < most => (2 * value).min(most),
            (None, Some((value, _))) if value > least => (value / 2).max(least),
            (Some((low, low_bytes)), Some((high, high_bytes))) if high - low > 1 => {
                let line = high_bytes.map(|bytes| (limit - low_bytes) as f64 / (bytes - low_bytes) as f64);
                // Where the line ends near one side, so that the other one moves too.
                let share = line.map_or(0.5, |share| share.clamp(0.02, 0.98));
                let between = low + ((high - low) as f64 * share).round() as usize;
                between.clamp(low + 1, high - 1)
            }
            _ => return fitting.map(|(value, _)| value),
        };
    }
}
