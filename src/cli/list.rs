//! `expctl list RESULTS`.

use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::{Value, json};

use crate::report::{Entry, axes, entries};
use crate::results::datum::Datum;
use crate::results::setting;
use crate::results::store::StudyDir;
use crate::spec::Study;
use crate::text::format;

use super::{Format, Table, print, studies};

/// List cells with their outcome: of one study, or of all studies in a folder
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A study's folder, or a folder of studies
    #[arg(default_value = "results")]
    results: PathBuf,
    /// How the list is printed; sizes are in bytes for programs
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

const OUTCOME: [&str; 2] = ["allocated_peak_bytes", "tokens_per_second"];

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let found = studies::below(&args.results)?;
    let table = match found.as_slice() {
        [one] => of_study(one, args.format)?,
        several => of_studies(several, args.format)?,
    };
    print(&table.render(args.format))?;
    Ok(ExitCode::SUCCESS)
}

/// A column for each axis.
fn of_study(dir: &StudyDir, format: Format) -> anyhow::Result<Table> {
    let (cells, axes) = read(dir)?;
    let names = ["cell_id", "status"].into_iter().chain(axes.iter().map(String::as_str));
    let mut table = Table::new(names.chain(["seed"]).chain(headings(format)));
    for cell in &cells {
        let mut row = vec![value(cell.get("cell_id")), status(cell, format)];
        row.extend(axes.iter().map(|axis| match (format, cell.get(axis)) {
            // Sizes have units for people; plain numbers are aligned as numbers.
            (Format::Table, datum) if axis == "device_memory" || datum.as_int().is_none() => {
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

/// Studies have axes of their own: one column for all of them.
fn of_studies(dirs: &[StudyDir], format: Format) -> anyhow::Result<Table> {
    let mut table = Table::new(
        ["study", "cell_id", "status", "axes", "seed"]
            .into_iter()
            .chain(headings(format)),
    );
    for dir in dirs {
        let (cells, axes) = read(dir)?;
        let study = dir.path().file_name().unwrap_or_default().to_string_lossy();
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
    Ok(table)
}

fn read(dir: &StudyDir) -> anyhow::Result<(Vec<Entry>, Vec<String>)> {
    let study = Study::read(dir.path())?;
    let cells = entries(&studies::read(dir, &study, false)?.frame()?)?;
    let axes = axes(&cells, &study.axes);
    Ok((cells, axes))
}

/// People get words, programs the frame's names.
fn headings(format: Format) -> [&'static str; 2] {
    match format {
        Format::Table => ["peak allocated", "tokens/s"],
        Format::Json | Format::Csv => OUTCOME,
    }
}

fn outcome(cell: &Entry, format: Format) -> [Value; 2] {
    match format {
        Format::Table => {
            let shown = |column, write: fn(format::Quantity) -> String| {
                let text = cell.number(column).map(|n| write(n.into()));
                json!(text.unwrap_or_else(|| format::ABSENT.into()))
            };
            [shown(OUTCOME[0], format::bytes), shown(OUTCOME[1], format::rate)]
        }
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
