//! Ranges of predictions for people.

use std::fmt::Write as _;

use base::text::format;
use records::prediction::{Prediction, Verdict};

/// Ranges that are narrower than this part of the figure are not shown to people, unless the budget lies within.
const NARROW: f64 = 0.01;

/// The range of what is compared with the budget, if there is one to show.
pub(super) fn range(prediction: &Prediction) -> Option<String> {
    let (low, high) = (prediction.needed_low_bytes?, prediction.needed_high_bytes?);
    let is_wide = (high - low) as f64 >= NARROW * prediction.needed_bytes as f64;
    let decides = prediction
        .budget_bytes
        .is_some_and(|budget| low <= budget && budget < high);
    let is_shown = low < high && (is_wide || decides);
    is_shown.then(|| format!("{} to {}", format::bytes(low.into()), format::bytes(high.into())))
}

/// The range for a cell of a table.
pub(super) fn range_cell(prediction: &Prediction) -> String {
    range(prediction).unwrap_or_else(|| format::ABSENT.into())
}

/// True for a cell that fits, but not at the high end of its range.
pub(super) fn may_not_fit(prediction: &Prediction) -> bool {
    let budget = prediction.budget_bytes;
    prediction.verdict == Some(Verdict::Fits) && prediction.needed_high_bytes > budget
}

/// What the ranges that are shown depend on, each reason once.
pub(super) fn range_reasons<'p>(predictions: impl IntoIterator<Item = &'p Prediction>) -> String {
    let mut reasons: Vec<&str> = Vec::new();
    for prediction in predictions.into_iter().filter(|prediction| range(prediction).is_some()) {
        let reason = prediction.range_reason.as_deref();
        reasons.extend(reason.filter(|reason| !reasons.contains(reason)));
    }
    let mut text = String::new();
    for reason in reasons {
        let _ = writeln!(text, "\nrange: what the process may take; it depends on the {reason}");
    }
    text
}
