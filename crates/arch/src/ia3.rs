//! PEFT's choice of layers for IA3, by family.

/// PEFT's choice of layers for IA3 (`TRANSFORMERS_MODELS_TO_IA3_TARGET_MODULES_MAPPING` and
/// `..._FEEDFORWARD_MODULES_MAPPING`), by the ends of their names.
#[derive(Debug, Clone, Copy)]
pub struct Ia3Modules {
    /// The layers that get an adapter.
    pub targets: &'static [&'static str],
    /// Those of them whose inputs are scaled.
    pub feedforward: &'static [&'static str],
}

/// Of Llama and Mistral.
pub(super) const KEYS_AND_VALUES: Option<Ia3Modules> = Some(Ia3Modules {
    targets: &["k_proj", "v_proj", "down_proj"],
    feedforward: &["down_proj"],
});

/// Of Gemma and Qwen.
pub(super) const QUERIES_AND_VALUES: Option<Ia3Modules> = Some(Ia3Modules {
    targets: &["q_proj", "v_proj", "down_proj"],
    feedforward: &["down_proj"],
});
