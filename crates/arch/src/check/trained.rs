//! Checks of the keys that say which layers have which adapter, and which weights are trained.

use base::text::suggestion;
use options::methods::interface::Method;
use options::{
    AdapterMethod, AdapterOptions, Bias, ExcludedModules, ModelOptions, NamePattern, OffloadedBlocks, Patterns, Stack,
    TargetModules, ends_in,
};

use crate::config::ModelConfig;
use crate::error::ArchError;
use crate::module::{Kind, Module};

/// Checks that these keys suit the model.
pub fn check(config: &ModelConfig, options: &ModelOptions, stack: Stack) -> Result<(), ArchError> {
    check_searches(config, options)?;
    check_trainable(config, options)?;
    check_leaving(config, options)?;
    let Some(adapter) = &options.adapter else {
        return Ok(());
    };
    check_choice(config, adapter)?;
    check_ia3(config, adapter)?;
    if adapter.adapter().is_of_norms() && config.tuned_norms().is_none() {
        return Err(ArchError::TunedNorms(config.family.name()));
    }
    let has_window = (0..config.num_hidden_layers).any(|block| config.window(block).is_some());
    if has_window && adapter.adapter().is_cached() {
        return Err(ArchError::PrefixWindow(config.family.name()));
    }
    let adapted: Vec<Adapted> = config.adapted(adapter).collect();
    let method = adapter.method.options();
    for (name, module) in &adapted {
        let layer = config.layer(adapter, name, module);
        method.check_layer(&layer).map_err(ArchError::Adapter)?;
    }
    check_layers(config, adapter, stack)?;
    check_saved(config, options, adapter)?;
    let patterns = [
        ("rank_pattern", method.rank_pattern().map(names)),
        ("alpha_pattern", method.alpha_pattern().map(names)),
    ];
    for (field, patterns) in patterns {
        let key = adapter.adapter().facts().key_of(field).unwrap_or(field);
        check_pattern(key, &patterns.unwrap_or_default(), &adapted)?;
    }
    check_bias(config, adapter.bias(), &adapted)
}

/// Checks that weights leave the device: some of each block that is named, or of any of a share.
fn check_leaving(config: &ModelConfig, options: &ModelOptions) -> Result<(), ArchError> {
    let Some(offloaded) = &options.offloaded_blocks else {
        return Ok(());
    };
    let blocks = config.num_hidden_layers;
    let leaving = (0..blocks).filter(|block| offloaded.contains(*block, blocks));
    let trained = |block: &usize| !has_frozen_weight(config, options, *block);
    let idle = match offloaded {
        OffloadedBlocks::Blocks(_) => leaving.clone().find(trained),
        OffloadedBlocks::Ratio(_) => leaving
            .clone()
            .next()
            .filter(|_| leaving.clone().all(|block| trained(&block))),
    };
    idle.map_or(Ok(()), |block| Err(ArchError::TrainedBlock(block)))
}

/// True if a weight or a bias of a block stays as it is.
fn has_frozen_weight(config: &ModelConfig, options: &ModelOptions, block: usize) -> bool {
    let mut modules = config
        .modules()
        .filter(|(name, _)| config.block_of(name) == Some(block));
    modules.any(|(name, module)| {
        !options.trains(&name, "weight") || module.bias.of(config) && !options.trains(&name, "bias")
    })
}

/// The patterns of a map.
fn names<T>(patterns: &Patterns<T>) -> Vec<&NamePattern> {
    patterns.keys().collect()
}

