//! PEFT's file format of each adapter.

use crate::options::Adapter;

/// The bias of a layer that has an adapter.
pub const BASE_BIAS: &str = "base_layer.bias";
/// LoRA's A, `[rank, input features]`.
pub const LORA_A: &str = "lora_A.weight";
/// LoRA's B, `[output features, rank]`.
pub const LORA_B: &str = "lora_B.weight";
/// DoRA's magnitudes, `[output features]`.
pub const MAGNITUDE: &str = "lora_magnitude_vector";

/// The tensors of one module's adapter, and what tells it from others in `adapter_config.json`.
pub(super) struct AdapterFormat {
    pub(super) tensors: &'static [SavedTensor],
    pub(super) use_dora: bool,
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

const A: SavedTensor = SavedTensor {
    name: LORA_A,
    dims: 2,
    rank_at: Some(0),
};
const B: SavedTensor = SavedTensor {
    name: LORA_B,
    dims: 2,
    rank_at: Some(1),
};
const M: SavedTensor = SavedTensor {
    name: MAGNITUDE,
    dims: 1,
    rank_at: None,
};

/// The format of an adapter.
pub(super) fn format(adapter: Adapter) -> AdapterFormat {
    let (tensors, use_dora): (&[SavedTensor], _) = match adapter {
        Adapter::Lora => (&[A, B], false),
        Adapter::Dora => (&[A, B, M], true),
    };
    AdapterFormat { tensors, use_dora }
}
