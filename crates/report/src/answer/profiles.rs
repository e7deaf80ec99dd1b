//! A step's profile compared with a whole training.

use base::text::format::{ByteUnit, bytes_in, number, percent, ratio};

use super::evidence::Evidence;
use super::naming;
use super::sentence::Sentence;
use crate::entry::Entry;
use crate::group::Group;
use crate::profile_path::{Cause, ProfilePath, Row, RowKind, Twins};

/// The gap between a profile's components and the training's peak, and what makes it.
pub(super) fn sentences(evidence: &Evidence<'_>) -> Vec<(u8, Sentence)> {
    let unit = evidence.memory_unit;
    let name = |cell: &Entry| name(evidence, cell);
    let mut sentences: Vec<(u8, Sentence)> = Vec::new();
    for path in evidence.paths {
        sentences.push((0, gap(path, &name, unit)));
        sentences.push((1, parts(path, unit)));
        sentences.extend(gradients(path, unit).map(|sentence| (2, sentence)));
    }
    sentences.extend(agreement(evidence.twins).map(|sentence| (0, sentence)));
    let reserved = evidence.paths.iter().filter_map(|path| reserved(path, &name, unit));
    sentences.extend(reserved.map(|sentence| (3, sentence)));
    if evidence.paths.is_empty() {
        sentences.extend(nothing_to_compare(evidence).map(|sentence| (0, sentence)));
    }
    sentences
}

/// The axes of a step, which its name gives as numbers.
const STEP: [&str; 4] = ["measure", "gradient_accumulation_steps", "batch_size", "max_seq_length"];

/// Axes of the length of a training. A profile has none of them, so its measure says as much.
const LENGTH: [&str; 2] = ["max_steps", "num_train_epochs"];

/// A cell's name: its measure, and micro-batches in a step × samples × tokens; then its other axes.
fn name(evidence: &Evidence<'_>, cell: &Entry) -> String {
    let count = |key| number(cell.number(key).unwrap_or(f64::NAN).into(), 0);
    let step = format!(
        "{} {} × {} × {}",
        cell.text("measure").unwrap_or_default(),
        count(STEP[1]),
        count(STEP[2]),
        count(STEP[3])
    );
    let is_other = |axis: &&String| STEP.iter().chain(&LENGTH).all(|known| known != axis);
    let others: Vec<&String> = evidence.axes.iter().filter(is_other).collect();
    let has_cell = |group: &&Group| {
        group
            .cells
            .iter()
            .any(|own| own.text("cell_id") == cell.text("cell_id"))
    };
    match evidence.groups.iter().find(has_cell) {
        Some(group) if !others.is_empty() => format!("{step} ({})", naming::name(group, evidence.groups, others)),
        _ => step,
    }
}

fn size(bytes: f64, unit: ByteUnit) -> String {
    format!("{} {}", bytes_in(bytes.into(), unit), unit.name())
}

/// A difference with its sign.
fn change(bytes: f64, unit: ByteUnit) -> String {
    match bytes {
        0.0 => "nothing".to_owned(),
        bytes if bytes < 0.0 => format!("−{}", size(-bytes, unit)),
        bytes => format!("+{}", size(bytes, unit)),
    }
}

fn gap(path: &ProfilePath, name: &dyn Fn(&Entry) -> String, unit: ByteUnit) -> Sentence {
    let level = |kind| path.rows.iter().filter(move |row| row.kind == kind).map(|row| row.sum);
    let total = level(RowKind::Components).next().unwrap_or(f64::NAN);
    let own = level(RowKind::Peak).next().unwrap_or(f64::NAN);
    let peak = level(RowKind::Peak).next_back().unwrap_or(f64::NAN);
    let text = format!(
        "The components of {} add up to {} and its peak is {}; the peak of {} is {}, {} the components.",
        name(&path.profile),
        size(total, unit),
        size(own, unit),
        name(&path.training),
        size(peak, unit),
        ratio((peak / total).into()),
    );
    Sentence::of_cells(text, [&path.profile, &path.training])
}

