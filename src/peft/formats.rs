//! What PEFT saves of each adapter: one table for the check of its files and their settings.

use crate::options::Adapter;

/// LoRA's A, `[rank, input features]`.
pub const LORA_A: &str = "lora_A.weight";
/// LoRA's B, `[output features, rank]`.
pub const LORA_B: &str = "lora_B.weight";
/// DoRA's magnitudes, `[output features]`.
pub const MAGNITUDE: &str = "lora_magnitude_vector";

/// The tensors of one module's adapter, and what tells it from others in `adapter_config.json`.
pub(super) struct Format {
    pub(super) tensors: &'static [Stored],
    pub(super) use_dora: bool,
}

/// A tensor of a module's adapter.
pub(super) struct Stored {
    /// What follows the module's name.
    pub(super) name: &'static str,
    /// Number of dimensions.
    pub(super) dims: usize,
    /// The dimension that is the rank.
    pub(super) rank_at: Option<usize>,
}

const A: Stored = Stored {
    name: LORA_A,
    dims: 2,
    rank_at: Some(0),
};
const B: Stored = Stored {
    name: LORA_B,
    dims: 2,
    rank_at: Some(1),
};
const M: Stored = Stored {
    name: MAGNITUDE,
    dims: 1,
    rank_at: None,
};

/// The format of an adapter.
pub(super) fn format(adapter: Adapter) -> Format {
    let (tensors, use_dora): (&[Stored], _) = match adapter {
        Adapter::Lora => (&[A, B], false),
        Adapter::Dora => (&[A, B, M], true),
    };
    Format { tensors, use_dora }
}
