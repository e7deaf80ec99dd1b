//! Recipes: what a model by name is trained with, one a file, each by who does it so.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use base::text::{Mistake, either, quoted, suggestion};
use serde::Deserialize;
use serde_json::Value;

/// The configuration that a model's name stands for.
#[derive(Debug, PartialEq)]
pub struct Recipe {
    /// Its name on the command line.
    pub name: &'static str,
    /// Who trains so, with the release that was read.
    pub by: String,
    /// The places that its keys were read from.
    pub source: String,
    /// True for one that our trainer has, too: its keys without those that describe PyTorch's stack.
    is_of_both_stacks: bool,
    /// Keys of a cell with their values, for a GPU that computes in bfloat16.
    keys: BTreeMap<String, Value>,
}

/// A recipe's file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecipeFile {
    by: String,
    source: String,
    #[serde(default)]
    is_of_both_stacks: bool,
    keys: BTreeMap<String, Value>,
}

/// The files. The first is the frugal one, with which everything begins that names no other.
const FILES: [(&str, &str); 7] = [
    ("qlora", include_str!("qlora.yaml")),
    ("lora", include_str!("lora.yaml")),
    ("peft-script", include_str!("peft_script.yaml")),
    ("trl-sft", include_str!("trl_sft.yaml")),
    ("axolotl", include_str!("axolotl.yaml")),
    ("llama-factory", include_str!("llama_factory.yaml")),
    ("unsloth-comparison", include_str!("unsloth_comparison.yaml")),
];

static RECIPES: LazyLock<Vec<Recipe>> = LazyLock::new(|| {
    let read = |(name, text): (&'static str, &str)| {
        let file: RecipeFile = serde_saphyr::from_str(text).ok()?;
        Some(Recipe {
            name,
            by: file.by,
            source: file.source,
            is_of_both_stacks: file.is_of_both_stacks,
            keys: file.keys,
        })
    };
    FILES.into_iter().filter_map(read).collect()
});

/// Keys that mean the same to our trainer. The others describe PyTorch's stack.
const OF_BOTH_STACKS: [&str; 10] = [
    "dtype",
    "rank",
    "lora_alpha",
    "lora_dropout",
    "target_modules",
    "batch_size",
    "gradient_accumulation_steps",
    "max_seq_length",
    "padding",
    "gradient_checkpointing",
];

impl Recipe {
    /// All of them; the frugal one first.
    pub fn all() -> &'static [Self] {
        &RECIPES
    }

    /// The one that is taken where none is named.
    pub fn frugal() -> &'static Self {
        &RECIPES[0]
    }

    /// True for one that our trainer has, too.
    pub(super) fn is_of_both_stacks(&self) -> bool {
        self.is_of_both_stacks
    }

    /// The keys for PyTorch's stack.
    pub fn keys(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.keys.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// The keys that our trainer has, too.
    pub(super) fn keys_of_both_stacks(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.keys().filter(|(key, _)| OF_BOTH_STACKS.contains(key))
    }
}

impl fmt::Display for Recipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl FromStr for &'static Recipe {
    type Err = Mistake;

    /// # Errors
    /// There is no such recipe.
    fn from_str(text: &str) -> Result<Self, Mistake> {
        let names = || RECIPES.iter().map(|recipe| recipe.name);
        RECIPES.iter().find(|recipe| recipe.name == text).ok_or_else(|| {
            let known: Vec<&str> = names().collect();
            let help = suggestion(text, names()).unwrap_or_else(|| format!("there is {}", either(&known)));
            Mistake::new(format!("{} is no recipe", quoted(text))).help(help)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_a_recipe_and_says_whose() {
        assert_eq!(Recipe::all().len(), FILES.len(), "a file cannot be read");
        for recipe in Recipe::all() {
            assert!(!recipe.by.is_empty() && !recipe.source.is_empty(), "{recipe}");
            assert_eq!(recipe.name.parse::<&Recipe>(), Ok(recipe));
        }
        let error = "qlorra".parse::<&Recipe>().unwrap_err().to_string();
        assert!(error.contains("did you mean `qlora`"), "{error}");
    }
}
