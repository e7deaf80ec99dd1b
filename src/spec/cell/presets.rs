//! The names of models with known shapes.

/// The models with known shapes; any other model is a directory.
pub const PRESETS: [&str; 8] = [
    "tiny",
    "smollm2-135m",
    "smollm2-360m",
    "tinyllama-1.1b",
    "llama-3.2-1b",
    "llama-3.2-3b",
    "distilbert-base",
    "bert-base",
];

/// Models with known shapes that are planned with `stack: torch` and not trained here.
pub const PLANNED_PRESETS: [&str; 17] = [
    "smollm2-1.7b",
    "llama-2-7b",
    "llama-2-13b",
    "llama-3-8b",
    "llama-3.1-8b",
    "qwen2.5-0.5b",
    "qwen2.5-1.5b",
    "qwen2.5-3b",
    "qwen2.5-7b",
    "qwen2.5-14b",
    "qwen3-0.6b",
    "qwen3-1.7b",
    "qwen3-4b",
    "qwen3-8b",
    "mistral-7b",
    "phi-3-mini",
    "phi-4-mini",
];

/// The presets that are encoders.
pub(super) const ENCODER_PRESETS: [&str; 2] = ["distilbert-base", "bert-base"];

/// All presets.
pub(super) fn presets() -> impl Iterator<Item = &'static str> {
    PRESETS.into_iter().chain(PLANNED_PRESETS)
}
