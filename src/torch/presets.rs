//! Shapes of published models by name, from their `config.json`.

use super::config::{Family, ModelConfig};

/// hidden, intermediate, layers, heads, key-value heads, head width, vocabulary, tied embeddings.
type Shape = (u32, u32, u32, u32, u32, u32, u32, bool);

const PRESETS: [(&str, Family, Shape); 23] = [
    (
        "llama-2-7b",
        Family::Llama,
        (4096, 11_008, 32, 32, 32, 128, 32_000, false),
    ),
    (
        "llama-2-13b",
        Family::Llama,
        (5120, 13_824, 40, 40, 40, 128, 32_000, false),
    ),
    (
        "llama-3-8b",
        Family::Llama,
        (4096, 14_336, 32, 32, 8, 128, 128_256, false),
    ),
    (
        "llama-3.1-8b",
        Family::Llama,
        (4096, 14_336, 32, 32, 8, 128, 128_256, false),
    ),
    (
        "llama-3.2-1b",
        Family::Llama,
        (2048, 8192, 16, 32, 8, 64, 128_256, true),
    ),
    (
        "llama-3.2-3b",
        Family::Llama,
        (3072, 8192, 28, 24, 8, 128, 128_256, true),
    ),
    (
        "tinyllama-1.1b",
        Family::Llama,
        (2048, 5632, 22, 32, 4, 64, 32_000, false),
    ),
    ("smollm2-135m", Family::Llama, (576, 1536, 30, 9, 3, 64, 49_152, true)),
    ("smollm2-360m", Family::Llama, (960, 2560, 32, 15, 5, 64, 49_152, true)),
    (
        "smollm2-1.7b",
        Family::Llama,
        (2048, 8192, 24, 32, 32, 64, 49_152, true),
    ),
    ("qwen2.5-0.5b", Family::Qwen2, (896, 4864, 24, 14, 2, 64, 151_936, true)),
    (
        "qwen2.5-1.5b",
        Family::Qwen2,
        (1536, 8960, 28, 12, 2, 128, 151_936, true),
    ),
    (
        "qwen2.5-3b",
        Family::Qwen2,
        (2048, 11_008, 36, 16, 2, 128, 151_936, true),
    ),
    (
        "qwen2.5-7b",
        Family::Qwen2,
        (3584, 18_944, 28, 28, 4, 128, 152_064, false),
    ),
    (
        "qwen2.5-14b",
        Family::Qwen2,
        (5120, 13_824, 48, 40, 8, 128, 152_064, false),
    ),
    ("qwen3-0.6b", Family::Qwen3, (1024, 3072, 28, 16, 8, 128, 151_936, true)),
    ("qwen3-1.7b", Family::Qwen3, (2048, 6144, 28, 16, 8, 128, 151_936, true)),
    ("qwen3-4b", Family::Qwen3, (2560, 9728, 36, 32, 8, 128, 151_936, true)),
    (
        "qwen3-8b",
        Family::Qwen3,
        (4096, 12_288, 36, 32, 8, 128, 151_936, false),
    ),
    (
        "mistral-7b",
        Family::Mistral,
        (4096, 14_336, 32, 32, 8, 128, 32_000, false),
    ),
    ("phi-3-mini", Family::Phi3, (3072, 8192, 32, 32, 32, 96, 32_064, false)),
    ("phi-4-mini", Family::Phi3, (3072, 8192, 32, 24, 8, 128, 200_064, true)),
    ("bert-base", Family::Bert, (768, 3072, 12, 12, 12, 64, 30_522, true)),
];

/// Names on the Hugging Face Hub of tuned models that have the shape of another.
const TUNED: [(&str, &str); 2] = [
    ("qwen2.5-1.5b-instruct", "qwen2.5-1.5b"),
    ("tinyllama-1.1b-chat-v1.0", "tinyllama-1.1b"),
];

impl ModelConfig {
    /// A published model's shape, by names such as `llama-3.2-1b` or `HuggingFaceTB/SmolLM2-135M`.
    pub fn preset(name: &str) -> Option<Self> {
        let name = name.rsplit('/').next().unwrap_or(name).to_ascii_lowercase();
        let tuned = TUNED.iter().find(|(tuned, _)| *tuned == name);
        let name = tuned.map_or(name.as_str(), |(_, base)| base);
        if name == "distilbert-base" {
            return Some(Self::default_of(Family::DistilBert));
        }
        let &(_, family, shape) = PRESETS.iter().find(|(known, ..)| *known == name)?;
        let (hidden, intermediate, layers, heads, shared, width, vocabulary, tied) = shape;
        Some(Self {
            hidden_size: hidden,
            intermediate_size: intermediate,
            num_hidden_layers: layers,
            num_attention_heads: heads,
            num_key_value_heads: shared,
            head_dim: width,
            vocab_size: vocabulary,
            tie_word_embeddings: tied,
            partial_rotary_factor: if name == "phi-4-mini" { 0.75 } else { 1.0 },
            max_position_embeddings: positions(name),
            // Wider than the positions that the model was made for.
            sliding_window: None,
            first_windowed_layer: 0,
            ..Self::default_of(family)
        })
    }

    /// The names that [`Self::preset`] knows.
    pub fn presets() -> impl Iterator<Item = &'static str> {
        PRESETS.iter().map(|(name, ..)| *name).chain(["distilbert-base"])
    }
}

/// The most tokens that a decoder's sample can have.
fn positions(name: &str) -> u32 {
    match name {
        "tinyllama-1.1b" => 2048,
        "llama-2-7b" | "llama-2-13b" | "phi-3-mini" => 4096,
        "llama-3-8b" | "smollm2-135m" | "smollm2-360m" | "smollm2-1.7b" => 8192,
        "bert-base" => 512,
        _ if name.starts_with("qwen2.5-") || name == "mistral-7b" => 32_768,
        _ if name.starts_with("qwen3-") => 40_960,
        _ => 131_072,
    }
}