fn parts(path: &ProfilePath, unit: ByteUnit) -> Sentence {
    let changes = path.rows.iter().filter(|row| match row.kind {
        RowKind::Components | RowKind::Peak => false,
        RowKind::NotAlive | RowKind::NoComponent => row.sum != 0.0,
        RowKind::Change => true,
    });
    let part = |row: &Row| {
        let what = match row.kind {
            RowKind::NotAlive => "for components that are not alive at the profile's peak".to_owned(),
            RowKind::NoComponent => "for temporaries and input at the profile's peak".to_owned(),
            _ => row
                .causes
                .iter()
                .map(|cause| of(*cause))
                .collect::<Vec<_>>()
                .join(" and "),
        };
        format!("{} {what}", change(row.sum, unit))
    };
    let text = format!(
        "What lies between: {}.",
        changes.map(part).collect::<Vec<_>>().join(", ")
    );
    let cells = path.rows.iter().map(|row| &row.cell);
    Sentence::of_cells(text, cells)
}

fn of(cause: Cause) -> &'static str {
    match cause {
        Cause::MicroBatch => "for the size of the micro-batch",
        Cause::Accumulation => "for accumulation",
        Cause::Training => "for the rest of the training",
    }
}

fn gradients(path: &ProfilePath, unit: ByteUnit) -> Option<Sentence> {
    let accumulated = path.accumulation?;
    let (count, held) = (
        number(accumulated.micro_batches.into(), 0),
        size(accumulated.held, unit),
    );
    let all = size(accumulated.micro_batches * accumulated.one, unit);
    let text = if accumulated.keeps_all {
        format!("Accumulation keeps the gradients of all {count} micro-batches: {held} at the peak.")
    } else if accumulated.held <= accumulated.one {
        format!(
            "Accumulation adds up the gradients of {count} micro-batches in one set: {held} at the peak, not {all}."
        )
    } else {
        format!("Accumulation holds {held} of gradients at the peak; those of {count} micro-batches would be {all}.")
    };
    Some(Sentence::of_cells(text, [&path.training]))
}

/// The largest difference between a profile and a training of the same step.
fn agreement(twins: &[Twins]) -> Option<Sentence> {
    let share = |twins: &&Twins| (twins.difference / twins.peak()).abs();
    let worst = twins.iter().max_by(|a, b| share(a).total_cmp(&share(b)))?;
    let how = match share(&worst) {
        0.0 => "to the byte".to_owned(),
        share if share < 0.0001 => "to less than 0.01%".to_owned(),
        share => format!("to {}", percent(share.into())),
    };
    let text = format!("A profile with the training's micro-batches and accumulation has the training's peak {how}.");
    let cells = twins.iter().flat_map(|twins| [&twins.profile, &twins.training]);
    Some(Sentence::of_cells(text, cells))
}

fn reserved(path: &ProfilePath, name: &dyn Fn(&Entry) -> String, unit: ByteUnit) -> Option<Sentence> {
    let reserved = path.training.number("reserved_peak_bytes")?;
    let allocated = path.training.number("allocated_peak_bytes")?;
    let text = format!(
        "The allocator reserves up to {} for {}, {} on top of its tensors.",
        size(reserved, unit),
        name(&path.training),
        size(reserved - allocated, unit),
    );
    (reserved > allocated).then(|| Sentence::of_cells(text, [&path.training]))
}

fn nothing_to_compare(evidence: &Evidence<'_>) -> Option<Sentence> {
    let measured = || {
        let groups = evidence
            .groups
            .iter()
            .filter(|group| group.mean("allocated_peak_bytes").is_some());
        groups.flat_map(|group| &group.cells)
    };
    let of = |measure| measured().any(|cell| cell.text("measure") == Some(measure));
    let text = match (of("profile"), of("epoch")) {
        (false, false) => return None,
        (true, false) => "There are profiles, but no training to compare them with.",
        (false, true) => "There are trainings, but no profile to compare them with.",
        (true, true) => {
            "No profile and training are equal in all but the sizes of a step, so there is nothing to compare."
        }
    };
    Some(Sentence::of_cells(text, measured()))
}
