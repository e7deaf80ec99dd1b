//! How far predictions are from published figures, over several studies: all rows, the worst first.

use polars_core::prelude::DataFrame;
use serde::Serialize;

use super::axes::axes;
use super::context::About;
use super::group::groups;
use super::published::{Figure, figures};
use super::{ReportError, Template, entries, filters, markdown};
use crate::text::Unit;

/// A study with a frame of predictions.
#[derive(Debug)]
pub struct Planned {
    /// The spec's path, as it was given.
    pub spec: String,
    pub about: About,
    pub cells: DataFrame,
}

/// A published figure beside what is predicted.
#[derive(Debug, Serialize)]
struct Row {
    study: String,
    /// The cell by what varies in its study.
    label: String,
    cell_id: String,
    name: Option<String>,
    column: String,
    of: Option<String>,
    /// The digits that were published.
    value: String,
    unit: Unit,
    decimals: usize,
    metric: Option<&'static str>,
    predicted: Option<f64>,
    /// Predicted over published, less one.
    error: Option<f64>,
    /// From 1, over all studies.
    source: usize,
    note: Option<String>,
}

/// The errors of a study's figures of one column.
#[derive(Debug, Serialize)]
struct Summary {
    study: String,
    spec: String,
    column: String,
    rows: usize,
    /// Of the absolute errors.
    mean: f64,
    median: f64,
    /// With its sign.
    worst: f64,
}

#[derive(Debug, Serialize)]
struct Context {
    summaries: Vec<Summary>,
    rows: Vec<Row>,
    sources: Vec<String>,
    /// The studies' names and descriptions.
    studies: Vec<About>,
    specs: Vec<String>,
}

/// The page of all studies.
///
/// # Errors
/// A frame that cannot be read.
pub fn accuracy(studies: Vec<Planned>) -> Result<String, ReportError> {
    let mut context = Context {
        summaries: Vec::new(),
        rows: Vec::new(),
        sources: Vec::new(),
        studies: Vec::new(),
        specs: Vec::new(),
    };
    for Planned { spec, about, cells } in studies {
        let rows = entries(&cells)?;
        let axes = axes(&rows, &about.axes);
        let figures = figures(&about.published, &groups(&rows, &axes));
        context.summaries.extend(summaries(&about.name, &spec, &figures));
        for figure in figures {
            let row = context.row(&about.name, figure);
            context.rows.push(row);
        }
        context.studies.push(about);
        context.specs.push(spec);
    }
    // What has no error, for want of a prediction, is last.
    let far = |row: &Row| row.error.map_or(-1.0, f64::abs);
    context.rows.sort_by(|a, b| far(b).total_cmp(&far(a)));

    let template = Template::BuiltIn("accuracy");
    let (mut env, name) = template.environment()?;
    filters::add(&mut env, 6, std::sync::Arc::default());
    let page = env
        .get_template(&name)
        .and_then(|loaded| loaded.render(minijinja::value::Serde(&context)))
        .map_err(|error| ReportError::Template(template.explain(&error)))?;
    Ok(markdown::tidy(&page))
}

impl Context {
    fn row(&mut self, study: &str, figure: Figure) -> Row {
        let known = self.sources.iter().position(|source| *source == figure.source);
        let source = known.unwrap_or_else(|| {
            self.sources.push(figure.source.clone());
            self.sources.len() - 1
        });
        Row {
            study: study.to_owned(),
            label: figure.group.label.clone(),
            cell_id: figure.group.cells[0].text("cell_id").unwrap_or_default().to_owned(),
            error: error(&figure),
            predicted: figure.predicted.map(|stat| stat.mean),
            name: figure.name,
            column: figure.column,
            of: figure.of,
            value: figure.value,
            unit: figure.unit,
            decimals: figure.decimals,
            metric: figure.metric,
            source: source + 1,
            note: figure.note,
        }
    }
}

fn error(figure: &Figure) -> Option<f64> {
    let predicted = figure.predicted?.mean;
    (figure.published != 0.0).then(|| predicted / figure.published - 1.0)
}

fn summaries(study: &str, spec: &str, figures: &[Figure]) -> Vec<Summary> {
    let mut columns: Vec<&str> = Vec::new();
    for figure in figures {
        if figure.of.is_none() && !columns.contains(&figure.column.as_str()) {
            columns.push(&figure.column);
        }
    }
    let summary = |column: &str| {
        let of_column = figures
            .iter()
            .filter(|figure| figure.of.is_none() && figure.column == column);
        let mut errors: Vec<f64> = of_column.filter_map(error).collect();
        errors.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
        let (rows, worst) = (errors.len(), *errors.last()?);
        let middle = rows / 2;
        let median = if rows % 2 == 1 {
            errors[middle].abs()
        } else {
            f64::midpoint(errors[middle - 1].abs(), errors[middle].abs())
        };
        Some(Summary {
            study: study.to_owned(),
            spec: spec.to_owned(),
            column: column.to_owned(),
            rows,
            mean: errors.iter().map(|error| error.abs()).sum::<f64>() / rows as f64,
            median,
            worst,
        })
    };
    columns.into_iter().filter_map(summary).collect()
}
