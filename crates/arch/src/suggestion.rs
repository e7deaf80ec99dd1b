//! What is meant by the name of a model that nothing is known by: told by its family and version, then its size.

use base::text::{did_you_mean, either, nearest, quoted};

use super::presets::Preset;

/// Parts of names of models that read images.
const VISION: [&str; 12] = [
    "vl",
    "vision",
    "llava",
    "pixtral",
    "paligemma",
    "internvl",
    "omni",
    "multimodal",
    "smolvlm",
    "idefics",
    "molmo",
    "vlm",
];

/// Words that stand for a size.
const SIZES: [&str; 8] = ["tiny", "nano", "mini", "small", "medium", "base", "large", "xl"];

/// Ends of names that do not change the shape.
const TUNED: [&str; 10] = [
    "hf",
    "it",
    "pt",
    "chat",
    "instruct",
    "unsloth",
    "bnb",
    "4bit",
    "quantized",
    "preview",
];

/// A model's name in parts.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Name {
    /// Letters, such as `qwen`.
    family: String,
    /// Digits, such as `2.5`.
    version: Option<String>,
    /// Digits with a unit, such as `7b`, or a word, such as `mini`.
    size: Option<String>,
    /// What else there is.
    rest: Vec<String>,
}

impl Name {
    fn of(name: &str) -> Self {
        let name = name.rsplit('/').next().unwrap_or(name).to_lowercase();
        let name = name.strip_prefix("meta-").unwrap_or(&name);
        let end = |c: char| !c.is_alphabetic();
        let family = &name[..name.find(end).unwrap_or(name.len())];
        let (mut version, mut size, mut rest) = (None, None, Vec::new());
        let parts = name[family.len()..].split(|c: char| !c.is_alphanumeric() && c != '.');
        for part in parts.filter(|part| !part.is_empty() && !TUNED.contains(part)) {
            if is_size(part) && size.is_none() {
                size = Some(part.to_owned());
            } else if is_number(part) && version.is_none() && size.is_none() {
                version = Some(part.to_owned());
            } else if is_number(part) && size.is_none() {
                // The unit was forgotten.
                size = Some(format!("{part}b"));
            } else {
                rest.push(part.to_owned());
            }
        }
        Self {
            family: family.to_owned(),
            version,
            size,
            rest,
        }
    }

    /// True if this name, which may lack parts, is of the same family and version: Llama 3.1 is of Llama 3.
    fn is_of_version(&self, preset: &Self) -> bool {
        let version = preset.version.as_deref().unwrap_or("1");
        self.version.as_deref().is_none_or(|asked| {
            version == asked || version.strip_prefix(asked).is_some_and(|rest| rest.starts_with('.'))
        })
    }

    fn is_of_size(&self, preset: &Self) -> bool {
        let number = |size: &str| size.trim_end_matches(['b', 'm']).to_owned();
        match (&self.size, &preset.size) {
            (None, _) => true,
            (Some(asked), Some(has)) => {
                asked == has || has.ends_with('m') && number(asked) == number(has) && number(asked).len() > 2
            }
            (Some(_), None) => false,
        }
    }

    /// Family and version, as people say them.
    fn series(&self) -> String {
        match &self.version {
            Some(version) => quoted(&format!("{}-{version}", self.family)),
            None => quoted(&self.family),
        }
    }
}

fn is_number(part: &str) -> bool {
    part.starts_with(|c: char| c.is_ascii_digit()) && part.chars().all(|c| c.is_ascii_digit() || c == '.')
}

fn is_size(part: &str) -> bool {
    SIZES.contains(&part) || part.strip_suffix(['b', 'm']).is_some_and(is_number)
}

