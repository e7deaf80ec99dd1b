//! The agreement with published figures.

use indexmap::IndexMap;

use super::evidence::Evidence;
use super::figures::Figures;
use super::sentence::Sentence;
use crate::report::markdown::line_code as code;
use crate::report::published::ComparedFigure;
use crate::text::counted;
use crate::text::format::percent;

/// Smaller relative differences read as zero.
const EXACT: f64 = 5e-5;

/// The mean and the worst difference for each published column. Only figures that count the same memory are compared.
pub(super) fn sentence(evidence: &Evidence<'_>, figures: Figures) -> Option<Sentence> {
    let mut columns: IndexMap<&str, Vec<(&ComparedFigure, f64)>> = IndexMap::new();
    for figure in evidence.published {
        let ours = match figures {
            Figures::Measured => figure.measured,
            Figures::Predicted => figure.predicted,
        };
        let same_memory = figure.metric == figure.measured_metric && figure.of.is_none();
        let Some(ours) = ours.filter(|ours| same_memory && ours.mean.is_finite() && figure.published != 0.0) else {
            continue;
        };
        let difference = ours.mean / figure.published - 1.0;
        columns.entry(&figure.column).or_default().push((figure, difference));
    }
    if columns.is_empty() {
        return None;
    }
    let part = |(column, compared): (&&str, &Vec<(&ComparedFigure, f64)>)| {
        let worst = compared.iter().map(|(_, difference)| *difference);
        let worst = worst.max_by(|a, b| a.abs().total_cmp(&b.abs())).unwrap_or_default();
        let sign = if worst > 0.0 { "+" } else { "" };
        if worst.abs() < EXACT {
            return format!("{} by nothing ({})", code(column), counted(compared.len(), "figure"));
        }
        if compared.len() == 1 {
            return format!("{} by {sign}{} (1 figure)", code(column), percent(worst.into()));
        }
        let mean = compared.iter().map(|(_, difference)| difference.abs()).sum::<f64>() / compared.len() as f64;
        format!(
            "{} by {} on average and at most {sign}{} ({})",
            code(column),
            percent(mean.into()),
            percent(worst.into()),
            counted(compared.len(), "figure"),
        )
    };
    let parts: Vec<String> = columns.iter().map(part).collect();
    let subject = if figures == Figures::Measured {
        "Measurements"
    } else {
        "Predictions"
    };
    let text = format!("{subject} differ from published figures: {}.", parts.join("; "));
    let groups = columns.values().flatten().map(|(figure, _)| &figure.group);
    Some(Sentence::about(text, figures, groups))
}