/// A linear layer that gets an adapter, with its name in full.
type Adapted = (String, &'static Module);

/// Checks that no search for a pattern gives up, which would look like a name that does not match.
fn check_searches(config: &ModelConfig, options: &ModelOptions) -> Result<(), ArchError> {
    let adapter = options.adapter.as_ref();
    let target = adapter.and_then(|adapter| match &adapter.target_modules {
        Some(TargetModules::Pattern(pattern)) => Some(pattern),
        None | Some(TargetModules::AllLinear | TargetModules::Peft | TargetModules::Names(_)) => None,
    });
    let excluded = adapter.and_then(|adapter| match &adapter.exclude_modules {
        Some(ExcludedModules::Pattern(pattern)) => Some(pattern),
        None | Some(ExcludedModules::Names(_)) => None,
    });
    let method = adapter.map(|adapter| adapter.method.options());
    let ranks = method
        .and_then(Method::rank_pattern)
        .into_iter()
        .flat_map(Patterns::keys);
    let alphas = method
        .and_then(Method::alpha_pattern)
        .into_iter()
        .flat_map(Patterns::keys);
    let of_adapter = target.into_iter().chain(excluded).chain(ranks).chain(alphas);
    let patterns: Vec<&NamePattern> = of_adapter.chain(options.trainable.iter().flatten()).collect();
    for (module, _) in config.modules() {
        let names = [module.clone(), format!("{module}.weight"), format!("{module}.bias")];
        let gives_up = |pattern: &&&NamePattern| names.iter().any(|name| pattern.search(name).is_err());
        if let Some(pattern) = patterns.iter().find(gives_up) {
            return Err(ArchError::LongSearch {
                pattern: pattern.to_string(),
                module,
            });
        }
    }
    Ok(())
}

/// Checks that each pattern is one of some weight, and no weight that is trained is quantised.
fn check_trainable(config: &ModelConfig, options: &ModelOptions) -> Result<(), ArchError> {
    for pattern in options.trainable.iter().flatten() {
        let is_of = |name: &str, module: &Module| {
            let has_bias = module.bias.of(config) && pattern.matches(&format!("{name}.bias"));
            has_bias || pattern.matches(name) || pattern.matches(&format!("{name}.weight"))
        };
        if !config.modules().any(|(name, module)| is_of(&name, module)) {
            return Err(ArchError::NoWeight(pattern.to_string()));
        }
    }
    let is_dense = !options.dtype.is_quantised() || options.trainable.is_none();
    let mut linear = config.modules().filter(|(_, module)| module.kind == Kind::Linear);
    match linear.find(|(name, _)| !is_dense && options.trains(name, "weight")) {
        Some((module, _)) => Err(ArchError::TrainedQuantised {
            key: "trainable",
            module,
        }),
        None => Ok(()),
    }
}

/// Checks that there are all of the blocks, and a layer with an adapter.
fn check_layers(config: &ModelConfig, adapter: &AdapterOptions, stack: Stack) -> Result<(), ArchError> {
    let blocks = config.num_hidden_layers;
    let mut layers = adapter.layers_to_transform.iter().flatten();
    if let Some(&asked) = layers.find(|layer| **layer >= blocks) {
        return Err(ArchError::Layer { asked, blocks });
    }
    let has_none = config.adapted(adapter).next().is_none();
    let Some(TargetModules::Pattern(pattern)) = &adapter.target_modules else {
        return match has_none {
            true if !adapter.modules_to_save.is_empty() => Err(ArchError::AllSaved),
            true if adapter.exclude_modules.is_some() => Err(ArchError::AllExcluded),
            // Names that the model has not are a mistake by themselves.
            true if adapter.layers_to_transform.is_some() => Err(ArchError::NoneAdapted),
            _ => Ok(()),
        };
    };
    if has_none {
        return Err(ArchError::NoModule {
            key: "target_modules".to_owned(),
            pattern: pattern.to_string(),
        });
    }
    if stack == Stack::Torch
        && let Some(module) = other_modules(config).find(|name| pattern.matches(name))
    {
        return Err(ArchError::NotLinear {
            pattern: pattern.to_string(),
            module,
        });
    }
    Ok(())
}

/// The first of these names, or the pattern, that no module of the model has: no layer, norm, embedding, or module that
/// holds others.
pub fn unknown_module(config: &ModelConfig, excluded: &ExcludedModules) -> Option<ExcludedModules> {
    let layers = config.layers_for_adapters().map(|(name, _)| name);
    let heads = config.modules().filter(|(_, module)| module.kind == Kind::Classifier);
    let heads = heads.map(|(name, _)| name);
    let modules: Vec<String> = layers.chain(heads).chain(other_modules(config)).collect();
    let is_unknown = |part: &ExcludedModules| !modules.iter().any(|module| part.contains(module));
    excluded.parts().into_iter().find(is_unknown)
}

/// The names of modules that PEFT gives no adapter by a pattern: norms, embeddings, and modules that hold others.
fn other_modules(config: &ModelConfig) -> impl Iterator<Item = String> {
    let with_outer = |(name, module): (String, &Module)| {
        let is_layer = matches!(module.kind, Kind::Linear | Kind::TokenHead | Kind::Classifier);
        let outer: Vec<String> = name.match_indices('.').map(|(at, _)| name[..at].to_owned()).collect();
        outer.into_iter().chain((!is_layer).then_some(name))
    };
    config.modules().flat_map(with_outer)
}

/// Checks that PEFT chooses layers, where it is asked to.
fn check_choice(config: &ModelConfig, adapter: &AdapterOptions) -> Result<(), ArchError> {
    let is_open = adapter.target_modules == Some(TargetModules::Peft);
    match config.family.chosen_layers(adapter.adapter()) {
        None if is_open && !matches!(adapter.method, AdapterMethod::Ia3(_)) => {
            Err(ArchError::PeftModules(config.family.name()))
        }
        _ => Ok(()),
    }
}

/// Checks that PEFT chooses the layers that IA3 scales, where a cell does not.
fn check_ia3(config: &ModelConfig, adapter: &AdapterOptions) -> Result<(), ArchError> {
    let AdapterMethod::Ia3(ia3) = &adapter.method else {
        return Ok(());
    };
    let is_open =
        matches!(adapter.target_modules, None | Some(TargetModules::Peft)) || ia3.feedforward_modules.is_none();
    if is_open && config.ia3().is_none() {
        return Err(ArchError::Ia3Modules(config.family.name()));
    }
    match ia3
        .feedforward_modules
        .iter()
        .flatten()
        .find(|name| !config.adapted(adapter).any(|(module, _)| ends_in(&module, name)))
    {
        Some(name) => Err(ArchError::Feedforward(name.clone())),
        None => Ok(()),
    }
}

/// Checks that each pattern is one of some module that gets an adapter, and no module is one of two.
fn check_pattern(key: &str, patterns: &[&NamePattern], adapted: &[Adapted]) -> Result<(), ArchError> {
    for (name, _) in adapted {
        let mut found = patterns.iter().filter(|pattern| pattern.matches(name));
        if let (Some(first), Some(second)) = (found.next(), found.next()) {
            return Err(ArchError::TwoPatterns {
                key: key.to_owned(),
                module: name.clone(),
                patterns: [first.to_string(), second.to_string()],
            });
        }
    }
    let is_of_none = |pattern: &&&NamePattern| !adapted.iter().any(|(name, _)| pattern.matches(name));
    match patterns.iter().find(is_of_none) {
        Some(pattern) => Err(ArchError::NoModule {
            key: key.to_owned(),
            pattern: pattern.to_string(),
        }),
        None => Ok(()),
    }
}

/// Checks that the modules that are saved whole are there, can be trained, and are those that PEFT takes.
fn check_saved(config: &ModelConfig, options: &ModelOptions, adapter: &AdapterOptions) -> Result<(), ArchError> {
    let head = config.family.description().token_head();
    let head = head.filter(|_| config.tie_word_embeddings);
    let modules: Vec<Adapted> = config
        .modules()
        .chain(head.map(|module| (module.path.to_owned(), module)))
        .collect();
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in &modules {
        names.extend(
            name.match_indices('.')
                .map(|(at, _)| &name[..at])
                .chain([name.as_str()]),
        );
    }
    for saved in &adapter.modules_to_save {
        if !names.iter().any(|name| ends_in(name, saved)) {
            let last_parts = names.iter().filter_map(|name| name.rsplit('.').next());
            return Err(ArchError::NoSaved {
                name: saved.clone(),
                hint: suggestion(saved, last_parts).map_or_else(String::new, |hint| format!("; {hint}")),
            });
        }
        // PEFT compares no parts, only letters.
        if let Some(other) = names.iter().find(|name| name.ends_with(saved) && !ends_in(name, saved)) {
            return Err(ArchError::SavedToo {
                name: saved.clone(),
                module: (*other).to_owned(),
            });
        }
    }
    for (name, module) in modules.iter().filter(|(name, _)| adapter.saves_whole(name)) {
        match module.kind {
            Kind::Classifier => return Err(ArchError::HeadIsSaved(name.clone())),
            Kind::Linear if options.dtype.is_quantised() => {
                return Err(ArchError::TrainedQuantised {
                    key: "modules_to_save",
                    module: name.clone(),
                });
            }
            _ => {}
        }
    }
    Ok(())
}

/// Checks that there are biases to train, if any are asked for.
fn check_bias(config: &ModelConfig, bias: Bias, adapted: &[Adapted]) -> Result<(), ArchError> {
    let (has_some, of) = match bias {
        Bias::None => return Ok(()),
        Bias::All => (
            config.modules().any(|(_, module)| module.bias.of(config)),
            "the model has",
        ),
        Bias::LoraOnly => {
            let has_some = adapted.iter().any(|(_, module)| module.bias.of(config));
            (has_some, "the layers with an adapter have")
        }
    };
    match has_some {
        true => Ok(()),
        false => Err(ArchError::NoBias(of)),
    }
}