/// What to write for the name of a model that is not known; `None` if it resembles none. A model of another size or
/// family is not what was meant.
pub fn suggestion(name: &str) -> Option<String> {
    let lower = name.to_lowercase();
    let mut words = lower.split(|c: char| !c.is_alphanumeric());
    if words.any(|word| VISION.contains(&word.trim_end_matches(|c: char| c.is_ascii_digit()))) {
        return Some("a vision-language model is not planned; plan a preset of its size in its place".into());
    }
    if let Some(family) = Preset::other_family(&lower) {
        return Some(format!(
            "{family} is not planned; plan a preset of its size in its place"
        ));
    }
    let presets: Vec<(&str, Name)> = Preset::names().into_iter().map(|name| (name, Name::of(name))).collect();
    let mut asked = Name::of(name);
    let written = asked.family.clone();
    if !presets.iter().any(|(_, preset)| preset.family == asked.family) {
        asked.family = nearest(&asked.family, presets.iter().map(|(_, preset)| preset.family.as_str()))?.to_owned();
    }
    let those = |is_meant: &dyn Fn(&Name) -> bool| -> Vec<&str> {
        let of_family = presets.iter().filter(|(_, preset)| preset.family == asked.family);
        of_family
            .filter(|(_, preset)| is_meant(preset))
            .map(|(name, _)| *name)
            .collect()
    };
    let of_version = those(&|preset| asked.is_of_version(preset));
    let of_both = those(&|preset| asked.is_of_version(preset) && asked.is_of_size(preset));
    // `llama3-8b` is Llama 3, though Llama 3.1 has that size, too.
    let exact = those(&|preset| asked.version.is_some() && asked.version == preset.version && asked.is_of_size(preset));
    let of_both = match (exact.len(), &asked.size) {
        (1, Some(_)) => exact,
        _ => of_both,
    };
    let listed = |names: &[&str]| either(names).replace(" or ", " and ");
    Some(match (of_both.as_slice(), &asked.size) {
        ([one], Some(_)) if asked.rest.is_empty() => did_you_mean(one),
        ([one], Some(_)) => format!("the preset of its family and size is `{one}`"),
        ([one], None) if asked.family != written => did_you_mean(one),
        ([one], None) => format!("write `{one}`"),
        ([], Some(size)) if !of_version.is_empty() => format!(
            "{} has no preset of {size}; there {} {}, and another size needs its config.json, from a directory or from \
             the hub: `owner/NAME`",
            asked.series(),
            if of_version.len() == 1 { "is" } else { "are" },
            listed(&of_version)
        ),
        ([], _) => {
            let all = those(&|_| true);
            format!(
                "{} has no preset; of its family there are {}",
                asked.series(),
                listed(&all)
            )
        }
        (several, None) => format!("write the size, too: {}", either(several)),
        (several, Some(_)) => format!("write the version, too: {}", either(several)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_incomplete_name_lists_those_of_its_family() {
        for (name, help) in [
            (
                "llama3",
                "write the size, too: `llama-3.2-1b`, `llama-3.2-3b`, `llama-3-8b`, `llama-3.1-8b` or `llama-3.1-70b`",
            ),
            (
                "llama-2",
                "write the size, too: `llama-2-7b`, `llama-2-13b` or `llama-2-70b`",
            ),
            (
                "gemma3",
                "write the size, too: `gemma-3-270m`, `gemma-3-1b` or `gemma-3-4b`",
            ),
            ("phi3", "write `phi-3-mini`"),
            ("tinyllama", "write `tinyllama-1.1b`"),
            ("llama-8b", "write the version, too: `llama-3-8b` or `llama-3.1-8b`"),
            (
                "smollm2",
                "write the size, too: `smollm2-135m`, `smollm2-360m` or `smollm2-1.7b`",
            ),
        ] {
            assert_eq!(suggestion(name).as_deref(), Some(help), "{name}");
        }
    }

    #[test]
    fn an_unknown_size_is_none_of_the_others() {
        for (name, start) in [
            (
                "llama-405b",
                "`llama` has no preset of 405b; there are `llama-3.2-1b`, ",
            ),
            (
                "llama-3.1-405b-instruct",
                "`llama-3.1` has no preset of 405b; there are `llama-3.1-8b` and `llama-3.1-70b`,",
            ),
            ("gemma-27b", "`gemma` has no preset of 27b; there are "),
            (
                "google/gemma-3-27b-it",
                "`gemma-3` has no preset of 27b; there are `gemma-3-270m`, `gemma-3-1b` and",
            ),
            (
                "codellama-7b",
                "`codellama` has no preset of 7b; there is `codellama-34b`,",
            ),
            (
                "qwen4-8b",
                "`qwen-4` has no preset; of its family there are `qwen2.5-0.5b`, ",
            ),
        ] {
            let help = suggestion(name).unwrap();
            assert!(help.starts_with(start), "{name}: {help}");
            assert!(!help.contains("did you mean"), "{name}: {help}");
        }
    }

    #[test]
    fn the_same_model_in_another_spelling_is_meant() {
        for (name, preset) in [
            ("llama3-8b", "llama-3-8b"),
            ("llama3:8b", "llama-3-8b"),
            ("Llama 3.1 8B", "llama-3.1-8b"),
            ("lama-3.1-8b", "llama-3.1-8b"),
            ("SmolLM2-135", "smollm2-135m"),
            ("qwen-2.5-7b", "qwen2.5-7b"),
            ("phi3-mini", "phi-3-mini"),
            ("gemma2_9b", "gemma-2-9b"),
            ("tinny", "tiny"),
        ] {
            assert_eq!(suggestion(name), Some(did_you_mean(preset)), "{name}");
        }
        let tuned = suggestion("llama-3.1-8b-of-mine").unwrap();
        assert_eq!(tuned, "the preset of its family and size is `llama-3.1-8b`");
    }

    #[test]
    fn what_is_not_planned_is_said_so() {
        for (name, words) in [
            ("qwen2.5-vl-7b", "a vision-language model"),
            ("Qwen2-VL-7B-Instruct", "a vision-language model"),
            ("meta-llama/Llama-3.2-11B-Vision", "a vision-language model"),
            ("llava-1.5-7b", "a vision-language model"),
            ("llama-4-scout", "a mixture of experts"),
            ("llama4", "a mixture of experts"),
            ("mixtral-8x7b", "a mixture of experts"),
            ("flan-t5-xl", "T5"),
            ("phi-2", "Phi"),
        ] {
            let help = suggestion(name).unwrap();
            assert!(
                help.starts_with(words) && help.contains("is not planned"),
                "{name}: {help}"
            );
        }
        assert_eq!(suggestion("banana-7b"), None);
        assert_eq!(suggestion(""), None);
    }

    #[test]
    fn every_preset_is_its_own_name() {
        for name in Preset::names() {
            let help = suggestion(name);
            assert!(help.is_some_and(|help| help.contains(&quoted(name))), "{name}");
        }
    }
}
