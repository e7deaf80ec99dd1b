//! `expctl compare A B`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail, ensure};
use polars_core::frame::DataFrame;
use records::store::STUDY_FILE;
use records::store::StudyDir;
use report::compare::{Gate, compare, differences, varying};
use report::{Entry, entries};
use results::frame;

use super::comparison_view::{ComparisonView, Output};
use super::{exit_code, print, studies, warn};

const EXAMPLES: &str = "Examples:
  expctl compare baseline.csv results/quickstart
  expctl compare A B --fail-if 'allocated_peak_bytes > 1.02'";

/// Compare two studies cell by cell: memory, speed and loss, with the ratio of B to A
///
/// Cells are matched by their ids. The others are matched by the keys that vary. The output also names other
/// differences (configuration, version, machine, data), and cells that only one study has. Exit code 1 if a --fail-if
/// holds for a cell, or cannot be judged: B has no measurement of a cell that A measured, A has no record of a
/// cell that B measured, or a figure is negative.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The baseline: a spec, a study's folder, or a cells.csv or cells.parquet
    a: PathBuf,
    /// The study to compare with it, in the same forms
    b: PathBuf,
    /// A condition on ratios of B to A, such as 'allocated_peak_bytes > 1.02'; repeatable
    #[arg(long, value_name = "CONDITION")]
    fail_if: Vec<String>,
    /// How the comparison is printed
    #[arg(long, value_enum, default_value_t = Output::Table)]
    format: Output,
}

/// The compared columns, besides those of the conditions.
const COLUMNS: [&str; 4] = [
    "allocated_peak_bytes",
    "process_peak_bytes",
    "tokens_per_second",
    "loss_last",
];

pub(super) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let language = Gate::language();
    let gates = args
        .fail_if
        .iter()
        .map(|text| Gate::parse(&language, text))
        .collect::<Result<Vec<_>, _>>()?;
    let (a, b) = (read_rows(&args.a)?, read_rows(&args.b)?);
    let comparison = compare(&a, &b);
    ensure!(
        !comparison.pairs.is_empty(),
        "no cell of `{}` can be matched with one of `{}`, neither by its id nor by what varies",
        args.a.display(),
        args.b.display()
    );
    let mut failed = Vec::new();
    for gate in &gates {
        let Some(of_gate) = gate.failed(&comparison)? else {
            bail!(
                "`--fail-if '{}'` asks for what no matched cell of `{}` has",
                gate.text(),
                args.a.display()
            );
        };
        failed.extend(of_gate);
    }
    let mut columns: Vec<&str> = COLUMNS.into();
    for column in gates.iter().flat_map(Gate::columns) {
        if !columns.contains(&column) {
            columns.push(column);
        }
    }
    let view = ComparisonView {
        a: &args.a,
        b: &args.b,
        fail_if: &args.fail_if,
        differences: differences(&comparison.pairs),
        axes: varying(&a, &b),
        comparison: &comparison,
        columns,
        failed: &failed,
    };
    print(&view.render(args.format))?;
    Ok(exit_code(failed.is_empty()))
}

/// The rows of a study: from its records if it has them, else from a frame's file.
fn read_rows(path: &Path) -> anyhow::Result<Vec<Entry>> {
    let is_frame = |path: &Path| {
        path.extension()
            .is_some_and(|extension| extension == "csv" || extension == "parquet")
    };
    let dir = StudyDir::new(path);
    let frame = if path.is_dir() && !(path.join(STUDY_FILE).exists() && path.join("cells").is_dir()) {
        let files = [dir.cells_parquet(), dir.cells_csv()];
        let file = files.iter().find(|file| file.exists());
        let file = file.with_context(|| {
            format!(
                "`{}` holds neither a study (`{STUDY_FILE}` and `cells`) nor a `cells.parquet` or `cells.csv`",
                path.display()
            )
        })?;
        read_frame(file)?
    } else if is_frame(path) {
        read_frame(path)?
    } else {
        let (dir, study) = studies::open(path, None)?;
        studies::read(&dir, &study, false)?.frame()?
    };
    let rows = entries(&frame)?;
    ensure!(!rows.is_empty(), "`{}` has no cells", path.display());
    let mut ids = BTreeSet::new();
    for row in &rows {
        let id = row.text("cell_id").unwrap_or_default();
        ensure!(
            ids.insert(id.to_owned()),
            "`{}` has the cell `{id}` twice",
            path.display()
        );
    }
    Ok(rows)
}

/// A frame of a file. Warns of one that no hash proves.
fn read_frame(path: &Path) -> anyhow::Result<DataFrame> {
    let (frame, is_proven) = frame::read(path)?;
    // A CSV file is for spreadsheets, and has none.
    let is_csv = path.extension().is_some_and(|extension| extension == "csv");
    if !is_proven && !is_csv {
        warn(&format!(
            "`{}` has no hash: a changed byte would not be noticed",
            path.display()
        ));
    }
    Ok(frame)
}
