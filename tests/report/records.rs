//! Made-up records and steps.

use expctl::cell::{Cell, Dtype, Measure, Task};
use expctl::records::{Measured, Oom, Profile, Provenance, Record, Status, Step, sample};

const MIB: u64 = 1 << 20;

fn provenance() -> Provenance {
    Provenance {
        sources: Some("3f1c2d4e5a6b7c8d".into()),
        ..sample::provenance()
    }
}

pub fn record(cell_id: &str, status: Status) -> Record {
    Record {
        cell_id: cell_id.into(),
        status,
        reason: None,
        attempt: 1,
        retried: Vec::new(),
        concurrent_cells: 1,
        started_at: "2026-03-01T12:00:00Z".into(),
        wall_seconds: 12.5,
        measured: None,
        oom: None,
        timeout_seconds: None,
        provenance: provenance(),
        files: None,
    }
}

/// Figures that follow from the configuration, so that the tables can be checked by eye.
fn measured(cell: &Cell) -> Measured {
    let rank = cell.rank as u64;
    let parameter = if cell.dtype == Dtype::Int4 { 90 * MIB } else { 257 * MIB };
    let adapter = rank * MIB * 5 / 4;
    let mut activation = 180 * MIB + rank * MIB / 2 + cell.seed * MIB / 2;
    if cell.measure == Measure::Profile {
        activation = activation * cell.batch_size as u64 / 4;
    }
    // A program that keeps the gradients of every micro-batch, or one that adds them up.
    let keeps_all = cell.adam_epsilon == 1e-6;
    let gradients = if keeps_all {
        cell.gradient_accumulation_steps as u64
    } else {
        1
    };
    let profile = (cell.measure == Measure::Profile).then(|| Profile {
        parameter_bytes: parameter,
        adapter_bytes: Some(adapter),
        optimizer_state_bytes: 2 * adapter,
        activation_bytes: activation,
        gradient_bytes: adapter,
        total_bytes: parameter + 4 * adapter + activation,
        allocated_bytes: parameter + 4 * adapter + MIB,
        peak_bytes: parameter + 4 * adapter + activation + 8192 + 12 * MIB,
        module_outputs_bytes: Some(2 * activation),
    });
    let by_category = [
        ("parameter", parameter),
        ("adapter", adapter),
        ("optimizer_state", 2 * adapter),
        ("gradient", gradients * adapter),
        ("activation", activation),
        ("input", 8192),
        ("temporary", 12 * MIB),
    ];
    let allocated = by_category.iter().map(|(_, bytes)| bytes).sum();
    let in_phase = [
        ("load", parameter + adapter),
        ("forward", allocated - 2 * MIB),
        ("backward", allocated),
        ("optimizer", parameter + 4 * adapter),
        ("idle", parameter + 3 * adapter),
    ];
    let speed = if cell.dtype == Dtype::Int4 { 1700.0 } else { 2100.0 } - 4.0 * rank as f64 + cell.seed as f64 * 13.0;
    Measured {
        steps: 3,
        resumed_steps: Vec::new(),
        loss_first: 10.8,
        loss_last: 10.5 - 0.01 * rank as f64 + 0.002 * cell.seed as f64,
        loss_eval: Some(10.6 - 0.008 * rank as f64 + 0.002 * cell.seed as f64),
        forgetting: None,
        samples_left_out: None,
        accuracy_eval: (cell.task == Task::SequenceClassification).then_some(0.875 + rank as f64 / 1024.0),
        steps_timed: Some(1),
        step_seconds_median: 512.0 / speed,
        step_seconds_spread: Some(0.02),
        tokens_per_second: speed,
        real_tokens_per_second: None,
        train_seconds: 3.0 * 512.0 / speed,
        load_seconds: 0.75,
        tokens: 1536,
        real_tokens: None,
        allocated_peak_bytes: Some(allocated),
        allocated_mean_bytes: Some(parameter + 4 * adapter),
        allocated_min_bytes: Some(parameter + 3 * adapter),
        memory_efficiency: Some(0.9),
        system_used_peak_percent: Some(42.5),
        emptied_mean_bytes: None,
        host_allocated_peak_bytes: None,
        copied_mean_bytes: None,
        copy_wait_seconds_mean: None,
        reserved_peak_bytes: Some(allocated + 30 * MIB),
        process_peak_bytes: Some(allocated + 40 * MIB),
        process_peak_total_bytes: Some(allocated + 60 * MIB),
        ranks: Vec::new(),
        allocated_peak_phase: Some("backward".into()),
        allocated_peak_module: Some("layers.0.mlp".into()),
        allocated_peak_by_epoch: cell.num_train_epochs.map(|epochs| vec![allocated; epochs as usize]),
        allocated_peak_by_category: by_category
            .into_iter()
            .chain([("host", 3 * MIB)])
            .map(|(name, bytes)| (name.to_string(), bytes))
            .collect(),
        allocated_peak_in_phase: in_phase.map(|(name, bytes)| (name.to_string(), bytes)).into(),
        parameter_count: 134_515_008,
        trainable_count: rank * 305_280,
        adapter_file_bytes: (rank > 0).then_some(rank * 4 * 305_280 + 40_000),
        profile,
        page_faults: Some(1234),
        page_faults_per_step_median: Some(411.0),
    }
}

pub fn outcome(cell: &Cell) -> Option<Record> {
    let id = cell.id();
    match (cell.dtype, cell.rank, cell.seed) {
        (Dtype::Bfloat16, 256, _) => Some(Record {
            oom: Some(Oom {
                phase: "backward".into(),
                category: "optimizer_state".into(),
                requested_bytes: 48 * MIB,
                allocated_bytes: 1000 * MIB,
                budget_bytes: Some(1 << 30),
            }),
            ..record(&id, Status::Oom)
        }),
        (Dtype::Int4, 256, 0) => Some(Record {
            reason: Some("the gradient is not finite: `q_proj` of layer 3 | step 2".into()),
            attempt: 2,
            ..record(&id, Status::Failed)
        }),
        (Dtype::Int4, 256, _) => Some(Record {
            timeout_seconds: Some(600.0),
            started_at: "2026-03-01T12:34:56Z".into(),
            ..record(&id, Status::Timeout)
        }),
        (Dtype::Int4, 64, 1) => None,
        _ => Some(Record {
            measured: Some(measured(cell)),
            ..record(&id, Status::Ok)
        }),
    }
}

pub fn step(step: usize) -> Step {
    Step {
        step,
        loss: 10.8 - 0.1 * step as f64,
        gradient_norm: 1.25,
        learning_rate: 1e-4,
        loss_scale: None,
        is_skipped: false,
        tokens: 512,
        real_tokens: None,
        seconds: 0.25,
        allocated_bytes: Some(300 * MIB),
        allocated_peak_bytes: Some(471 * MIB),
        reserved_bytes: Some(500 * MIB),
        process_bytes: Some(511 * MIB),
        system_available_bytes: None,
        system_used_percent: None,
        page_faults: Some(411),
        empty_cache: None,
    }
}
