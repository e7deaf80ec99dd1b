//! Flags and settings of other programs, as ours: `--seq-len 4096` and `seq_len=4096` are
//! `--set max_seq_length=4096`.

use cell::Cell;
use cell::keys::moved;
use import::Answer;
use options::CHAT_TEMPLATES;
use serde_json::Value;
use yaml::Budget;
use yaml::de;

use super::aliases::near;
use super::as_setting::{as_settings, option_of};
use super::foreign::foreign;

/// What stands where a flag had no value.
const VALUE: &str = "VALUE";

/// Names that people give our keys on a command line, besides those in other programs' configurations.
const SHORT: [(&str, &str); 56] = [
    ("context", "max_seq_length"),
    ("context_length", "max_seq_length"),
    ("context_len", "max_seq_length"),
    ("ctx", "max_seq_length"),
    ("n_ctx", "max_seq_length"),
    ("seqlen", "max_seq_length"),
    ("sequence_length", "max_seq_length"),
    ("max_seq_len", "max_seq_length"),
    ("max_sequence_length", "max_seq_length"),
    ("max_tokens", "max_seq_length"),
    ("tokens", "max_seq_length"),
    ("block_size", "max_seq_length"),
    ("cutoff_len", "max_seq_length"),
    ("model_max_length", "max_seq_length"),
    ("bs", "batch_size"),
    ("batch", "batch_size"),
    ("train_batch_size", "batch_size"),
    ("per_device_batch_size", "batch_size"),
    ("per_gpu_train_batch_size", "batch_size"),
    ("accum", "gradient_accumulation_steps"),
    ("grad_accum", "gradient_accumulation_steps"),
    ("accumulation_steps", "gradient_accumulation_steps"),
    ("gradient_accumulation", "gradient_accumulation_steps"),
    ("gc", "gradient_checkpointing"),
    ("recompute", "gradient_checkpointing"),
    ("grad_checkpointing", "gradient_checkpointing"),
    ("grad_ckpt", "gradient_checkpointing"),
    ("activation_checkpointing", "gradient_checkpointing"),
    ("use_gradient_checkpointing", "gradient_checkpointing"),
    ("double_quant", "bnb_4bit_use_double_quant"),
    ("use_double_quant", "bnb_4bit_use_double_quant"),
    ("quant_type", "bnb_4bit_quant_type"),
    ("compute_dtype", "bnb_4bit_compute_dtype"),
    ("lora_target", "target_modules"),
    ("lora_modules", "target_modules"),
    ("gpus", "world_size"),
    ("n_gpus", "world_size"),
    ("ngpu", "world_size"),
    ("gpu_count", "world_size"),
    ("nproc", "world_size"),
    ("dp", "world_size"),
    ("epoch", "num_train_epochs"),
    ("dataset_name", "data.path"),
    ("data_path", "data.path"),
    ("train_file", "data.path"),
    ("train_data", "data.path"),
    ("eval_dataset", "data.eval_path"),
    ("model_name", "model"),
    ("model_id", "model"),
    ("model_path", "model"),
    ("pretrained_model_name_or_path", "model"),
    ("quantization_type", "bnb_4bit_quant_type"),
    ("target_linear", "target_modules"),
    ("additional_target", "modules_to_save"),
    ("lora_modules_to_save", "modules_to_save"),
    ("val_size", "eval_fraction"),
];

/// What another program's key does here.
enum Meant {
    /// These keys with these values.
    Settings(Vec<(String, String)>),
    /// What a text says of it, in the words of a spec.
    Words(String),
}

/// The options that do what another program's flag or key does; `None` if nothing does. `value` is what it was given,
/// and `is_named` is true if a model is named in place of a spec.
pub fn ours(name: &str, value: Option<&str>, is_named: bool) -> Option<String> {
    Some(match meant(name, value)? {
        Meant::Words(help) => as_settings(&help, is_named),
        Meant::Settings(settings) => written(&settings, |key, value| option_of(key, value, is_named)),
    })
}

/// The keys of a spec that do what another program's key does; `None` if nothing does.
pub(crate) fn in_spec(name: &str, value: Option<&str>) -> Option<String> {
    Some(match meant(name, value)? {
        Meant::Words(help) => help,
        Meant::Settings(settings) => {
            let help = written(&settings, as_yaml);
            match are_defaults(&settings) {
                true => help.replacen("write ", "leave it out: the default is ", 1),
                false => help,
            }
        }
    })
}

fn are_defaults(settings: &[(String, String)]) -> bool {
    let defaults = Cell::default();
    settings.iter().all(|(key, value)| {
        let parsed = serde_json::from_str::<Value>(value);
        defaults.resolved_value(key) == parsed.unwrap_or_else(|_| value.as_str().into())
    })
}

