//! The features that each stack computes: checks on top of a model's description.

use super::config::{ModelConfig, SlidingWindow};
use super::error::{ArchError, Unsupported};
use super::family::{self, Family};
use super::presets::Preset;
use super::rope::RopeScaling;
use crate::options::{ModelOptions, Stack, TargetModules, Task, Weights};

/// The families that our trainer computes, in the order of their lines in `model::families`.
pub const TRAINED: [Family; 4] = [Family::Llama, Family::Phi3, Family::DistilBert, Family::Bert];

/// Checks that `stack` computes all features of a model.
///
/// # Errors
/// Names the feature that the stack does not compute.
pub fn check(config: &ModelConfig, stack: Stack) -> Result<(), Unsupported> {
    check_activation(config)?;
    // transformers' code for the other families rotates whole heads.
    if config.rope.partial_factor != 1.0 && config.family != Family::Phi3 {
        return Err(Unsupported::PartialRotary);
    }
    // A way to scale rotary frequencies changes no size, so PyTorch's stack is planned with any. A checkpoint that is
    // quantised already is planned as one that is quantised while it is loaded.
    match stack {
        Stack::Candle => check_trained(config),
        Stack::Torch => Ok(()),
    }
}

/// The presets that `stack` computes.
pub fn presets(stack: Stack) -> impl Iterator<Item = Preset> {
    let presets = Preset::ALL.iter().copied();
    presets.filter(move |preset| check(&preset.config(), stack).is_ok())
}

/// The linear layers that can have an adapter, in models that `stack` computes for `task`.
pub fn target_modules(stack: Stack, task: Task) -> Vec<&'static str> {
    let is_computed = |family: &Family| stack == Stack::Torch || TRAINED.contains(family);
    let families = Family::ALL.iter().copied().filter(is_computed);
    family::target_modules(families.filter(|family| family.description().task == task))
}

/// The names of the families that our trainer computes.
pub(crate) fn trained() -> Vec<&'static str> {
    TRAINED.iter().map(|family| family.name()).collect()
}

fn check_trained(config: &ModelConfig) -> Result<(), Unsupported> {
    if !TRAINED.contains(&config.family) {
        return Err(Unsupported::Family {
            model: config.family.name(),
            trained: trained(),
        });
    }
    if config.is_quantized {
        return Err(Unsupported::Quantized);
    }
    if config.task() == Task::SequenceClassification {
        return Ok(());
    }
    if config.head.is_none() {
        return Err(Unsupported::Head(config.family.description().class));
    }
    for (key, set) in [("attention_bias", config.attention_bias), ("mlp_bias", config.mlp_bias)] {
        if set {
            return Err(Unsupported::Biases { key });
        }
    }
    if let Some(RopeScaling::Other(kind)) = &config.rope.scaling {
        return Err(Unsupported::RopeScaling(kind.clone()));
    }
    match config.rotary_dim() {
        rotary_dim if rotary_dim > 0 && rotary_dim.is_multiple_of(2) => Ok(()),
        rotary_dim => Err(Unsupported::RotaryDim(rotary_dim)),
    }
}

fn check_activation(config: &ModelConfig) -> Result<(), Unsupported> {
    let known = config.family.description().defaults.activation;
    if config.activation == known {
        return Ok(());
    }
    let names = config.family.description().key_names.iter();
    let key = names.copied().find(|(key, _)| *key == "hidden_act");
    Err(Unsupported::Activation {
        key: key.map_or("hidden_act", |(_, name)| name),
        found: config.activation.clone(),
        known,
    })
}

/// Checks that the model of `place` suits `options` and `stack`.
pub(super) fn check_model(
    config: &ModelConfig,
    options: &ModelOptions,
    stack: Stack,
    place: &str,
) -> Result<(), ArchError> {
    let unsupported = |error| ArchError::Unsupported {
        place: place.into(),
        error,
    };
    check(config, stack).map_err(unsupported)?;
    if config.task() != options.task {
        return Err(ArchError::Task {
            asked: options.task,
            can: config.task(),
        });
    }
    match stack {
        Stack::Candle => {
            check_window(config, options.max_seq_length).map_err(unsupported)?;
            check_options(config, options)
        }
        Stack::Torch => Ok(()),
    }
}

/// Our trainer has no windows, so a sample must fit one.
fn check_window(config: &ModelConfig, length: usize) -> Result<(), Unsupported> {
    match config.sliding_window {
        Some(SlidingWindow { tokens, .. }) if tokens < length => Err(Unsupported::Window { tokens, length }),
        _ => Ok(()),
    }
}

/// Checks what our trainer asks of a checkpoint's head and of the target modules.
fn check_options(config: &ModelConfig, options: &ModelOptions) -> Result<(), ArchError> {
    let has_labels = config.head == Some(Task::SequenceClassification) && options.weights == Weights::Pretrained;
    if has_labels && config.num_labels != options.num_labels {
        return Err(ArchError::Labels {
            asked: options.num_labels,
            has: config.num_labels,
        });
    }
    if let Some(offloaded) = &options.offloaded_blocks {
        offloaded.check(config.num_hidden_layers).map_err(ArchError::Blocks)?;
    }
    let Some(TargetModules::Names(names)) = options.lora.as_ref().map(|lora| &lora.target_modules) else {
        return Ok(());
    };
    let known = config.target_modules();
    match names.iter().find(|name| !known.contains(&name.as_str())) {
        Some(name) => Err(ArchError::Module {
            name: name.clone(),
            known: known.join(", "),
        }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_must_fit_the_window() {
        let config = ModelConfig::from_json(br#"{"model_type": "phi3", "sliding_window": 2047}"#).unwrap();
        assert_eq!(check_window(&config, 2047), Ok(()));
        let message = check_window(&config, 2048).unwrap_err().to_string();
        assert!(
            message.contains("2047 tokens") && message.contains("`max_seq_length: 2048`"),
            "{message}"
        );
        assert_eq!(check_window(&Preset::named("tiny").unwrap().config(), 1 << 20), Ok(()));
    }
}
