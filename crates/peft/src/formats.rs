//! The names of PEFT's tensors.

/// The bias of a layer that has an adapter.
pub const BASE_BIAS: &str = "base_layer.bias";
/// LoRA's A, `[rank, input features]`.
pub const LORA_A: &str = "lora_A.weight";
/// LoRA's B, `[output features, rank]`.
pub const LORA_B: &str = "lora_B.weight";
/// DoRA's magnitudes, `[output features]`.
pub const MAGNITUDE: &str = "lora_magnitude_vector";

/// The model's name of a weight that an adapter's file has whole. Layers with an adapter, and tuned norms, are wrapped.
pub fn whole_name(saved: &str) -> String {
    saved.replace("base_layer.", "").replace("ln_tuning_layers.", "")
}

/// A tensor of a module's adapter.
pub(super) struct SavedTensor {
    /// What follows the module's name.
    pub(super) name: &'static str,
    /// Number of dimensions.
    pub(super) dims: usize,
    /// The dimension that is the rank.
    pub(super) rank_at: Option<usize>,
}
