//! The frame of a study's timelines, with one step of each recorded cell. It has a downsampled curve that keeps every
//! extreme, the prominent peaks with the live allocations, and the tensors saved for the backward pass.

use std::fs;
use std::path::PathBuf;

use polars_core::prelude::*;
use records::store::{StoreError, StudyDir, check_file, read_record, write_own};
use trace::{ByCategory, Category};

use super::error::TimelineError;
use super::file::{self, Recording};
use super::replay::Shape;
use super::step::{Moment, RecordedStep, StepAnalysis, Usage, recorded_steps, steady_step};
use crate::columns::Kind;
use crate::datum::Datum;
use crate::frame::{FrameError, column, parquet};

/// Intervals of the step. The curve keeps the first, the lowest, the highest and the last moment of each.
const INTERVALS: u64 = 360;
/// Parts of a peak that have a row each, of persistent memory and of other memory. All other parts share a row.
const PARTS: usize = 12;

/// A recorded cell.
#[derive(Debug)]
struct CellRecording {
    cell_id: String,
    recording: Recording,
}

/// A row. Values that its kind does not have are null. `kind` is one of
///
/// * `step`: a recorded step with its peak (`bytes`, and the categories at the peak);
/// * `curve`: a moment of the steady step, whose state lasts until the next moment;
/// * `peak`: a prominent peak of the steady step, with a number;
/// * `part`: the memory of a module in a category, at the peak with this number; the rest has no module;
/// * `kept`: the live allocations at the end of the forward pass, by category, module, dtype and shape;
/// * `end`: the number of lost events (`count`), if the recording is incomplete.
#[derive(Debug, Default)]
struct Row<'a> {
    kind: &'static str,
    cell_id: &'a str,
    step: Option<usize>,
    peak: Option<usize>,
    seconds: Option<f64>,
    phase: Option<&'static str>,
    module: Option<String>,
    category: Option<&'static str>,
    dtype: Option<&'static str>,
    shape: Option<String>,
    count: Option<u64>,
    bytes: Option<u64>,
    prominence: Option<u64>,
    live: Option<ByCategory>,
}

type Get = fn(&Row<'_>) -> Datum;

/// The columns before those of the categories.
const COLUMNS: [(&str, Kind, Get); 13] = [
    ("kind", Kind::Text, |row| row.kind.into()),
    ("cell_id", Kind::Text, |row| row.cell_id.into()),
    ("step", Kind::Int, |row| row.step.into()),
    ("peak", Kind::Int, |row| row.peak.into()),
    ("seconds", Kind::Float, |row| row.seconds.into()),
    ("phase", Kind::Text, |row| row.phase.into()),
    ("module", Kind::Text, |row| row.module.clone().into()),
    ("category", Kind::Text, |row| row.category.into()),
    ("dtype", Kind::Text, |row| row.dtype.into()),
    ("shape", Kind::Text, |row| row.shape.clone().into()),
    ("count", Kind::Int, |row| row.count.into()),
    ("bytes", Kind::Int, |row| row.bytes.into()),
    ("prominence_bytes", Kind::Int, |row| row.prominence.into()),
];

/// Reads the timelines of the cells that have one, and makes their frame. Gives the damaged ones, which it leaves out.
///
/// # Errors
/// polars refuses the frame.
pub fn build<'a>(
    dir: &StudyDir,
    cell_ids: impl IntoIterator<Item = &'a str>,
) -> Result<(DataFrame, Vec<TimelineError>), FrameError> {
    let (mut recordings, mut damaged) = (Vec::new(), Vec::new());
    for cell_id in cell_ids {
        let dir = dir.cell(cell_id);
        let path = dir.timeline();
        if fs::symlink_metadata(&path).is_err() {
            continue;
        }
        // A record that cannot be read is named with the other records.
        let Ok(record) = read_record(&dir) else { continue };
        match record.map_or(Ok(()), |record| check_file(&record, &path)) {
            Ok(()) => {}
            Err(error) => {
                damaged.push(error.into());
                continue;
            }
        }
        match file::read(&path) {
            Ok(recording) => recordings.push(CellRecording {
                cell_id: cell_id.to_owned(),
                recording,
            }),
            Err(error) => damaged.push(error),
        }
    }
    Ok((frame_of(&recordings)?, damaged))
}

