//! The lists that `run` prints.

use base::text::format::{self, ABSENT, or_absent};
use base::text::{counted, visible};
use cell::Cell;
use records::Record;
use records::store::StudyDir;
use results::trainable_share;
use runner::{Finished, Schedule, Summary, log_tail, would_fit};
use serde_json::{Value, json};
use spec::{Study, StudyCell};

use super::Format;
use super::cells::{cell_row, cell_table};
use super::screen::{screen_width, wrapped};

/// The cells in the study's order: the values of the axes, and what a run would do.
pub(super) fn dry_run(study: &Study, schedule: &Schedule, format: Format) -> String {
    let mut plans: Vec<[Value; 2]> = study
        .cells
        .iter()
        .map(|study_cell| match study_cell.cell.engine().is_none() {
            true => ["plan".into(), Value::Null],
            false => ["run".into(), 1.into()],
        })
        .collect();
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
        for (row, study_cell) in table.rows.iter_mut().zip(&study.cells) {
            row.push(json!(study_cell.cell));
        }
    }
    let mut text = format.render(&table);
    if format == Format::Table {
        let overview = &schedule.overview;
        text += &format!(
            "\n{}, {} to run, {} kept{}\n",
            counted(overview.cells, "cell"),
            overview.to_run,
            overview.kept,
            if overview.planned > 0 {
                format!(", {} planned", overview.planned)
            } else {
                String::new()
            }
        );
        for note in study.notes.iter().chain(&schedule.notes) {
            text += &format!("{note}\n");
        }
    }
    text
}

/// The sentences of the report's answer, a paragraph each, between empty lines.
pub(super) fn answer(sentences: &[String]) -> String {
    let paragraphs: Vec<String> = sentences
        .iter()
        .map(|sentence| format!("{}\n\n", wrapped(&visible(sentence), 0)))
        .collect();
    paragraphs.concat()
}

/// The end of a run: a line for each cell, the logs' last lines of failed ones, and a count.
pub(super) fn summary(study: &Study, summary: &Summary, dir: &StudyDir) -> String {
    let mut lines = Vec::new();
    if !summary.finished.is_empty() {
        // Which micro-batch was found is not among the axes.
        let has_axis = study.axes.iter().any(|axis| axis == "batch_size");
        let shows_batch = !has_axis && study.cells.iter().any(StudyCell::has_found_batch);
        let found = shows_batch.then_some("batch_size").into_iter();
        let columns: Vec<&str> = found
            .chain(["status", "loss", "step", "peak", "trainable", "time"])
            .collect();
        let mut table = cell_table(study, &columns);
        for Finished { task, record } in &summary.finished {
            let cell = &study.cells[task.index].cell;
            let batch = shows_batch.then(|| cell.batch_size.into()).into_iter();
            let values = batch.chain(figures(cell, record, study.speeds));
            table.rows.push(cell_row(study, task.index, Format::Table, values));
        }
        lines.extend([String::new(), table.within(screen_width())]);
    }
    for Finished { task, record } in &summary.finished {
        let fits = would_fit(task, record);
        if let Some(fits) = fits.strip_prefix("; ") {
            lines.push(format!("{}: out of memory; {fits}\n", task.name()));
        }
    }
    for Finished { task, record } in summary.failed() {
        let reason = record.reason.as_deref().unwrap_or("no reason given");
        let status = record.status.name();
        lines.push(format!("{}: {status}: {reason}", task.name()));
        let log = dir.cell(&task.cell_id).log();
        let tail = log_tail(&log, LOG_LINES).unwrap_or_default();
        // The log's last line repeats the reason.
        let news = tail.iter().filter(|line| !line.ends_with(reason));
        lines.extend(news.map(|line| format!("    {line}")));
        lines.push(format!("    (log: {})\n", log.display()));
    }
    for reason in &summary.unplanned {
        lines.push(format!("cannot be planned: {reason}"));
    }
    let trained = study.cells.len() - summary.planned - summary.unplanned.len();
    let done = trained - summary.left - summary.failed().count();
    let left = match summary.left {
        0 => String::new(),
        left => format!("; {left} still to do, the same command goes on from there"),
    };
    let planned = match summary.planned {
        0 => String::new(),
        count => format!("; {} planned", counted(count, "cell")),
    };
    let (name, cells, dir) = (&study.name, counted(trained, "cell"), dir.path().display());
    let have = if trained == 1 { "has" } else { "have" };
    lines.push(format!(
        "{name}: {done} of {cells} {have} a result in {dir}{planned}{left}\n"
    ));
    lines.join("\n")
}

/// Lines of a failed cell's log that are shown.
const LOG_LINES: usize = 5;

/// The columns of a finished cell from its status on.
fn figures(cell: &Cell, record: &Record, has_speeds: bool) -> [Value; 6] {
    let measured = record.measured.as_ref();
    let share = measured.and_then(|measured| {
        let (all, trained) = (measured.parameter_count as f64, measured.trainable_count as f64);
        trainable_share(cell.rank as u64, all, trained)
    });
    [
        record.status.name().into(),
        measured.map_or_else(|| ABSENT.into(), |measured| format!("{:.4}", measured.loss_last).into()),
        or_absent(
            measured
                .filter(|_| has_speeds)
                .map(|measured| measured.step_seconds_median),
            format::seconds,
        )
        .into(),
        or_absent(
            measured.and_then(|measured| measured.allocated_peak_bytes),
            format::bytes,
        )
        .into(),
        or_absent(share, format::percent).into(),
        format::seconds(record.wall_seconds.into()).into(),
    ]
}
