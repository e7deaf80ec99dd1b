//! The timelines that templates see.

use indexmap::IndexMap;
use serde::Serialize;
use trace::Category;

/// A recorded cell, for templates.
#[derive(Debug, Serialize)]
pub(crate) struct Timeline {
    /// The cell's id.
    pub cell_id: String,
    /// The label of its group.
    pub label: String,
    /// The text of each axis' value.
    pub axes: IndexMap<String, String>,
    /// The argument of `chart`.
    pub chart: String,
    /// The steady step, from 1.
    pub step: u64,
    /// The step's duration.
    pub seconds: f64,
    /// Every recorded step with its peak.
    pub steps: Vec<StepPeak>,
    /// True if the cell's own peak is in a recorded step.
    pub has_peak: bool,
    /// The number of lost events if the recording is incomplete; 0 if its process ended first.
    pub lost: Option<u64>,
    /// The prominent peaks.
    pub peaks: Vec<PeakGroup>,
    /// The tensors saved for the backward pass.
    pub kept: SavedTensors,
    /// The label of an earlier timeline that saves the same tensors.
    pub keeps_as: Option<String>,
    #[serde(skip)]
    pub(super) curve: Vec<CurvePoint>,
    #[serde(skip)]
    pub(super) budget: Option<f64>,
}

/// The peak of a recorded step.
#[derive(Debug, Serialize)]
pub(crate) struct StepPeak {
    /// From 1.
    pub step: u64,
    /// Live tensor bytes.
    pub bytes: f64,
}

/// The prominent peaks of one phase and one kind of module, with the details of the highest.
#[derive(Debug, Serialize)]
pub(crate) struct PeakGroup {
    /// From 1, in the order of the first peak of each group.
    pub number: usize,
    /// The number of peaks.
    pub count: usize,
    /// The trainer's phase.
    pub phase: String,
    /// The pattern of the modules: `model.layers.*.mlp`.
    pub module: String,
    /// The time since the step began.
    pub seconds: f64,
    /// The height of the highest peak.
    pub bytes: f64,
    /// The height of the lowest peak.
    pub lowest_bytes: f64,
    /// The prominence of the highest peak.
    pub prominence_bytes: f64,
    /// Live bytes of each category.
    pub live: IndexMap<String, f64>,
    /// The modules that hold the most, the largest first.
    pub parts: Vec<ModuleUsage>,
}

/// The memory of a kind of module in a category; the rest has neither.
#[derive(Debug, Serialize)]
pub(crate) struct ModuleUsage {
    /// The category's name.
    pub category: Option<String>,
    /// The pattern of the modules.
    pub module: Option<String>,
    /// The number of allocations.
    pub count: f64,
    /// Their bytes.
    pub bytes: f64,
}

/// The memory that is live at the end of the forward pass.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(crate) struct SavedTensors {
    /// The number of tensors that the backward pass reads: activations and inputs.
    pub count: f64,
    /// Their bytes.
    pub bytes: f64,
    /// The bytes of activations alone.
    pub activation_bytes: f64,
    /// The bytes of the base model and the adapters.
    pub parameter_bytes: f64,
    /// The tensors that the backward pass reads by dtype, the largest sum first. Memory that a tensor keeps besides its
    /// elements has neither dtype nor shape.
    pub dtypes: Vec<TensorGroup>,
    /// The tensors that the backward pass reads, by dtype and shape.
    pub shapes: Vec<TensorGroup>,
    /// The tensors that the backward pass reads, by module.
    pub modules: Vec<TensorGroup>,
}

/// Tensors with the same values of the fields that are not `None`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct TensorGroup {
    /// Such as `float32`.
    pub dtype: Option<String>,
    /// Such as `[2048, 576]`.
    pub shape: Option<String>,
    /// The pattern of the modules.
    pub module: Option<String>,
    /// The number of tensors.
    pub count: f64,
    /// Their bytes.
    pub bytes: f64,
}

/// An instant of the curve.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct CurvePoint {
    /// The time since the step began.
    pub(super) seconds: f64,
    pub(super) phase: String,
    /// Live bytes of each of [`tensor_categories`].
    pub(super) live: Vec<f64>,
}

/// All categories but host, in the order of a chart: persistent memory lies below temporary memory.
pub(super) fn tensor_categories() -> impl Iterator<Item = Category> {
    Category::ALL.into_iter().filter(|category| category.is_tensor())
}
