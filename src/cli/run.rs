//! `expctl run SPEC`.

use std::io::{IsTerminal, stderr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ValueEnum;
use serde_json::{Value, json};

use crate::report::{ClaimResult, check_study};
use crate::results::record::Record;
use crate::results::store::StudyDir;
use crate::runner::{
    self, Bars, Finished, Json, Options, Plain, Progress, Silent, Summary, log_tail, preflight, schedule, trainable,
};
use crate::spec::{self, Overrides, Study};
use crate::text::{counted, format};

use super::cells::{cell_row, cell_table};
use super::{Format, NOT_AS_ASKED, claims, print, report};

/// Train the cells of a spec that have no result yet, and write the results and the report
///
/// A cell that ended as ok or oom is done; one that failed, timed out, was killed or got lost is tried again by the next
/// run. Exit code 0 where every cell has a result, 1 where one has not. Ctrl-C (or SIGTERM) stops the cell that runs and
/// keeps all others, with exit code 130 (143); the same command goes on from there.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The spec, a YAML file
    spec: PathBuf,
    /// Set a key for all cells, over the spec and the environment; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// The study's folder [default: results/NAME]
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
    /// Run all cells, those with a result too
    #[arg(long)]
    fresh: bool,
    /// Stop at the first cell that fails
    #[arg(long)]
    fail_fast: bool,
    /// Leave out cells that are predicted not to fit into their device_memory or, without one, into this machine; they
    /// are rows that say so
    #[arg(long)]
    skip_oversize: bool,
    /// Exit code 1 where a claim has not the verdict that the spec expects: supported, unless it says refuted
    #[arg(long, conflicts_with = "dry_run")]
    check: bool,
    /// Train nothing; list the cells and what would be done
    #[arg(long)]
    dry_run: bool,
    /// How --dry-run lists the cells
    #[arg(long, value_enum, default_value_t = Format::Table, requires = "dry_run")]
    format: Format,
    /// How the run shows its progress
    #[arg(long, value_enum, default_value_t = ProgressKind::Auto)]
    progress: ProgressKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ProgressKind {
    /// Bars on a terminal, lines elsewhere
    Auto,
    Bar,
    Plain,
    /// JSON lines on stdout, for programs
    Json,
    None,
}

impl ProgressKind {
    fn open(self) -> Box<dyn Progress> {
        match self {
            Self::Auto if stderr().is_terminal() => Box::new(Bars::default()),
            Self::Bar => Box::new(Bars::default()),
            Self::Auto | Self::Plain => Box::new(Plain::default()),
            Self::Json => Box::new(Json),
            Self::None => Box::new(Silent),
        }
    }
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut study = spec::load(&args.spec, &Overrides::from_environment(args.set)?)?;
    study.invocation.results = args.results.as_ref().map(|folder| folder.display().to_string());
    let options = Options {
        results: args.results.unwrap_or_else(|| Path::new("results").join(&study.name)),
        fresh: args.fresh,
        fail_fast: args.fail_fast,
        skip_oversize: args.skip_oversize,
    };
    check_study(&study)?;
    trainable(&study)?;
    preflight(&study)?;
    if args.dry_run {
        return dry_run(&study, &options, args.format);
    }
    let dir = StudyDir::new(&options.results);
    report::make_ready(&study, &dir)?;
    let mut progress = args.progress.open();
    for note in &study.notes {
        progress.note(note);
    }
    let summary = runner::run(&study, &options, progress.as_mut())?;
    // Before anything is printed: that may fail, too.
    let reported = report::after_run(&study, &dir);
    let for_people = args.progress != ProgressKind::Json;
    if for_people {
        print(&told(&study, &summary, &dir))?;
    }
    let claims = reported?;
    if for_people {
        let counts = claims::summary(&claims).map_or_else(String::new, |counts| format!("{counts}\n"));
        print(&format!("{counts}report: {}\n", report::output(&study, &dir).display()))?;
    }
    let expected = !args.check || check(&claims);
    Ok(exit_code(&summary, expected))
}

/// Whether the claims fare as the spec expects.
fn check(claims: &[ClaimResult]) -> bool {
    if claims.is_empty() {
        eprintln!("note: the spec has no claims, so there is nothing to check");
    }
    claims::are_as_expected(claims)
}

fn exit_code(summary: &Summary, expected: bool) -> ExitCode {
    match summary.interrupted {
        // as shells tell a program that a signal ended
        Some(signal) if summary.left > 0 => ExitCode::from(128 + u8::try_from(signal).unwrap_or(0)),
        _ if summary.left > 0 || summary.failed().next().is_some() || !expected => ExitCode::from(NOT_AS_ASKED),
        _ => ExitCode::SUCCESS,
    }
}

/// The cells, in the study's order, with what varies and what a run would do with each.
fn dry_run(study: &Study, options: &Options, format: Format) -> anyhow::Result<ExitCode> {
    let schedule = schedule(study, options)?;
    let mut plans: Vec<[Value; 2]> = study.cells.iter().map(|_| ["run".into(), 1.into()]).collect();
    for task in &schedule.tasks {
        plans[task.index] = ["run".into(), task.attempt.into()];
    }
    for kept in &schedule.kept {
        let status = kept.record.status.name();
        plans[kept.index] = [format!("keep ({status})").into(), kept.record.attempt.into()];
    }
    let mut table = cell_table(study, &["plan", "attempt"]);
    for (index, plan) in plans.into_iter().enumerate() {
        table.rows.push(cell_row(study, index, format, plan));
    }
    if format == Format::Json {
        table.columns.push("cell".into());
        for (row, planned) in table.rows.iter_mut().zip(&study.cells) {
            row.push(json!(planned.cell));
        }
    }
    let mut text = table.render(format);
    if format == Format::Table {
        let overview = &schedule.overview;
        text += &format!(
            "\n{}, {} to run, {} kept\n",
            counted(overview.cells, "cell"),
            overview.to_run,
            overview.kept
        );
        for note in study.notes.iter().chain(&schedule.notes) {
            text += &format!("{note}\n");
        }
    }
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// What the run did: a line a cell, the last words of those that failed, and a count.
fn told(study: &Study, summary: &Summary, dir: &StudyDir) -> String {
    let mut lines = Vec::new();
    if !summary.finished.is_empty() {
        let mut table = cell_table(study, &["status", "loss", "step", "peak", "time"]);
        for Finished { task, record } in &summary.finished {
            table
                .rows
                .push(cell_row(study, task.index, Format::Table, figures(record)));
        }
        lines.extend([String::new(), table.render(Format::Table)]);
    }
    for Finished { task, record } in summary.failed() {
        let reason = record.reason.as_deref().unwrap_or("no reason given");
        let status = record.status.name();
        lines.push(format!("{}: {status}: {reason}", task.name()));
        let log = dir.cell(&task.cell_id).log();
        let tail = log_tail(&log, LOG_LINES).unwrap_or_default();
        // An error is the log's last line, too.
        let news = tail.iter().filter(|line| !line.ends_with(reason));
        lines.extend(news.map(|line| format!("    {line}")));
        lines.push(format!("    (log: {})\n", log.display()));
    }
    let done = study.cells.len() - summary.left - summary.failed().count();
    let left = match summary.left {
        0 => String::new(),
        left => format!("; {left} still to do, the same command goes on from there"),
    };
    let (name, cells, dir) = (&study.name, counted(study.cells.len(), "cell"), dir.path().display());
    let have = if study.cells.len() == 1 { "has" } else { "have" };
    lines.push(format!("{name}: {done} of {cells} {have} a result in {dir}{left}\n"));
    lines.join("\n")
}

/// Lines of a failed cell's log that are shown.
const LOG_LINES: usize = 5;

/// The columns of a finished cell from its status on.
fn figures(record: &Record) -> [Value; 5] {
    let absent = || Value::from(format::ABSENT);
    let measured = record.measured.as_ref();
    let figure = |value: Option<String>| value.map_or_else(absent, Value::from);
    [
        record.status.name().into(),
        figure(measured.map(|measured| format!("{:.4}", measured.loss_last))),
        figure(measured.map(|measured| format::seconds(measured.step_seconds_median.into()))),
        figure(
            measured
                .and_then(|measured| measured.allocated_peak_bytes)
                .map(|bytes| format::bytes((bytes as f64).into())),
        ),
        format::seconds(record.wall_seconds.into()).into(),
    ]
}
