//! A run in words.

use serde_json::Value;

use crate::report::setting;
use crate::results::columns::status_name;
use crate::results::datum::Datum;
use crate::results::record::{Record, Status, StepEvent};
use crate::text::format;

use super::{Overview, Task};

/// `1 cell`, `2 cells`.
pub fn counted(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

/// A cell's value for an axis, as reports write it.
pub fn shown(axis: &str, value: &Value) -> String {
    setting(axis, &Datum::from(value.clone()))
}

pub(super) fn overview(study: &Overview) -> String {
    let kept = if study.kept > 0 {
        format!(", {} kept", study.kept)
    } else {
        String::new()
    };
    let cells = counted(study.cells, "cell");
    format!("{}: {cells}, {} to run{kept}", study.name, study.to_run)
}

/// `, predicted peak 412.3 MiB`, or nothing.
pub(super) fn predicted(task: &Task) -> String {
    let peak = task
        .prediction
        .as_ref()
        .map(|prediction| prediction.allocated_peak_bytes);
    peak.map_or_else(String::new, |peak| {
        format!(", predicted peak {}", format::bytes((peak as f64).into()))
    })
}

/// `loss 5.431, 1,024 tokens/s, 412.3 MiB`.
pub(super) fn step(step: &StepEvent) -> String {
    let rate = format::rate((step.tokens as f64 / step.seconds).into());
    let memory = step
        .allocated_bytes
        .map(|bytes| format!(", {}", format::bytes((bytes as f64).into())));
    format!("loss {:.4}, {rate} tokens/s{}", step.loss, memory.unwrap_or_default())
}

/// `ok in 3.21 s: loss 5.431, step 120 ms, peak 412.3 MiB`, or the status with its reason.
pub(super) fn outcome(record: &Record) -> String {
    let seconds = format::seconds(record.wall_seconds.into());
    let Some(measured) = record.measured.as_ref().filter(|_| record.status == Status::Ok) else {
        let reason = record.reason.as_deref().unwrap_or("no reason given");
        return match record.status {
            Status::Oversize => format!("left out: {reason}"),
            status => format!("{} after {seconds}: {reason}", status_name(status)),
        };
    };
    let step = format::seconds(measured.step_seconds_median.into());
    let peak = measured
        .allocated_peak_bytes
        .map(|bytes| format!(", peak {}", format::bytes((bytes as f64).into())));
    format!(
        "ok in {seconds}: loss {:.4}, step {step}{}",
        measured.loss_last,
        peak.unwrap_or_default()
    )
}
