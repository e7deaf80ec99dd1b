//! The results of a cell: a line for each step, and a record.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};

use super::provenance::Provenance;

#[doc(hidden)]
pub mod sample;

/// The end of an attempt at a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// The training finished.
    Ok,
    /// A request went past the budget, or the machine had no more memory.
    Oom,
    /// The cell's process ended with an error.
    Failed,
    /// The cell took longer than the study's limit.
    Timeout,
    /// A signal that the run did not send stopped the process.
    Killed,
    /// The process ended without an error and without a record.
    Lost,
    /// Not tried: the cell does not fit by prediction, or a smaller one did not, and the run leaves such cells out.
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

/// One optimizer step: a line of `steps.jsonl`. Bytes are those at the end of the step, before gradients are released.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// From 1.
    pub step: usize,
    /// Mean loss over the predicted tokens or the labels of the effective batch.
    #[serde(deserialize_with = "nan_where_null")]
    #[schemars(schema_with = "number_or_null")]
    pub loss: f64,
    /// Global L2 norm of the gradients before clipping.
    #[serde(deserialize_with = "nan_where_null")]
    #[schemars(schema_with = "number_or_null")]
    pub gradient_norm: f64,
    /// The learning rate of this step.
    pub learning_rate: f64,
    /// Factor of the loss in the backward pass; none if it was not scaled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_scale: Option<f64>,
    /// True if the scaled gradients were not finite, and the weights stayed as they were.
    #[serde(default, rename = "skipped", skip_serializing_if = "std::ops::Not::not")]
    pub is_skipped: bool,
    /// Tokens that went through the model, padding included.
    pub tokens: usize,
    /// Tokens of samples among them, without padding and separators.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub real_tokens: Option<usize>,
    /// The duration.
    pub seconds: f64,
    /// Live tensor bytes at the step's end.
    pub allocated_bytes: Option<u64>,
    /// Highest live tensor bytes within the step.
    pub allocated_peak_bytes: Option<u64>,
    /// Memory that the allocator holds.
    pub reserved_bytes: Option<u64>,
    /// Resident set of the process.
    pub process_bytes: Option<u64>,
    /// Memory that the system could still give.
    pub system_available_bytes: Option<u64>,
    /// Used part of the system's memory, of all processes, in percent.
    pub system_used_percent: Option<f64>,
    /// Minor page faults of the process since the last step's end.
    pub page_faults: Option<u64>,
    /// The return of the allocator's cache after the step, if `empty_cache_steps` asks for it.
    pub empty_cache: Option<EmptyCache>,
}

/// The return of the allocator's cache to the system, after the step's gradients were released.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EmptyCache {
    /// The duration, which is part of the step's.
    pub seconds: f64,
    /// Memory that the allocator held before.
    pub reserved_before_bytes: Option<u64>,
    /// Memory that the allocator held after.
    pub reserved_after_bytes: Option<u64>,
    /// Resident set of the process before.
    pub process_before_bytes: Option<u64>,
    /// Resident set of the process after.
    pub process_after_bytes: Option<u64>,
}

/// The outcome of a cell: `record.json`. Memory figures are over the training steps unless they say otherwise. A figure
/// that could not be measured is absent, never zero.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// The cell's id.
    pub cell_id: String,
    /// The end of the attempt.
    pub status: Status,
    /// The reason if the status is not ok, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// The attempts of the same run before this one, whose process was killed or lost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub retried: Vec<Retried>,
    /// The most cells that the run trained side by side while it trained this one, which is one of them. Times and speeds say
    /// nothing above 1.
    #[serde(default = "alone", skip_serializing_if = "is_alone")]
    pub concurrent_cells: usize,
    /// RFC 3339, UTC.
    pub started_at: String,
    /// From the start of the cell's process to its end.
    pub wall_seconds: f64,
    /// The figures; absent if the child did not get to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<Measured>,
    /// The request that did not fit, if the status is oom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oom: Option<Oom>,
    /// The limit that a timeout ran into.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<f64>,
    /// The machine and the program.
    pub provenance: Provenance,
    /// The SHA-256 of each file beside the record that belongs to it; absent of records that prove nothing: those of
    /// older versions, and those of other programs until the run has read them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<BTreeMap<String, String>>,
}

