//! Changes that make a cell fit, the cheapest first: a search of [`fit`](super::fit).

use base::text::to_flow_yaml;
use cell::Cell;
use records::prediction::{PAST_HOST, Prediction};
use spec::FitSpec;
use techniques::Harm;

use super::fit::{Found, Moves, Search, Space};
use super::{PlanError, Planner};

/// A cell's prediction, and the changes that make the cell fit if it may not.
#[derive(Debug, Clone, PartialEq)]
pub struct CellPlan {
    /// The prediction, with the cheapest of the changes.
    pub prediction: Prediction,
    /// The least change that makes it fit, then others, each without a technique that the first one uses; the cheapest
    /// first. Empty for a cell that certainly fits or has no budget, and if no changes are enough.
    pub advice: Vec<Found>,
}

/// Predicts a cell, and looks for the least change that makes it fit if it may not, and for others, which is several
/// times the work.
///
/// # Errors
/// The errors of [`Planner::predict`].
pub fn plan(planner: &Planner, cell: &Cell, fit: &FitSpec, with_others: bool) -> Result<CellPlan, PlanError> {
    let mut advice = Vec::new();
    let prediction = with_least_change(planner, cell, fit, |search, least, budget| {
        if with_others {
            advice = search.others(&least, budget);
        }
        advice.insert(0, least);
    })?;
    Ok(CellPlan { prediction, advice })
}

/// Predicts a cell, with the least change that makes it fit if it may not.
///
/// # Errors
/// The errors of [`Planner::predict`].
pub fn predict(planner: &Planner, cell: &Cell, fit: &FitSpec) -> Result<Prediction, PlanError> {
    with_least_change(planner, cell, fit, |_, _, _| ())
}

fn with_least_change(
    planner: &Planner,
    cell: &Cell,
    fit: &FitSpec,
    and_then: impl FnOnce(&Search<'_>, Found, u64),
) -> Result<Prediction, PlanError> {
    let mut prediction = planner.predict(cell)?;
    if !prediction.needs_change() {
        return Ok(prediction);
    }
    // Without a budget of its own, the host's alone is exceeded.
    let budget = prediction.budget_bytes.unwrap_or(PAST_HOST - 1);
    let moves = Moves { fit, worst: Harm::Data };
    let Ok(space) = Space::new(cell, &*planner.model(cell)?, moves) else {
        return Ok(prediction);
    };
    let search = Search::new(planner, space);
    // What is proposed leaves the headroom free.
    let budget = planner.limit(cell).unwrap_or(budget);
    if let Some(least) = search.least(budget) {
        prediction.fits_with = changes(&least);
        prediction.fits_with_bytes = Some(least.prediction.needed_bytes);
        and_then(&search, least, budget);
    }
    Ok(prediction)
}

/// The keys that changed and what they became, as in a spec: `gradient_checkpointing: full`.
pub fn changes(found: &Found) -> Vec<String> {
    found
        .keys()
        .map(|(key, value)| format!("{key}: {}", to_flow_yaml(value)))
        .collect()
}

/// The price in words, the harshest change first.
pub fn cost(found: &Found) -> String {
    let meanings = found.changes.iter().rev().map(|changed| changed.meaning.as_str());
    meanings.collect::<Vec<_>>().join("; ")
}
