//! Shapes of well-known models: `config.json` files as published, less what decides no shape. Random weights of presets
//! all have the same spread, so the files leave out `initializer_range`. A file begins with what is known of it:
//! `_source`, `_parameters` as published, and in `_also` other names on the hub of models with the shape.

use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use serde_json::Value;

use super::config::ModelConfig;

/// A well-known model's shape; its weights are random.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preset {
    name: &'static str,
    json: &'static str,
}

// `FILES`, the files of `presets/`, which `build.rs` lists.
include!(concat!(env!("OUT_DIR"), "/presets.rs"));

/// By family, the smallest first.
static ALL: LazyLock<Vec<Preset>> = LazyLock::new(|| {
    let mut presets = FILES.to_vec();
    presets.sort_by_cached_key(|preset| {
        let config = preset.config();
        (config.family, config.parameter_count(), preset.name)
    });
    presets
});

/// Names on the hub, without the ends of tuned models, of models that have the shape of a preset.
static ALSO: LazyLock<BTreeMap<String, Preset>> = LazyLock::new(|| {
    let names = |preset: &Preset| -> Vec<String> { serde_json::from_value(preset.note("_also")).unwrap_or_default() };
    let named = |preset: &'static Preset| names(preset).into_iter().map(|name| (name, *preset));
    FILES.iter().flat_map(named).collect()
});

/// Ends of names on the Hugging Face Hub of tuned models and of those whose weights bitsandbytes quantised, which have the
/// shape of their base.
const TUNED: [&str; 8] = [
    "-hf",
    "-it",
    "-pt",
    "-chat",
    "-instruct",
    "-base",
    "-bnb-4bit",
    "-unsloth",
];

/// Words in the names of models whose families are not computed.
const OTHER_FAMILIES: [(&str, &str); 28] = [
    ("mixtral", "a mixture of experts"),
    ("moe", "a mixture of experts"),
    ("deepseek-v", "a mixture of experts"),
    ("gpt-oss", "a mixture of experts"),
    ("llama-4", "a mixture of experts"),
    ("llama4", "a mixture of experts"),
    ("dbrx", "a mixture of experts"),
    ("kimi-k", "a mixture of experts"),
    ("pythia", "GPT-NeoX"),
    ("phi-1", "Phi"),
    ("phi-2", "Phi"),
    ("gemma-3n", "Gemma 3n"),
    ("olmo", "OLMo"),
    ("command-r", "Cohere"),
    ("gpt2", "GPT-2"),
    ("gpt-j", "GPT-J"),
    ("gpt-neo", "GPT-NeoX"),
    ("falcon", "Falcon"),
    ("bloom", "BLOOM"),
    ("mamba", "Mamba"),
    ("whisper", "Whisper"),
    ("roberta", "RoBERTa"),
    ("camembert", "CamemBERT"),
    ("vit-", "ViT"),
    ("-gptq", "a model whose weights GPTQ quantised"),
    ("-awq", "a model whose weights AWQ quantised"),
    ("t5-", "T5"),
    ("opt-", "OPT"),
];

impl Preset {
    /// Every preset: by family, the smallest first.
    pub fn all() -> &'static [Self] {
        &ALL
    }

    /// The names of all presets.
    pub fn names() -> Vec<&'static str> {
        Self::all().iter().map(|preset| preset.name).collect()
    }

    /// The preset of that name.
    pub fn named(name: &str) -> Option<Self> {
        FILES.iter().copied().find(|preset| preset.name == name)
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
            if let Some(preset) = Self::named(shape).or(ALSO.get(shape).copied()) {
                return Some(preset);
            }
            shape = TUNED.iter().find_map(|end| shape.strip_suffix(end))?;
        }
    }

    /// The family that a name is of, if it is one that nothing here computes.
    pub fn other_family(name: &str) -> Option<&'static str> {
        let name = name.to_ascii_lowercase();
        // `-a14b`: of its weights 14 billion take part at once.
        let is_active = |part: &str| {
            let count = part.strip_prefix('a').and_then(|part| part.strip_suffix('b'));
            count.is_some_and(|count| count.parse::<f64>().is_ok())
        };
        if name.split('-').any(is_active) {
            return Some("a mixture of experts");
        }
        let other = OTHER_FAMILIES.iter().find(|(word, _)| has_word(&name, word));
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

    /// What the file says of the preset, beside the `config.json`.
    fn note(&self, key: &str) -> Value {
        let mut file: Value = serde_json::from_str(self.json).unwrap_or_default();
        file[key].take()
    }

    /// The model's shape.
    #[expect(
        clippy::expect_used,
        reason = "the files are part of the program, and a test reads all of them"
    )]
    pub fn config(&self) -> ModelConfig {
        static READ: Mutex<BTreeMap<&'static str, ModelConfig>> = Mutex::new(BTreeMap::new());
        let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
        let config = || ModelConfig::from_json(self.json.as_bytes()).expect("a preset is a valid config.json");
        read.entry(self.name).or_insert_with(config).clone()
    }
}