/// A cell without others beside it.
fn alone() -> usize {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
fn is_alone(cells: &usize) -> bool {
    *cells == alone()
}

/// An attempt that was followed by another at once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Retried {
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// Its end.
    pub status: Status,
    /// The reason, for people.
    pub reason: String,
    /// From the start of its process to its end.
    pub wall_seconds: f64,
}

/// The figures of a finished training run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// Optimizer steps.
    pub steps: usize,
    /// Steps after which training went on from a checkpoint, in a new process; absent if one process took all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resumed_steps: Vec<usize>,
    /// The first step's loss.
    #[serde(deserialize_with = "nan_where_null")]
    #[schemars(schema_with = "number_or_null")]
    pub loss_first: f64,
    /// The last step's loss.
    #[serde(deserialize_with = "nan_where_null")]
    #[schemars(schema_with = "number_or_null")]
    pub loss_last: f64,
    /// On the held-out data, after the last step; absent without such data, null if it is not a number.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "some_nan_where_null"
    )]
    #[schemars(schema_with = "number_or_null")]
    pub loss_eval: Option<f64>,
    /// Fraction of the held-out samples whose label is the likeliest, after the last step; absent without labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy_eval: Option<f64>,
    /// The losses on the data of `forgetting_path`; absent without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forgetting: Option<Forgetting>,
    /// Samples without a predicted token; absent if none was left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples_left_out: Option<LeftOut>,
    /// Steps that the speeds are taken from: all but the first two of a process, which warm up, or the last one of fewer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps_timed: Option<usize>,
    /// Median over the timed steps.
    pub step_seconds_median: f64,
    /// Interquartile range of the timed steps' seconds a token, over their median; absent for a single step. Seconds a
    /// token, since steps of unlike lengths are no noise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_seconds_spread: Option<f64>,
    /// A step's tokens, padding included, over its time; the median over the timed steps.
    pub tokens_per_second: f64,
    /// A step's tokens without padding and separators over its time; the median over the timed steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub real_tokens_per_second: Option<f64>,
    /// Duration of the training loop, without loading and evaluation.
    pub train_seconds: f64,
    /// Duration of loading the model.
    pub load_seconds: f64,
    /// All tokens that went through the model in training, padding included.
    pub tokens: usize,
    /// The tokens of samples among them, without padding and separators.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub real_tokens: Option<usize>,
    /// The most live tensor bytes at any instant.
    pub allocated_peak_bytes: Option<u64>,
    /// Mean over the steps of the live tensor bytes at a step's end.
    pub allocated_mean_bytes: Option<u64>,
    /// The least live tensor bytes at a step's end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocated_min_bytes: Option<u64>,
    /// The least live tensor bytes at a step's end over the most at a step's end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_efficiency: Option<f64>,
    /// The most used part of the system's memory at a step's end, of all processes, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_used_peak_percent: Option<f64>,
    /// Mean over the returns of the allocator's cache of the bytes by which the resident set fell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emptied_mean_bytes: Option<u64>,
    /// The most memory that the allocator held.
    pub reserved_peak_bytes: Option<u64>,
    /// The highest resident set.
    pub process_peak_bytes: Option<u64>,
    /// The highest resident set since the process began, loading included.
    pub process_peak_total_bytes: Option<u64>,
    /// The most tensor bytes that waited in the host's memory; absent if nothing is offloaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_allocated_peak_bytes: Option<u64>,
    /// Bytes copied between the device's and the host's memory, in both directions; mean over the steps. Absent if nothing is
    /// offloaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copied_mean_bytes: Option<u64>,
    /// Time in which a step waits for weights that another thread copies; mean over the steps. Absent if nothing is
    /// offloaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy_wait_seconds_mean: Option<f64>,
    /// The peaks of each process of several, in the order of their ranks. The other figures are of the one with the highest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranks: Vec<RankPeaks>,
    /// Phase in which the peak was reached.
    pub allocated_peak_phase: Option<String>,
    /// Module that was computed at the peak, in the words of plans: `layers.0.mlp`, `lm_head`, `optimizer`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocated_peak_module: Option<String>,
    /// The most live tensor bytes in each epoch; absent unless `num_train_epochs` decides how long the training is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocated_peak_by_epoch: Option<Vec<u64>>,
    /// Live bytes by category at the instant of the peak. `host` is among them, but not part of allocated.
    pub allocated_peak_by_category: BTreeMap<String, u64>,
    /// Highest live bytes within each phase.
    pub allocated_peak_in_phase: BTreeMap<String, u64>,
    /// Logical weights of the base model without adapters; a 4-bit weight counts as one.
    pub parameter_count: u64,
    /// Weights that training changes.
    pub trainable_count: u64,
    /// Size of adapter_model.safetensors; absent with rank 0.
    pub adapter_file_bytes: Option<u64>,
    /// The components that `measure: profile` reads. All other figures are then those of the profiled micro-batches, or of
    /// the optimizer step before them if they need one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// Minor page faults during the training loop.
    pub page_faults: Option<u64>,
    /// Median over the timed steps; the first step maps the pages that the others use again.
    pub page_faults_per_step_median: Option<f64>,
}

