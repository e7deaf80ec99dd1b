//! The key or word that a user most likely meant, by its name in other programs or by its spelling.

use base::text::{did_you_mean, nearest};
use cell::keys::moved;

use super::foreign::foreign;

/// Names that other programs have for our keys and words.
const ALIASES: [(&str, &str); 65] = [
    ("lr", "learning_rate"),
    ("r", "rank"),
    ("lora_r", "rank"),
    ("lora_rank", "rank"),
    ("use_dora", "adapter"),
    ("peft_use_dora", "adapter"),
    ("qlora", "lora"),
    ("qdora", "dora"),
    ("alpha", "lora_alpha"),
    ("peft_config", "adapter_config"),
    ("dropout", "lora_dropout"),
    ("epochs", "num_train_epochs"),
    ("num_epochs", "num_train_epochs"),
    ("steps", "max_steps"),
    ("per_device_train_batch_size", "batch_size"),
    ("micro_batch_size", "batch_size"),
    ("torch_empty_cache_steps", "empty_cache_steps"),
    ("checkpointing", "gradient_checkpointing"),
    ("pack_sequences", "packing"),
    ("cpu_offload", "offload"),
    ("offload_optimizer", "offload"),
    ("offload_param", "offload"),
    ("max_length", "max_seq_length"),
    ("seq_length", "max_seq_length"),
    ("sequence_len", "max_seq_length"),
    ("sample_packing", "packing"),
    ("base_model", "model"),
    ("lora_target_modules", "target_modules"),
    ("seq_len", "max_seq_length"),
    ("model_name_or_path", "model"),
    ("optimizer", "optim"),
    ("precision", "dtype"),
    ("torch_dtype", "dtype"),
    ("scheduler", "lr_scheduler_type"),
    ("memory", "device_memory"),
    ("dataset", "data"),
    ("lengths", "synthetic"),
    ("samples", "synthetic"),
    ("bf16", "bfloat16"),
    ("fp16", "float16"),
    ("bf16", "autocast"),
    ("fp16", "autocast"),
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
    ("proj_interval", "update_proj_gap"),
    ("galore_rank", "optim_rank"),
    ("betas", "adam_beta1"),
    ("adam_betas", "adam_beta1"),
    ("flash", "flash_attention_2"),
    ("torch_sdpa", "sdpa"),
    ("native", "auto"),
    ("sse2", "portable"),
    ("glibc", "system"),
    ("malloc", "system"),
];

/// The one of `expected` that the user most likely meant by `word`.
pub(crate) fn near<'a>(word: &str, expected: &[&'a str]) -> Option<&'a str> {
    let find = |key: &str| expected.iter().copied().find(|word| *word == key);
    // `true` is a format only for a key that can be off: `autocast`, not `dtype`.
    let has_alias = word != "true" || expected.contains(&"none");
    let mut aliases = ALIASES.iter().filter(|(alias, _)| has_alias && *alias == word);
    moved(word)
        .and_then(find)
        .or_else(|| aliases.find_map(|(_, key)| find(key)))
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
