//! Predictions for people: ranges, judgements and counts.

use base::text::format::{self, or_absent};
use records::prediction::{Judgement, Prediction};
use results::trainable_share;

use super::screen::wrapped;

/// Ranges that are narrower than this part of the figure are not shown to people, unless the budget lies within.
const NARROW: f64 = 0.01;

/// What may be needed, if that is a range to show.
pub(super) fn range(prediction: &Prediction) -> Option<String> {
    let [low, high] = prediction.possible_bytes();
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

/// What the range depends on, if it is shown.
pub(super) fn range_reason(prediction: &Prediction) -> Option<String> {
    range(prediction)?;
    prediction.range_reason.clone()
}

/// What the ranges that are shown depend on, each reason once.
pub(super) fn range_reasons<'p>(predictions: impl IntoIterator<Item = &'p Prediction>) -> String {
    let mut reasons: Vec<String> = Vec::new();
    for reason in predictions.into_iter().filter_map(range_reason) {
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    let lines = reasons
        .iter()
        .map(|reason| format!("\n{}\n", wrapped(&format!("range: by the {reason}"), 2)));
    lines.collect()
}

/// The judgement with what it is about: `fits (35 %)`, `does not fit, 2.1 GiB over`.
pub(super) fn verdict(prediction: &Prediction, headroom: u64) -> (String, Option<Judgement>) {
    let Some(judgement) = prediction.judgement(headroom) else {
        return (format::ABSENT.into(), None);
    };
    let words = judgement.words();
    let needed = prediction.needed_bytes;
    let text = match (prediction.past_host_budget(), prediction.budget_bytes) {
        (Some(over), _) => format!("{words}, {} over on the host", format::bytes(over.into())),
        (None, Some(budget)) if needed > budget => {
            format!("{words}, {} over", format::bytes((needed - budget).into()))
        }
        (None, Some(budget)) => format!("{words} ({})", share(needed, budget)),
        (None, None) => words.to_owned(),
    };
    (text, Some(judgement))
}

/// The part of a budget, in percent.
pub(super) fn share(needed: u64, budget: u64) -> String {
    let percent = 100.0 * needed as f64 / budget as f64;
    // What barely fits does not fill the budget, and what barely does not is over it.
    let decimals = if (99.0..101.0).contains(&percent) { 2 } else { 0 };
    format!("{percent:.decimals$}%")
}

/// The number of trained weights, and their share of all.
pub(super) fn trainable(rank: usize, prediction: &Prediction) -> String {
    let (all, trained) = (prediction.parameter_count as f64, prediction.trainable_count as f64);
    let share = or_absent(trainable_share(rank as u64, all, trained), format::percent);
    format!("{} ({share})", format::number(trained.into(), 0))
}
