//! Ranges of predictions for people.

use std::fmt::Write as _;

use crate::results::prediction::{Prediction, Verdict};
use crate::text::format;

/// The range of what is compared with the budget, if there is one.
pub(super) fn range(prediction: &Prediction) -> String {
    match (prediction.needed_low_bytes, prediction.needed_high_bytes) {
        (Some(low), Some(high)) if low < high => {
            format!("{} to {}", format::bytes(low.into()), format::bytes(high.into()))
        }
        _ => format::ABSENT.into(),
    }
}

/// True for a cell that fits, but not at the high end of its range.
pub(super) fn may_not_fit(prediction: &Prediction) -> bool {
    let budget = prediction.budget_bytes;
    prediction.verdict == Some(Verdict::Fits) && prediction.needed_high_bytes > budget
}

/// What the ranges depend on, each reason once.
pub(super) fn range_reasons<'p>(predictions: impl IntoIterator<Item = &'p Prediction>) -> String {
    let mut reasons: Vec<&str> = Vec::new();
    for prediction in predictions {
        let reason = prediction.range_reason.as_deref();
        reasons.extend(reason.filter(|reason| !reasons.contains(reason)));
    }
    let mut text = String::new();
    for reason in reasons {
        let _ = writeln!(text, "\nrange: what the process may take; it depends on the {reason}");
    }
    text
}