/// The peaks of one of several processes that train together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RankPeaks {
    /// The most live tensor bytes at any instant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocated_peak_bytes: Option<u64>,
    /// The most memory that the allocator held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_peak_bytes: Option<u64>,
    /// The highest resident set, or what the driver counts of a GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_peak_bytes: Option<u64>,
}

/// What training made of the loss on other data. It is measured as `loss_eval`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Forgetting {
    /// Before the first step.
    #[serde(deserialize_with = "nan_where_null")]
    #[schemars(schema_with = "number_or_null")]
    pub before: f64,
    /// After the last step.
    #[serde(deserialize_with = "nan_where_null")]
    #[schemars(schema_with = "number_or_null")]
    pub after: f64,
}

impl Forgetting {
    /// The rise of the loss; negative if training improved it.
    pub fn rise(&self) -> f64 {
        self.after - self.before
    }
}

/// Numbers of samples that are neither trained on nor evaluated with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LeftOut {
    /// Samples of fewer than two tokens.
    pub short: usize,
    /// Samples whose predicted tokens all lie beyond `max_seq_length`.
    pub cut: usize,
    /// Samples without a predicted token.
    pub without_targets: usize,
}

/// The components of a step's forward and backward passes, after a first optimizer step. A step has
/// `gradient_accumulation_steps` micro-batches, whose gradients are added up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// The base model.
    pub parameter_bytes: u64,
    /// The adapters; absent with rank 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapter_bytes: Option<u64>,
    /// The optimizer's state.
    pub optimizer_state_bytes: u64,
    /// Tensors saved for the backward pass, at the end of a micro-batch's forward pass; the most of all micro-batches.
    pub activation_bytes: u64,
    /// The gradients after the last backward pass.
    pub gradient_bytes: u64,
    /// The sum of the components.
    pub total_bytes: u64,
    /// Live tensor bytes after the last backward pass.
    pub allocated_bytes: u64,
    /// The most live tensor bytes at any instant of the passes.
    pub peak_bytes: u64,
    /// The outputs of all leaf modules of the base model over one micro-batch, added up as forward hooks see them in
    /// PyTorch (`ModelConfig::module_outputs` in `arch`). Most of them are never alive at once. It is computed, and no
    /// part of the total.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub module_outputs_bytes: Option<u64>,
}

/// A request past the budget, or one that the system refused.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Oom {
    /// The trainer's phase.
    pub phase: String,
    /// The category of the request.
    pub category: String,
    /// The size of the request.
    pub requested_bytes: u64,
    /// Live tensor bytes before the request.
    pub allocated_bytes: u64,
    /// The budget, if there is one.
    pub budget_bytes: Option<u64>,
}

/// JSON has no NaN and no infinity: serde_json writes both as null.
pub(super) fn nan_where_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(deserializer)?.unwrap_or(f64::NAN))
}

/// The same of a number that may be absent.
fn some_nan_where_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    nan_where_null(deserializer).map(Some)
}

/// The schema of such a number.
pub(super) fn number_or_null(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": ["number", "null"] })
}
