//! What training will take, before anything runs.
//!
//! A stack (`candle/`, our trainer) writes a [`trace`] of what it will allocate and release; an [`account`] replays it
//! for the live bytes. [`Planner`] puts together what is said of a cell, and [`advice`] what would make it fit.

pub mod account;
pub mod advice;
pub mod batches;
pub mod caching_allocator;
pub mod candle;
pub mod device;
pub mod torch;
pub mod trace;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{
    data::DataError,
    memory::{ByPhase, Category, Phase},
    model::{self, Config, ModelError},
    results::prediction::{Prediction, Verdict},
    spec::cell::{Cell, TargetModules, Task},
};
use account::Account;

/// Why a cell could not be planned.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error(transparent)]
    Data(#[from] DataError),
    #[error("the model `{model}` has {most} positions (max_position_embeddings), fewer than max_seq_length")]
    Positions { model: String, most: usize },
}

/// Plans the cells of a spec.
#[derive(Debug)]
pub struct Planner {
    /// Where relative paths in cells start.
    base_dir: PathBuf,
    /// In place of the cells' own.
    budget: Option<u64>,
    /// Shapes that were read, by what decides them.
    models: Mutex<HashMap<ModelKey, Arc<Config>>>,
    /// Sizes of adapters' files, by the model and what decides them beside it.
    adapter_files: Mutex<HashMap<(ModelKey, usize, TargetModules), Option<u64>>>,
}

/// The cell's keys that decide a model's shape.
type ModelKey = (String, Task, usize);

impl Planner {
    /// `budget` is what every cell must fit into, whatever its `device_memory`.
    pub fn new(base_dir: &Path, budget: Option<u64>) -> Self {
        Self {
            base_dir: base_dir.to_path_buf(),
            budget,
            models: Mutex::default(),
            adapter_files: Mutex::default(),
        }
    }

    /// What `cell` will take.
    ///
    /// # Errors
    /// Where its model or its data cannot be read.
    pub fn predict(&self, cell: &Cell) -> Result<Prediction, PlanError> {
        let config = self.config(cell)?;
        let most = config.max_position_embeddings();
        if cell.max_seq_length > most {
            let model = cell.model.clone();
            return Err(PlanError::Positions { model, most });
        }
        let steps = batches::steps(cell, &config, &self.base_dir)?;
        let planned = candle::plan(cell, &config, &steps);
        let account = Account::of(&planned.trace, 1, planned.measured_from);
        let prediction = Prediction {
            parameter_count: config.parameter_count(),
            trainable_count: planned.trainable_count,
            adapter_file_bytes: self.adapter_file_bytes(cell, &config),
            process_peak_bytes: Some(candle::process_bytes(account.peak.bytes)),
            ..told(&account)
        };
        let budget_bytes = self.budget.or(cell.device_memory.map(|size| size.0));
        // As the trainer's budget: on what is allocated.
        let fits = |budget| prediction.allocated_peak_bytes <= budget;
        Ok(Prediction {
            verdict: budget_bytes.map(|budget| if fits(budget) { Verdict::Fits } else { Verdict::Oversize }),
            budget_bytes,
            ..prediction
        })
    }

    /// The shape of the cell's model; read once.
    fn config(&self, cell: &Cell) -> Result<Arc<Config>, ModelError> {
        let key = model_key(cell);
        let mut models = whole(&self.models);
        if let Some(config) = models.get(&key) {
            return Ok(Arc::clone(config));
        }
        let config = Arc::new(model::config(cell, &self.base_dir)?);
        models.insert(key, Arc::clone(&config));
        Ok(config)
    }

    fn adapter_file_bytes(&self, cell: &Cell, config: &Config) -> Option<u64> {
        let key = (model_key(cell), cell.rank, cell.target_modules.clone());
        *whole(&self.adapter_files)
            .entry(key)
            .or_insert_with(|| candle::adapter_file_bytes(cell, config))
    }
}

fn model_key(cell: &Cell) -> ModelKey {
    (cell.model.clone(), cell.task, cell.num_labels)
}

/// What is behind a lock: a thread that panicked left whole entries.
fn whole<T>(behind: &Mutex<T>) -> MutexGuard<'_, T> {
    behind.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An account in a prediction's words.
fn told(account: &Account) -> Prediction {
    let peak = &account.peak;
    let tensors = Category::ALL.into_iter().filter(|category| category.is_tensor());
    let by_phase = |in_phase: &ByPhase| {
        in_phase
            .iter()
            .map(|(phase, bytes)| (phase.name().to_owned(), bytes))
            .collect()
    };
    Prediction {
        binding_phase: peak.phase.unwrap_or(Phase::Idle).name().to_owned(),
        binding_module: peak.module.map(|module| module.to_string()),
        allocated_peak_bytes: peak.bytes,
        allocated_peak_by_category: tensors
            .map(|category| (category.name().to_owned(), peak.by_category[category]))
            .collect(),
        allocated_peak_in_phase: by_phase(&account.in_phase),
        allocated_mean_bytes: account.after_step,
        ..Prediction::default()
    }
}
