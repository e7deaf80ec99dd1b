//! The features that each stack computes: checks on top of a model's description.

mod trained;

use options::{AdapterOptions, Attention, Dtype, Loss, ModelOptions, Stack, TargetModules, Task, Weights, ends_in};

use super::config::{BITSANDBYTES, ModelConfig, Quantised};
use super::error::{ArchError, Unsupported};
use super::family::{self, Family};
use super::module::Kind;
use super::presets::Preset;
use super::rope::RopeScaling;

pub use trained::check as check_modules;

/// Checks that `stack` computes all features of a model.
///
/// # Errors
/// Names the feature that the stack does not compute.
pub fn check(config: &ModelConfig, stack: Stack) -> Result<(), Unsupported> {
    check_activation(config)?;
    if config.rope.partial_factor != 1.0 && !config.family.description().rotates_shares {
        return Err(Unsupported::PartialRotary);
    }
    // A way to scale rotary frequencies changes no size, so PyTorch's stack is planned with any. A checkpoint that
    // bitsandbytes quantised already is planned as one that is quantised while it is loaded.
    match (stack, &config.quantised) {
        (Stack::Candle, _) => check_trained(config),
        (Stack::Torch, Some(Quantised { by, .. })) if by != BITSANDBYTES => Err(Unsupported::QuantizedBy(match by {
            words if words.contains(' ') => words.clone(),
            method => method.to_ascii_uppercase(),
        })),
        (Stack::Torch, _) => Ok(()),
    }
}

/// Says how many positions a model has, and how many of them `own` virtual tokens take.
pub fn positions(model: &str, most: usize, own: usize) -> String {
    let taken = match own {
        0 => String::new(),
        own => format!(", of which virtual tokens take {own}"),
    };
    format!("the model `{model}` has {most} positions (max_position_embeddings{taken})")
}

/// The presets that `stack` computes.
pub fn presets(stack: Stack) -> impl Iterator<Item = Preset> {
    let presets = Preset::all().iter().copied();
    presets.filter(move |preset| check(&preset.config(), stack).is_ok())
}

/// The layers that can have an adapter, in models that `stack` computes for `task`; the head that predicts tokens last.
pub fn target_modules(stack: Stack, task: Task) -> Vec<&'static str> {
    let is_computed = |family: &Family| stack == Stack::Torch || family.description().built_as.is_some();
    let families = || {
        let computed = Family::ALL.iter().copied().filter(is_computed);
        computed.filter(|family| family.description().task == task)
    };
    let mut names = family::target_modules(families());
    for head in families().filter_map(|family| family.description().token_head()) {
        if !names.contains(&head.name()) {
            names.push(head.name());
        }
    }
    names
}

/// The families that our trainer computes.
pub fn trained_families() -> impl Iterator<Item = Family> {
    let families = Family::ALL.iter().copied();
    families.filter(|family| family.description().built_as.is_some())
}

/// The names of the families that our trainer computes.
pub fn trained() -> Vec<&'static str> {
    trained_families().map(Family::name).collect()
}

fn check_trained(config: &ModelConfig) -> Result<(), Unsupported> {
    if config.family.description().built_as.is_none() {
        return Err(Unsupported::Family {
            model: config.family.name(),
            trained: trained(),
        });
    }
    if config.quantised.is_some() {
        return Err(Unsupported::Quantized);
    }
    if config.task() == Task::SequenceClassification {
        return Ok(());
    }
    if config.head.is_none() {
        return Err(Unsupported::Head(config.family.description().class));
    }
    for rope in [Some(&config.rope), config.local_rope.as_ref()].into_iter().flatten() {
        if let Some(RopeScaling::Other(kind)) = &rope.scaling {
            return Err(Unsupported::RopeScaling(kind.clone()));
        }
    }
    match config.rotary_dim() {
        rotary_dim if rotary_dim > 0 && rotary_dim.is_multiple_of(2) => Ok(()),
        rotary_dim => Err(Unsupported::RotaryDim(rotary_dim)),
    }
}

fn check_activation(config: &ModelConfig) -> Result<(), Unsupported> {
    let known = config.family.description().defaults.activation[0];
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
    trained::check(config, options, stack)?;
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
        Stack::Candle => check_options(config, options),
        Stack::Torch => check_torch(config, options).map_err(unsupported),
    }
}

/// Checks that transformers computes a model's soft caps in the way that is asked for, and that a checkpoint that is
/// quantised already has the format that is asked for: transformers takes the checkpoint's.
fn check_torch(config: &ModelConfig, options: &ModelOptions) -> Result<(), Unsupported> {
    if let Some(Quantised { dtype, quant_type, .. }) = &config.quantised {
        if let Some(dtype) = dtype.filter(|dtype| *dtype != options.dtype) {
            return Err(Unsupported::QuantizedTo {
                key: "dtype",
                has: if dtype == Dtype::Int8 { "int8" } else { "int4" },
            });
        }
        if let Some(has) = quant_type.filter(|has| *has != options.bnb_4bit_quant_type && options.dtype == Dtype::Int4)
        {
            return Err(Unsupported::QuantizedTo {
                key: "bnb_4bit_quant_type",
                has: has.name(),
            });
        }
    }
    // `sdpa_attention_forward` in `integrations/sdpa_attention.py`.
    if config.attention_softcap.is_some() && options.attn_implementation == Attention::Sdpa {
        return Err(Unsupported::CappedScores);
    }
    if config.logit_softcap.is_some() && options.loss == Loss::Chunked {
        return Err(Unsupported::CappedLogits);
    }
    Ok(())
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
    if options.offloads_embeddings && !has_frozen_table(config, options) {
        return Err(ArchError::TrainedTables);
    }
    check_adapted_head(config, options)?;
    let targets = options
        .adapter
        .as_ref()
        .and_then(|adapter| adapter.target_modules.as_ref());
    let Some(TargetModules::Names(names)) = targets else {
        return Ok(());
    };
    let known = config.target_modules();
    let is_there = |name: &&String| {
        let mut layers = config.layers_for_adapters();
        layers.any(|(module, _)| ends_in(&module, name))
    };
    match names.iter().find(|name| !is_there(name)) {
        Some(name) => Err(ArchError::Module {
            name: name.clone(),
            known: known.join(", "),
        }),
        None => Ok(()),
    }
}

/// Checks what an adapter of the head asks of the tables.
fn check_adapted_head(config: &ModelConfig, options: &ModelOptions) -> Result<(), ArchError> {
    let adapts_head = |adapter: &&AdapterOptions| {
        config
            .adapted(adapter)
            .any(|(_, module)| module.kind == Kind::TokenHead)
    };
    let Some(adapter) = options.adapter.as_ref().filter(adapts_head) else {
        return Ok(());
    };
    if options.offloads_embeddings {
        return Err(ArchError::OffloadedHead);
    }
    let is_tied = config.head_table(options) == config.family.description().embeddings[0].path;
    let start = adapter.lora_options().map(|lora| lora.init_lora_weights);
    match start.filter(|start| is_tied && start.changes_weight()) {
        Some(start) => Err(ArchError::TiedStart(start.name())),
        None => Ok(()),
    }
}

/// True if the table of tokens' vectors or that of the head stays as it is.
fn has_frozen_table(config: &ModelConfig, options: &ModelOptions) -> bool {
    let tables = [
        config.family.description().embeddings[0].path,
        config.head_table(options),
    ];
    tables.iter().any(|name| !options.trains(name, "weight"))
}
