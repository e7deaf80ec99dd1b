//! The options that an adapter's configuration stands for.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use options::{
    Adapter, AdapterMethod, AdapterOptions, Bias, Ia3Options, InitLoraWeights, LoraOptions, MissOptions, NamePattern,
    Patterns, TargetModules, VeraOptions,
};

use super::config::{Config, HEADS};
use super::error::AdapterError;
use super::field_error::FieldError;
use super::folder::{CONFIG_FILE, config_file, read_config};
use super::keys::keys;
use super::lora::{Init, LoraConfig};
use super::method::MethodConfig;
use super::miss::{MissConfig, MissVariant};
use super::prompt_tuning::PromptStart;
use super::targets::{Layers, Targets};
use super::vera::VeraConfig;

/// Checks that the adapter in a folder is one of these options. Its modules are those of its tensors.
///
/// # Errors
/// If its configuration cannot be read, or differs; names the field.
pub fn check_options(dir: &Path, options: &AdapterOptions) -> Result<(), AdapterError> {
    let path = dir.join(CONFIG_FILE);
    let config = read_config(&path)?;
    match config.options().and_then(|theirs| agree(&theirs, options)) {
        Ok(()) => Ok(()),
        Err(error) => Err(AdapterError::Field {
            path,
            error: Box::new(error),
        }),
    }
}

/// Checks that the norms that LayerNorm tuning trains by a configuration, a file or a folder with one, are `norms`, by
/// the ends of their names.
///
/// # Errors
/// If it cannot be read, or names others.
pub fn check_norms(path: &Path, norms: &[&str]) -> Result<(), AdapterError> {
    let path = config_file(path);
    let checked = read_config(&path)?.check_norms(&[norms]);
    checked.map_err(|error| AdapterError::Field {
        path,
        error: Box::new(error),
    })
}

/// Compares what decides an adapter's tensors and what they compute.
fn agree(theirs: &AdapterOptions, ours: &AdapterOptions) -> Result<(), FieldError> {
    let adapter = ours.method.adapter();
    for ((field, theirs), (_, ours)) in fields(theirs).into_iter().zip(fields(ours)) {
        if theirs != ours {
            let key = keys(adapter)
                .find(|(name, _)| *name == field)
                .map_or("adapter", |(_, key)| key);
            let message = format!("`{field}` is {theirs}, and the cell's `{key}` is {ours}");
            return Err(FieldError::new(field, message));
        }
    }
    Ok(())
}

/// The fields that decide what an adapter's tensors are and compute, but for those that its tensors show. The method is
/// first.
fn fields(options: &AdapterOptions) -> Vec<(&'static str, String)> {
    let mut fields = vec![("peft_type", options.method.adapter().name().to_owned())];
    fields.extend(match &options.method {
        AdapterMethod::Lora(lora) | AdapterMethod::Dora(lora) => of_lora(lora),
        AdapterMethod::Miss(miss) => {
            let variant = if miss.mini_r.is_some() { "mini" } else { "the default" };
            vec![
                ("r", miss.rank.to_string()),
                ("init_weights", variant.into()),
                ("mini_r", miss.mini_r.unwrap_or(1).to_string()),
            ]
        }
        AdapterMethod::Vera(vera) => vec![
            ("r", vera.rank.to_string()),
            ("projection_prng_key", vera.projection_prng_key.to_string()),
        ],
        AdapterMethod::PromptTuning(_) | AdapterMethod::PrefixTuning(_) => {
            vec![("num_virtual_tokens", options.virtual_tokens().to_string())]
        }
        AdapterMethod::Ia3(_) | AdapterMethod::LnTuning => Vec::new(),
    });
    fields
}

