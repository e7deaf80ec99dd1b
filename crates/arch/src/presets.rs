//! Shapes of well-known models: `config.json` files as published, less what decides no shape. Random weights of presets
//! all have the same spread, so the files leave out `initializer_range`.

use super::config::ModelConfig;

/// A well-known model's shape; its weights are random.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preset {
    name: &'static str,
    json: &'static str,
}

macro_rules! presets {
    ($($name:literal,)+) => {
        impl Preset {
            /// Every preset: by family, the smallest first.
            pub const ALL: &[Self] = &[$(Self {
                name: $name,
                json: include_str!(concat!("presets/", $name, ".json")),
            },)+];
        }
    };
}

presets! {
    "tiny",
    "smollm2-135m",
    "smollm2-360m",
    "smollm2-1.7b",
    "tinyllama-1.1b",
    "llama-3.2-1b",
    "llama-3.2-3b",
    "llama-7b",
    "llama-13b",
    "llama-30b",
    "llama-65b",
    "llama-2-7b",
    "llama-2-13b",
    "codellama-34b",
    "llama-2-70b",
    "llama-3-8b",
    "llama-3.1-8b",
    "llama-3.1-70b",
    "mistral-7b",
    "mistral-7b-v0.1",
    "qwen2.5-0.5b",
    "qwen2.5-1.5b",
    "qwen2.5-3b",
    "qwen2.5-7b",
    "qwen2.5-14b",
    "qwen2.5-32b",
    "qwen2.5-72b",
    "qwen3-0.6b",
    "qwen3-1.7b",
    "qwen3-4b",
    "qwen3-8b",
    "qwen3-14b",
    "qwen3-32b",
    "phi-3-mini",
    "phi-4-mini",
    "gemma-2b",
    "gemma-7b",
    "gemma-2-2b",
    "gemma-2-9b",
    "gemma-3-270m",
    "gemma-3-1b",
    "gemma-3-4b",
    "distilbert-base",
    "bert-base",
    "bert-large",
}

/// Ends of names on the Hugging Face Hub of tuned models, which have the shape of their base.
const TUNED: [&str; 6] = ["-hf", "-it", "-pt", "-chat", "-instruct", "-base"];

/// Names on the hub, without these ends, of models that have the shape of a preset.
const ALSO: [(&str, &str); 22] = [
    ("meta-llama-3-8b", "llama-3-8b"),
    ("meta-llama-3.1-8b", "llama-3.1-8b"),
    ("meta-llama-3-70b", "llama-3.1-70b"),
    ("meta-llama-3.1-70b", "llama-3.1-70b"),
    ("llama-3-70b", "llama-3.1-70b"),
    ("llama-3.3-70b", "llama-3.1-70b"),
    ("llama-33b", "llama-30b"),
    ("vicuna-7b-v1.5", "llama-2-7b"),
    ("vicuna-13b-v1.5", "llama-2-13b"),
    ("gemma-1.1-2b", "gemma-2b"),
    ("gemma-1.1-7b", "gemma-7b"),
    ("mistral-7b-instruct-v0.1", "mistral-7b-v0.1"),
    ("mistral-7b-instruct-v0.2", "mistral-7b"),
    ("tinyllama-1.1b-chat-v1.0", "tinyllama-1.1b"),
    ("tinyllama_v1.1", "tinyllama-1.1b"),
    ("phi-3-mini-4k", "phi-3-mini"),
    ("distilbert-base-uncased", "distilbert-base"),
    ("bert-base-uncased", "bert-base"),
    ("bert-large-uncased", "bert-large"),
    ("qwen2.5-coder-7b", "qwen2.5-7b"),
    ("qwen2.5-coder-1.5b", "qwen2.5-1.5b"),
    ("deepseek-r1-distill-llama-8b", "llama-3.1-8b"),
];

/// Words in the names of models whose families are not computed.
const OTHER_FAMILIES: [(&str, &str); 14] = [
    ("mixtral", "a mixture of experts"),
    ("moe", "a mixture of experts"),
    ("-a3b", "a mixture of experts"),
    ("-a22b", "a mixture of experts"),
    ("deepseek-v", "a mixture of experts"),
    ("gpt-oss", "a mixture of experts"),
    ("llama-4", "a mixture of experts"),
    ("gpt2", "GPT-2"),
    ("gpt-j", "GPT-J"),
    ("gpt-neo", "GPT-NeoX"),
    ("falcon", "Falcon"),
    ("bloom", "BLOOM"),
    ("mamba", "Mamba"),
    ("whisper", "Whisper"),
];

