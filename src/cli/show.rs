//! `expctl show CELL`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::slice;

use anyhow::bail;
use base::text::Table;
use base::text::format::{self, or_absent};
use cell::Cell;
use records::prediction::Prediction;
use records::store::{CellDir, check_files, read_prediction, read_record, read_steps};
use records::{EmptyCache, Record, Step};
use report::{Entry, entries, key_columns};
use results::collect::read_cell;
use results::columns::{LINEAGE, is_optional, keys, lineage, outcomes, predictions};
use results::datum::Datum;
use results::figure;
use results::frame::{self, KeptFrame, Row};
use results::setting;
use serde_json::{Map, Value, json};
use spec::{Lineage, Study};

use super::cell_summary::cell_summary;
use super::screen::screen_width;
use super::studies::Results;
use super::{Format, print, studies, warn};

const EXAMPLES: &str = "Examples:
  expctl show CELL
  expctl show CELL --results results/quickstart";

/// Show one cell: its full configuration, its outcome and every step
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The beginning of the cell's id, or its folder
    cell: String,
    /// The folder of the studies, or a frame beside a report [default: results, and the published frames in reports]
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
    /// How the cell is printed: json has everything, csv has the steps
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

pub(super) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let dir = match find(&args.cell, args.results.as_deref())? {
        Found::Cell(dir) => dir,
        Found::Row { frame, row } => return show_row(&frame, &row, args.format),
    };
    let cell = read_cell(&dir)?;
    let record = read_record(&dir)?;
    if let Some(record) = &record {
        check_files(&dir, record)?;
    }
    let prediction = read_prediction(&dir)?;
    let steps = read_steps(&dir.steps())?;
    let from = lineage_of(&dir);
    let text = match args.format {
        Format::Table => for_people(&dir, (&cell, &from), (record.as_ref(), prediction.as_ref()), &steps)?,
        Format::Json => {
            let columns = LINEAGE.map(|(name, _)| (name.to_owned(), json!(lineage(name, &cell, &from))));
            let columns = columns.into_iter().filter(|(_, value)| !value.is_null());
            let all = json!({
                "cell_id": dir.id(),
                "lineage": columns.collect::<Map<_, _>>(),
                "cell": cell,
                "prediction": prediction,
                "record": record,
                "steps": steps,
            });
            format!("{all:#}\n")
        }
        Format::Csv => step_table(&steps).csv(),
    };
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Results of a cell.
enum Found {
    /// Its folder.
    Cell(CellDir),
    /// Its row in a frame that is kept beside a report.
    Row { frame: PathBuf, row: Box<Entry> },
}

/// The cell that `wanted` names: a path, or the beginning of an id. Records come before rows of frames.
fn find(wanted: &str, results: Option<&Path>) -> anyhow::Result<Found> {
    if Path::new(wanted).exists() {
        return Ok(Found::Cell(studies::cell_at(Path::new(wanted))));
    }
    let (mut cells, mut rows) = (Vec::new(), Vec::new());
    for found in studies::results(results)? {
        match found {
            Results::Study(dir) => cells.extend(dir.cells()?.into_iter().filter(|cell| cell.id().starts_with(wanted))),
            Results::Frame(frame) => {
                let read = || anyhow::Ok(entries(&KeptFrame::read(&frame)?.cells()?)?);
                let all = read().unwrap_or_else(|error| {
                    warn(&format!("{error:#}"));
                    Vec::new()
                });
                let named = |row: &Entry| row.text("cell_id").is_some_and(|id| id.starts_with(wanted));
                rows.extend(all.into_iter().filter(named).map(|row| (frame.clone(), row)));
            }
        }
    }
    if let Some(dir) = studies::only_cell(wanted, cells)? {
        return Ok(Found::Cell(dir));
    }
    match rows.as_slice() {
        [] => bail!("no cell has an id that begins with `{wanted}`; `expctl list` shows them"),
        [_] => {
            let (frame, row) = rows.remove(0);
            Ok(Found::Row { frame, row: row.into() })
        }
        several => {
            let places = several.iter().map(|(frame, row)| {
                let id = row.text("cell_id").unwrap_or_default();
                format!("\n  {id} --results {}", frame.display())
            });
            bail!(
                "`{wanted}` is {} cells; name one:{}",
                several.len(),
                places.collect::<String>()
            )
        }
    }
}

