//! What was trained: the adapter and the head in PEFT's format, or the whole model in transformers'.

use std::{collections::HashSet, path::Path};

use arch::{ModuleName, WeightName};
use hub::Roots;
use model::{ModelError, Source};
use nn::param::Param;
use options::ModelOptions;
use peft::AdapterTensor;

use super::{TrainError, Trainer};

/// Writes the adapter into `dir`. Returns the bytes of its weights' file, `None` without adapters.
pub(super) fn adapter(options: &ModelOptions, trainer: &mut Trainer, dir: &Path) -> Result<Option<u64>, TrainError> {
    let Some(adapter) = &options.adapter else {
        return Ok(None);
    };
    let tensors = tensors(trainer, |_, _| true)?;
    let config = peft::Config::new(options.task, &options.name, adapter);
    Ok(Some(peft::write(dir, &config, &tensors)?))
}

/// Writes an adapter that has not been trained into `dir`. Returns the names, in the file, of the tensors that have their start:
/// those that follow from the model's weights have none.
pub(super) fn start(options: &ModelOptions, trainer: &mut Trainer, dir: &Path) -> Result<Vec<String>, TrainError> {
    let Some(adapter) = &options.adapter else {
        return Ok(Vec::new());
    };
    let mut starts = Vec::new();
    let tensors = tensors(trainer, |param, name| {
        let follows_weight = name.ends_with(options::methods::MAGNITUDE) || adapter.changes_weight();
        let is_known = param.is_adapter() && !follows_weight;
        starts.extend(is_known.then(|| peft::file_name(name)));
        is_known
    })?;
    starts.extend(trainer.saved_factors().iter().map(|(name, _)| peft::file_name(name)));
    peft::write(dir, &peft::Config::new(options.task, &options.name, adapter), &tensors)?;
    Ok(starts)
}

/// What is saved of the adapters: zeros for weights that are not known.
fn tensors(
    trainer: &mut Trainer,
    mut is_known: impl FnMut(&Param, &str) -> bool,
) -> Result<Vec<AdapterTensor>, TrainError> {
    let params = trainer.saved();
    let mut tensors = Vec::with_capacity(params.len());
    for (param, name) in params.iter().zip(saved_names(&params)) {
        tensors.push(AdapterTensor {
            shape: param.value.dims().to_vec(),
            values: match is_known(param, &name) {
                true => param.value.to_vec_f32()?,
                false => vec![0.0; param.value.len()],
            },
            name,
        });
    }
    for (name, factor) in trainer.saved_factors() {
        tensors.push(AdapterTensor {
            name: name.into(),
            shape: factor.dims().to_vec(),
            values: factor.to_vec_f32()?,
        });
    }
    Ok(tensors)
}

/// The names that PEFT saves tensors by. The bias of a layer with an adapter belongs to the layer within.
pub(super) fn saved_names(params: &[&mut Param]) -> Vec<String> {
    let of_adapters = params.iter().filter(|param| param.is_adapter());
    let adapted: HashSet<ModuleName> = of_adapters.map(|param| param.name.module).collect();
    let name = |name: WeightName| match name.part {
        options::methods::PROMPT_EMBEDDING => options::methods::PROMPT_EMBEDDINGS.into(),
        "bias" if adapted.contains(&name.module) => format!("{}.{}", name.module, peft::BASE_BIAS),
        _ => name.to_string(),
    };
    params.iter().map(|param| name(param.name)).collect()
}

/// Writes the whole model into `dir`: the trained weights, and the others as they were.
pub(super) fn model(
    options: &ModelOptions,
    roots: &Roots,
    trainer: &mut Trainer,
    dir: &Path,
) -> Result<(), TrainError> {
    let location = arch::locate(&options.name, roots).map_err(ModelError::from)?;
    let source = Source::open(options, roots)?;
    let trained: Vec<&Param> = trainer.trainable().into_iter().map(|param| &*param).collect();
    Ok(model::save(
        dir,
        &location,
        data::EMBEDDED_TOKENIZER,
        &trained,
        &source,
    )?)
}
