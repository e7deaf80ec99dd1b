//! `expctl accuracy SPEC...`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use base::text::Table;
use plan::{Options, Planner};
use polars_core::prelude::DataFrame;
use rayon::prelude::*;
use records::prediction::Prediction;
use records::store::StudyDir;
use report::About;
use report::accuracy::{Accuracy, PlannedStudy};
use results::frame;
use runner::Purpose;
use serde_json::{Value, json};
use spec::{Overrides, Study};

use super::fetch::fetch;
use super::output::PageFile;
use super::resolved::resolved;

const EXAMPLES: &str = "Examples:
  expctl accuracy experiments/published/h200.yaml
  expctl accuracy experiments/published/*.yaml --output accuracy.md";

/// Compare predictions with the published figures of some specs
///
/// The cells are planned, none is run. The page keeps figures that test the plan apart from those that corrected it, by
/// the key `evidence`. It has the errors by study and the worst rows; json and csv have all rows.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Specs with `published` figures
    #[arg(required = true)]
    specs: Vec<PathBuf>,
    #[command(flatten)]
    file: PageFile,
    /// The page, or all rows
    #[arg(long, value_enum, default_value_t)]
    format: Output,
}

#[derive(Debug, Clone, Copy, Default, clap::ValueEnum)]
enum Output {
    #[default]
    Markdown,
    Json,
    Csv,
}

pub(super) fn run(args: Args) -> anyhow::Result<ExitCode> {
    // The page does not depend on the order of the files.
    let mut specs = args.specs;
    specs.sort();
    specs.dedup();
    let mut studies = Vec::new();
    for path in &specs {
        let (study, cells) = planned(spec::load(path, &Overrides::default())?)?;
        studies.push(PlannedStudy {
            spec: path.display().to_string(),
            report: study.report.publish.clone().or_else(|| study.report.output.clone()),
            cells,
            about: About::new(&study),
        });
    }
    let accuracy = Accuracy::new(studies)?;
    let page = match args.format {
        Output::Markdown => accuracy.page()?,
        Output::Json => table(&accuracy).json(),
        Output::Csv => table(&accuracy).csv(),
    };
    args.file.write(&page)
}

/// A study with the frame of its predictions.
pub(super) fn planned(mut study: Study) -> anyhow::Result<(Study, DataFrame)> {
    fetch(&mut study, Purpose::Plan, |_| true)?;
    let dir = StudyDir::new(Path::new("results").join(&study.name));
    let study = resolved(study, Options::default(), &dir)?;
    report::check_study(&study)?;
    let planner = Planner::new(study.roots(), Options::default());
    let predictions = study
        .cells
        .par_iter()
        .map(|study_cell| planner.predict(&study_cell.cell));
    let predictions: Vec<Prediction> = predictions
        .collect::<Result<_, _>>()
        .with_context(|| study.invocation.source())?;
    let cells = frame::of_plan(&study, predictions.iter().map(Some))?;
    Ok((study, cells))
}

/// Every row; `published` and `predicted` are in `unit`, or words of an outcome, which alone has an `agreement`.
fn table(accuracy: &Accuracy) -> Table {
    let mut table = Table::new([
        "study",
        "section",
        "cell_id",
        "cell",
        "figure",
        "column",
        "of",
        "published",
        "predicted",
        "unit",
        "error",
        "low",
        "high",
        "agreement",
        "metric",
        "source",
        "note",
    ]);
    for row in &accuracy.rows {
        table.rows.push(vec![
            json!(row.study),
            json!(row.section),
            json!(row.cell_id),
            json!(row.label),
            json!(row.name),
            json!(row.column),
            json!(row.of),
            json!(row.value),
            json!(row.predicted.map(|number| number / row.unit.factor())),
            json!(row.unit),
            json!(row.error),
            json!(row.range.map(|range| range.low / row.unit.factor())),
            json!(row.range.map(|range| range.high / row.unit.factor())),
            Value::Null,
            json!(row.metric),
            json!(accuracy.sources[row.source - 1]),
            json!(row.note),
        ]);
    }
    for row in &accuracy.outcomes {
        table.rows.push(vec![
            json!(row.study),
            json!(row.section),
            json!(row.cell_id),
            json!(row.label),
            json!(row.name),
            json!("outcome"),
            Value::Null,
            json!(row.published),
            json!(row.predicted),
            Value::Null,
            Value::Null,
            Value::Null,
            Value::Null,
            json!(row.agreement),
            Value::Null,
            json!(accuracy.sources[row.source - 1]),
            json!(row.note),
        ]);
    }
    table
}