fn written(settings: &[(String, String)], write: impl Fn(&str, &str) -> String) -> String {
    let written = settings.iter().map(|(key, value)| format!("`{}`", write(key, value)));
    format!("write {}", written.collect::<Vec<_>>().join(" and "))
}

/// `data: {path: x}` for the key `data.path` and `x`.
fn as_yaml(key: &str, value: &str) -> String {
    let value = if value == VALUE { "..." } else { value };
    match key.split_once('.') {
        Some((first, rest)) => format!("{first}: {{{}}}", as_yaml(rest, value)),
        None => format!("{key}: {value}"),
    }
}

fn meant(name: &str, value: Option<&str>) -> Option<Meant> {
    let name = name.to_lowercase().replace('-', "_");
    if let Some(help) = in_words(&name, value) {
        return Some(Meant::Words(help));
    }
    if let Some(settings) = by_value(&name, value) {
        let settings = settings.into_iter().map(|(key, value)| (key.to_owned(), value));
        return Some(Meant::Settings(settings.collect()));
    }
    let short = SHORT
        .iter()
        .find(|(other, _)| *other == name)
        .map(|(_, key)| (*key).to_owned());
    // Of two keys with the alias, the one outside of maps.
    let alias = || {
        let aliases = cell::aliases();
        let of_alias = |(alias, key): &(&str, String)| (*alias == name).then(|| key.clone());
        let keys: Vec<String> = aliases.iter().filter_map(of_alias).collect();
        let whole = |key: &String| {
            let is_it = |path: &&str| path.rsplit('.').next() == Some(key);
            cell::keys::named().filter(is_it).min_by_key(|path| path.len())
        };
        let paths = keys.iter().filter_map(whole);
        paths.min_by_key(|path| path.matches('.').count()).map(str::to_owned)
    };
    let known = || moved(&name).map(str::to_owned);
    let own = || cell::keys::named().find(|key| *key == name).map(str::to_owned);
    match short.or_else(alias).or_else(known).or_else(own) {
        Some(key) => {
            let value = fitting(&key, value);
            Some(Meant::Settings(vec![(key, value)]))
        }
        None => foreign(&name)
            .map(|help| Meant::Words(help.to_owned()))
            .or_else(|| of_tools(&name, value)),
    }
}

/// What the tables of other tools have for a key.
fn of_tools(name: &str, value: Option<&str>) -> Option<Meant> {
    Some(match import::answer(name, value)? {
        Answer::Keys(keys) => Meant::Settings(
            keys.into_iter()
                .map(|(key, value)| (key, base::text::to_flow_yaml(&value)))
                .collect(),
        ),
        Answer::Idle(why) => Meant::Words(format!("leave it out: {why}")),
        Answer::Lost(why) => Meant::Words(why),
    })
}

/// The help for names that no key stands for.
fn in_words(name: &str, value: Option<&str>) -> Option<String> {
    let is_off = |value: &str| matches!(value.to_lowercase().as_str(), "false" | "no" | "0");
    if name == "load_in_8bit" && value.is_some_and(is_off) {
        return Some("leave it out: `dtype` says the format of the weights".into());
    }
    if !name.starts_with("quant") {
        return None;
    }
    let value = value?.to_lowercase();
    let others = ["gptq", "awq", "hqq", "eetq", "aqlm", "quanto", "torchao", "fp8"];
    let other = others.into_iter().find(|other| value.contains(other))?;
    Some(format!(
        "weights that {other} quantised are not planned; bitsandbytes' are `dtype: int4` and `dtype: int8`"
    ))
}

