//! The frame of a study's timelines: a downsampled curve that keeps every extreme, the prominent peaks with what was
//! alive, and what the backward pass keeps, for one step of each recorded cell.

use std::path::PathBuf;

use polars_core::prelude::*;

use super::file::{self, Recording};
use super::step::{Held, Moment, RecordedStep, StudiedStep, steps, studied};
use crate::memory::{ByCategory, Category};
use crate::results::columns::Kind;
use crate::results::datum::Datum;
use crate::results::frame::{FrameError, column, parquet};
use crate::results::store::{StudyDir, write_if_changed};

/// Stretches of time of which the curve keeps the first, the lowest, the highest and the last moment.
const STRETCHES: u64 = 360;
/// Parts of a peak that have a row of their own, of those that stay from step to step and of the others; the rest is one.
const PARTS: usize = 12;

/// A recorded cell.
#[derive(Debug)]
struct Recorded {
    cell_id: String,
    recording: Recording,
}

/// A row; what a kind of row does not have is null. `kind` is one of
///
/// * `step`: a recorded step with its highest point (`bytes`, and the categories then);
/// * `curve`: a moment of the studied step: the state from then on;
/// * `peak`: a prominent peak of it, with a number;
/// * `part`: of the peak with that number, what a module holds in a category; the rest has no module;
/// * `kept`: what is live at the end of the forward pass, by category, module, dtype and shape;
/// * `end`: how many events were lost (`count`), in a recording that is not whole.
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

/// Reads the timelines of those cells that have one, and makes their frame.
///
/// # Errors
/// Where one of them cannot be read.
pub fn build<'a>(dir: &StudyDir, cell_ids: impl IntoIterator<Item = &'a str>) -> Result<DataFrame, FrameError> {
    let mut recorded = Vec::new();
    for cell_id in cell_ids {
        let path = dir.cell(cell_id).timeline();
        if path.exists() {
            recorded.push(Recorded {
                cell_id: cell_id.to_owned(),
                recording: file::read(&path)?,
            });
        }
    }
    Ok(frame_of(&recorded)?)
}

/// The frame of these recordings; without rows where there are none.
fn frame_of(recorded: &[Recorded]) -> PolarsResult<DataFrame> {
    let rows: Vec<Row<'_>> = recorded.iter().flat_map(rows).collect();
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

/// Writes `timeline.parquet`, where it changes; without a timeline there is none.
pub fn write(frame: &DataFrame, dir: &StudyDir) -> Result<Option<PathBuf>, FrameError> {
    let path = dir.timeline_parquet();
    if frame.height() == 0 {
        return match std::fs::remove_file(&path) {
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                Err(FrameError::Store(crate::results::store::StoreError::Io {
                    action: "remove",
                    path,
                    source,
                }))
            }
            _ => Ok(None),
        };
    }
    Ok(write_if_changed(&path, &parquet(frame)?)?.then_some(path))
}

fn rows(recorded: &Recorded) -> Vec<Row<'_>> {
    let Recorded { cell_id, recording } = recorded;
    let steps = steps(recording);
    let mut rows: Vec<Row<'_>> = steps.iter().map(|step| of_step(cell_id, step)).collect();
    if !recording.whole || recording.lost > 0 {
        rows.push(Row {
            kind: "end",
            cell_id,
            count: Some(recording.lost),
            ..Row::default()
        });
    }
    if let Some(step) = studied(&steps) {
        let studied = StudiedStep::of(recording, step);
        rows.extend(
            thinned(&studied.curve)
                .into_iter()
                .map(|moment| of_moment(cell_id, step.step, moment)),
        );
        rows.extend(of_peaks(cell_id, &studied));
        rows.extend(of_kept(cell_id, &studied));
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

fn of_peaks<'a>(cell_id: &'a str, studied: &StudiedStep) -> Vec<Row<'a>> {
    let mut rows = Vec::new();
    for (number, peak) in (1..).zip(&studied.peaks) {
        rows.push(Row {
            kind: "peak",
            peak: Some(number),
            module: Some(peak.module.clone()),
            prominence: Some(peak.prominence),
            ..of_moment(cell_id, studied.step, &peak.moment)
        });
        let part = |category: Option<Category>, module: Option<&String>, held: Held| Row {
            kind: "part",
            cell_id,
            step: Some(studied.step),
            peak: Some(number),
            category: category.map(Category::name),
            module: module.cloned(),
            count: Some(held.count),
            bytes: Some(held.bytes),
            ..Row::default()
        };
        let mut left = [PARTS; 2];
        let mut others = Held::default();
        for (category, module, held) in &peak.parts {
            let left = &mut left[usize::from(stays(*category))];
            if *left > 0 {
                *left -= 1;
                rows.push(part(Some(*category), Some(module), *held));
            } else {
                others.count += held.count;
                others.bytes += held.bytes;
            }
        }
        if others.count > 0 {
            rows.push(part(None, None, others));
        }
    }
    rows
}

/// Whether a category's memory is the same in every step, once the optimizer has its state.
fn stays(category: Category) -> bool {
    matches!(
        category,
        Category::Parameter | Category::Adapter | Category::OptimizerState
    )
}

fn of_kept<'a>(cell_id: &'a str, studied: &StudiedStep) -> Vec<Row<'a>> {
    let row = |((category, module, shape), held): (&(Category, String, Option<super::Shape>), &Held)| Row {
        kind: "kept",
        cell_id,
        step: Some(studied.step),
        category: Some(category.name()),
        module: Some(module.clone()),
        dtype: shape.as_ref().map(|shape| shape.dtype),
        shape: shape.as_ref().map(ToString::to_string),
        count: Some(held.count),
        bytes: Some(held.bytes),
        ..Row::default()
    };
    studied.kept.tensors.iter().map(row).collect()
}

/// Of each stretch of time, the first, the lowest, the highest and the last moment, and where a phase begins.
fn thinned(curve: &[Moment]) -> Vec<&Moment> {
    let end = curve.last().map_or(0, |moment| moment.nanos) + 1;
    let stretch = |moment: &Moment| moment.nanos * STRETCHES / end;
    let mut keep = vec![false; curve.len()];
    let mut start = 0;
    while start < curve.len() {
        let this = stretch(&curve[start]);
        let stop = start
            + curve[start..]
                .iter()
                .take_while(|moment| stretch(moment) == this)
                .count();
        let by_height = |at: &usize| curve[*at].allocated();
        for at in [
            Some(start),
            (start..stop).min_by_key(by_height),
            // Of equals the last: what made the peak is labelled by then.
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
    use super::*;
    use crate::memory::Phase;

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
        assert!(thin.len() <= 4 * STRETCHES as usize + 1, "{}", thin.len());
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
