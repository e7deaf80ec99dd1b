//! The plan of a cell before it runs: `prediction.json`. Every figure is an estimate.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The excess of PyTorch's blocks over the requested bytes. It stands among the categories, so that they add up to the
/// peak.
pub const ROUNDING: &str = "rounding";

/// The bytes that a cell needs on the device if it needs more of the host's memory than `host_memory` gives: no budget
/// holds them.
pub const PAST_HOST: u64 = u64::MAX;

/// A cell's predicted figures, under the names of the measured ones. A figure that cannot be predicted is absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Prediction {
    /// The verdict on the budget; absent without a budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// The budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_bytes: Option<u64>,
    /// The size that is compared with the budget. On a GPU this is the process, or reserved memory if the process is not
    /// known. For our own trainer it is allocated memory, as its `device_memory` counts it.
    pub needed_bytes: u64,
    /// The least and the most of `needed_bytes` that is possible where something is not known; both equal it otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needed_low_bytes: Option<u64>,
    /// See `needed_low_bytes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needed_high_bytes: Option<u64>,
    /// What decides where in this range a run is; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range_reason: Option<String>,
    /// The cheapest changes that make an oversize cell fit, as in a spec; empty if it fits or no changes are enough.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fits_with: Vec<String>,
    /// `needed_bytes` with these changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fits_with_bytes: Option<u64>,
    /// Facts to know about the figures, such as formats that the GPU emulates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The phase of the peak of allocated memory.
    pub binding_phase: String,
    /// The module that is computed at the peak, such as `layers.3.mlp`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binding_module: Option<String>,
    /// The most live tensor bytes at any instant.
    pub allocated_peak_bytes: u64,
    /// The least and the most of `allocated_peak_bytes` that is possible; absent if lengths of samples are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocated_low_bytes: Option<u64>,
    /// See `allocated_low_bytes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocated_high_bytes: Option<u64>,
    /// The most memory that the allocator holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_peak_bytes: Option<u64>,
    /// The least and the most of `reserved_peak_bytes` that is possible where something is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_low_bytes: Option<u64>,
    /// See `reserved_low_bytes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_high_bytes: Option<u64>,
    /// Bytes that the allocator holds after the first planned step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_after_first_step_bytes: Option<u64>,
    /// Bytes that the allocator holds after the last planned step. More than after the first is growth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_after_last_step_bytes: Option<u64>,
    /// Optimizer steps of the plan: those that decide the peaks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned_steps: Option<u64>,
    /// Optimizer steps of the training that they are chosen from; absent if all steps are alike.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub training_steps: Option<u64>,
    /// The micro-batch that takes the most memory; absent if all steps are alike.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worst_batch: Option<WorstBatch>,
    /// The peak of reserved memory, less that of allocated memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fragmentation_bytes: Option<u64>,
    /// The most segments that the allocator holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub segments: Option<u64>,
    /// The process on its device: reserved memory and the CUDA context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_peak_bytes: Option<u64>,
    /// The CUDA context that is reckoned with: measured on this GPU, or an estimate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_bytes: Option<u64>,
    /// The least and the most of `context_bytes`; both equal it where it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_low_bytes: Option<u64>,
    /// See `context_low_bytes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_high_bytes: Option<u64>,
    /// Bytes that the allocator would hold if the device had room for all that it caches. Absent if it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_with_room_bytes: Option<u64>,
    /// The most tensor bytes that wait in the host's memory; absent if nothing is offloaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_allocated_peak_bytes: Option<u64>,
    /// The budget of the host's memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_budget_bytes: Option<u64>,
    /// Live bytes by category at the instant of the peak; host memory is not predicted. With [`ROUNDING`], if there is any, they
    /// add up to the peak.
    pub allocated_peak_by_category: BTreeMap<String, u64>,
    /// Of these, activations and temporaries of the head and of the loss: logits, and what is computed from them.
    #[serde(default)]
    pub allocated_peak_loss_bytes: u64,
    /// Highest live bytes within each phase.
    pub allocated_peak_in_phase: BTreeMap<String, u64>,
    /// Live tensor bytes after the optimizer's step, before gradients are released.
    pub allocated_mean_bytes: u64,
    /// Live tensor bytes at the end of the last planned step, whose gradients are released. Absent for our own trainer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocated_end_bytes: Option<u64>,
    /// Logical weights of the base model without adapters.
    pub parameter_count: u64,
    /// Weights that training changes.
    pub trainable_count: u64,
    /// Size of adapter_model.safetensors; absent with rank 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapter_file_bytes: Option<u64>,
    /// Size of model.safetensors, which full fine-tuning saves; absent with adapters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_file_bytes: Option<u64>,
}

