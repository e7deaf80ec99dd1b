//! The agreement with published figures.

use base::text::counted;
use base::text::format::percent;
use spec::Metric;

use super::evidence::Evidence;
use super::figures::Figures;
use super::sentence::Sentence;
use crate::markdown::line_code as code;
use crate::outcomes::{Agreement, ComparedOutcome};
use crate::published::ComparedFigure;

/// Smaller relative differences read as zero.
const EXACT: f64 = 5e-5;

/// How far the figures are from the published ones: their number, the mean difference and the worst. Only figures that
/// count the same memory are compared, or those whose source does not say which, with that remark.
pub(super) fn sentence(evidence: &Evidence<'_>, figures: Figures) -> Option<Sentence> {
    let is_unstated = |figure: &ComparedFigure| figure.metric == Some(Metric::Unstated.name());
    let difference = |figure: &ComparedFigure| {
        let ours = match figures {
            Figures::Measured => figure.measured,
            Figures::Predicted => figure.predicted,
        };
        let is_compared = figure.of.is_none() && (is_unstated(figure) || figure.metric == figure.measured_metric);
        let ours = ours.filter(|ours| is_compared && ours.mean.is_finite() && figure.published != 0.0)?;
        Some(ours.mean / figure.published - 1.0)
    };
    let compared: Vec<(&ComparedFigure, f64)> = evidence
        .published
        .iter()
        .filter_map(|figure| Some((figure, difference(figure)?)))
        .collect();
    let (worst, difference) = compared.iter().max_by(|(_, a), (_, b)| a.abs().total_cmp(&b.abs()))?;
    let (word, verb) = match figures {
        Figures::Measured => ("Measurements", "measured"),
        Figures::Predicted => ("Predictions", "predicted"),
    };
    let named = format!("{} of {}", code(&worst.column), evidence.short_name(&worst.group));
    let signed = format!(
        "{}{}",
        if *difference > 0.0 { "+" } else { "" },
        percent((*difference).into())
    );
    let mut text = match compared.len() {
        1 if difference.abs() < EXACT => format!("The published figure is as {verb}: {named}"),
        1 => format!("{word} differ from the published figure by {signed}: {named}"),
        n if difference.abs() < EXACT => format!("{word} meet all {n} published figures"),
        n => {
            let mean = compared.iter().map(|(_, difference)| difference.abs()).sum::<f64>() / n as f64;
            let mean = percent(mean.into());
            format!("{word} differ from {n} published figures by {mean} on average and by {signed} at most: {named}")
        }
    };
    let unstated = compared.iter().filter(|(figure, _)| is_unstated(figure)).count();
    if unstated > 0 {
        let verb = if unstated == 1 { "is" } else { "are" };
        let count = counted(unstated, "figure");
        text += &format!(" ({count} {verb} of memory that the source does not name)");
    }
    text.push('.');
    // The worst is named first.
    let groups = std::iter::once(worst).chain(compared.iter().map(|(figure, _)| figure));
    Some(Sentence::about(text, figures, groups.map(|figure| &figure.group)))
}

/// The most outcomes that are named.
const MOST_OUTCOMES: usize = 3;

/// How many published outcomes are as measured or predicted, and which are not.
pub(super) fn of_outcomes(evidence: &Evidence<'_>, figures: Figures) -> Option<Sentence> {
    let (ours, word) = match figures {
        Figures::Measured => ("measured", "ended"),
        Figures::Predicted => ("predicted", "is predicted"),
    };
    let of_figures = |outcome: &&ComparedOutcome| match figures {
        Figures::Measured => outcome.measured.is_some(),
        Figures::Predicted => outcome.measured.is_none() && outcome.predicted.is_some(),
    };
    let compared: Vec<&ComparedOutcome> = evidence.outcomes.iter().filter(of_figures).collect();
    if compared.is_empty() {
        return None;
    }
    let with = |agreement: Agreement| {
        let outcomes = compared.iter().copied();
        outcomes
            .filter(|outcome| outcome.agreement == agreement)
            .collect::<Vec<_>>()
    };
    let named = |outcomes: &[&ComparedOutcome]| {
        let names = outcomes.iter().take(MOST_OUTCOMES);
        let mut names: Vec<String> = names.map(|outcome| evidence.name(&outcome.group)).collect();
        if outcomes.len() > MOST_OUTCOMES {
            names.push(format!("{} more", outcomes.len() - MOST_OUTCOMES));
        }
        names.join(", ")
    };
    let (same, undecided, other) = (
        with(Agreement::Same),
        with(Agreement::Undecided),
        with(Agreement::Other),
    );
    let mut text = match same.len() == compared.len() {
        true if compared.len() == 1 => format!("The published outcome is as {ours}"),
        true => format!("All {} published outcomes are as {ours}", compared.len()),
        false => format!("{} of {} published outcomes are as {ours}", same.len(), compared.len()),
    };
    if !undecided.is_empty() {
        let count = undecided.len();
        let may = if count == 1 {
            "may be either"
        } else {
            "may each be either"
        };
        text += &format!("; {count} {may} ({})", named(&undecided));
    }
    text.push('.');
    for outcome in other.iter().take(MOST_OUTCOMES) {
        let came = outcome.measured.or(outcome.predicted).unwrap_or_default();
        let share = outcome
            .share
            .map_or_else(String::new, |share| format!(" ({})", percent(share.into())));
        text += &format!(
            " {} {word} as \"{came}\"{share}, and was published as \"{}\".",
            evidence.name(&outcome.group),
            outcome.published
        );
    }
    Some(Sentence::about(
        text,
        figures,
        compared.iter().map(|outcome| &outcome.group),
    ))
}