/// Prints a row of a frame.
fn show_row(frame: &Path, row: &Entry, format: Format) -> anyhow::Result<ExitCode> {
    let values = || {
        row.columns()
            .map(|name| (name, row.get(name)))
            .filter(|(_, value)| !value.is_null())
    };
    let text = match format {
        Format::Table => {
            let id = row.text("cell_id").unwrap_or_default();
            let status = row.text("status").unwrap_or("not run");
            let keys = key_columns(slice::from_ref(row));
            let sections = [
                ("Lineage", named(row, LINEAGE.map(|(name, _)| name.to_owned()))),
                (
                    "Configuration",
                    keys.into_iter().filter_map(|name| line(row, name)).collect(),
                ),
                ("Prediction", predicted(row)),
                ("Outcome", outcome(row)),
            ];
            let sections = sections.into_iter().filter(|(_, settings)| !settings.is_empty());
            let sections = sections.map(|(heading, settings)| format!("\n{heading}\n{}", lines(&settings)));
            format!(
                "cell {id}: {status}\n{}\n{}{}",
                frame.display(),
                cell_summary(row),
                sections.collect::<String>()
            )
        }
        Format::Json => {
            let row: Map<_, _> = values().map(|(name, value)| (name.to_owned(), json!(value))).collect();
            format!("{:#}\n", json!({ "frame": frame, "row": row }))
        }
        Format::Csv => bail!("`{}` keeps no steps, which csv has", frame.display()),
    };
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// The cell's way into its study. A cell that is no longer in it has no lineage.
fn lineage_of(dir: &CellDir) -> Lineage {
    let study = dir.path().parent().and_then(Path::parent).map(Study::read);
    let cells = study.and_then(Result::ok).map(|study| study.cells).unwrap_or_default();
    let study_cell = cells.into_iter().find(|study_cell| study_cell.id == dir.id());
    study_cell.map(|study_cell| study_cell.lineage).unwrap_or_default()
}

fn for_people(
    dir: &CellDir,
    (cell, lineage): (&Cell, &Lineage),
    (record, prediction): (Option<&Record>, Option<&Prediction>),
    steps: &[Step],
) -> anyhow::Result<String> {
    let id = dir.id();
    let frame = frame::build(&[Row {
        cell_id: &id,
        cell,
        lineage,
        record,
        hides_speeds: false,
        prediction,
    }])?;
    let rows = entries(&frame)?;
    let status = rows.first().and_then(|row| row.text("status")).unwrap_or("not run");
    let mut text = format!("cell {id}: {status}\n{}\n", dir.path().display());
    if let Some(row) = rows.first() {
        text.push_str(&cell_summary(row));
    }
    if record.is_some_and(|record| record.files.is_none()) {
        text.push_str("unproven: a version of expctl without hashes wrote its files\n");
    }
    if let Some(row) = rows.first().filter(|_| *lineage != Lineage::Written) {
        text.push_str("\nLineage\n");
        text.push_str(&lines(&named(row, LINEAGE.map(|(name, _)| name.to_owned()))));
    }
    text.push_str("\nConfiguration (* not the default)\n");
    text.push_str(&lines(&configuration(cell)));
    if let Some(row) = rows.first().filter(|_| prediction.is_some()) {
        text.push_str("\nPrediction\n");
        text.push_str(&lines(&predicted(row)));
    }
    if let Some(row) = rows.first().filter(|_| record.is_some()) {
        text.push_str("\nOutcome\n");
        text.push_str(&lines(&outcome(row)));
    }
    let hub = record
        .map(|record| &record.provenance.hub)
        .filter(|hub| !hub.is_empty());
    if let Some(hub) = hub {
        text.push_str("\nFrom the hub\n");
        let commits = hub
            .iter()
            .map(|(name, revision)| (name.clone(), revision.commit.clone()));
        text.push_str(&lines(&commits.collect::<Vec<_>>()));
    }
    if !steps.is_empty() {
        text.push_str("\nSteps\n");
        text.push_str(&steps_for_people(steps).within(screen_width()));
    }
    Ok(text)
}

/// Names in one column, values in the other.
fn lines(settings: &[(String, String)]) -> String {
    let width = settings.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    settings
        .iter()
        .map(|(name, value)| format!("  {name:<width$}  {value}\n"))
        .collect()
}

fn configuration(cell: &Cell) -> Vec<(String, String)> {
    let default = Cell::default();
    let line = |(key, value): (String, Datum)| {
        let mark = if cell.value(&key) == default.value(&key) {
            ""
        } else {
            " *"
        };
        let text = setting(&key, &value);
        (key, format!("{text}{mark}"))
    };
    // A key that the cell does not heed has no value to show.
    let applies = |(key, value): &(String, Datum)| !value.is_null() || is_optional(key) && cell.heeds(key);
    keys(cell).into_iter().filter(applies).map(line).collect()
}

/// The predicted columns.
fn predicted(row: &Entry) -> Vec<(String, String)> {
    named(row, predictions().into_iter().map(|column| column.name))
}

/// The measured columns.
fn outcome(row: &Entry) -> Vec<(String, String)> {
    let names = ["attempt", "device", "threads", "instruction_set"].map(str::to_string);
    let measured = outcomes().into_iter().map(|outcome| outcome.name);
    named(row, names.into_iter().chain(measured))
}

/// The columns `names` that have a value.
fn named(row: &Entry, names: impl IntoIterator<Item = String>) -> Vec<(String, String)> {
    names.into_iter().filter_map(|name| line(row, name)).collect()
}

/// A column and its value with a unit; `None` if it is null.
fn line(row: &Entry, name: String) -> Option<(String, String)> {
    let value = row.get(&name);
    let text = match value.as_number() {
        _ if value.is_null() => return None,
        Some(number) if name.ends_with("_bytes") => {
            format!("{} ({} B)", figure(&name, number), format::number(number.into(), 0))
        }
        Some(number) => figure(&name, number),
        None => setting(&name, value),
    };
    Some((name, text))
}

/// Every field of `steps.jsonl` under its name.
fn step_table(steps: &[Step]) -> Table {
    let rows: Vec<Value> = steps.iter().map(|step| json!(step)).collect();
    let names: Vec<String> = match rows.first() {
        Some(Value::Object(fields)) => fields.keys().cloned().collect(),
        _ => Vec::new(),
    };
    let mut table = Table::new(names.iter().cloned());
    table.rows = rows
        .iter()
        .map(|row| names.iter().map(|name| row[name].clone()).collect())
        .collect();
    table
}

fn steps_for_people(steps: &[Step]) -> Table {
    let mut table = Table::new([
        "step",
        "loss",
        "gradient norm",
        "learning rate",
        "tokens",
        "time",
        "tokens/s",
        "peak allocated",
        "allocated",
        "reserved",
        "process",
        "available",
        "system used",
        "page faults",
        "emptied",
    ]);
    let bytes = |value: Option<u64>| json!(or_absent(value, format::bytes));
    table.rows = steps
        .iter()
        .map(|step| {
            vec![
                json!(step.step),
                json!(format!("{:.4}", step.loss)),
                json!(format!("{:.3}", step.gradient_norm)),
                json!(format!("{:.2e}", step.learning_rate)),
                json!(step.tokens),
                json!(format::seconds(step.seconds.into())),
                json!(format::rate((step.tokens as f64 / step.seconds).into())),
                bytes(step.allocated_peak_bytes),
                bytes(step.allocated_bytes),
                bytes(step.reserved_bytes),
                bytes(step.process_bytes),
                bytes(step.system_available_bytes),
                json!(or_absent(
                    step.system_used_percent.map(|percent| percent / 100.0),
                    format::percent
                )),
                json!(or_absent(step.page_faults, |faults| format::number(faults, 0))),
                json!(step.empty_cache.as_ref().map_or_else(|| format::ABSENT.into(), emptied)),
            ]
        })
        .collect();
    table
}

/// `500.0 MiB to 320.0 MiB`: the resident set before and after the cache was returned.
fn emptied(emptied: &EmptyCache) -> String {
    let bytes = |value: Option<u64>| or_absent(value, format::bytes);
    format!(
        "{} to {}",
        bytes(emptied.process_before_bytes),
        bytes(emptied.process_after_bytes)
    )
}