fn of_lora(lora: &LoraOptions) -> Vec<(&'static str, String)> {
    let start = |init: InitLoraWeights| {
        if init.changes_weight() {
            init.name()
        } else {
            "the default"
        }
    };
    let (ranks, alphas) = (by_text(&lora.rank_pattern), by_text(&lora.alpha_pattern));
    vec![
        ("r", lora.rank.to_string()),
        ("lora_alpha", lora.alpha.to_string()),
        ("use_rslora", lora.use_rslora.to_string()),
        ("init_lora_weights", start(lora.init).to_owned()),
        ("rank_pattern", format!("{ranks:?}")),
        ("alpha_pattern", format!("{alphas:?}")),
        ("bias", lora.bias.name().to_owned()),
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
    pub fn options(&self) -> Result<AdapterOptions, FieldError> {
        let target_modules = match &self.target_modules {
            None => None,
            Some(Targets::Names(names)) => Some(TargetModules::Names(names.iter().cloned().collect())),
            Some(Targets::Pattern(text)) if text == "all-linear" => Some(TargetModules::AllLinear),
            Some(Targets::Pattern(text)) => {
                let pattern = NamePattern::whole(text).map_err(|error| FieldError::new("target_modules", error))?;
                Some(TargetModules::Pattern(pattern))
            }
        };
        let method = match &self.method {
            MethodConfig::Lora(lora) if lora.use_dora => AdapterMethod::Dora(lora.options()?),
            MethodConfig::Lora(lora) => AdapterMethod::Lora(lora.options()?),
            MethodConfig::PromptTuning(prompt) => AdapterMethod::PromptTuning(prompt.options()?),
            MethodConfig::PrefixTuning(prefix) => AdapterMethod::PrefixTuning(prefix.options()?),
            MethodConfig::LnTuning(_) => AdapterMethod::LnTuning,
            MethodConfig::Ia3(ia3) => {
                stored_by_rows(ia3.fan_in_fan_out)?;
                let feedforward_modules = match &ia3.feedforward_modules {
                    None => None,
                    Some(Targets::Names(names)) => Some(names.iter().cloned().collect()),
                    Some(Targets::Pattern(text)) => {
                        return Err(FieldError::unsupported("feedforward_modules", text));
                    }
                };
                AdapterMethod::Ia3(Ia3Options { feedforward_modules })
            }
            MethodConfig::Miss(miss) => AdapterMethod::Miss(miss.options()?),
            MethodConfig::Vera(vera) => AdapterMethod::Vera(vera.options()?),
        };
        let is_head = |name: &String| self.is_of_classifier() && HEADS.contains(&name.as_str());
        let saved = self.modules_to_save.iter().flatten().filter(|name| !is_head(name));
        Ok(AdapterOptions {
            target_modules,
            layers_to_transform: match &self.layers_to_transform {
                Some(Layers::One(layer)) => Some(vec![*layer]),
                // PEFT takes an empty list for none.
                Some(Layers::Several(layers)) => Some(layers.clone()).filter(|layers| !layers.is_empty()),
                None => None,
            },
            modules_to_save: saved.cloned().collect(),
            ..AdapterOptions::new(method)
        })
    }

    /// Checks that new adapters begin with values, and in modules, that are those of new adapters here.
    ///
    /// # Errors
    /// If a field asks for others.
    pub fn check_start(&self) -> Result<(), FieldError> {
        let (field, value) = match &self.method {
            MethodConfig::Lora(lora) if lora.init_lora_weights == Init::Usual(false) => ("init_lora_weights", "false"),
            MethodConfig::Ia3(ia3) if !ia3.init_ia3_weights => ("init_ia3_weights", "false"),
            MethodConfig::Miss(miss) if miss.init_weights == MissVariant::Usual(false) => ("init_weights", "false"),
            MethodConfig::Vera(vera) if !vera.init_weights => ("init_weights", "false"),
            MethodConfig::PromptTuning(prompt) if prompt.prompt_tuning_init == PromptStart::SampleVocab => {
                ("prompt_tuning_init", "SAMPLE_VOCAB")
            }
            MethodConfig::PrefixTuning(prefix) if prefix.init_weights.is_some() => ("init_weights", "zero"),
            _ => return self.check_layers(),
        };
        Err(FieldError::unsupported(field, value))
    }

    /// Checks that LayerNorm tuning trains one of these choices of norms, by the ends of their names.
    ///
    /// # Errors
    /// If it names others.
    pub fn check_norms(&self, choices: &[&[&str]]) -> Result<(), FieldError> {
        let names = match &self.target_modules {
            Some(Targets::Names(names)) if self.adapter() == Adapter::LnTuning => {
                names.iter().map(String::as_str).collect()
            }
            Some(Targets::Pattern(text)) if self.adapter() == Adapter::LnTuning => BTreeSet::from([text.as_str()]),
            _ => return Ok(()),
        };
        let choices: BTreeSet<BTreeSet<&str>> = choices.iter().map(|norms| norms.iter().copied().collect()).collect();
        if choices.contains(&names) {
            return Ok(());
        }
        let list = |names: &BTreeSet<&str>| names.iter().copied().collect::<Vec<_>>().join(", ");
        let (field, names) = ("target_modules", list(&names));
        let tuned = choices.iter().map(list).collect::<Vec<_>>().join("; or ");
        let message = format!("`{field}` names {names}, and the norms that are tuned are {tuned}");
        Err(FieldError::new(field, message))
    }

    /// PEFT heeds blocks only where it compares ends of names.
    fn check_layers(&self) -> Result<(), FieldError> {
        let (Some(Targets::Names(names)), Some(_)) = (&self.target_modules, &self.layers_to_transform) else {
            return Ok(());
        };
        let is_of_block = |name: &&String| name.split('.').any(|part| part.parse::<usize>().is_ok());
        match names.iter().find(is_of_block) {
            None => Ok(()),
            Some(name) => {
                let field = "layers_to_transform";
                let message = format!("`{field}` beside `{name}` in `target_modules`, which names its block by itself");
                Err(FieldError::new(field, message))
            }
        }
    }
}

impl LoraConfig {
    fn options(&self) -> Result<LoraOptions, FieldError> {
        stored_by_rows(self.fan_in_fan_out)?;
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

impl MissConfig {
    fn options(&self) -> Result<MissOptions, FieldError> {
        without_biases(self.bias)?;
        match &self.init_weights {
            MissVariant::Named(name) if self.repeated().is_none() => Err(FieldError::unsupported("init_weights", name)),
            _ => Ok(MissOptions {
                rank: self.r,
                dropout: self.miss_dropout,
                mini_r: self.repeated(),
            }),
        }
    }
}

impl VeraConfig {
    fn options(&self) -> Result<VeraOptions, FieldError> {
        stored_by_rows(self.fan_in_fan_out)?;
        without_biases(self.bias)?;
        Ok(VeraOptions {
            dropout: self.vera_dropout,
            d_initial: self.d_initial,
            projection_prng_key: self.projection_prng_key,
            save_projection: self.save_projection,
            ..VeraOptions::new(self.r)
        })
    }
}

/// Checks that weights have a row for each output.
fn stored_by_rows(fan_in_fan_out: bool) -> Result<(), FieldError> {
    match fan_in_fan_out {
        true => Err(FieldError::unsupported("fan_in_fan_out", true)),
        false => Ok(()),
    }
}

/// Checks that a method that trains no biases here trains none.
fn without_biases(bias: Bias) -> Result<(), FieldError> {
    match bias {
        Bias::None => Ok(()),
        other => Err(FieldError::unsupported("bias", other.name())),
    }
}
