//! What a cell leaves behind: one line a step, and one record.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

/// How an attempt at a cell ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    Ok,
    /// A request went past the budget, or the machine had no more memory.
    Oom,
    /// The cell's process ended with an error.
    Failed,
    Timeout,
    /// Stopped by a signal that was not ours.
    Killed,
    /// The process ended well and left no record.
    Lost,
    /// Not tried: it is predicted not to fit, and the run was told to leave such cells out.
    Oversize,
}

impl Status {
    /// The name in records and frames.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Oom => "oom",
            Self::Failed => "failed",
            Self::Timeout => "timeout",
            Self::Killed => "killed",
            Self::Lost => "lost",
            Self::Oversize => "oversize",
        }
    }
}

/// One optimizer step; a line of `steps.jsonl`. Bytes are read at the end of the step, before gradients are released.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// From 1.
    pub step: usize,
    /// Mean loss over what counts of the effective batch: predicted tokens, or labels.
    #[serde(deserialize_with = "nan_where_null")]
    pub loss: f64,
    /// Global L2 norm of the gradients before clipping.
    #[serde(deserialize_with = "nan_where_null")]
    pub gradient_norm: f64,
    pub learning_rate: f64,
    /// Tokens that went through the model, padding included.
    pub tokens: usize,
    pub seconds: f64,
    /// Live tensor bytes at the step's end.
    pub allocated_bytes: Option<u64>,
    /// Highest live tensor bytes within the step.
    pub allocated_peak_bytes: Option<u64>,
    /// What the allocator holds.
    pub reserved_bytes: Option<u64>,
    /// Resident set of the process.
    pub process_bytes: Option<u64>,
    /// Memory that the system could still give.
    pub system_available_bytes: Option<u64>,
    /// Minor page faults of the process since the last step's end.
    pub page_faults: Option<u64>,
}

/// The outcome of a cell: `record.json`. Memory figures are over the training steps unless they say otherwise; what could
/// not be measured is absent, never zero.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    pub cell_id: String,
    pub status: Status,
    /// Why it is not ok, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub attempt: u32,
    /// RFC 3339, UTC.
    pub started_at: String,
    /// From the start of the cell's process to its end.
    pub wall_seconds: f64,
    /// What was measured; absent where the child did not get to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<Measured>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oom: Option<Oom>,
    /// The limit that a timeout ran into.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<f64>,
    pub provenance: Provenance,
}

/// What a finished training run measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    pub steps: usize,
    #[serde(deserialize_with = "nan_where_null")]
    pub loss_first: f64,
    #[serde(deserialize_with = "nan_where_null")]
    pub loss_last: f64,
    /// On the held-out data, after the last step.
    pub loss_eval: Option<f64>,
    /// Part of the held-out samples whose label is the likeliest, after the last step; only where there are labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy_eval: Option<f64>,
    /// Median over all steps but the first (over all where there is only one).
    pub step_seconds_median: f64,
    /// Median over the same steps of a step's tokens (padding included) over its time.
    pub tokens_per_second: f64,
    /// The training loop: without loading and without evaluation.
    pub train_seconds: f64,
    pub load_seconds: f64,
    /// All tokens that went through the model in training, padding included.
    pub tokens: usize,
    pub allocated_peak_bytes: Option<u64>,
    pub allocated_mean_bytes: Option<u64>,
    pub reserved_peak_bytes: Option<u64>,
    pub process_peak_bytes: Option<u64>,
    pub process_peak_total_bytes: Option<u64>,
    /// Phase in which the peak was reached.
    pub allocated_peak_phase: Option<String>,
    /// Live bytes by category at the instant of the peak; `host` is among them, and no part of allocated.
    pub allocated_peak_by_category: BTreeMap<String, u64>,
    /// Highest live bytes within each phase.
    pub allocated_peak_in_phase: BTreeMap<String, u64>,
    /// Logical weights of the base model (a 4-bit weight counts as one), adapters not included.
    pub parameter_count: u64,
    pub trainable_count: u64,
    /// Size of adapter_model.safetensors; absent with rank 0.
    pub adapter_file_bytes: Option<u64>,
    /// What `measure: profile` is for; all other figures are then of the profiled micro-batch, or of the optimizer step
    /// before it where they need one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// Minor page faults during the training loop.
    pub page_faults: Option<u64>,
    /// Median over the same steps as the times: those after the first, which maps what the others use again.
    pub page_faults_per_step_median: Option<f64>,
}