impl Prediction {
    /// Bytes that the host's memory needs past its budget.
    pub fn past_host_budget(&self) -> Option<u64> {
        let past = self.host_allocated_peak_bytes?.checked_sub(self.host_budget_bytes?)?;
        (past > 0).then_some(past)
    }

    /// The most bytes of the device while the model trains, without the context.
    pub fn held_in_training(&self) -> u64 {
        self.reserved_peak_bytes.unwrap_or(self.allocated_peak_bytes)
    }

    /// Bytes of the device that loading the model takes beyond what training takes.
    pub fn more_while_loading(&self) -> u64 {
        let training = self.held_in_training() + self.context_bytes.unwrap_or(0);
        self.needed_bytes.saturating_sub(training)
    }

    /// The least and the most that may be needed.
    pub fn possible_bytes(&self) -> [u64; 2] {
        [self.needed_low_bytes, self.needed_high_bytes].map(|bytes| bytes.unwrap_or(self.needed_bytes))
    }

    /// The judgement on the budget if `headroom` bytes of it are to stay free; `None` without a budget.
    pub fn judgement(&self, headroom: u64) -> Option<Judgement> {
        if self.past_host_budget().is_some() {
            return Some(Judgement::DoesNotFit);
        }
        Some(Judgement::of(self.possible_bytes(), self.budget_bytes?, headroom))
    }

    /// True if what is likely needed is past a budget, whatever else may be.
    pub fn is_oversize(&self) -> bool {
        self.verdict == Some(Verdict::Oversize)
    }

    /// True if it does not fit into a budget, or may not.
    pub fn needs_change(&self) -> bool {
        self.judgement(0).is_some_and(|judgement| judgement > Judgement::Tight)
    }

    /// Bytes that the device needs; [`PAST_HOST`] if the host's memory is not enough.
    pub fn needed_within_host(&self) -> u64 {
        match self.past_host_budget() {
            Some(_) => PAST_HOST,
            None => self.needed_bytes,
        }
    }

    /// Adds what the allocator holds in other runs to the range, with what decides between them and this one.
    pub fn widen(&mut self, others: &[u64], reason: &str) {
        let (Some(low), Some(high)) = (&mut self.reserved_low_bytes, &mut self.reserved_high_bytes) else {
            return;
        };
        let before = (*low, *high);
        for &other in others {
            (*low, *high) = ((*low).min(other), (*high).max(other));
        }
        if before == (*low, *high) {
            return;
        }
        match &mut self.range_reason {
            None => self.range_reason = Some(reason.to_owned()),
            Some(known) if known.ends_with(reason) => {}
            Some(known) => *known = format!("{known}; {reason}"),
        }
    }

    /// Adds the peak of live tensors in another run to the range of that.
    pub fn widen_allocated(&mut self, other: u64) {
        let peak = self.allocated_peak_bytes;
        let (low, high) = (&mut self.allocated_low_bytes, &mut self.allocated_high_bytes);
        *low = Some(low.unwrap_or(peak).min(other));
        *high = Some(high.unwrap_or(peak).max(other));
    }
}

/// A micro-batch of uneven data.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorstBatch {
    /// Its optimizer step, from 1.
    pub step: u64,
    /// Its samples.
    pub batch_size: u64,
    /// Tokens of each sample with its padding.
    pub tokens: u64,
    /// The samples by their number in the data, from 1; empty for synthetic data.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<u64>,
}

/// What can be said of a budget with all that is uncertain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Judgement {
    /// It fits, and the headroom stays free.
    Fits,
    /// It fits, but not all of the headroom stays free.
    Tight,
    /// The budget lies within what may be needed.
    MayNotFit,
    /// More is needed than there is.
    DoesNotFit,
}

impl Judgement {
    /// The judgement on what is needed at least and at most, of a budget of which `headroom` bytes are to stay free.
    pub fn of([low, high]: [u64; 2], budget: u64, headroom: u64) -> Self {
        match () {
            () if low > budget => Self::DoesNotFit,
            () if high > budget => Self::MayNotFit,
            () if high.saturating_add(headroom) > budget => Self::Tight,
            () => Self::Fits,
        }
    }

    /// The words, such as `does not fit`.
    pub fn words(self) -> &'static str {
        match self {
            Self::Fits => "fits",
            Self::Tight => "tight",
            Self::MayNotFit => "may not fit",
            Self::DoesNotFit => "does not fit",
        }
    }
}

/// The verdict on a cell's budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The cell fits into the budget.
    Fits,
    /// The cell needs more.
    Oversize,
}

impl Verdict {
    /// The name in frames.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fits => "fits",
            Self::Oversize => "oversize",
        }
    }
}
