//! The largest value of a key with which a cell fits.

use arch::ModelConfig;
use cell::{Cell, Data};
use rayon::prelude::*;
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

/// Values that are tried above one that fits, a 64th to a 32nd of it apart.
const FEW: usize = 8;

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

/// The largest values of `key` that fit into `limit` bytes: with the cell's other keys as they are, and with changes of at
/// most the harm `worst`. `None` where no value fits.
///
/// # Errors
/// The cell as it is given cannot be planned, or does not heed the key.
pub fn largest(
    planner: &Planner,
    cell: &Cell,
    key: Largest,
    limit: u64,
    worst: Harm,
    fit: &FitSpec,
) -> Result<[Option<Most>; 2], PlanError> {
    let model = planner.model(cell)?;
    let mut fit = fit.clone();
    fit.keep.push(key.key().to_owned());
    fit.vary.shift_remove(key.key());
    let given = planner.predict(cell)?;
    if !cell.heeds(key.key()) {
        return Err(PlanError::Unheeded {
            key: key.key(),
            adapter: cell.adapter.name(),
        });
    }
    let (least, most, last) = key.range(cell, &model);
    let values = Values {
        planner,
        cell,
        key,
        model: &model,
        fit: &fit,
        limit,
        certain: limit.saturating_sub(given.possible_bytes()[1] - given.needed_bytes),
        range: [least, most],
    };
    let likely = values.likely();
    let found = rayon::join(|| values.certainly(likely), || values.certainly_with(likely, worst));
    let most = |(value, found): (usize, Found)| Most {
        value,
        bound: match value == most {
            true => last,
            false => Bound::of(planner, &key.set(value + 1, cell)),
        },
        found,
    };
    Ok([found.0.map(most), found.1.map(most)])
}

/// The values of a key, of which the largest that fits is looked for.
struct Values<'a> {
    planner: &'a Planner,
    cell: &'a Cell,
    key: Largest,
    model: &'a ModelConfig,
    /// What may change beside the key.
    fit: &'a FitSpec,
    /// Bytes that there are.
    limit: u64,
    /// Bytes that may be needed likely: what is uncertain of the cell is about as much with every value.
    certain: u64,
    /// The least and the largest value.
    range: [usize; 2],
}

impl Values<'_> {
    fn given(&self) -> usize {
        self.key.value(self.cell)
    }

    /// Bytes that a value needs with these changes.
    fn needed(&self, changes: &[Changed], value: usize) -> Option<u64> {
        let mut keys = changes.iter().flat_map(|changed| &changed.keys);
        let changed = keys.try_fold(self.key.set(value, self.cell), |cell, (key, value)| {
            cell.with(key, value)
        });
        let changed = changed.filter(|cell| cell.validate().is_ok())?;
        self.planner.needed(&changed).ok()
    }

    /// The largest value that fits with these changes, where all below do as well.
    fn largest_with(&self, changes: &[Changed], range: [usize; 2], start: usize) -> Option<usize> {
        largest_value(range, start, self.certain, |value| self.needed(changes, value))
    }

    /// The largest value that likely fits with the cell's other keys as they are.
    fn likely(&self) -> Option<usize> {
        let likely = self.largest_with(&[], self.range, self.given())?;
        // What the allocator holds grows in jumps, and falls between them: a larger value may fit again.
        let step = (likely / 64).max(1).next_power_of_two();
        let further = (1..=FEW).into_par_iter().map(|steps| (likely / step + steps) * step);
        let fits = |value: &usize| {
            *value <= self.range[1] && self.needed(&[], *value).is_some_and(|bytes| bytes <= self.certain)
        };
        match further.filter(fits).max() {
            Some(value) => self.largest_with(&[], [value, (value + step - 1).min(self.range[1])], value),
            None => Some(likely),
        }
    }

    /// The largest value up to `likely` that certainly fits as the cell is.
    fn certainly(&self, likely: Option<usize>) -> Option<(usize, Found)> {
        let found = |value: usize| {
            let search = Search::new(self.planner, Space::of_one(&self.valid(value)?));
            search.given().ok().filter(|found| found.fits(self.limit))
        };
        let likely = likely?;
        let ((mut low, mut best), mut high) = self.below(likely, found)?;
        // The steps can be halved: each is a plan.
        while high - low > 1 {
            let middle = low.midpoint(high);
            match found(middle) {
                Some(found) => (low, best) = (middle, found),
                None => high = middle,
            }
        }
        Some((low, best))
    }

    /// The largest value that certainly fits with changes of at most this harm, from `likely` on, which fits without.
    fn certainly_with(&self, mut likely: Option<usize>, worst: Harm) -> Option<(usize, Found)> {
        let [least, most] = self.range;
        let search = |value: usize| {
            let moves = Moves { fit: self.fit, worst };
            let space = Space::with(&self.valid(value)?, self.model, Some(moves));
            Some(Search::new(self.planner, space))
        };
        // Any changes that are enough serve until they are enough no more; then others are looked for.
        loop {
            let next = match likely {
                Some(value) => FURTHER
                    .map(|factor| ((value as f64 * factor) as usize).max(value + 1))
                    .to_vec(),
                None => vec![self.given().clamp(least, most), least],
            };
            let mut next = next.into_iter().filter(|next| *next <= most);
            let further = next.find_map(|value| Some((search(value)?.some_fit(self.certain)?, value)));
            let Some((changes, value)) = further else { break };
            likely = self.largest_with(&changes, self.range, value).max(Some(value));
        }
        // The least change is searched for there alone.
        let (found, _) = self.below(likely?, |value| search(value)?.least(self.limit))?;
        Some(found)
    }

    /// The first value from `likely` down that is found, and the one before it. The range of `likely` may go beyond the
    /// limit.
    fn below(&self, likely: usize, found: impl Fn(usize) -> Option<Found>) -> Option<((usize, Found), usize)> {
        let step = likely.div_ceil(64);
        let close = (0..CLOSE).map(|steps| likely.saturating_sub(steps * step));
        let halves = std::iter::successors(Some(likely / 2), |value| Some(value / 2));
        let mut too_large = likely;
        for value in close.chain(halves).take_while(|value| *value >= self.range[0]) {
            if let Some(found) = found(value) {
                return Some(((value, found), too_large));
            }
            too_large = value;
        }
        None
    }

    /// The cell with a value.
    fn valid(&self, value: usize) -> Option<Cell> {
        let cell = self.key.set(value, self.cell);
        cell.validate().ok()?;
        Some(cell)
    }
}

/// The largest value from `least` to `most` that needs no more than `limit`, where all below do as well. The search
/// begins at `start`. What is needed grows about evenly with the value, so the next one is where a line through those
/// that are known reaches the limit, or in the middle if the last line has moved one side by little.
fn largest_value(
    [least, most]: [usize; 2],
    start: usize,
    limit: u64,
    needed: impl Fn(usize) -> Option<u64>,
) -> Option<usize> {
    let (mut fitting, mut too_large) = (None, None);
    let mut next = start.clamp(least, most);
    let mut width = usize::MAX;
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
                let has_halved = high - low <= width / 2;
                width = high - low;
                // Where the line ends near one side, so that the other one moves too.
                let share = line.filter(|_| has_halved).map_or(0.5, |share| share.clamp(0.02, 0.98));
                let between = low + (width as f64 * share).round() as usize;
                between.clamp(low + 1, high - 1)
            }
            _ => return fitting.map(|(value, _)| value),
        };
    }
}