/// The frame of these recordings.
fn frame_of(recordings: &[CellRecording]) -> PolarsResult<DataFrame> {
    let rows: Vec<Row<'_>> = recordings.iter().flat_map(rows).collect();
    let mut columns = Vec::new();
    for (name, kind, get) in COLUMNS {
        columns.push(column(name, kind, rows.iter().map(get))?);
    }
    for category in Category::ALL.into_iter().filter(|category| category.is_tensor()) {
        let name = format!("{}_bytes", category.name());
        let live = rows.iter().map(|row| row.live.map(|live| live[category]).into());
        columns.push(column(&name, Kind::Int, live)?);
    }
    DataFrame::new(rows.len(), columns)
}

/// Writes `timeline.parquet` and returns its path if it changed. A frame without rows removes the file.
///
/// # Errors
/// The file cannot be written or removed.
pub fn write(frame: &DataFrame, dir: &StudyDir) -> Result<Option<PathBuf>, FrameError> {
    let path = dir.timeline_parquet();
    if frame.height() == 0 {
        return match std::fs::remove_file(&path) {
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => Err(FrameError::Store(StoreError::Io {
                action: "remove",
                path,
                source,
            })),
            _ => Ok(None),
        };
    }
    Ok(write_own(&path, &parquet(frame)?)?.then_some(path))
}

fn rows(recorded: &CellRecording) -> Vec<Row<'_>> {
    let CellRecording { cell_id, recording } = recorded;
    let steps = recorded_steps(recording);
    let mut rows: Vec<Row<'_>> = steps.iter().map(|step| of_step(cell_id, step)).collect();
    if !recording.complete || recording.lost > 0 {
        rows.push(Row {
            kind: "end",
            cell_id,
            count: Some(recording.lost),
            ..Row::default()
        });
    }
    if let Some(step) = steady_step(&steps) {
        let analysis = StepAnalysis::of(recording, step);
        rows.extend(
            thinned(&analysis.curve)
                .into_iter()
                .map(|moment| of_moment(cell_id, step.step, moment)),
        );
        rows.extend(of_peaks(cell_id, &analysis));
        rows.extend(of_saved(cell_id, &analysis));
    }
    rows
}

fn of_step<'a>(cell_id: &'a str, step: &RecordedStep) -> Row<'a> {
    Row {
        kind: "step",
        cell_id,
        step: Some(step.step),
        bytes: Some(step.peak),
        live: Some(step.at_peak),
        ..Row::default()
    }
}

fn of_moment<'a>(cell_id: &'a str, step: usize, moment: &Moment) -> Row<'a> {
    Row {
        kind: "curve",
        cell_id,
        step: Some(step),
        seconds: Some(moment.nanos as f64 / 1e9),
        phase: Some(moment.phase.name()),
        bytes: Some(moment.allocated()),
        live: Some(moment.live),
        ..Row::default()
    }
}

fn of_peaks<'a>(cell_id: &'a str, analysis: &StepAnalysis) -> Vec<Row<'a>> {
    let mut rows = Vec::new();
    for (number, peak) in (1..).zip(&analysis.peaks) {
        rows.push(Row {
            kind: "peak",
            peak: Some(number),
            module: Some(peak.module.clone()),
            prominence: Some(peak.prominence),
            ..of_moment(cell_id, analysis.step, &peak.moment)
        });
        let part = |category: Option<Category>, module: Option<&String>, usage: Usage| Row {
            kind: "part",
            cell_id,
            step: Some(analysis.step),
            peak: Some(number),
            category: category.map(Category::name),
            module: module.cloned(),
            count: Some(usage.count),
            bytes: Some(usage.bytes),
            ..Row::default()
        };
        let mut left = [PARTS; 2];
        let mut others = Usage::default();
        for (category, module, usage) in &peak.parts {
            let left = &mut left[usize::from(is_persistent(*category))];
            if *left > 0 {
                *left -= 1;
                rows.push(part(Some(*category), Some(module), *usage));
            } else {
                others.count += usage.count;
                others.bytes += usage.bytes;
            }
        }
        if others.count > 0 {
            rows.push(part(None, None, others));
        }
    }
    rows
}