/// True if `name` has this word. One of few letters stands at the beginning of a part, and a number ends where it does:
/// `llama-405b` is no `llama-4`.
fn has_word(name: &str, word: &str) -> bool {
    let is_short = word.trim_matches('-').len() <= 3 && word.ends_with('-');
    let ends_in_digit = word.ends_with(|c: char| c.is_ascii_digit());
    name.match_indices(word).any(|(at, _)| {
        let before = name[..at].chars().next_back();
        let after = name[at + word.len()..].chars().next();
        let is_apart = |c: Option<char>| c.is_none_or(|c| !c.is_ascii_alphanumeric() && c != '.');
        (!is_short || is_apart(before)) && (!ends_in_digit || is_apart(after))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_says_what_is_known_of_its_preset() {
        for preset in FILES {
            let config = preset.config();
            // As the models' cards and transformers' `num_parameters()` give it; encoders have a head of two labels.
            assert_eq!(preset.note("_parameters"), config.parameter_count(), "{preset:?}");
            assert!(preset.note("_source").is_string(), "{preset:?}");
            assert!(preset.note("architectures").is_array(), "{preset:?}");
            assert_eq!(config.initializer_range, 0.02, "{preset:?}");
            let also = preset.note("_also");
            assert!(
                also.is_null() || also.as_array().is_some_and(|also| !also.is_empty()),
                "{preset:?}"
            );
        }
    }

    #[test]
    fn presets_come_by_family_the_smallest_first() {
        let names = Preset::names();
        assert_eq!(names.len(), FILES.len());
        assert_eq!(names[..3], ["tiny", "smollm2-135m", "smollm2-360m"]);
        assert_eq!(names.last(), Some(&"bert-large"));
    }

    #[test]
    fn models_on_the_hub_are_known_by_name() {
        let name = |hub| Preset::of_hub_name(hub).map(|preset| preset.name());
        for (also, preset) in &*ALSO {
            assert_eq!(name(also), Some(preset.name()), "{also}");
        }
        assert_eq!(name("HuggingFaceTB/SmolLM2-135M"), Some("smollm2-135m"));
        assert_eq!(name("Qwen/Qwen2.5-1.5B-Instruct"), Some("qwen2.5-1.5b"));
        assert_eq!(name("meta-llama/Llama-3.1-8B-Instruct"), Some("llama-3.1-8b"));
        assert_eq!(name("meta-llama/Llama-2-13b-chat-hf"), Some("llama-2-13b"));
        assert_eq!(name("llama-3.3-70b-instruct"), Some("llama-3.1-70b"));
        assert_eq!(name("google/gemma-3-1b-it"), Some("gemma-3-1b"));
        assert_eq!(name("Qwen/Qwen3-8B-Base"), Some("qwen3-8b"));
        assert_eq!(name("unsloth/llama-3-8b-Instruct-bnb-4bit"), Some("llama-3-8b"));
        assert_eq!(name("unsloth/Qwen3-8B-unsloth-bnb-4bit"), Some("qwen3-8b"));
        assert_eq!(name("TheBloke/Llama-2-7B-GPTQ"), None);
        for (other, family) in [
            ("qwen2-57b-a14b", "a mixture of experts"),
            ("roberta-large", "RoBERTa"),
            ("vit-large", "ViT"),
            ("TheBloke/Llama-2-7B-GPTQ", "a model whose weights GPTQ quantised"),
        ] {
            assert_eq!(Preset::other_family(other), Some(family), "{other}");
        }
        for other in ["llama-405b", "llama-4b", "adopt-7b", "phi-1.5b", "phi-20b"] {
            assert_eq!(Preset::other_family(other), None, "{other}");
        }
        assert!(Preset::names().iter().all(|name| Preset::other_family(name).is_none()));
        assert_eq!(name("./smollm2-135m-instruct"), None);
        assert_eq!(name("smollm2-135m"), None);
        assert_eq!(name("meta-llama/Llama-4"), None);
    }
}