/// The settings for names whose value decides which key is meant.
fn by_value(name: &str, value: Option<&str>) -> Option<Vec<(&'static str, String)>> {
    let given = value.unwrap_or("true").to_lowercase();
    let is_off = matches!(given.as_str(), "false" | "no" | "none" | "off" | "0" | "disabled");
    let one = |key, value: &str| Some(vec![(key, value.to_owned())]);
    match name {
        "vram" | "vram_gb" | "mem" | "memory" | "gpu_mem" | "gpu_memory" => {
            let size = value.unwrap_or(VALUE);
            let unit = if size.parse::<f64>().is_ok() { "GB" } else { "" };
            one("gpu", &format!("{size}{unit}"))
        }
        "load_in_4bit" | "load_in_8bit" | "4bit" | "8bit" | "nf4" | "int4" | "int8" if !is_off => {
            one("dtype", if name.contains('8') { "int8" } else { "int4" })
        }
        "load_in_4bit" => one("dtype", "bfloat16"),
        "quantization" | "quant" | "quantize" | "quantization_bit" | "quantization_method" | "bits" => {
            match given.as_str() {
                _ if is_off || given.contains("16") => one("dtype", "bfloat16"),
                _ if given.contains('8') => one("dtype", "int8"),
                _ => one("dtype", "int4"),
            }
        }
        "bf16" | "fp16" | "pure_bf16" | "float16" | "bfloat16" => match (is_off, name) {
            (true, _) => one("autocast", "none"),
            (_, "fp16" | "float16") => one("autocast", "float16"),
            _ => one("autocast", "bfloat16"),
        },
        "attn"
        | "attention"
        | "attn_impl"
        | "flash"
        | "flash_attn"
        | "flash_attention"
        | "flash_attention_2"
        | "flash_attn_2"
        | "fa2"
        | "use_flash_attn"
        | "use_flash_attention"
        | "use_flash_attention_2" => match given.as_str() {
            "sdpa" | "auto" => one("attn_implementation", "sdpa"),
            "eager" => one("attn_implementation", "eager"),
            _ if is_off => one("attn_implementation", "sdpa"),
            _ => one("attn_implementation", "flash_attention_2"),
        },
        "sdp_attention" | "sdpa" if is_off => one("attn_implementation", "eager"),
        "sdp_attention" | "sdpa" => one("attn_implementation", "sdpa"),
        "mixed_precision" => match given.as_str() {
            "bf16" | "bfloat16" => one("autocast", "bfloat16"),
            "fp16" | "float16" => one("autocast", "float16"),
            _ if is_off => one("autocast", "none"),
            _ => one("autocast", VALUE),
        },
        "lora_target" | "lora_target_modules" | "lora_modules" | "lora_target_linear" | "target_modules" => {
            match given.trim_matches(['[', ']']) {
                "all" | "all_linear" | "all-linear" | "linear" | "true" => one("target_modules", "all-linear"),
                _ => {
                    let modules = value?.split([',', ' ']).filter(|module| !module.is_empty());
                    one(
                        "target_modules",
                        &format!("[{}]", modules.collect::<Vec<_>>().join(", "))
                            .replace("[[", "[")
                            .replace("]]", "]"),
                    )
                }
            }
        }
        "use_liger_kernel"
        | "use_liger"
        | "liger"
        | "liger_kernel"
        | "enable_liger_kernel"
        | "liger_fused_linear_cross_entropy" => one("loss", if is_off { "full" } else { "liger" }),
        "cut_cross_entropy" => one("loss", if is_off { "full" } else { "cut_cross_entropy" }),
        "use_dora" | "peft_use_dora" | "dora" => one("adapter", if is_off { "lora" } else { "dora" }),
        "full" | "full_finetune" | "full_finetuning" | "full_finetuning_mode" => {
            one("rank", if is_off { VALUE } else { "0" })
        }
        "method" | "peft_method" | "peft_type" | "finetuning_type" | "adapter" => match given.as_str() {
            "full" => one("rank", "0"),
            "qlora" => Some(vec![("adapter", "lora".into()), ("dtype", "int4".into())]),
            "true" => one("adapter", VALUE),
            _ if is_off => one("rank", "0"),
            _ => one("adapter", &fitting("adapter", Some(&given))),
        },
        "fsdp" if is_off => one("distributed", "ddp"),
        "fsdp" => Some(vec![("distributed", "fsdp".into()), ("world_size", VALUE.into())]),
        "deepspeed" if is_off => one("distributed", "ddp"),
        "deepspeed" if given.is_empty() || given == "true" => one("distributed", "deepspeed"),
        "deepspeed" => one("deepspeed_config", value.unwrap_or(VALUE)),
        "zero_stage" => Some(vec![
            ("distributed", "deepspeed".into()),
            ("zero_optimization.stage", value.unwrap_or(VALUE).to_owned()),
        ]),
        "template" | "chat_template" if CHAT_TEMPLATES.contains(&given.as_str()) => one("data.chat_template", &given),
        "max_samples" => one("data.max_samples", value.unwrap_or(VALUE)),
        "betas" | "adam_betas" => {
            let mut given = value
                .unwrap_or_default()
                .trim_matches(['[', ']', '(', ')'])
                .split(',')
                .map(str::trim);
            let mut next = || {
                given
                    .next()
                    .filter(|beta| beta.parse::<f64>().is_ok())
                    .unwrap_or(VALUE)
                    .to_owned()
            };
            Some(vec![("adam_beta1", next()), ("adam_beta2", next())])
        }
        "train_on_prompt" | "train_on_inputs" if is_off => one("data.completion_only_loss", "true"),
        "train_on_prompt" | "train_on_inputs" => one("data.completion_only_loss", "false"),
        "pissa_init" if is_off => one("lora.init_lora_weights", "true"),
        "pissa_init" => one("lora.init_lora_weights", "pissa"),
        "disable_gradient_checkpointing" => one("gradient_checkpointing", "none"),
        "use_galore" => one("optim", "galore"),
        _ => None,
    }
}

