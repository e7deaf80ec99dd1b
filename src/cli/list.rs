//! `expctl list RESULTS`, `expctl list --gpus`, `--models`, `--recipes` and `--techniques`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::ensure;
use base::text::Table;
use base::text::format::{self, or_absent};
use cell::is_size;
use report::techniques::{self, StudyRows};
use report::{Entry, axes, entries};
use results::datum::Datum;
use results::frame::KeptFrame;
use results::setting;
use serde_json::{Value, json};
use spec::Study;

use super::studies::Results;
use super::{Format, gpus, models, print, recipes, studies, warn};

const EXAMPLES: &str = "Examples:
  expctl list results/quickstart
  expctl list --gpus --format csv";

/// List the cells of a study, or of all studies in a folder, with their outcome; or the known GPUs, models or
/// techniques
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// A study's folder, a frame beside a report, or a folder of these [default: results, and the published frames in
    /// reports]
    results: Option<PathBuf>,
    /// List the GPUs that `gpu` and --budget may name, with their memory and its source
    #[arg(long, conflicts_with = "results")]
    gpus: bool,
    /// List the presets that `model` may name, with their shapes
    #[arg(long, conflicts_with_all = ["results", "gpus"])]
    models: bool,
    /// List the recipes that --recipe may name: who trains so, and with which keys
    #[arg(long, conflicts_with_all = ["results", "gpus", "models"])]
    recipes: bool,
    /// Print the page of the techniques that save memory, in Markdown, with what the reports' frames in RESULTS
    /// measured [default: reports]
    #[arg(long, conflicts_with_all = ["gpus", "models", "recipes", "format"])]
    techniques: bool,
    /// How the list is printed; json and csv have sizes in bytes
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

const OUTCOME: [&str; 2] = ["allocated_peak_bytes", "tokens_per_second"];

pub(super) fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.gpus {
        print(&args.format.render(&gpus::table(args.format)))?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.models {
        print(&args.format.render(&models::table(args.format)))?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.recipes {
        print(&recipes::list(args.format))?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.techniques {
        let [_, published] = studies::FOLDERS;
        let folder = args.results.unwrap_or_else(|| published.into());
        print(&techniques::page(&kept_studies(&folder)?))?;
        return Ok(ExitCode::SUCCESS);
    }
    let found = studies::results(args.results.as_deref())?;
    let table = match found.as_slice() {
        [one] => of_study(one, args.format)?,
        several => of_studies(several, args.format)?,
    };
    print(&args.format.render(&table))?;
    Ok(ExitCode::SUCCESS)
}

/// The frames that are kept beside the reports in a folder, in the order of their names.
fn kept_studies(folder: &Path) -> anyhow::Result<Vec<StudyRows>> {
    let read = |path: &PathBuf| {
        Ok(StudyRows {
            name: path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
            rows: entries(&KeptFrame::read(path)?.cells()?)?,
        })
    };
    studies::frames_in(folder)?.iter().map(read).collect()
}

/// The cells of one study, with a column for each axis.
fn of_study(results: &Results, format: Format) -> anyhow::Result<Table> {
    let (cells, axes) = read(results)?;
    let names = ["cell_id", "status"].into_iter().chain(axes.iter().map(String::as_str));
    let mut table = Table::new(names.chain(["seed"]).chain(headings(format)));
    for cell in &cells {
        let mut row = vec![value(cell.get("cell_id")), status(cell, format)];
        row.extend(axes.iter().map(|axis| match (format, cell.get(axis)) {
            // For people sizes have units. A number stays a number, which is aligned to the right.
            (Format::Table, datum) if is_size(axis) || datum.as_int().is_none() => {
                json!(setting(axis, datum))
            }
            (_, datum) => value(datum),
        }));
        row.push(value(cell.get("seed")));
        row.extend(outcome(cell, format));
        table.rows.push(row);
    }
    Ok(table)
}

/// The cells of several studies, with one column for all axes, because each study has its own. Warns on stderr about a
/// study that cannot be read, such as one of another version, and lists the others.
///
/// # Errors
/// None of the studies can be read.
fn of_studies(found: &[Results], format: Format) -> anyhow::Result<Table> {
    let mut table = Table::new(
        ["study", "cell_id", "status", "axes", "seed"]
            .into_iter()
            .chain(headings(format)),
    );
    let mut readable = 0;
    for results in found {
        let (cells, axes) = match read(results) {
            Ok(read) => read,
            Err(error) => {
                warn(&format!("{error:#}\n`{}` is left out", results.path().display()));
                continue;
            }
        };
        readable += 1;
        let study = results.name();
        for cell in &cells {
            let values = axes
                .iter()
                .map(|axis| format!("{axis}={}", setting(axis, cell.get(axis))));
            let mut row = vec![
                json!(study),
                value(cell.get("cell_id")),
                status(cell, format),
                json!(values.collect::<Vec<_>>().join(" ")),
                value(cell.get("seed")),
            ];
            row.extend(outcome(cell, format));
            table.rows.push(row);
        }
    }
    ensure!(readable > 0, "none of these studies can be read");
    Ok(table)
}

fn read(results: &Results) -> anyhow::Result<(Vec<Entry>, Vec<String>)> {
    let (frame, declared) = match results {
        Results::Study(dir) => {
            let study = Study::read(dir.path())?;
            (studies::read(dir, &study, false)?.frame()?, study.axes)
        }
        Results::Frame(path) => (KeptFrame::read(path)?.cells()?, Vec::new()),
    };
    let cells = entries(&frame)?;
    let axes = axes(&cells, &declared);
    Ok((cells, axes))
}

/// Words for people, or the frame's names for programs.
fn headings(format: Format) -> [&'static str; 2] {
    match format {
        Format::Table => ["peak allocated", "tokens/s"],
        Format::Json | Format::Csv => OUTCOME,
    }
}

fn outcome(cell: &Entry, format: Format) -> [Value; 2] {
    match format {
        Format::Table => [
            json!(or_absent(cell.number(OUTCOME[0]), format::bytes)),
            json!(or_absent(cell.number(OUTCOME[1]), format::rate)),
        ],
        Format::Json | Format::Csv => OUTCOME.map(|column| value(cell.get(column))),
    }
}

fn status(cell: &Entry, format: Format) -> Value {
    match (cell.get("status"), format) {
        (Datum::Null, Format::Table) => json!("not run"),
        (status, _) => value(status),
    }
}

fn value(datum: &Datum) -> Value {
    json!(datum)
}
