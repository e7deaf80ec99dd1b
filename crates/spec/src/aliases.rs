//! The key or word that a user most likely meant, by its name in other programs or by its spelling.

use base::text::{did_you_mean, nearest};
use cell::aliases;
use cell::keys::moved;

use super::foreign::foreign;

/// Names that other programs have for our words. Those for our keys stand beside each key in `cell`.
const WORDS: [(&str, &str); 23] = [
    ("qlora", "lora"),
    ("qdora", "dora"),
    ("bf16", "bfloat16"),
    ("fp16", "float16"),
    ("true", "bfloat16"),
    ("true", "full"),
    ("false", "none"),
    ("half", "float16"),
    ("fp32", "float32"),
    ("nf4", "int4"),
    ("4bit", "int4"),
    ("8bit", "int8"),
    ("adamw_torch", "adamw"),
    ("adamw_hf", "adamw"),
    ("galore_adamw", "galore"),
    ("lion_32bit", "lion"),
    ("lion_pytorch", "lion"),
    ("flash", "flash_attention_2"),
    ("torch_sdpa", "sdpa"),
    ("native", "auto"),
    ("sse2", "portable"),
    ("glibc", "system"),
    ("malloc", "system"),
];

/// The one of `expected` that the user most likely meant by `word`.
pub fn near<'a>(word: &str, expected: &[&'a str]) -> Option<&'a str> {
    let find = |key: &str| expected.iter().copied().find(|word| *word == key);
    // `true` is a format only for a key that can be off: `autocast`, not `dtype`.
    let has_alias = word != "true" || expected.contains(&"none");
    let words = WORDS.iter().map(|(alias, word)| (*alias, *word));
    let keys = aliases();
    let mut aliases = words
        .chain(keys.iter().map(|(alias, key)| (*alias, key.as_str())))
        .filter(|(alias, _)| has_alias && *alias == word);
    moved(word)
        .and_then(find)
        .or_else(|| aliases.find_map(|(_, ours)| find(ours)))
        .or_else(|| nearest(word, expected.iter().copied()))
}

/// Asks whether that one was meant.
pub fn suggestion(word: &str, expected: &[&str]) -> Option<String> {
    if let Some(help) = foreign(word) {
        return Some(help.to_owned());
    }
    Some(match (word, near(word, expected)?) {
        ("bf16", "autocast") => "write `autocast: bfloat16`".into(),
        ("fp16", "autocast") => "write `autocast: float16`".into(),
        ("use_dora" | "peft_use_dora", "adapter") => "write `adapter: dora`".into(),
        ("betas" | "adam_betas", "adam_beta1") => "write `adam_beta1` and `adam_beta2`".into(),
        ("qlora", "lora") => "write `adapter: lora`, with `dtype: int4`".into(),
        ("qdora", "dora") => "write `adapter: dora`, with `dtype: int4`".into(),
        (_, near) => did_you_mean(near),
    })
}