/// The value in the words of a key.
fn fitting(key: &str, value: Option<&str>) -> String {
    let text = value.unwrap_or("true");
    let nested = key
        .rsplit('.')
        .fold(text.to_owned(), |inner, segment| format!("{{{segment}: {inner}}}"));
    let Ok(tree) = yaml::parse(&nested, 0, 0, Budget::SPEC) else {
        return text.to_owned();
    };
    match de::read::<Cell>(&tree) {
        Ok(_) => text.to_owned(),
        Err(error) => {
            let unknown = error.unknown.filter(|unknown| !unknown.is_key);
            let word = unknown.and_then(|unknown| near(&unknown.word, unknown.expected));
            word.unwrap_or(VALUE).to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_other_programs_keep_their_value() {
        for (name, value, help) in [
            ("seq-len", Some("4096"), "write `--set max_seq_length=4096`"),
            ("cutoff_len", Some("2048"), "write `--set max_seq_length=2048`"),
            ("bs", Some("4"), "write `--set batch_size=4`"),
            ("per_device_train_batch_size", Some("2"), "write `--set batch_size=2`"),
            ("lora_r", Some("64"), "write `--set rank=64`"),
            ("lora-alpha", Some("32"), "write `--set lora_alpha=32`"),
            ("epochs", None, "write `--set num_train_epochs=VALUE`"),
            ("lr", Some("1e-4"), "write `--set learning_rate=1e-4`"),
            ("load-in-4bit", None, "write `--set dtype=int4`"),
            ("load_in_4bit", Some("false"), "write `--set dtype=bfloat16`"),
            ("quantization", Some("4bit"), "write `--set dtype=int4`"),
            ("quantization_bit", Some("8"), "write `--set dtype=int8`"),
            ("bf16", Some("true"), "write `--set autocast=bfloat16`"),
            ("fp16", None, "write `--set autocast=float16`"),
            (
                "flash-attention",
                None,
                "write `--set attn_implementation=flash_attention_2`",
            ),
            (
                "attn",
                Some("flash"),
                "write `--set attn_implementation=flash_attention_2`",
            ),
            ("flash_attn", Some("disabled"), "write `--set attn_implementation=sdpa`"),
            ("lora_target", Some("all"), "write `--set target_modules=all-linear`"),
            (
                "lora_target",
                Some("q_proj,v_proj"),
                "write `--set 'target_modules=[q_proj, v_proj]'`",
            ),
            ("use_liger_kernel", Some("true"), "write `--set loss=liger`"),
            (
                "gradient-checkpointing",
                None,
                "write `--set gradient_checkpointing=full`",
            ),
            ("mixed_precision", Some("bf16"), "write `--set autocast=bfloat16`"),
            ("double_quant", None, "write `--set bnb_4bit_use_double_quant=true`"),
            ("liger", Some("false"), "write `--set loss=full`"),
            ("use_dora", Some("false"), "write `--set adapter=lora`"),
            (
                "adam_betas",
                Some("[0.9, 0.95]"),
                "write `--set adam_beta1=0.9` and `--set adam_beta2=0.95`",
            ),
            ("fsdp", Some("no"), "write `--set distributed=ddp`"),
            ("mixed_precision", Some("no"), "write `--set autocast=none`"),
            (
                "gradient-checkpointing",
                Some("unsloth"),
                "write `--set gradient_checkpointing=VALUE`",
            ),
            ("dataset_name", Some("alpaca"), "write `--data alpaca`"),
            ("vram", Some("24"), "write `--gpu 24GB`"),
            (
                "quantization",
                Some("awq"),
                "weights that awq quantised are not planned; bitsandbytes' are `--set dtype=int4` and `--set dtype=int8`",
            ),
            ("use_cache", Some("true"), "write `--set torch.use_cache=true`"),
            ("finetuning_type", Some("full"), "write `--set rank=0`"),
            (
                "fsdp",
                Some("full_shard"),
                "write `--set distributed=fsdp` and `--set world_size=VALUE`",
            ),
        ] {
            assert_eq!(ours(name, value, true).as_deref(), Some(help), "{name} {value:?}");
        }
        assert_eq!(
            ours("deepspeed", None, true).as_deref(),
            Some("write `--set distributed=deepspeed`")
        );
        assert_eq!(
            ours("zero_stage", Some("3"), true).as_deref(),
            Some("write `--set distributed=deepspeed` and `--set zero_optimization.stage=3`")
        );
        assert_eq!(ours("banana", None, true), None);
    }

    #[test]
    fn every_short_name_is_of_a_key_and_none_is_one() {
        let keys: Vec<&str> = cell::keys::named().collect();
        for (name, key) in SHORT {
            assert!(keys.contains(&key) && !keys.contains(&name), "{name}");
            assert_eq!(SHORT.iter().filter(|(other, _)| *other == name).count(), 1, "{name}");
        }
    }
}