/// True if a category's memory is the same in every step, once the optimizer has its state.
fn is_persistent(category: Category) -> bool {
    matches!(
        category,
        Category::Parameter | Category::Adapter | Category::OptimizerState
    )
}

fn of_saved<'a>(cell_id: &'a str, analysis: &StepAnalysis) -> Vec<Row<'a>> {
    let row = |((category, module, shape), usage): (&(Category, String, Option<Shape>), &Usage)| Row {
        kind: "kept",
        cell_id,
        step: Some(analysis.step),
        category: Some(category.name()),
        module: Some(module.clone()),
        dtype: shape.as_ref().map(|shape| shape.dtype),
        shape: shape.as_ref().map(ToString::to_string),
        count: Some(usage.count),
        bytes: Some(usage.bytes),
        ..Row::default()
    };
    analysis.saved.tensors.iter().map(row).collect()
}

/// The first, the lowest, the highest and the last moment of each interval, and the beginnings of phases.
fn thinned(curve: &[Moment]) -> Vec<&Moment> {
    let end = curve.last().map_or(0, |moment| moment.nanos) + 1;
    let interval = |moment: &Moment| moment.nanos * INTERVALS / end;
    let mut keep = vec![false; curve.len()];
    let mut start = 0;
    while start < curve.len() {
        let this = interval(&curve[start]);
        let stop = start
            + curve[start..]
                .iter()
                .take_while(|moment| interval(moment) == this)
                .count();
        let by_height = |at: &usize| curve[*at].allocated();
        for at in [
            Some(start),
            (start..stop).min_by_key(by_height),
            // The last of equals has the label of the buffer that made the peak.
            (start..stop).max_by_key(by_height),
            Some(stop - 1),
        ]
        .into_iter()
        .flatten()
        {
            keep[at] = true;
        }
        start = stop;
    }
    for (at, pair) in curve.windows(2).enumerate() {
        keep[at + 1] |= pair[0].phase != pair[1].phase;
    }
    curve
        .iter()
        .zip(keep)
        .filter_map(|(moment, keep)| keep.then_some(moment))
        .collect()
}

#[cfg(test)]
mod tests {
    use trace::Phase;

    use super::*;

    #[test]
    fn a_thinned_curve_keeps_its_extremes() {
        let moment = |at: u64| {
            let mut live = ByCategory::default();
            live[Category::Temporary] = at * 7919 % 10_007;
            Moment {
                nanos: at,
                phase: if at < 60_000 { Phase::Forward } else { Phase::Backward },
                live,
            }
        };
        let curve: Vec<Moment> = (0..100_000).map(moment).collect();
        let thin = thinned(&curve);
        assert!(thin.len() <= 4 * INTERVALS as usize + 1, "{}", thin.len());
        let heights = |moments: &mut dyn Iterator<Item = u64>| {
            moments.fold((u64::MAX, 0), |(low, high), height| (low.min(height), high.max(height)))
        };
        assert_eq!(
            heights(&mut thin.iter().map(|moment| moment.allocated())),
            heights(&mut curve.iter().map(Moment::allocated))
        );
        assert!(thin.is_sorted_by_key(|moment| moment.nanos));
        let begin = thin.iter().find(|moment| moment.phase == Phase::Backward).unwrap();
        assert_eq!(begin.nanos, 60_000);
    }
}