impl Preset {
    /// The names of all presets.
    pub fn names() -> Vec<&'static str> {
        Self::ALL.iter().map(|preset| preset.name).collect()
    }

    /// The preset of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|preset| preset.name == name)
    }

    /// The preset with the shape of a model on the Hugging Face Hub, such as `HuggingFaceTB/SmolLM2-135M` or
    /// `meta-llama/Llama-3.1-8B-Instruct`, with its owner or without. `None` for a preset's own name and for a path.
    pub fn of_hub_name(name: &str) -> Option<Self> {
        if name.starts_with(['.', '/', '~']) || Self::named(name).is_some() {
            return None;
        }
        let name = name.rsplit('/').next().unwrap_or(name).to_ascii_lowercase();
        let mut shape = name.as_str();
        loop {
            let also = ALSO.iter().find(|(also, _)| *also == shape);
            if let Some(preset) = Self::named(also.map_or(shape, |(_, preset)| preset)) {
                return Some(preset);
            }
            shape = TUNED.iter().find_map(|end| shape.strip_suffix(end))?;
        }
    }

    /// The family that a name is of, if it is one that nothing here computes.
    pub fn other_family(name: &str) -> Option<&'static str> {
        let name = name.to_ascii_lowercase();
        let other = OTHER_FAMILIES.iter().find(|(word, _)| name.contains(word));
        other.map(|(_, family)| *family)
    }

    /// The name that a spec's `model` gives.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The model's `config.json`.
    pub(super) fn json(&self) -> &'static str {
        self.json
    }

    /// The model's shape.
    #[expect(
        clippy::expect_used,
        reason = "the files are part of the program, and a test reads all of them"
    )]
    pub fn config(&self) -> ModelConfig {
        ModelConfig::from_json(self.json.as_bytes()).expect("a preset is a valid config.json")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// The counts that the models' cards and transformers' `num_parameters()` give; encoders have a head of two labels.
    #[test]
    fn presets_have_the_true_parameter_counts() {
        let counts = [
            ("tiny", 119_104),
            ("smollm2-135m", 134_515_008),
            ("smollm2-360m", 361_821_120),
            ("smollm2-1.7b", 1_711_376_384),
            ("tinyllama-1.1b", 1_100_048_384),
            ("llama-3.2-1b", 1_235_814_400),
            ("llama-3.2-3b", 3_212_749_824),
            ("llama-7b", 6_738_415_616),
            ("llama-13b", 13_015_864_320),
            ("llama-30b", 32_528_943_616),
            ("llama-65b", 65_285_660_672),
            ("llama-2-7b", 6_738_415_616),
            ("llama-2-13b", 13_015_864_320),
            ("codellama-34b", 33_743_970_304),
            ("llama-2-70b", 68_976_648_192),
            ("llama-3-8b", 8_030_261_248),
            ("llama-3.1-8b", 8_030_261_248),
            ("llama-3.1-70b", 70_553_706_496),
            ("mistral-7b", 7_241_732_096),
            ("mistral-7b-v0.1", 7_241_732_096),
            ("qwen2.5-0.5b", 494_032_768),
            ("qwen2.5-1.5b", 1_543_714_304),
            ("qwen2.5-3b", 3_085_938_688),
            ("qwen2.5-7b", 7_615_616_512),
            ("qwen2.5-14b", 14_770_033_664),
            ("qwen2.5-32b", 32_763_876_352),
            ("qwen2.5-72b", 72_706_203_648),
            ("qwen3-0.6b", 596_049_920),
            ("qwen3-1.7b", 1_720_574_976),
            ("qwen3-4b", 4_022_468_096),
            ("qwen3-8b", 8_190_735_360),
            ("qwen3-14b", 14_768_307_200),
            ("qwen3-32b", 32_762_123_264),
            ("phi-3-mini", 3_821_079_552),
            ("phi-4-mini", 3_836_021_760),
            ("gemma-2b", 2_506_172_416),
            ("gemma-7b", 8_537_680_896),
            ("gemma-2-2b", 2_614_341_888),
            ("gemma-2-9b", 9_241_705_984),
            ("gemma-3-270m", 268_098_176),
            ("gemma-3-1b", 999_885_952),
            ("gemma-3-4b", 3_880_263_168),
            ("distilbert-base", 66_955_010),
            ("bert-base", 109_483_778),
            ("bert-large", 335_143_938),
        ];
        for (preset, (name, count)) in Preset::ALL.iter().zip(counts) {
            assert_eq!((preset.name(), preset.config().parameter_count()), (name, count));
        }
        assert_eq!(Preset::ALL.len(), counts.len());
    }

    #[test]
    fn every_preset_names_its_source_and_has_the_default_spread() {
        for preset in Preset::ALL {
            let file: Value = serde_json::from_str(preset.json).unwrap();
            assert!(
                file["_source"].is_string() && file["architectures"].is_array(),
                "{preset:?}"
            );
            assert_eq!(preset.config().initializer_range, 0.02, "{preset:?}");
        }
    }

    #[test]
    fn models_on_the_hub_are_known_by_name() {
        let name = |hub| Preset::of_hub_name(hub).map(|preset| preset.name());
        for (also, preset) in ALSO {
            assert_eq!(name(also), Some(preset), "{also}");
        }
        assert_eq!(name("HuggingFaceTB/SmolLM2-135M"), Some("smollm2-135m"));
        assert_eq!(name("Qwen/Qwen2.5-1.5B-Instruct"), Some("qwen2.5-1.5b"));
        assert_eq!(name("meta-llama/Llama-3.1-8B-Instruct"), Some("llama-3.1-8b"));
        assert_eq!(name("meta-llama/Llama-2-13b-chat-hf"), Some("llama-2-13b"));
        assert_eq!(name("llama-3.3-70b-instruct"), Some("llama-3.1-70b"));
        assert_eq!(name("google/gemma-3-1b-it"), Some("gemma-3-1b"));
        assert_eq!(name("Qwen/Qwen3-8B-Base"), Some("qwen3-8b"));
        assert_eq!(name("./smollm2-135m-instruct"), None);
        assert_eq!(name("smollm2-135m"), None);
        assert_eq!(name("meta-llama/Llama-4"), None);
    }
}
