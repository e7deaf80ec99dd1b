//! The agreement with published figures.

use base::text::counted;
use base::text::format::percent;
use indexmap::IndexMap;
use spec::Metric;

use super::evidence::Evidence;
use super::figures::Figures;
use super::sentence::Sentence;
use crate::markdown::line_code as code;
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
