//! Published figures, each compared with the measured and the predicted one.

use base::text::{Dimension, Mistake, Unit, quoted};
use results::columns::{PLANNED, PREDICTED, dimension};
use serde::Serialize;
use spec::{Evidence, Metric, Published, Selector, SpecError, Study};

use super::columns::{check_measured, check_predicted};
use super::group::{Group, Stat};

/// A published figure and its group.
#[derive(Debug, Clone, PartialEq)]
pub struct PublishedFigure {
    /// The figure as the spec states it.
    pub published: Published,
    /// The `group_id` of the group.
    pub group_id: String,
}

/// The published figures of a study, without those that pick no cell, or none yet.
pub(crate) fn bind(study: &Study) -> Vec<PublishedFigure> {
    let selector = Selector::new(study);
    let bound = |published: &Published| {
        if published.cell_id.is_some() {
            return None;
        }
        let group_id = selector.groups(&published.cell).into_iter().next()?;
        Some(PublishedFigure {
            published: published.clone(),
            group_id,
        })
    };
    study.published.iter().filter_map(bound).collect()
}

/// A compared figure, for templates. Numbers are in bytes, seconds or ones.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct ComparedFigure {
    /// The source's name for the figure.
    pub name: Option<String>,
    /// The column of the frame.
    pub column: String,
    /// The column that `column` is divided by.
    pub of: Option<String>,
    /// The digits that were published.
    pub value: String,
    /// The unit of `value`.
    pub unit: Unit,
    /// The decimals of all figures of the row: as many as were published, and at least those that suit the unit, up to
    /// five digits.
    pub decimals: usize,
    /// True if the published number has more decimals than that.
    pub is_rounded: bool,
    /// The size of the share of the difference; -1 without a difference. For sorting.
    pub distance: f64,
    /// The memory that the source counted; `None` if the figure is not memory.
    pub metric: Option<&'static str>,
    /// The memory that the column counts.
    pub measured_metric: Option<&'static str>,
    /// What an error of the prediction says about the plan.
    pub evidence: Evidence,
    /// The source.
    pub source: String,
    /// From 1; figures of one source share it.
    pub source_number: usize,
    /// The spec's note.
    pub note: Option<String>,
    /// The group of the figure.
    pub group: Group,
    /// The published number.
    pub published: f64,
    /// The measured one.
    pub measured: Option<Stat>,
    /// The predicted one.
    pub predicted: Option<Stat>,
    /// Why there is no predicted one, of a cell that is planned alone.
    pub unpredicted: Option<&'static str>,
    /// Measured minus published, or predicted minus published without a measurement.
    pub difference: Option<f64>,
    /// The difference over the published number.
    pub difference_share: Option<f64>,
    /// True if rounding to the published digits leaves no difference.
    pub agrees: bool,
}

/// Compares each figure with its group. A figure without a group in the frame is left out.
pub(crate) fn compare(figures: &[PublishedFigure], groups: &[Group]) -> Vec<ComparedFigure> {
    let figures = in_groups(figures, groups).filter(|(published, ..)| published.outcome.is_none());
    figures
        .map(|(published, group, source)| compare_one(published, group, source))
        .collect()
}

/// What is published of groups in the frame: each with its group and the number of its source, from 1.
pub(super) fn in_groups<'a>(
    figures: &'a [PublishedFigure],
    groups: &'a [Group],
) -> impl Iterator<Item = (&'a Published, &'a Group, usize)> {
    let mut sources: Vec<&str> = Vec::new();
    figures
        .iter()
        .filter_map(move |PublishedFigure { published, group_id }| {
            let is_its = |group: &&Group| group.cells[0].text("group_id") == Some(group_id);
            let group = groups.iter().find(is_its)?;
            let number = sources.iter().position(|source| *source == published.source);
            let number = number.unwrap_or_else(|| {
                sources.push(&published.source);
                sources.len() - 1
            });
            Some((published, group, number + 1))
        })
}