/// The components of one micro-batch's forward and backward pass, after a first optimizer step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    pub parameter_bytes: u64,
    /// Absent with rank 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapter_bytes: Option<u64>,
    pub optimizer_state_bytes: u64,
    /// What the forward pass keeps, at its end.
    pub activation_bytes: u64,
    /// After the backward pass.
    pub gradient_bytes: u64,
    /// The sum of the components.
    pub total_bytes: u64,
    /// Live tensor bytes after the backward pass.
    pub allocated_bytes: u64,
    /// The most live tensor bytes at any instant of the two passes.
    pub peak_bytes: u64,
}

/// A request that went past the budget (or that the system refused).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Oom {
    pub phase: String,
    pub category: String,
    pub requested_bytes: u64,
    /// Live tensor bytes before the request.
    pub allocated_bytes: u64,
    pub budget_bytes: Option<u64>,
}

/// Where and by what the attempt was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provenance {
    pub expctl_version: String,
    pub git_commit: Option<String>,
    pub device: String,
    /// The level of the kernels, such as avx512.
    pub instruction_set: String,
    pub threads: usize,
    pub machine: Machine,
    /// The cell's `env` and `allocator.env` as the child saw them.
    pub environment: BTreeMap<String, Option<String>>,
    /// SHA-256 of the token ids trained on; absent where the child did not get there.
    pub data_sha256: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    pub cpu: String,
    pub cores: usize,
    pub memory_bytes: Option<u64>,
    pub os: String,
}

/// What `expctl cell` says on its stdout while it runs, a JSON line each.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The model is being built.
    Loading,
    /// Training starts.
    Training {
        steps: usize,
        tokens_per_step: usize,
    },
    Step {
        steps: usize,
        #[serde(flatten)]
        step: StepEvent,
    },
    /// Held-out data is being evaluated.
    Evaluating,
    Done,
}

/// The part of a step that progress shows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepEvent {
    pub step: usize,
    #[serde(deserialize_with = "nan_where_null")]
    pub loss: f64,
    pub seconds: f64,
    pub tokens: usize,
    pub allocated_bytes: Option<u64>,
}

/// JSON has no NaN and no infinity: serde_json writes both as null.
fn nan_where_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(deserializer)?.unwrap_or(f64::NAN))
}

/// Made-up outcomes for tests.
#[cfg(test)]
pub(crate) mod sample {
    use super::*;

    pub(crate) fn step(step: usize) -> Step {
        Step {
            step,
            loss: 4.0 / step as f64,
            gradient_norm: 1.5,
            learning_rate: 1e-4,
            tokens: 512,
            seconds: 0.25,
            allocated_bytes: Some(300 << 20),
            allocated_peak_bytes: Some(400 << 20),
            reserved_bytes: Some(450 << 20),
            process_bytes: Some(500 << 20),
            system_available_bytes: Some(8 << 30),
            page_faults: Some(600 / step as u64),
        }
    }

    pub(crate) fn ok(cell_id: &str) -> Record {
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
            started_at: "2026-03-01T12:00:00Z".into(),
            wall_seconds: 12.5,
            measured: Some(Measured {
                steps: 3,
                loss_first: 5.5,
                loss_last: 5.25,
                loss_eval: Some(5.375),
                accuracy_eval: None,
                step_seconds_median: 0.5,
                tokens_per_second: 1024.0,
                train_seconds: 1.5,
                load_seconds: 0.75,
                tokens: 1536,
                allocated_peak_bytes: Some((400 << 20) + 4096),
                allocated_mean_bytes: Some(150 << 20),
                reserved_peak_bytes: Some(450 << 20),
                process_peak_bytes: Some(500 << 20),
                process_peak_total_bytes: Some(520 << 20),
                allocated_peak_phase: Some("backward".into()),
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
        }
    }

    pub(crate) fn provenance() -> Provenance {
        Provenance {
            expctl_version: "0.1.0".into(),
            git_commit: Some("0123456789abcdef0123456789abcdef01234567".into()),
            device: "cpu".into(),
            instruction_set: "avx512".into(),
            threads: 2,
            machine: Machine {
                cpu: "An Example CPU @ 2.00GHz".into(),
                cores: 2,
                memory_bytes: Some(8 << 30),
                os: "Linux 6.1".into(),
            },
            environment: BTreeMap::new(),
            data_sha256: Some("ab".repeat(32)),
        }
    }
}
