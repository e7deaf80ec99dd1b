//! The lines of a run for people.

use base::text::{counted, format};
use records::{Record, Status, StepEvent};

use super::task::{Overview, Task};

pub(super) fn overview(study: &Overview) -> String {
    let count = |count: usize, word: &str| match count {
        0 => String::new(),
        count => format!(", {count} {word}"),
    };
    let (kept, planned) = (count(study.kept, "kept"), count(study.planned, "planned"));
    let cells = counted(study.cells, "cell");
    format!("{}: {cells}, {} to run{kept}{planned}", study.name, study.to_run)
}

/// `, predicted peak 412.3 MiB`, or nothing.
pub(super) fn predicted(task: &Task) -> String {
    let peak = task
        .prediction
        .as_ref()
        .map(|prediction| prediction.allocated_peak_bytes);
    peak.map_or_else(String::new, |peak| {
        format!(", predicted peak {}", format::bytes(peak.into()))
    })
}

/// `loss 5.431, 1,024 tokens/s, 412.3 MiB allocated, 450.0 MiB reserved, system 61.2% used`.
pub(super) fn step(step: &StepEvent) -> String {
    let rate = format::rate((step.tokens as f64 / step.seconds).into());
    let bytes = |bytes: Option<u64>, what| bytes.map(|bytes| format!("{} {what}", format::bytes(bytes.into())));
    let parts = [
        Some(format!("loss {:.4}, {rate} tokens/s", step.loss)),
        bytes(step.allocated_bytes, "allocated"),
        bytes(step.reserved_bytes, "reserved"),
        step.system_used_percent
            .map(|percent| format!("system {} used", format::percent((percent / 100.0).into()))),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// `; it would fit with batch_size: 2 (212.0 MiB predicted)` for a cell that ran out of memory, or nothing.
pub fn would_fit(task: &Task, record: &Record) -> String {
    let prediction = task.prediction.as_ref().filter(|_| record.status == Status::Oom);
    let Some(prediction) = prediction.filter(|prediction| !prediction.fits_with.is_empty()) else {
        return String::new();
    };
    let size = prediction
        .fits_with_bytes
        .map(|bytes| format!(" ({} predicted)", format::bytes(bytes.into())));
    let changes = prediction.fits_with.join(", ");
    format!("; it would fit with {changes}{}", size.unwrap_or_default())
}

/// `ok in 3.21 s: loss 5.431, step 120 ms, peak 412.3 MiB`, or the status with its reason.
pub(super) fn outcome(task: &Task, record: &Record) -> String {
    let seconds = format::seconds(record.wall_seconds.into());
    let Some(measured) = record.measured.as_ref().filter(|_| record.status == Status::Ok) else {
        let reason = record.reason.as_deref().unwrap_or("no reason given");
        return match record.status {
            Status::Oversize => format!("left out: {reason}"),
            status => format!("{} after {seconds}: {reason}{}", status.name(), would_fit(task, record)),
        };
    };
    let step = match record.concurrent_cells {
        1 => format!(", step {}", format::seconds(measured.step_seconds_median.into())),
        _ => String::new(),
    };
    let peak = measured
        .allocated_peak_bytes
        .map(|bytes| format!(", peak {}", format::bytes(bytes.into())));
    format!(
        "ok in {seconds}: loss {:.4}{step}{}",
        measured.loss_last,
        peak.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use records::prediction::Prediction;
    use records::sample;

    use super::*;

    #[test]
    fn an_out_of_memory_says_what_would_fit() {
        let task = Task {
            prediction: Some(Prediction {
                fits_with: vec!["batch_size: 2".into(), "rank: 4".into()],
                fits_with_bytes: Some(3 << 20),
                ..Prediction::default()
            }),
            ..Task::alone("a")
        };
        let mut record = sample::ok("a");
        assert_eq!(would_fit(&task, &record), "");
        record.status = Status::Oom;
        assert_eq!(
            would_fit(&task, &record),
            "; it would fit with batch_size: 2, rank: 4 (3.0 MiB predicted)"
        );
        let unknown = Task {
            prediction: None,
            ..task
        };
        assert_eq!(would_fit(&unknown, &record), "");
    }
}
