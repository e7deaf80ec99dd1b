//! The agreement with published figures.

use base::text::counted;
use base::text::format::percent;
use indexmap::IndexMap;
use spec::Metric;

use super::evidence::Evidence;
use super::figures::Figures;
use super::sentence::Sentence;
use crate::markdown::line_code as code;
use crate::outcomes::{Agreement, ComparedOutcome};
use crate::published::ComparedFigure;

/// Smaller relative differences read as zero.
const EXACT: f64 = 5e-5;

/// The most columns that are named.
const MOST_COLUMNS: usize = 3;

/// A column's figures with the relative differences, and true if the source does not say which memory it counted.
type Columns<'a> = IndexMap<(&'a str, bool), Vec<(&'a ComparedFigure, f64)>>;

/// The mean and the worst difference for the columns with the worst. Only figures that count the same memory are
/// compared, or those whose source does not say which, with that remark.
pub(super) fn sentence(evidence: &Evidence<'_>, figures: Figures) -> Option<Sentence> {
    let mut columns = Columns::new();
    for figure in evidence.published {
        let ours = match figures {
            Figures::Measured => figure.measured,
            Figures::Predicted => figure.predicted,
        };
        let is_unstated = figure.metric == Some(Metric::Unstated.name());
        let is_compared = figure.of.is_none() && (is_unstated || figure.metric == figure.measured_metric);
        let Some(ours) = ours.filter(|ours| is_compared && ours.mean.is_finite() && figure.published != 0.0) else {
            continue;
        };
        let difference = ours.mean / figure.published - 1.0;
        let column = (figure.column.as_str(), is_unstated);
        columns.entry(column).or_default().push((figure, difference));
    }
    columns.sort_by(|_, a, _, b| worst(b).abs().total_cmp(&worst(a).abs()));
    if columns.is_empty() {
        return None;
    }
    let named = columns.iter().take(MOST_COLUMNS);
    let mut parts: Vec<String> = named
        .map(|((column, is_unstated), compared)| part(column, *is_unstated, compared))
        .collect();
    if columns.len() > MOST_COLUMNS {
        let rest = columns.len() - MOST_COLUMNS;
        parts.push(format!("{} by no more than these", counted(rest, "more column")));
    }
    let subject = if figures == Figures::Measured {
        "Measurements"
    } else {
        "Predictions"
    };
    let text = format!("{subject} differ from published figures: {}.", parts.join("; "));
    let groups = columns.values().flatten().map(|(figure, _)| &figure.group);
    Some(Sentence::about(text, figures, groups))
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

/// The difference with the largest size.
fn worst(compared: &[(&ComparedFigure, f64)]) -> f64 {
    let differences = compared.iter().map(|(_, difference)| *difference);
    let worst = differences.max_by(|a, b| a.abs().total_cmp(&b.abs()));
    worst.unwrap_or_default()
}

/// `allocated_peak_bytes` by 3.0% on average and at most +5.0% (4 figures).
fn part(column: &str, is_unstated: bool, compared: &[(&ComparedFigure, f64)]) -> String {
    let worst = worst(compared);
    let sign = if worst > 0.0 { "+" } else { "" };
    let count = counted(compared.len(), "figure");
    let source = match is_unstated {
        true => format!("{count}, of memory that the source does not name"),
        false => count,
    };
    if worst.abs() < EXACT {
        return format!("{} by nothing ({source})", code(column));
    }
    if compared.len() == 1 {
        return format!("{} by {sign}{} ({source})", code(column), percent(worst.into()));
    }
    let mean = compared.iter().map(|(_, difference)| difference.abs()).sum::<f64>() / compared.len() as f64;
    format!(
        "{} by {} on average and at most {sign}{} ({source})",
        code(column),
        percent(mean.into()),
        percent(worst.into()),
    )
}