fn compare_one(published: &Published, group: &Group, source_number: usize) -> ComparedFigure {
    let measured = stat(published, group, "");
    let predicted = stat(published, group, PREDICTED);
    let number = published.number();
    let is_planned = predicted.is_none() && group.status == PLANNED;
    let difference = measured.or(predicted).map(|stat| stat.mean - number);
    let decimals = decimals(number / published.unit().factor(), published);
    let last_digit = 0.1_f64.powi(published.decimals() as i32) * published.unit().factor();
    ComparedFigure {
        name: published.name.clone(),
        column: published.column.clone(),
        of: published.of.clone(),
        value: published.value.clone(),
        unit: published.unit(),
        decimals,
        is_rounded: published.decimals() > decimals,
        distance: difference.map_or(-1.0, |difference| (difference / number).abs()),
        metric: published.metric.map(Metric::name),
        measured_metric: metric(&published.column, published.unit()),
        evidence: published.evidence,
        source: published.source.clone(),
        source_number,
        note: published.note.clone(),
        group: group.clone(),
        published: number,
        measured,
        predicted,
        unpredicted: is_planned.then_some("not predicted"),
        difference,
        difference_share: difference
            .filter(|_| number != 0.0)
            .map(|difference| difference / number),
        // Slightly more than half a digit, because the published number is not exact in binary.
        agrees: difference.is_some_and(|difference| difference.abs() <= last_digit * (0.5 + 1e-9)),
    }
}

/// The decimals of a row whose published number is `number` in its unit.
fn decimals(number: f64, published: &Published) -> usize {
    const DIGITS: i32 = 5;
    let before_point = number.abs().max(1.0).log10() as i32 + 1;
    let most = usize::try_from(DIGITS - before_point).unwrap_or(0).min(3);
    published.decimals().max(published.unit().decimals()).min(most)
}

/// The figure's column, divided by another column for a share, over the cells that have it. Measurements of cells that
/// did not end well do not count; predictions do.
fn stat(published: &Published, group: &Group, prefix: &str) -> Option<Stat> {
    let cells = group.cells.iter().filter(|cell| !prefix.is_empty() || cell.is_ok());
    let value = |cell: &super::Entry| {
        let column = |name: &str| cell.number(&format!("{prefix}{name}"));
        let number = column(&published.column)?;
        match &published.of {
            None => Some(number),
            Some(of) => column(of).filter(|whole| *whole != 0.0).map(|whole| number / whole),
        }
    };
    Stat::of(&cells.filter_map(value).collect::<Vec<_>>())
}

/// The memory that a column counts; `None` if it is not memory.
fn metric(column: &str, unit: Unit) -> Option<&'static str> {
    let metric = match column.split('_').next() {
        Some("reserved") => Metric::Reserved,
        Some("process") => Metric::Process,
        _ => Metric::Allocated,
    };
    (unit.dimension() == Dimension::Memory && !column.contains("_file_")).then_some(metric.name())
}

/// Makes sure that the figures' columns are measured or predicted ones and fit their units.
///
/// # Errors
/// The first that does not, with its place in the spec.
pub(crate) fn check(study: &Study) -> Result<(), SpecError> {
    let figures = study.published.iter().enumerate();
    for (index, published) in figures.filter(|(_, published)| published.outcome.is_none()) {
        let wrong = |key: &str, mistake: Mistake| {
            let message = format!("published[{index}].{key}: {}", mistake.message);
            published.origin.error(key, message, mistake.help)
        };
        for (key, name) in [("column", Some(&published.column)), ("of", published.of.as_ref())] {
            if let Some(name) = name {
                // A few figures are predicted only, such as what is left at the end.
                check_measured(name)
                    .or_else(|mistake| check_predicted(name).map_err(|_| mistake))
                    .map_err(|mistake| wrong(key, mistake))?;
            }
        }
        let dimension = if published.of.is_some() {
            Dimension::Share
        } else {
            dimension(&published.column)
        };
        if published.unit().dimension() != dimension {
            let unit = quoted(published.unit().name());
            let mistake = Mistake::new(format!("{unit} is not a unit of {}", published.column));
            return Err(wrong(
                "unit",
                mistake.help(format!("its units are {}", dimension.units())),
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::measured_columns;

    #[test]
    fn the_size_of_a_file_is_no_memory() {
        assert_eq!(metric("adapter_file_bytes", Unit::MiB), None);
        for column in measured_columns().iter().filter(|column| column.ends_with("_bytes")) {
            assert_eq!(
                metric(column, Unit::MiB).is_some(),
                column != "adapter_file_bytes",
                "{column}"
            );
        }
        assert_eq!(metric("profile_total_bytes", Unit::MiB), Some("allocated"));
        assert_eq!(metric("process_peak_bytes", Unit::MiB), Some("process"));
    }
}
