//! The options that an adapter's configuration stands for.

use std::collections::BTreeMap;
use std::path::Path;

use super::config::Config;
use super::error::AdapterError;
use super::folder::{CONFIG_FILE, read_config};
use super::lora::LoraConfig;
use super::method::MethodConfig;
use super::targets::{Layers, Targets};
use crate::options::{
    AdapterMethod, AdapterOptions, InitLoraWeights, LoraOptions, NamePattern, Patterns, TargetModules,
};

/// Checks that the adapter in a folder is one of these options. Its modules are those of its tensors.
///
/// # Errors
/// If its configuration cannot be read, or differs; names the field.
pub fn check_options(dir: &Path, options: &AdapterOptions) -> Result<(), AdapterError> {
    let path = dir.join(CONFIG_FILE);
    let config = read_config(&path)?;
    match config.options().and_then(|theirs| agree(&theirs, options)) {
        Ok(()) => Ok(()),
        Err(problem) => Err(AdapterError::Field { path, problem }),
    }
}

/// Compares what decides an adapter's tensors and what they compute.
fn agree(theirs: &AdapterOptions, ours: &AdapterOptions) -> Result<(), String> {
    let differ = |field: &str, theirs: &str, key: &str, ours: &str| {
        Err(format!("`{field}` is {theirs}, and the cell's `{key}` is {ours}"))
    };
    let names = [theirs, ours].map(|options| options.method.adapter().name());
    if names[0] != names[1] {
        return differ("peft_type", names[0], "adapter", names[1]);
    }
    let tokens = [theirs, ours].map(|options| options.virtual_tokens().to_string());
    if tokens[0] != tokens[1] {
        let key = format!("{}.num_virtual_tokens", names[1]);
        return differ("num_virtual_tokens", &tokens[0], &key, &tokens[1]);
    }
    let texts = |options: &AdapterOptions| options.lora_options().map(fields).unwrap_or_default();
    for ((field, key, theirs), (_, _, ours)) in texts(theirs).into_iter().zip(texts(ours)) {
        if theirs != ours {
            return differ(field, &theirs, key, &ours);
        }
    }
    Ok(())
}

/// PEFT's fields of LoRA with the cell's keys and the values.
fn fields(lora: &LoraOptions) -> Vec<(&'static str, &'static str, String)> {
    let start = |init: InitLoraWeights| {
        if init.changes_weight() {
            init.name()
        } else {
            "the default"
        }
    };
    let (ranks, alphas) = (by_text(&lora.rank_pattern), by_text(&lora.alpha_pattern));
    vec![
        ("r", "rank", lora.rank.to_string()),
        ("lora_alpha", "lora_alpha", lora.alpha.to_string()),
        ("use_rslora", "lora.use_rslora", lora.use_rslora.to_string()),
        (
            "init_lora_weights",
            "lora.init_lora_weights",
            start(lora.init).to_owned(),
        ),
        ("rank_pattern", "lora.rank_pattern", format!("{ranks:?}")),
        ("alpha_pattern", "lora.alpha_pattern", format!("{alphas:?}")),
        ("bias", "lora.bias", format!("{:?}", lora.bias)),
    ]
}

fn by_text<T: Copy>(patterns: &Patterns<T>) -> BTreeMap<String, T> {
    let texts = patterns.iter();
    texts.map(|(pattern, value)| (pattern.to_string(), *value)).collect()
}

impl Config {
    /// The options of the adapters.
    ///
    /// # Errors
    /// If a field asks for something that is not done here.
    pub fn options(&self) -> Result<AdapterOptions, String> {
        let target_modules = match &self.target_modules {
            None if !self.adapter().has_virtual_tokens() => return Err("`target_modules` is not there".into()),
            None => None,
            Some(names @ Targets::Names(_)) => {
                Some(TargetModules::Names(names.last_components().into_iter().collect()))
            }
            Some(Targets::Pattern(text)) if text == "all-linear" => Some(TargetModules::AllLinear),
            Some(Targets::Pattern(text)) => Some(TargetModules::Pattern(NamePattern::whole(text)?)),
        };
        let method = match &self.method {
            MethodConfig::Lora(lora) if lora.use_dora => AdapterMethod::Dora(lora.options()?),
            MethodConfig::Lora(lora) => AdapterMethod::Lora(lora.options()?),
            MethodConfig::PromptTuning(prompt) => AdapterMethod::PromptTuning(prompt.options()),
            MethodConfig::PrefixTuning(prefix) => AdapterMethod::PrefixTuning(prefix.options()?),
            MethodConfig::LnTuning(_) => AdapterMethod::LnTuning,
            MethodConfig::Ia3(_) | MethodConfig::Miss(_) | MethodConfig::Vera(_) => {
                let name = self.adapter().name();
                return Err(format!("`peft_type` is that of {name}, which is not read yet"));
            }
        };
        Ok(AdapterOptions {
            target_modules,
            layers_to_transform: self.layers_to_transform.as_ref().map(|layers| match layers {
                Layers::One(layer) => vec![*layer],
                Layers::Several(layers) => layers.clone(),
            }),
            modules_to_save: self.modules_to_save.clone().unwrap_or_default(),
            ..AdapterOptions::new(method)
        })
    }
}

impl LoraConfig {
    fn options(&self) -> Result<LoraOptions, String> {
        if self.fan_in_fan_out {
            return Err("`fan_in_fan_out: true` is not supported".into());
        }
        Ok(LoraOptions {
            dropout: self.lora_dropout,
            use_rslora: self.use_rslora,
            init: self.init_lora_weights.init(),
            rank_pattern: self.rank_pattern.clone(),
            alpha_pattern: self.alpha_pattern.clone(),
            bias: self.bias,
            ..LoraOptions::new(self.r, self.lora_alpha)
        })
    }
}
