//! Made-up outcomes for tests.

use std::collections::BTreeMap;

use super::*;
use crate::Machine;

pub fn step(step: usize) -> Step {
    Step {
        step,
        loss: 4.0 / step as f64,
        gradient_norm: 1.5,
        learning_rate: 1e-4,
        loss_scale: None,
        is_skipped: false,
        tokens: 512,
        real_tokens: Some(512),
        seconds: 0.25,
        allocated_bytes: Some(300 << 20),
        allocated_peak_bytes: Some(400 << 20),
        reserved_bytes: Some(450 << 20),
        process_bytes: Some(500 << 20),
        system_available_bytes: Some(8 << 30),
        system_used_percent: Some(50.0),
        page_faults: Some(600 / step as u64),
        empty_cache: None,
    }
}

pub fn ok(cell_id: &str) -> Record {
    let by_category = [
        ("parameter", 100 << 20),
        ("adapter", 10 << 20),
        ("optimizer_state", 20 << 20),
        ("gradient", 10 << 20),
        ("activation", 240 << 20),
        ("input", 4096),
        ("temporary", 20 << 20),
        ("host", 5 << 20),
    ];
    let in_phase = [
        ("load", 110 << 20),
        ("forward", 380 << 20),
        ("backward", 400 << 20),
        ("optimizer", 160 << 20),
        ("idle", 140 << 20),
    ];
    Record {
        cell_id: cell_id.into(),
        status: Status::Ok,
        reason: None,
        attempt: 1,
        retried: Vec::new(),
        concurrent_cells: 1,
        started_at: "2026-03-01T12:00:00Z".into(),
        wall_seconds: 12.5,
        measured: Some(Measured {
            steps: 3,
            resumed_steps: Vec::new(),
            loss_first: 5.5,
            loss_last: 5.25,
            loss_eval: Some(5.375),
            accuracy_eval: None,
            forgetting: None,
            samples_left_out: None,
            steps_timed: Some(5),
            step_seconds_median: 0.5,
            step_seconds_spread: Some(0.04),
            tokens_per_second: 1024.0,
            real_tokens_per_second: Some(1024.0),
            train_seconds: 1.5,
            load_seconds: 0.75,
            tokens: 1536,
            real_tokens: Some(1536),
            allocated_peak_bytes: Some((400 << 20) + 4096),
            allocated_mean_bytes: Some(150 << 20),
            allocated_min_bytes: Some(120 << 20),
            memory_efficiency: Some(0.75),
            system_used_peak_percent: Some(50.0),
            emptied_mean_bytes: None,
            host_allocated_peak_bytes: None,
            copied_mean_bytes: None,
            copy_wait_seconds_mean: None,
            reserved_peak_bytes: Some(450 << 20),
            process_peak_bytes: Some(500 << 20),
            process_peak_total_bytes: Some(520 << 20),
            ranks: Vec::new(),
            allocated_peak_phase: Some("backward".into()),
            allocated_peak_module: Some("layers.0.mlp".into()),
            allocated_peak_by_epoch: None,
            allocated_peak_by_category: by_category.map(|(k, v)| (k.to_string(), v)).into(),
            allocated_peak_in_phase: in_phase.map(|(k, v)| (k.to_string(), v)).into(),
            parameter_count: 134_515_008,
            trainable_count: 4_884_480,
            adapter_file_bytes: Some(19_591_000),
            profile: None,
            page_faults: Some(1234),
            page_faults_per_step_median: Some(250.0),
        }),
        oom: None,
        timeout_seconds: None,
        provenance: provenance(),
        files: None,
    }
}

pub fn provenance() -> Provenance {
    Provenance {
        expctl_version: "0.1.0".into(),
        sources: Some("0123456789abcdef".into()),
        git_commit: None,
        engine: Some("expctl".into()),
        releases: BTreeMap::new(),
        device: "cpu".into(),
        instruction_set: Some("avx512".into()),
        threads: Some(2),
        machine: Some(Machine {
            cpu: "An Example CPU @ 2.00GHz".into(),
            cores: 2,
            memory_bytes: Some(8 << 30),
            os: "Linux 6.1".into(),
        }),
        environment: BTreeMap::new(),
        data_sha256: Some("ab".repeat(32)),
        adapter_config_sha256: None,
        init_adapter_sha256: None,
        hub: BTreeMap::new(),
    }
}
