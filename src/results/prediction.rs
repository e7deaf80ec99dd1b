//! What a plan says of a cell, before it runs: `prediction.json`. Every figure is an estimate.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Sizes have the names of what a run measures; what cannot be predicted is absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prediction {
    /// Whether it fits into the budget; absent where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_bytes: Option<u64>,
    /// What is compared with the budget: on a GPU the process, or what is reserved where that is not known; of our own
    /// trainer what is allocated, as its `device_memory` counts it.
    pub needed_bytes: u64,
    /// Phase in which the peak of allocated memory is reached.
    pub binding_phase: String,
    /// The part of the model that is computed then, such as `layers.3.mlp`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binding_module: Option<String>,
    pub allocated_peak_bytes: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_peak_bytes: Option<u64>,
    /// What the peak of what is reserved is above that of what is allocated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fragmentation_bytes: Option<u64>,
    /// The most pieces that the allocator asked the device for and held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub segments: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_peak_bytes: Option<u64>,
    /// Live bytes by category at the instant of the peak; host memory is not predicted.
    pub allocated_peak_by_category: BTreeMap<String, u64>,
    /// Highest live bytes within each phase.
    pub allocated_peak_in_phase: BTreeMap<String, u64>,
    /// Live after the optimizer's step, before gradients are released.
    pub allocated_mean_bytes: u64,
    pub parameter_count: u64,
    pub trainable_count: u64,
    /// Size of adapter_model.safetensors; absent with rank 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapter_file_bytes: Option<u64>,
}

/// Whether a cell fits into its budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Fits,
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
